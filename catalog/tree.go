package catalog

import (
	"sort"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// File is a file of the data directory as it is when the whole stream has been applied: renames, removes and rewrites
// included.
type File struct {
	Path    string // where it ends up
	Version int    // place in Index.Versions
	Size    int64
}

// Tree returns the files that remain at the end of the stream, sorted by path.
func (ix *Index) Tree() []File {
	t := newTree()
	for c := range ix.Chunks() {
		t.apply(c)
	}
	files := make([]File, 0, len(t.files))
	for path, version := range t.files {
		files = append(files, File{path, version, ix.versions[version].Size})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files
}

// tree follows which version of which file stands at which path.
type tree struct {
	files   map[string]int
	folders map[string]int // files in each first-level folder, so that a remove of none needs no search
}

func newTree() *tree { return &tree{make(map[string]int), make(map[string]int)} }

// apply does what a chunk says.
func (t *tree) apply(c *xbstream.Chunk) {
	switch c.Type {
	case xbstream.TypeRename:
		if version, found := t.files[c.Path]; found {
			t.remove(c.Path)
			t.put(c.NewPath, version)
		}
	case xbstream.TypeRemove:
		t.removeAll(c.Path)
	default:
		t.put(c.Path, c.File)
	}
}

func (t *tree) put(path string, version int) {
	if old, found := t.files[path]; !found {
		t.folders[folder(path)]++
	} else if old == version {
		return
	}
	t.files[path] = version
}

func (t *tree) remove(path string) {
	delete(t.files, path)
	t.folders[folder(path)]--
}

// removeAll removes a file, a folder with all below it, or, when path ends in "*", all files whose name begins so.
func (t *tree) removeAll(path string) {
	if _, found := t.files[path]; found {
		t.remove(path)
		return
	}
	prefix, star := strings.CutSuffix(path, "*")
	if !star {
		prefix += "/"
	}
	if t.folders[folder(prefix)] == 0 {
		return
	}
	for p := range t.files {
		rest, below := strings.CutPrefix(p, prefix)
		if below && !(star && strings.Contains(rest, "/")) {
			t.remove(p)
		}
	}
}

// folder returns the first element of a path that has more than one, else "".
func folder(path string) string {
	dir, _, found := strings.Cut(path, "/")
	if !found {
		return ""
	}
	return dir
}
