package restore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/restore"
)

// model makes a random stream, and knows which files should come of it.
type model struct {
	*builder
	r     *rand.Rand
	files map[string]string
}

func (m *model) path() string {
	name := fmt.Sprintf("t%d", m.r.IntN(6))
	if d := m.r.IntN(4); d > 0 {
		name = fmt.Sprintf("db%d/%s", d, name)
	}
	return name
}

func (m *model) content() string { return string(noise(m.r.Uint64(), m.r.IntN(9000))) }

// send sends a whole file, again if it is there.
func (m *model) send(path string) {
	content := m.content()
	if _, there := m.files[path]; there {
		content += "."
		m.again(path, content)
	} else {
		m.file(path, content)
	}
	m.files[path] = content
}

// two sends two files, one between the pieces of the other, which is written to again at its beginning.
func (m *model) two() {
	long, short := m.path()+".long", m.path()
	if _, there := m.files[long]; there {
		return
	}
	content := []byte(m.content() + "0123456789")
	m.put(long, content[:5])
	m.send(short)
	m.put(long, content[5:]).seek(long, 2).put(long, []byte("xyz")).end(long)
	copy(content[2:], "xyz")
	m.files[long] = string(content)
}

func (m *model) move(from, to string) {
	m.rename(from, to)
	if content, there := m.files[from]; there {
		delete(m.files, from)
		m.files[to] = content
	}
}

// drop removes a file, a directory or all with a prefix.
func (m *model) drop() {
	path := m.path()
	prefix, directory := "", ""
	switch m.r.IntN(3) {
	case 0:
		directory, _, _ = strings.Cut(path, "/")
		path = directory
	case 1:
		prefix = path[:len(path)-1]
		path = prefix + "*"
	}
	m.remove(path)
	_, isFile := m.files[path]
	maps.DeleteFunc(m.files, func(name, _ string) bool {
		switch {
		case name == path:
			return true
		case prefix != "":
			return strings.HasPrefix(name, prefix) && !strings.Contains(name[len(prefix):], "/")
		}
		return directory != "" && !isFile && strings.HasPrefix(name, directory+"/")
	})
}

func (m *model) step() {
	switch m.r.IntN(8) {
	case 0, 1, 2:
		m.send(m.path())
	case 3:
		m.two()
	case 4, 5, 6:
		m.move(m.path(), m.path())
	default:
		m.drop()
	}
}

// TestRandomStreams compares both ways of restoring with a model.
func TestRandomStreams(t *testing.T) {
	rounds := 60
	if raceDetector {
		rounds = 10
	}
	for seed := range rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := &model{newStream(t), rand.New(rand.NewPCG(uint64(seed), 5)), make(map[string]string)}
			for range 40 {
				m.step()
			}
			stream, want := m.meta().bytes(), with(m.files)
			target := filepath.Join(memoryDir(t), "t")
			if _, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target}); err != nil {
				t.Fatal(err)
			}
			sameTree(t, target, want)
			backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 4 << 10})
			target = filepath.Join(memoryDir(t), "t")
			if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true}); err != nil {
				t.Fatal(err)
			}
			sameTree(t, target, want)
			some := func(f catalog.File) bool { return len(f.Path)%2 == 0 }
			maps.DeleteFunc(want, func(name, _ string) bool { return len(name)%2 != 0 })
			target = filepath.Join(memoryDir(t), "t")
			if _, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true, Select: some}); err != nil {
				t.Fatal(err)
			}
			sameTree(t, target, want)
		})
	}
}

// TestEveryCut cuts a small stream at every byte: no part of it may pass for a whole.
func TestEveryCut(t *testing.T) {
	stream := newStream(t).file("a", "x").rename("a", "b").remove("c").meta().bytes()
	target := filepath.Join(memoryDir(t), "t")
	for n := range stream {
		_, err := restore.Extract(t.Context(), streamOf(stream[:n]), restore.ExtractOptions{Target: target})
		var incomplete *restore.IncompleteError
		if !errors.As(err, &incomplete) {
			t.Fatalf("cut after %d of %d bytes: got %v", n, len(stream), err)
		}
		assertUnfinished(t, target)
	}
	if _, err := restore.Extract(t.Context(), streamOf(bytes.Clone(stream)), restore.ExtractOptions{Target: target}); err != nil {
		t.Fatal(err)
	}
}

// TestErrors reads what an operator will read.
func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	got := []string{}
	for _, err := range []error{
		&restore.NotEmptyError{Target: "/t", Entry: "x"},
		&restore.NotEmptyError{Target: "/t"},
		&restore.SpaceError{Target: "/t", Need: 5, Free: 3},
		&restore.SpaceError{Target: "/t", Need: 5, Free: 3, Inodes: true},
		&restore.SpaceError{Target: "/t", Free: 3, Err: cause},
		&restore.UnfinishedError{Dir: "/t/u", What: `stream "s"`},
		&restore.UnfinishedError{Dir: "/t/u", Err: cause},
		&restore.LockedError{Target: "/t"},
		&restore.VersionError{Tool: "/bin/tool", ToolVersion: "10.11.1", ServerVersion: "11.4.2"},
		&restore.FormatError{Name: "f", What: "a tar archive"},
		&restore.FormatError{Name: "f"},
		&restore.IncompleteError{Dir: "/t/u", Phase: restore.PhasePrepare, Err: cause},
	} {
		got = append(got, err.Error())
	}
	want := []string{
		`target directory "/t" is not empty: it holds "x"`,
		`target "/t" is not a directory`,
		`file system of "/t" has 3 bytes free, the restore needs up to 5`,
		`file system of "/t" has room for 3 more files, the restore makes 5`,
		`file system of "/t" is full (3 bytes free): cause`,
		`"/t/u" holds an unfinished restore of stream "s"`,
		`"/t/u" holds an unfinished restore whose state can't be read: cause`,
		`another restore into "/t" is running`,
		`/bin/tool has version 10.11.1, older than the server of the backup, 11.4.2`,
		`"f" is not an xbstream: it looks like a tar archive`,
		`"f" is not an xbstream, plain or compressed with zstd, gzip or lz4`,
		`restore stopped in phase "preparing" and is unfinished in "/t/u": cause`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
