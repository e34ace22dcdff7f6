package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/mbwrap/mbwrap/mariadb"
)

// prepare makes the extracted files consistent. What mbwrap extracted is on the disk before, as an interrupted prepare is
// run again on it.
func (r *runner) prepare(ctx context.Context) error {
	if err := r.preparable(ctx); err != nil {
		return err
	}
	w := r.work
	w.state.Prepares++
	if err := w.phase(PhasePrepare); err != nil {
		return err
	}
	_, err := mariadb.Prepare(ctx, mariadb.PrepareOptions{
		Tool: r.tool, Dir: w.dataPath(), UseMemory: r.UseMemory, OnEvent: r.OnTool, Log: r.ToolLog,
	})
	if err == nil {
		r.result.Prepared = true
		return nil
	}
	if ctx.Err() != nil {
		// It was stopped, which does no harm: the next run prepares again, as if this one had not been.
		w.state.Prepares--
		return errors.Join(err, w.phase(PhasePrepare))
	}
	if w.state.Prepares > 1 {
		return fmt.Errorf("the prepare, which was interrupted before, fails now; remove %q and restore again: %w",
			w.target.unfinishedDir(), err)
	}
	if w.state.Salvaged {
		return fmt.Errorf("the rest can't be prepared without the %d files that are lost; remove %q and salvage again without "+
			"preparing, to have the rest as it was backed up: %w", w.state.LostFiles, w.target.unfinishedDir(), err)
	}
	return err
}

// preparable refuses what the tool would spoil or misread.
func (r *runner) preparable(ctx context.Context) error {
	if r.tool == "" { // the unfinished run was to be prepared, this one was not
		if err := r.findTool(ctx); err != nil {
			return err
		}
	}
	if r.survey.packed != "" {
		return fmt.Errorf("prepare: files of the stream are compressed or encrypted one by one, %q for one", r.survey.packed)
	}
	p := r.result.Position
	if p == nil {
		return fmt.Errorf("prepare: %w", r.positionErr)
	}
	if p.Incremental {
		return ErrIncremental
	}
	return r.fitTool(ctx, p.ServerVersion)
}

// handOver gives the files to their owner, makes them durable, and moves them into the target.
func (r *runner) handOver(context.Context) error {
	w := r.work
	if w.state.Phase != PhaseHandOver {
		if err := r.settle(); err != nil {
			return err
		}
	}
	r.result.Prepared = w.state.Prepare
	for _, name := range w.state.Entries {
		if err := w.moveUp(name); err != nil {
			return err
		}
	}
	if w.state.Created && !r.owner.isKeep() {
		if err := w.root.Lchown(".", r.owner.uid, r.owner.gid); err != nil {
			return err
		}
	}
	if err := syncOne(w.root, "."); err != nil {
		return err
	}
	if r.survey.files == 0 { // an earlier run has prepared and moved them
		if err := r.lookAgain(); err != nil {
			return err
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	if !r.owner.isKeep() {
		r.result.Owner = r.owner.name
	}
	return syncParent(w.target.path)
}

// lookAgain surveys the files in the target.
func (r *runner) lookAgain() error {
	if r.work.state.Aside {
		return r.lookAside()
	}
	return r.lookAt(r.work.root)
}

// settle makes everything final but its place. From here on nothing but moving is left to do.
func (r *runner) settle() error {
	w := r.work
	if err := r.owner.own(w.data); err != nil {
		return err
	}
	if err := w.makeDurable(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.data.FS(), ".")
	if err != nil {
		return err
	}
	w.state.Entries = nil
	for _, e := range entries {
		_, err := w.root.Lstat(e.Name())
		if !absent(err) {
			return errors.Join(&NotEmptyError{w.target.path, e.Name()}, err)
		}
		w.state.Entries = append(w.state.Entries, e.Name())
	}
	// Without its system tablespace a directory is no data directory: it goes last.
	slices.SortStableFunc(w.state.Entries, func(a, b string) int { return boolOrder(a == systemSpace, b == systemSpace) })
	return w.phase(PhaseHandOver)
}

// makeDurable sees that what was done since the files were extracted and synced is on the disk, too: only a prepare has
// written to them. No context stops it: it does not take long after all that was written before.
func (w *work) makeDurable() error {
	if !w.state.Prepare {
		return syncFileSystem(w.disk)
	}
	return syncTree(context.Background(), w.data, w.disk)
}

// boolOrder sorts false before true.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// moveUp moves one entry into the target, unless an earlier run has.
func (w *work) moveUp(name string) error {
	from := path.Join(unfinishedName, dataName, name)
	if _, err := w.root.Lstat(from); absent(err) {
		return nil
	}
	if _, err := w.root.Lstat(name); !absent(err) {
		return errors.Join(&NotEmptyError{w.target.path, name}, err)
	}
	return w.root.Rename(from, name)
}

// syncParent makes the target's own name durable.
func syncParent(target string) error {
	d, err := os.Open(filepath.Dir(target))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
