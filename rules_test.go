// Package main_test holds the rules of the tree that can be checked: which room may import which, where each
// dependency lives, sizes and names. docs/ARCHITECTURE.md explains them. If a rule refuses a change, change the code.
package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mbwrap/mbwrap"

// Limits in lines and in parameters.
const (
	maxFile       = 500
	maxTestFile   = 900
	maxFunc       = 70
	maxLongFunc   = 90 // with a comment `// long: REASON` directly above or in the doc comment
	maxParameters = 4  // counting the context; more means an options struct
)

// arrows lists every room and the rooms that it may import. A folder below a room belongs to it and may import the
// rest of it. Arrows point down: a room never imports one that stands above it in this table.
var arrows = []struct {
	room string
	may  []string
}{
	{".", []string{"internal/cli"}},
	{"internal/cli", []string{"internal/backup", "internal/progress", "internal/config", "verify", "restore", "tune",
		"catalog", "mariadb", "pipeline", "innodb", "xbstream", "codec", "encrypt", "sinks"}},
	{"internal/demo", []string{"internal/gendata", "mariadb"}},
	{"internal/bench", []string{"internal/gendata", "mariadb", "xbstream"}},
	{"internal/e2e", []string{"catalog", "mariadb", "xbstream", "codec", "sinks", "internal/gendata"}}, // tests only
	{"internal/backup", []string{"catalog", "mariadb", "pipeline", "innodb", "xbstream", "codec", "encrypt", "sinks"}},
	{"verify", []string{"restore", "catalog", "mariadb", "pipeline", "innodb", "xbstream", "codec", "encrypt", "sinks"}},
	{"restore", []string{"catalog", "mariadb", "pipeline", "innodb", "xbstream", "codec", "encrypt", "sinks"}},
	{"tune", []string{"mariadb", "pipeline", "xbstream", "codec"}},
	{"catalog", []string{"pipeline", "xbstream", "codec", "encrypt", "sinks"}},
	{"internal/gendata", []string{"mariadb", "xbstream"}}, // mariadb in its tests only
	{"mariadb", []string{"xbstream"}},
	{"pipeline", []string{"xbstream", "codec", "encrypt"}},
	{"innodb", []string{"xbstream"}},
	{"internal/progress", nil},
	{"internal/config", nil},
	{"internal/testenv", nil},
	{"xbstream", nil},
	{"codec", nil},
	{"encrypt", nil},
	{"sinks", nil},
}

// testArrows are what tests may import besides: parts made for them.
var testArrows = []string{"internal/testenv", "internal/gendata", "sinks/sinktest", "sinks/faulty"}

// homes names the rooms of each module that is not ours. A module that is not listed has no home yet.
var homes = []struct {
	module string
	rooms  []string
}{
	{"github.com/DataDog/zstd", []string{"codec"}},
	{"github.com/klauspost/compress", []string{"codec"}},
	{"github.com/pierrec/lz4", []string{"codec"}},
	{"github.com/minio/minio-go", []string{"sinks"}},
	{"filippo.io/age", []string{"encrypt"}},
	{"golang.org/x/crypto", []string{"encrypt"}}, // SSH keys, and age's chunks where age itself reads too little at a time
	{"github.com/urfave/cli", []string{"internal/cli"}},
	{"gopkg.in/yaml.v3", []string{"internal/cli", "internal/config"}},
	{"github.com/vbauerster/mpb", []string{"internal/progress"}},
	{"github.com/go-sql-driver/mysql", []string{"mariadb"}},
	{"golang.org/x/term", []string{"internal/cli", "internal/progress", "internal/demo"}},
	{"golang.org/x/sync", []string{"pipeline", "catalog", "restore", "verify", "tune", "mariadb", "sinks", "internal/backup"}},
	{"golang.org/x/sys", []string{"sinks", "mariadb", "restore", "verify", "catalog", "internal/cli", "internal/backup",
		"internal/progress", "internal/bench", "internal/e2e"}},
	{"golang.org/x/time", []string{"internal/backup"}},
}

// testHomes are modules that tests of every room may use.
var testHomes = []string{"go.uber.org/goleak", "github.com/rogpeppe/go-internal"}

// programs are the rooms that may print, read the environment and, in a main package, end the process.
var programs = []string{".", "internal/cli", "internal/config", "internal/demo", "internal/bench",
	"internal/gendata/genstream", "internal/testenv"}

// source is one parsed file of the tree.
type source struct {
	path   string // relative, with slashes
	dir    string // its folder, "." at the top
	room   string // the entry of arrows it belongs to, or ""
	isTest bool
	lines  int
	fset   *token.FileSet
	file   *ast.File
}

// at formats the place of a node.
func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// parseTree parses every Go file of the module, whatever its build constraints.
func parseTree(t *testing.T) []*source {
	t.Helper()
	var all []*source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "tools" || base == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := &source{path: filepath.ToSlash(name), isTest: strings.HasSuffix(base, "_test.go"), fset: fset, file: file}
		s.dir = path.Dir(s.path)
		s.room = roomOf(s.dir)
		s.lines = fset.File(file.Pos()).LineCount()
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// roomOf returns the room that folder dir belongs to, "" if none. The top folder is a room without folders below it.
func roomOf(dir string) string {
	best := ""
	for _, a := range arrows {
		if within(dir, a.room) && len(a.room) > len(best) {
			best = a.room
		}
	}
	return best
}

// within tells whether slash-separated name is root or stands below it.
func within(name, root string) bool {
	return name == root || root != "." && strings.HasPrefix(name, root+"/")
}

func withinAny(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(name, root) })
}

func mayImport(room string) []string {
	for _, a := range arrows {
		if a.room == room {
			return a.may
		}
	}
	return nil
}

// ours returns the folder of an import path of this module.
func ours(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// isStandard tells whether an import path belongs to the standard library or is cgo's "C".
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// eachImport calls f for every import of the tree.
func eachImport(t *testing.T, f func(s *source, at, importPath string)) {
	t.Helper()
	for _, s := range parseTree(t) {
		for _, spec := range s.file.Imports {
			importPath, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f(s, s.at(spec.Pos()), importPath)
		}
	}
}

// TestTableOfArrows keeps the table itself honest: it has no arrow that points up.
func TestTableOfArrows(t *testing.T) {
	seen := map[string]bool{}
	for i := len(arrows) - 1; i >= 0; i-- {
		for _, below := range arrows[i].may {
			if !seen[below] {
				t.Errorf("%s may import %s, which does not stand below it in the table", arrows[i].room, below)
			}
		}
		seen[arrows[i].room] = true
	}
}

func TestArrowsPointDown(t *testing.T) {
	eachImport(t, func(s *source, at, importPath string) {
		dir, isOurs := ours(importPath)
		switch {
		case s.room == "":
			t.Errorf("%s: package %q has no room: a new one needs a line in arrows and a sentence that says what only it may do", s.path, s.dir)
		case !isOurs, withinAny(dir, []string{s.room}), withinAny(dir, mayImport(s.room)):
		case s.isTest && withinAny(dir, testArrows):
		default:
			t.Errorf("%s: %s must not import %s", at, s.room, dir)
		}
	})
}

func TestPartsMadeForTestsStayThere(t *testing.T) {
	made := []string{"internal/testenv", "sinks/sinktest", "sinks/faulty"}
	eachImport(t, func(s *source, at, importPath string) {
		if dir, isOurs := ours(importPath); isOurs && !s.isTest && withinAny(dir, made) && !withinAny(s.dir, made) {
			t.Errorf("%s: only tests may import %s", at, dir)
		}
	})
}

func TestEachModuleHasItsRooms(t *testing.T) {
	eachImport(t, func(s *source, at, importPath string) {
		if _, isOurs := ours(importPath); isOurs || isStandard(importPath) {
			return
		}
		if s.isTest && withinAny(importPath, testHomes) {
			return
		}
		for _, h := range homes {
			if within(importPath, h.module) {
				if !withinAny(s.dir, h.rooms) {
					t.Errorf("%s: %s belongs to %v only", at, h.module, h.rooms)
				}
				return
			}
		}
		t.Errorf("%s: %s has no home: name its room in the table of homes", at, importPath)
	})
}

func TestXbstreamIsStandardLibraryOnly(t *testing.T) {
	eachImport(t, func(s *source, at, importPath string) {
		if s.room == "xbstream" && !s.isTest && !isStandard(importPath) {
			t.Errorf("%s: xbstream must not import %s", at, importPath)
		}
	})
}

func TestPackages(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "base"}
	documented := map[string]bool{}
	for _, s := range parseTree(t) {
		name := s.file.Name.Name
		if slices.Contains(forbidden, name) {
			t.Errorf("%s: package name %q says nothing", s.path, name)
		}
		if s.isTest {
			continue
		}
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil
		if s.file.Doc != nil && name != "main" && !strings.HasPrefix(s.file.Doc.Text(), "Package "+name+" ") {
			t.Errorf("%s: package comment must start with %q", s.path, "Package "+name+" ")
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range parseTree(t) {
		limit := maxFile
		if s.isTest {
			limit = maxTestFile
		}
		if s.lines > limit {
			t.Errorf("%s: %d lines, at most %d: split it by job", s.path, s.lines, limit)
		}
		if s.isTest {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			checkFunc(t, s, n)
			return true
		})
	}
}

// checkFunc holds one function, or function literal, against the limits.
func checkFunc(t *testing.T, s *source, n ast.Node) {
	t.Helper()
	var params *ast.FieldList
	name, long := "function literal", false
	switch f := n.(type) {
	case *ast.FuncDecl:
		params, name, long = f.Type.Params, f.Name.Name, f.Doc != nil && saysLong(f.Doc)
	case *ast.FuncLit:
		params = f.Type.Params
	default:
		return
	}
	limit := maxFunc
	if long {
		limit = maxLongFunc
	}
	if lines := s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1; lines > limit {
		t.Errorf("%s: %s has %d lines, at most %d", s.at(n.Pos()), name, lines, limit)
	}
	if got := params.NumFields(); got > maxParameters {
		t.Errorf("%s: %s has %d parameters, at most %d: use an options struct", s.at(n.Pos()), name, got, maxParameters)
	}
}

// saysLong looks at the comment's lines themselves: Text leaves out what looks like a directive.
func saysLong(doc *ast.CommentGroup) bool {
	return slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "// long: ") })
}

func TestNoInit(t *testing.T) {
	for _, s := range parseTree(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init runs behind the reader's back: use a composite literal or a constructor", s.at(f.Pos()))
			}
		}
	}
}

// TestLibrariesKeepQuiet: a library returns values and errors; only programs talk, look around and end the process.
func TestLibrariesKeepQuiet(t *testing.T) {
	printing := []string{"fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout", "os.Stderr"}
	asking := []string{"os.Getenv", "os.LookupEnv", "os.ExpandEnv"}
	ending := []string{"os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln"}
	for _, s := range parseTree(t) {
		if s.isTest {
			continue
		}
		program := slices.Contains(programs, s.dir) || slices.Contains(programs, s.room)
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			base, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := base.Name + "." + sel.Sel.Name
			switch {
			case slices.Contains(ending, name) && s.file.Name.Name != "main":
				t.Errorf("%s: %s: only a main package ends the process", s.at(n.Pos()), name)
			case slices.Contains(printing, name) && !program:
				t.Errorf("%s: %s: a library does not print", s.at(n.Pos()), name)
			case slices.Contains(asking, name) && !program:
				t.Errorf("%s: %s: a library does not read the environment", s.at(n.Pos()), name)
			}
			return true
		})
	}
	eachImport(t, func(s *source, at, importPath string) {
		if !s.isTest && within(importPath, "log") {
			t.Errorf("%s: no package logs: return an error or report an event", at)
		}
	})
}

// TestNoLooseEnds: what is left to do is written down where others see it, not in the source.
func TestNoLooseEnds(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME"}
	for _, s := range parseTree(t) {
		for _, group := range s.file.Comments {
			for _, word := range words {
				if strings.Contains(group.Text(), word) {
					t.Errorf("%s: %s in a comment", s.at(group.Pos()), word)
				}
			}
		}
	}
}
