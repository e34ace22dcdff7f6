package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Names inside of the target while a restore is unfinished.
const (
	unfinishedName = "mbwrap-restore.unfinished" // the directory that holds all the others
	stateName      = "state.json"
	lockName       = "lock"
	journalName    = "done.log"
	dataName       = "data"
	lostFound      = "lost+found"
)

// Names inside of the target when something is lost.
const (
	asideName    = "mbwrap-salvaged" // holds all that there is when it is no data directory
	asideFiles   = "files"           // in it: the files
	readmeName   = "README.txt"      // in it: what to do
	lostListName = "mbwrap-lost.txt" // in it, or in the target
)

const (
	stateFormat = 1
	maxState    = 16 << 20 // bytes; the entries of a directory are the largest part
)

const stateNote = "This directory belongs to a restore that did not finish. No server may be started on it or on the " +
	"directory above it. Run the same mbwrap restore again: it goes on where it stopped. Or, to give the restore up, " +
	"remove this directory."

// state is what an unfinished restore knows of itself, kept in state.json.
type state struct {
	Format int    `json:"format"`
	Note   string `json:"note"` // for whoever finds the file

	Source  source    `json:"source"`
	Phase   Phase     `json:"phase"`
	Started time.Time `json:"started"`
	Mbwrap  string    `json:"mbwrap"` // version of the program

	Created  bool `json:"created"`  // the target was absent
	Prepare  bool `json:"prepare"`  // what is extracted is to be prepared
	Prepares int  `json:"prepares"` // how often the prepare was begun
	// Entries are the names that move up into the target; known once the phase is PhaseHandOver.
	Entries []string `json:"entries,omitempty"`

	// What a salvage had to leave out; known once the phase is not PhaseExtract any more.
	Salvaged  bool       `json:"salvaged,omitempty"`
	Lost      []LostFile `json:"lost,omitempty"` // the first of them
	LostFiles int64      `json:"lost_files,omitempty"`
	Steps     []string   `json:"steps,omitempty"` // what the operator has to do about them
	Aside     bool       `json:"aside,omitempty"` // what there is was put aside
}

// forget takes back what a salvage had to leave out.
func (s *state) forget() {
	s.Salvaged, s.Lost, s.LostFiles, s.Steps, s.Aside = false, nil, 0, nil, false
}

// source tells what is being restored. Two runs do the same when their sources are equal.
type source struct {
	Server   string `json:"server,omitempty"`
	Backup   string `json:"backup,omitempty"`
	Manifest string `json:"manifest_sha256,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Identity string `json:"identity,omitempty"`
	Files    string `json:"files,omitempty"` // digest of the selection, "" for everything
}

// String names the source in messages.
func (s source) String() string {
	if s.Backup != "" {
		return fmt.Sprintf("backup %s of server %q", s.Backup, s.Server)
	}
	return fmt.Sprintf("stream %q", s.Stream)
}

// certain tells whether equal sources are the same bytes for sure.
func (s source) certain() bool { return s.Backup != "" || s.Identity != "" }

// decodeState reads a state.json.
func decodeState(data []byte) (*state, error) {
	s := new(state)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("its format is %d, this version knows %d", s.Format, stateFormat)
	}
	switch s.Phase {
	case PhaseExtract, PhasePrepare, PhaseHandOver:
		return s, nil
	}
	return nil, fmt.Errorf("unknown phase %q", s.Phase)
}

// readState reads the state of an unfinished restore; nil if there is none yet.
func readState(dir *os.Root) (*state, error) {
	f, err := dir.Open(stateName)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxState))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return decodeState(data)
}

// writeState replaces the state in one step, and makes it durable.
func writeState(dir *os.Root, s *state) error {
	s.Format, s.Note = stateFormat, stateNote
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	if err := writeFile(dir, stateName+".new", b.Bytes()); err != nil {
		return fmt.Errorf("write %q: %w", stateName, err)
	}
	if err := dir.Rename(stateName+".new", stateName); err != nil {
		return err
	}
	return syncOne(dir, ".")
}

// writeFile writes a small file and makes it durable.
func writeFile(dir *os.Root, name string, data []byte) error {
	f, err := dir.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
