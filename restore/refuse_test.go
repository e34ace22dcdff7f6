package restore_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// smallStream is a whole backup with one table.
func smallStream(t testing.TB) ([]byte, map[string]string) {
	b := newStream(t).file("shop/t.ibd", "table").file("ibdata1", "system")
	return b.meta().bytes(), with(map[string]string{"shop/t.ibd": "table", "ibdata1": "system"})
}

func TestTargetHoldsSomethingElse(t *testing.T) {
	stream, want := smallStream(t)
	for _, c := range []struct {
		name  string
		fill  func(target string) error
		entry string // that the refusal names; "" is no refusal
		file  bool
	}{
		{name: "absent", fill: func(string) error { return nil }},
		{name: "absent with its parents", fill: func(target string) error { return os.Remove(filepath.Dir(target)) }},
		{name: "empty", fill: func(target string) error { return os.Mkdir(target, 0o750) }},
		{name: "lost+found", fill: func(target string) error { return os.MkdirAll(filepath.Join(target, "lost+found", "x"), 0o700) }},
		{name: "a file of the stream", entry: "ibdata1", fill: func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(target, "ibdata1"), []byte("precious"), 0o600))
		}},
		{name: "a hidden file", entry: ".x", fill: func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(target, ".x"), nil, 0o600))
		}},
		{name: "lost+found that is a file", entry: "lost+found", fill: func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(target, "lost+found"), nil, 0o600))
		}},
		{name: "a link in place of the mark", entry: unfinished, fill: func(target string) error {
			return errors.Join(os.Mkdir(target, 0o700), os.Symlink("/", filepath.Join(target, unfinished)))
		}},
		{name: "a file instead of a directory", file: true, fill: func(target string) error { return os.WriteFile(target, nil, 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(memoryDir(t), "parent", "t")
			if err := errors.Join(os.Mkdir(filepath.Dir(target), 0o700), c.fill(target)); err != nil {
				t.Fatal(err)
			}
			_, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
			if c.entry == "" && !c.file {
				if err != nil {
					t.Fatal(err)
				}
				sameTree(t, target, want)
				return
			}
			var notEmpty *restore.NotEmptyError
			if !errors.As(err, &notEmpty) || notEmpty.Entry != c.entry {
				t.Fatalf("got %v, want a NotEmptyError that names %q", err, c.entry)
			}
			if entries, err := os.ReadDir(target); !c.file && (err != nil || len(entries) != 1) {
				t.Errorf("refused target: got %v, %v, want it untouched", entries, err)
			}
		})
	}
}

func TestUnfinishedOfSomethingElse(t *testing.T) {
	stream, want := smallStream(t)
	target := filepath.Join(memoryDir(t), "t")
	cut := &restore.Stream{Reader: bytes.NewReader(stream[:len(stream)-5]), Name: "a.xbs", Identity: "a"}
	_, err := restore.Extract(t.Context(), cut, restore.ExtractOptions{Target: target})
	var incomplete *restore.IncompleteError
	if !errors.As(err, &incomplete) || !errors.Is(err, io.ErrUnexpectedEOF) || incomplete.Dir != filepath.Join(target, unfinished) {
		t.Fatalf("cut stream: got %v", err)
	}
	assertUnfinished(t, target)

	var other *restore.UnfinishedError
	_, err = restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
	if !errors.As(err, &other) || other.Err != nil || other.What != `stream "a.xbs"` {
		t.Errorf("another stream: got %v, want an UnfinishedError that names it", err)
	}
	backup := makeBackup(t, memoryDir(t), stream, packing{})
	_, err = restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true})
	if !errors.As(err, &other) {
		t.Errorf("a backup: got %v, want an UnfinishedError", err)
	}

	whole := &restore.Stream{Reader: bytes.NewReader(stream), Name: "a.xbs", Identity: "a"}
	if err := os.WriteFile(filepath.Join(target, "intruder"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var notEmpty *restore.NotEmptyError
	if _, err = restore.Extract(t.Context(), whole, restore.ExtractOptions{Target: target}); !errors.As(err, &notEmpty) {
		t.Errorf("something beside the mark: got %v, want a NotEmptyError", err)
	}
	if err := os.Remove(filepath.Join(target, "intruder")); err != nil {
		t.Fatal(err)
	}

	state := filepath.Join(target, unfinished, "state.json")
	kept, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, kept[:len(kept)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = restore.Extract(t.Context(), whole, restore.ExtractOptions{Target: target}); !errors.As(err, &other) || other.Err == nil {
		t.Errorf("damaged state: got %v, want an UnfinishedError", err)
	}
	if err := os.WriteFile(state, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = restore.Extract(t.Context(), whole, restore.ExtractOptions{Target: target}); err != nil {
		t.Fatalf("the same stream again: %v", err)
	}
	sameTree(t, target, want)
}

func TestTwoAtOnce(t *testing.T) {
	stream, want := smallStream(t)
	target := filepath.Join(memoryDir(t), "t")
	cut := &restore.Stream{Reader: bytes.NewReader(stream[:100]), Name: "test.xbs", Identity: "test"}
	if _, err := restore.Extract(t.Context(), cut, restore.ExtractOptions{Target: target}); err == nil {
		t.Fatal("cut stream: got no error")
	}
	lock, err := os.Open(filepath.Join(target, unfinished, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
	var locked *restore.LockedError
	if !errors.As(err, &locked) || locked.Target != target {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, target, want)
}

// rawChunk is a chunk of any path, legal or not.
func rawChunk(typ byte, path, rest string) string {
	return xbstream.Magic + "\x00" + string(typ) + string([]byte{byte(len(path)), 0, 0, 0}) + path + rest
}

func TestHostileStreams(t *testing.T) {
	good, _ := smallStream(t)
	for _, c := range []struct {
		name   string
		stream string
		want   error
	}{
		{"end of a file above", rawChunk('E', "../evil", ""), xbstream.ErrPath},
		{"end of an absolute path", rawChunk('E', "/evil", ""), xbstream.ErrPath},
		{"remove above", rawChunk('D', "../keep", ""), xbstream.ErrPath},
		{"remove of a directory above", rawChunk('D', "..", ""), xbstream.ErrPath},
		{"remove of everything", rawChunk('D', "*", ""), xbstream.ErrPath},
		{"rename from above", rawChunk('R', "../keep", "\x01\x00\x00\x00a"), xbstream.ErrPath},
		{"rename to above", rawChunk('E', "a", "") + rawChunk('R', "a", "\x07\x00\x00\x00../evil"), xbstream.ErrPath},
		{"the restore's own state", rawChunk('E', unfinished+"/state.json", ""), restore.ErrReserved},
		{"the restore's own directory", rawChunk('E', unfinished, ""), restore.ErrReserved},
		{"rename to the restore's own directory", rawChunk('E', "a", "") + rawChunk('R', "a", "\x19\x00\x00\x00"+unfinished), restore.ErrReserved},
		{"empty", "", xbstream.ErrEmpty},
		{"cut at a chunk's border", rawChunk('E', "a", ""), xbstream.ErrMetadata},
		{"cut inside of a chunk", string(good[:len(good)-1]), io.ErrUnexpectedEOF},
		{"twice", string(good) + string(good), xbstream.ErrRepeated},
		{"a flipped bit", strings.Replace(string(good), "table", "tablE", 1), xbstream.ErrChecksum},
		{"a file where a directory is", rawChunk('E', "a/b", "") + rawChunk('E', "a", ""), syscall.EEXIST},
		{"lost+found", rawChunk('E', "lost+found/x", ""), restore.ErrReserved},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := memoryDir(t)
			if err := os.WriteFile(filepath.Join(dir, "keep"), []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(dir, "t")
			_, err := restore.Extract(t.Context(), streamOf([]byte(c.stream)), restore.ExtractOptions{Target: target})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			assertUnfinished(t, target)
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 2 || entries[0].Name() != "keep" {
				t.Errorf("beside the target: got %v, %v", entries, err)
			}
		})
	}
}

// TestPlantedLink puts links to the outside where an unfinished restore has its files.
func TestPlantedLink(t *testing.T) {
	stream, _ := smallStream(t)
	for _, place := range []string{"data", "data/shop"} {
		t.Run(place, func(t *testing.T) {
			dir := memoryDir(t)
			outside, target := filepath.Join(dir, "outside"), filepath.Join(dir, "t")
			if err := os.Mkdir(outside, 0o700); err != nil {
				t.Fatal(err)
			}
			backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 4 << 10})
			o := restore.Options{Target: target, Backup: backup, NoPrepare: true, OnTotal: func(int64) {
				name := filepath.Join(target, unfinished, place)
				if err := errors.Join(os.RemoveAll(name), os.Symlink(outside, name)); err != nil {
					t.Error(err)
				}
			}}
			_, err := restore.Run(t.Context(), o)
			if place == "data" {
				// The directory was open already: the files went there, and the link is what could not be moved.
				err = nil
			} else if err == nil {
				t.Error("got no error")
			}
			if entries, rerr := os.ReadDir(outside); rerr != nil || len(entries) != 0 {
				t.Errorf("outside: got %v, %v, want nothing (%v)", entries, rerr, err)
			}
		})
	}
}

func TestForeignInput(t *testing.T) {
	for _, c := range []struct {
		head   string
		what   string
		sealed bool
	}{
		{"age-encryption.org/v1\n-> X25519", "an age file", true},
		{"-----BEGIN AGE ENCRYPTED FILE-----", "an armoured age file", true},
		{"Salted__12345678", "a file of openssl enc", true},
		{"XBCRYP03", "a file of xbcrypt", true},
		{"-----BEGIN PGP MESSAGE-----", "an OpenPGP file", true},
		{"qpress10", "a qpress archive", false},
		{"BZh91AY", "a bzip2 file", false},
		{"\xfd7zXZ\x00", "an xz file", false},
		{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", false},
		{"PK\x03\x04", "a zip archive", false},
		{"file" + strings.Repeat("\x00", 253) + "ustar", "a tar archive", false},
		{"-- MariaDB dump 10.19", "an SQL dump", false},
		{"/*M!999999\\- enable", "an SQL dump", false},
		{"anything else", "", false},
		{"X", "", false},
	} {
		target := filepath.Join(memoryDir(t), "t")
		_, err := restore.Extract(t.Context(), streamOf([]byte(c.head)), restore.ExtractOptions{Target: target})
		var format *restore.FormatError
		if !errors.As(err, &format) || !strings.HasPrefix(format.What, c.what) || (c.what == "") != (format.What == "") ||
			format.Sealed != c.sealed || format.Name != "test.xbs" {
			t.Errorf("%.20q: got %v, want a FormatError that says %q", c.head, err, c.what)
		}
	}
}

func TestCompressedStreams(t *testing.T) {
	stream, want := smallStream(t)
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(name, func(t *testing.T) {
			packed := compress(t, name, stream, 200) // many frames
			target := filepath.Join(memoryDir(t), "t")
			if _, err := restore.Extract(t.Context(), streamOf(packed), restore.ExtractOptions{Target: target}); err != nil {
				t.Fatal(err)
			}
			sameTree(t, target, want)
			target = filepath.Join(memoryDir(t), "t")
			_, err := restore.Extract(t.Context(), streamOf(packed[:len(packed)-3]), restore.ExtractOptions{Target: target})
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut: got %v, want %v", err, io.ErrUnexpectedEOF)
			}
			assertUnfinished(t, target)
		})
	}
}

// TestAnyArchive extracts what is no whole backup, when that is asked for.
func TestAnyArchive(t *testing.T) {
	stream := newStream(t).file("a", "x").bytes()
	target := filepath.Join(memoryDir(t), "t")
	s := streamOf(stream)
	s.Expect = xbstream.ExpectAny
	if _, err := restore.Extract(t.Context(), s, restore.ExtractOptions{Target: target}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, target, map[string]string{"a": "x"})
}

// objectPath returns the file of one of a backup's objects.
func objectPath(b *catalog.Backup, name string) string {
	return filepath.Join(b.Repository.Location(), b.Server, b.ID, name)
}

func TestWithoutAnIndex(t *testing.T) {
	stream, want := killStream(t)
	other, _ := smallStream(t)
	for _, c := range []struct {
		name  string
		spoil func(path string) error
	}{
		{"missing", os.Remove},
		{"cut", func(path string) error { return os.Truncate(path, 50) }},
		{"not an index", func(path string) error { return os.WriteFile(path, []byte("no index"), 0o600) }},
		{"another backup's", func(path string) error {
			other := makeBackup(t, memoryDir(t), other, packing{blockSize: 64 << 10})
			index, err := os.ReadFile(objectPath(other, other.Manifest.Index.Name))
			return errors.Join(err, os.WriteFile(path, index, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 64 << 10, volumeSize: 1 << 20})
			if n := len(backup.Manifest.Volumes); n < 3 {
				t.Fatalf("got %d volumes, want several", n)
			}
			if err := c.spoil(objectPath(backup, backup.Manifest.Index.Name)); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(memoryDir(t), "t")
			o := restore.Options{Target: target, Backup: backup, NoPrepare: true}
			result, err := restore.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Warnings) == 0 || !strings.Contains(result.Warnings[0], "index can't be used") {
				t.Errorf("got warnings %q, want one about the index", result.Warnings)
			}
			sameTree(t, target, want)
			o.Target, o.Select = filepath.Join(memoryDir(t), "t"), func(catalog.File) bool { return true }
			if _, err := restore.Run(t.Context(), o); err == nil || !absentFile(o.Target) {
				t.Errorf("a selection without an index: got %v, want an error and nothing touched", err)
			}
		})
	}
}

func TestDamagedVolume(t *testing.T) {
	stream, want := killStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 64 << 10})
	volume := objectPath(backup, backup.Manifest.Volumes[0].Name)
	good, err := os.ReadFile(volume)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(memoryDir(t), "t")
	o := restore.Options{Target: target, Backup: backup, NoPrepare: true}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"a flipped bit", append(append(bytes.Clone(good[:len(good)/2]), good[len(good)/2]^1), good[len(good)/2+1:]...)},
		{"cut", good[:len(good)-1]},
		{"longer", append(bytes.Clone(good), 0)},
	} {
		if err := os.WriteFile(volume, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = restore.Run(t.Context(), o)
		if !errors.Is(err, pipeline.ErrBlock) {
			t.Errorf("%s: got %v, want %v", c.name, err, pipeline.ErrBlock)
		}
		assertUnfinished(t, target)
	}
	if err := os.WriteFile(volume, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Run(t.Context(), o); err != nil {
		t.Fatalf("mended: %v", err)
	}
	sameTree(t, target, want)
}

// TestMissingVolume refuses a backup that lacks a part before anything is made.
func TestMissingVolume(t *testing.T) {
	stream, _ := killStream(t)
	backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 64 << 10, volumeSize: 1 << 20})
	last := backup.Manifest.Volumes[len(backup.Manifest.Volumes)-1].Name
	if err := os.Remove(objectPath(backup, last)); err != nil {
		t.Fatal(err)
	}
	o := restore.Options{Target: filepath.Join(memoryDir(t), "t"), Backup: backup, NoPrepare: true}
	if _, err := restore.Run(t.Context(), o); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), last) {
		t.Errorf("got %v, want %v that names %q", err, fs.ErrNotExist, last)
	}
	backup.Manifest.Codec = "lzma"
	if _, err := restore.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"lzma"`) {
		t.Errorf("unknown codec: got %v", err)
	}
	if !absentFile(o.Target) {
		t.Error("refused target: something was made")
	}
}

// TestWrongIndex gives a backup an index that is whole, but that of another stream of the same size.
func TestWrongIndex(t *testing.T) {
	one := newStream(t).file("db/a.ibd", "aaaa").file("db/b.ibd", "bbbb").rename("x", "y").remove("z").meta().bytes()
	for _, c := range []struct {
		name string
		lie  func(b *builder)
	}{
		{"other order", func(b *builder) {
			b.file("db/b.ibd", "aaaa").file("db/a.ibd", "bbbb").rename("x", "y").remove("z")
		}},
		{"other name", func(b *builder) {
			b.file("db/a.ibd", "aaaa").file("db/c.ibd", "bbbb").rename("x", "y").remove("z")
		}},
		{"other sizes", func(b *builder) {
			b.file("db/a.ibd", "aaa").file("db/b.ibd", "bbbbb").rename("x", "y").remove("z")
		}},
		{"other rename", func(b *builder) {
			b.file("db/a.ibd", "aaaa").file("db/b.ibd", "bbbb").rename("x", "w").remove("z")
		}},
		{"other remove", func(b *builder) {
			b.file("db/a.ibd", "aaaa").file("db/b.ibd", "bbbb").rename("x", "y").remove("w")
		}},
		{"other type", func(b *builder) {
			b.file("db/a.ibd", "aaaa").file("db/b.ibd", "bbbb").rename("x", "y").file("z", "")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lie := newStream(t)
			c.lie(lie)
			backup := makeBackup(t, memoryDir(t), one, packing{blockSize: 4 << 10, lie: lie.meta().bytes()})
			target := filepath.Join(memoryDir(t), "t")
			_, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true})
			if !errors.Is(err, restore.ErrMismatch) {
				t.Errorf("got %v, want %v", err, restore.ErrMismatch)
			}
			assertUnfinished(t, target)
		})
	}
}
