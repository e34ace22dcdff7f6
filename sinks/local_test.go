package sinks

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func newLocal(t *testing.T) *Local {
	t.Helper()
	return openLocal(t, t.TempDir())
}

func openLocal(t *testing.T, dir string) *Local {
	t.Helper()
	l, err := NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func put(t *testing.T, l *Local, name, data string) {
	t.Helper()
	w, err := l.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, data); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, l *Local, name string) string {
	t.Helper()
	o, err := l.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	data, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tree lists everything below the root, folders and hidden files too.
func tree(t *testing.T, l *Local) []string {
	t.Helper()
	all := []string{}
	err := filepath.WalkDir(l.Location(), func(name string, _ fs.DirEntry, err error) error {
		if name != l.Location() {
			all = append(all, strings.TrimPrefix(name, l.Location()+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func checkEmpty(t *testing.T, l *Local) {
	t.Helper()
	if got := tree(t, l); len(got) != 0 {
		t.Errorf("left: got %q, want nothing", got)
	}
}

func TestNewLocal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, dir string
		options   LocalOptions
		want      string // end of the error
	}{
		{"existing", dir, LocalOptions{}, ""},
		{"existing without create", dir, LocalOptions{NoCreate: true}, ""},
		{"new with parents", dir + "/a/b/c", LocalOptions{}, ""},
		{"absent without create", dir + "/absent", LocalOptions{NoCreate: true}, `/absent": no such file or directory`},
		{"a file", file, LocalOptions{}, `/file": not a directory`},
		{"below a file", file + "/a", LocalOptions{}, `/file/a": not a directory`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l, err := c.options.Open(c.dir)
			if err != nil {
				if c.want == "" || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			defer l.Close()
			if c.want != "" || l.Location() != c.dir {
				t.Errorf("got location %q, nil, want %q, %q", l.Location(), c.dir, c.want)
			}
		})
	}
	if _, err := os.Stat(dir + "/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent without create: got %v, want fs.ErrNotExist still", err)
	}
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	cases := []struct {
		name              string
		options           LocalOptions
		umask             int
		root, folder, obj fs.FileMode
	}{
		{"default", LocalOptions{}, 0, 0o700, 0o700, 0o600},
		{"default with umask", LocalOptions{}, 0o022, 0o700, 0o700, 0o600},
		{"group in spite of umask", LocalOptions{FileMode: 0o640, DirMode: 0o750 | fs.ModeSetgid}, 0o077,
			0o750 | fs.ModeSetgid, 0o750 | fs.ModeSetgid, 0o640},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir() + "/new"
			syscall.Umask(c.umask)
			defer syscall.Umask(0)
			l, err := c.options.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			put(t, l, "a/b/object", "x")
			if err := l.Replace(t.Context(), "a/b/record", nil); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]fs.FileMode{"": c.root, "a": c.folder, "a/b": c.folder, "a/b/object": c.obj, "a/b/record": c.obj} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode()&^fs.ModeDir != want {
					t.Errorf("mode of %q: got %v, %v, want %v", name, info.Mode(), err, want)
				}
			}
		})
	}
}

// Whatever links someone puts into the directory, nothing outside is read, written or removed.
func TestSymbolicLinksDoNotLeadOut(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLocal(t)
	put(t, l, "inside/object", "x")
	relative, err := filepath.Rel(l.Location(), outside)
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{
		"absolute": outside, "relative": relative, "inside/relative": "../" + relative, "inside/up": "../..",
		"file": secret, "dangling": filepath.Join(outside, "new"), "chain": "absolute",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(l.Location(), name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for _, dir := range []string{"absolute", "relative", "inside/relative", "inside/up", "chain", "dangling"} {
		if w, err := l.Create(ctx, dir+"/new"); err == nil {
			w.Abort()
			t.Errorf("create %s/new: got nil, want an error", dir)
		}
		if o, err := l.Open(ctx, dir+"/secret"); err == nil {
			o.Close()
			t.Errorf("open %s/secret: got nil, want an error", dir)
		}
		if err := l.Remove(ctx, dir+"/secret"); err == nil {
			t.Errorf("remove %s/secret: got nil, want an error", dir)
		}
		if err := l.Replace(ctx, dir+"/secret", nil); err == nil {
			t.Errorf("replace %s/secret: got nil, want an error", dir)
		}
		if k, err := l.Lock(ctx, dir+"/lock", nil); err == nil {
			k.Unlock()
			t.Errorf("lock %s/lock: got nil, want an error", dir)
		}
	}
	if o, err := l.Open(ctx, "file"); err == nil {
		o.Close()
		t.Error("open a link to a file outside: got nil, want an error")
	}
	for _, name := range []string{"file", "dangling"} {
		if _, err := l.Create(ctx, name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create %s: got %v, want fs.ErrExist", name, err)
		}
		if err := l.Replace(ctx, name, []byte("mine")); err != nil || readAll(t, l, name) != "mine" {
			t.Errorf("replace the link %s itself: got %v, want nil and a file", name, err)
		}
	}
	infos, err := l.List(ctx, "")
	if err != nil || len(infos) != 3 {
		t.Errorf("list: got %v, %v, want dangling, file and inside/object", infos, err)
	}
	if data, err := os.ReadFile(secret); string(data) != "secret" || err != nil {
		t.Errorf("outside: got %q, %v, want it unharmed", data, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: got %v, %v, want the secret only", entries, err)
	}
}

// The folder of an object in the making is replaced by a link: the object must not go where that points.
func TestFolderSwappedWhileWriting(t *testing.T) {
	outside := t.TempDir()
	l := newLocal(t)
	w, err := l.Create(t.Context(), "dir/object")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := os.Rename(l.Location()+"/dir", l.Location()+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, l.Location()+"/dir"); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside: got %v, %v, want nothing", entries, err)
	}
	if got := readAll(t, l, "moved/object"); got != "" {
		t.Errorf("object: got %q, want the empty one in the moved folder", got)
	}
}

func TestOnlyRegularFilesAreObjects(t *testing.T) {
	l := newLocal(t)
	if err := syscall.Mkfifo(l.Location()+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(t.Context(), "pipe"); !errors.Is(err, fs.ErrNotExist) { // and does not wait for a writer
		t.Errorf("open a pipe: got %v, want fs.ErrNotExist", err)
	}
	if infos, err := l.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("list: got %v, %v, want nothing", infos, err)
	}
	if _, err := l.Create(t.Context(), "pipe"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create: got %v, want fs.ErrExist", err)
	}
}

func TestNameOrFolder(t *testing.T) {
	l := newLocal(t)
	put(t, l, "a/b", "x")
	if _, err := l.Create(t.Context(), "a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create a, a folder: got %v, want fs.ErrExist", err)
	}
	if _, err := l.Create(t.Context(), "a/b/c"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("create below an object: got %v, want ENOTDIR", err)
	}
	if err := l.Replace(t.Context(), "a", nil); err == nil {
		t.Error("replace a folder: got nil, want an error")
	}
	if got := tree(t, l); !slices.Equal(got, []string{"a", "a/b"}) {
		t.Errorf("left: got %q, want a and a/b", got)
	}
}

// Folders that were there before stay when a writer gives up; those it made go.
func TestAbortKeepsOldFolders(t *testing.T) {
	l := newLocal(t)
	if err := os.Mkdir(l.Location()+"/old", 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := l.Create(t.Context(), "old/new/object")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, l); !slices.Equal(got, []string{"old"}) {
		t.Errorf("left: got %q, want old", got)
	}
}

func TestRenameNoReplace(t *testing.T) {
	ways := map[string]func(*folder, string, string) error{
		"exclusive rename": renameExclusive, "link and unlink": linkAndUnlink, "look and rename": lookAndRename,
		"the first that works": renameNoReplace,
	}
	for name, rename := range ways {
		t.Run(name, func(t *testing.T) {
			l := newLocal(t)
			put(t, l, "one", "1")
			put(t, l, "two", "2")
			d, err := l.openDir(".")
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			err = rename(d, "one", "two")
			if errors.Is(err, syscall.ENOTSUP) {
				t.Skip("this system has no such call")
			}
			if !errors.Is(err, fs.ErrExist) || readAll(t, l, "two") != "2" || readAll(t, l, "one") != "1" {
				t.Errorf("to a taken name: got %v, want fs.ErrExist and both files as they were", err)
			}
			if err := rename(d, "one", "three"); err != nil || readAll(t, l, "three") != "1" {
				t.Errorf("to a free name: got %v, want nil", err)
			}
			if got := tree(t, l); !slices.Equal(got, []string{"three", "two"}) {
				t.Errorf("left: got %q, want three and two", got)
			}
		})
	}
}

// An answer that NFS lost: the link is there, and asking again says that the name is taken.
func TestLinkAskedTwice(t *testing.T) {
	l := newLocal(t)
	put(t, l, "one", "1")
	d, err := l.openDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.root.Link("one", "two"); err != nil {
		t.Fatal(err)
	}
	if err := linkAndUnlink(d, "one", "two"); err != nil || readAll(t, l, "two") != "1" {
		t.Errorf("got %v, want nil and the object", err)
	}
	if got := tree(t, l); !slices.Equal(got, []string{"two"}) {
		t.Errorf("left: got %q, want two", got)
	}
}

func TestUnsupported(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EINVAL: true, syscall.ENOSYS: true, syscall.ENOTSUP: true, &os.LinkError{Err: syscall.EPERM}: true,
		syscall.EEXIST: false, syscall.EROFS: false, syscall.ENOSPC: false, fs.ErrNotExist: false,
	} {
		if got := unsupported(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
	if unsupported(nil) {
		t.Error("nil: got true, want false")
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	l := newLocal(t)
	_, err := l.Open(t.Context(), "srv/absent")
	if want := `open "srv/absent" in ` + l.Location() + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = also(&fs.PathError{Op: "write", Path: "hidden", Err: syscall.ENOSPC}, &os.LinkError{Op: "link", Err: syscall.EIO})
	if want := "no space left on device; then: input/output error"; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want it to match both causes", err)
	}
	if also(nil, nil) != nil || also(nil, syscall.EIO) != syscall.EIO || also(syscall.EIO, nil) != syscall.EIO {
		t.Error("also with nil: want the other")
	}
	for err, want := range map[*LockedError]string{
		{Name: "srv/run"}:                         `lock "srv/run": held by another run`,
		{Name: "srv/run", Owner: []byte("pid 7")}: `lock "srv/run": held by another run: pid 7`,
	} {
		if err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/.", "a/..", "."} {
		if err := checkPrefix(prefix); err != nil {
			t.Errorf("prefix %q: got %v, want nil", prefix, err)
		}
	}
	for _, prefix := range []string{"/", "/a", "a//", "../", "../a", "a/../b", "a/./", "a\x00", ".mbwrap-", "\xff"} {
		if err := checkPrefix(prefix); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("prefix %q: got %v, want fs.ErrInvalid", prefix, err)
		}
	}
}
