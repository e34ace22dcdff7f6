package catalog

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/xbstream"
)

// disk is a plain simulation of what an extractor does, as a list that is searched from end to end.
type disk []File

func (d *disk) find(name string) int {
	return slices.IndexFunc(*d, func(f File) bool { return f.Path == name })
}

// send puts a new version at a path.
func (d *disk) send(name string, version int, size int64) {
	d.drop(func(f File) bool { return f.Path == name })
	*d = append(*d, File{name, version, size})
}

func (d *disk) drop(which func(File) bool) { *d = slices.DeleteFunc(*d, which) }

func (d *disk) rename(from, to string) {
	i := d.find(from)
	if i < 0 || from == to {
		return
	}
	moved := (*d)[i]
	moved.Path = to
	d.drop(func(f File) bool { return f.Path == from || f.Path == to })
	*d = append(*d, moved)
}

func (d *disk) remove(name string) {
	prefix, star := strings.CutSuffix(name, "*")
	switch {
	case d.find(name) >= 0:
		d.drop(func(f File) bool { return f.Path == name })
	case star:
		dir, base := path.Split(prefix)
		d.drop(func(f File) bool {
			fdir, fbase := path.Split(f.Path)
			return fdir == dir && strings.HasPrefix(fbase, base)
		})
	default:
		d.drop(func(f File) bool { return strings.HasPrefix(f.Path, name+"/") })
	}
}

// sorted returns the files in the order of Index.Tree.
func (d *disk) sorted() []File {
	files := slices.Clone(*d)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func TestTree(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(*maker)
		want []File
	}{
		{"files", func(m *maker) {
			m.file("b", 2)
			m.file("db/a", 1)
		}, []File{{"b", 0, 2}, {"db/a", 1, 1}}},
		{"rewrite", func(m *maker) {
			m.file("a", 10)
			m.file("a", 3)
		}, []File{{"a", 1, 3}}},
		{"rewrite, interleaved", func(m *maker) {
			m.file("a", 10)
			m.payload("b", 1, 0)
			m.payload("a", 3, xbstream.FlagRewrite)
			m.end("b")
			m.end("a")
		}, []File{{"a", 2, 3}, {"b", 1, 1}}},
		{"rename chain", func(m *maker) {
			m.file("db/a", 1)
			m.rename("db/a", "db/b")
			m.rename("db/b", "db/c")
		}, []File{{"db/c", 0, 1}}},
		{"swap", func(m *maker) {
			m.file("db/a", 1)
			m.file("db/b", 2)
			m.rename("db/a", "db/x")
			m.rename("db/b", "db/a")
			m.rename("db/x", "db/b")
		}, []File{{"db/a", 1, 2}, {"db/b", 0, 1}}},
		{"rename onto another", func(m *maker) {
			m.file("a", 1)
			m.file("b", 2)
			m.rename("a", "b")
		}, []File{{"b", 0, 1}}},
		{"rename to itself", func(m *maker) {
			m.file("db/a", 1)
			m.rename("db/a", "db/a")
			m.remove("db")
		}, nil},
		{"rename of a missing file", func(m *maker) {
			m.file("b", 2)
			m.rename("a", "b")
		}, []File{{"b", 0, 2}}},
		{"file sent again after its rename", func(m *maker) {
			m.file("a", 1)
			m.rename("a", "b")
			m.file("a", 3)
		}, []File{{"a", 1, 3}, {"b", 0, 1}}},
		{"remove", func(m *maker) {
			m.file("db/a", 1)
			m.file("db/ab", 1)
			m.remove("db/a")
			m.remove("db/none")
		}, []File{{"db/ab", 1, 1}}},
		{"remove of a folder", func(m *maker) {
			m.file("db/a", 1)
			m.file("db/d/b", 1)
			m.file("db2/a", 1)
			m.file("dba", 1)
			m.remove("db")
		}, []File{{"db2/a", 2, 1}, {"dba", 3, 1}}},
		{"remove of a folder in a folder", func(m *maker) {
			m.file("db/d/b", 1)
			m.file("db/e/b", 1)
			m.remove("db/d")
		}, []File{{"db/e/b", 1, 1}}},
		{"remove of a prefix", func(m *maker) {
			m.file("db/t#P#p0", 1)
			m.file("db/t#P#", 1)
			m.file("db/t", 1)
			m.file("db/t#P#d/x", 1)
			m.file("d2/t#P#p0", 1)
			m.remove("db/t#P#*")
		}, []File{{"d2/t#P#p0", 4, 1}, {"db/t", 2, 1}, {"db/t#P#d/x", 3, 1}}},
		{"remove of all in a folder", func(m *maker) {
			m.file("db/a", 1)
			m.file("d", 1)
			m.remove("db/*")
		}, []File{{"d", 1, 1}}},
		{"remove of a prefix at the top", func(m *maker) {
			m.file("aria_log.1", 1)
			m.file("aria/x", 1)
			m.remove("aria*")
		}, []File{{"aria/x", 1, 1}}},
		{"removed and sent again", func(m *maker) {
			m.file("db/a", 1)
			m.remove("db/a")
			m.file("db/a", 2)
		}, []File{{"db/a", 1, 2}}},
		{"empty file", func(m *maker) { m.end("db/db.opt") }, []File{{"db/db.opt", 0, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMaker(t)
			test.make(m)
			if got := decode(t, watch(t, m.data.Bytes(), 1000).Encode()).Tree(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestTreeOfRandomStreams compares with the simulation.
func TestTreeOfRandomStreams(t *testing.T) {
	var files, removes []string
	for i := range 4 {
		files = append(files, fmt.Sprintf("top%d", i), fmt.Sprintf("d0/t%d", i), fmt.Sprintf("d1/t%d#P#p%d", i%2, i), fmt.Sprintf("d0/in/x%d", i))
	}
	removes = append(slices.Clone(files), "d0", "d1", "d0/in", "none", "top*", "top1*", "d0/t*", "d0/*", "d1/t0#P#*", "d1/t*", "d0/in/x*", "none/*")
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 5))
		pick := func(from []string) string { return from[random.IntN(len(from))] }
		m := newMaker(t)
		var want disk
		versions := 0
		for range 1 + random.IntN(60) {
			switch random.IntN(5) {
			case 0:
				from, to := pick(files), pick(files)
				m.rename(from, to)
				want.rename(from, to)
			case 1:
				name := pick(removes)
				m.remove(name)
				want.remove(name)
			default:
				name, size := pick(files), 1+random.IntN(9)
				m.file(name, size)
				want.send(name, versions, int64(size))
				versions++
			}
		}
		if got := decode(t, watch(t, m.data.Bytes(), 1000).Encode()).Tree(); !slices.Equal(got, want.sorted()) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want.sorted())
		}
	}
}
