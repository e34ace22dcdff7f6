package verify

import (
	"path"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/xbstream"
)

// maxLost is how many lost files and tables a report lists.
const maxLost = 1000

// Reasons of LostFile.
const (
	whyDamaged = "damaged"
	whyCut     = "cut"
	whyPages   = "bad pages"
)

// survey fills in what can still be restored. why returns the reason for which a file is lost, "" if it isn't.
func (r *Report) survey(files []catalog.File, why func(catalog.File) string) {
	tables := make(map[string]bool)
	found := vital{}
	for _, f := range files {
		reason := why(f)
		if reason == "" {
			r.IntactFiles++
			r.IntactBytes += f.Size
			found.see(f.Path)
			continue
		}
		found.miss(f.Path)
		table := tableOf(f.Path)
		r.LostFiles++
		r.LostBytes += f.Size
		if len(r.Lost) < maxLost {
			r.Lost = append(r.Lost, LostFile{f.Path, table, f.Size, reason})
		}
		if table == "" || tables[table] {
			continue
		}
		tables[table] = true
		r.LostTableCount++
		if len(r.LostTables) < maxLost {
			r.LostTables = append(r.LostTables, table)
		}
	}
	switch {
	case r.LostFiles == 0 && !r.LostMore:
		r.Restorable = RestorableAll
	case r.IntactFiles == 0:
		r.Restorable = RestorableNothing
	case found.complete():
		r.Restorable = RestorableTables
	default:
		r.Restorable = RestorableFiles
	}
}

// vital tells whether everything is there that a prepare can't do without: the system tablespace, the redo log, the
// checkpoints, the undo tablespaces and the configuration that goes with them.
type vital struct {
	system, redo, checkpoints, config bool
	lost                              bool // one of them is damaged
}

func (v *vital) see(name string) {
	if part := v.part(name); part != nil {
		*part = true
	}
}

// miss notes a lost file.
func (v *vital) miss(name string) { v.lost = v.lost || mariadb.PrepareNeeds(name) }

func (v *vital) complete() bool { return v.system && v.redo && v.checkpoints && v.config && !v.lost }

// part returns the field that a file stands for, nil if none.
func (v *vital) part(name string) *bool {
	base := path.Base(name)
	switch {
	case base != name:
		return nil
	case strings.HasPrefix(base, "ibdata"), strings.HasPrefix(base, "undo"):
		return &v.system
	case isRedo(base):
		return &v.redo
	case strings.HasSuffix(base, "_checkpoints"):
		return &v.checkpoints
	case base == "backup-my.cnf":
		return &v.config
	}
	return nil
}

// isRedo tells whether a file is a redo log of InnoDB.
func isRedo(name string) bool {
	return strings.HasPrefix(name, "ib_logfile") || name == "xtrabackup_logfile"
}

// surveyFront fills in what can still be restored of a stream of which the front could be read: the files that ended in it.
func (r *Report) surveyFront(front *catalog.Index) {
	ended := make([]bool, len(front.Versions()))
	for c := range front.Chunks() {
		if c.File >= 0 && c.Type == xbstream.TypeEnd {
			ended[c.File] = true
		}
	}
	r.survey(front.Tree(), func(f catalog.File) string {
		if ended[f.Version] {
			return ""
		}
		return whyCut
	})
}

// surveySample fills in what is lost of the blocks that were read. Of all others nothing is known.
func (r *Report) surveySample(files []catalog.File, why func(catalog.File) string) {
	r.survey(files, why)
	r.IntactFiles, r.IntactBytes = 0, 0
	r.LostMore = r.LostFiles > 0
	r.Restorable = RestorableUnknown
}
