package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `# how we back up
repo:
  - /backups
  - s3://bucket/db
server: db1
json: true
jobs: 08
verify: read

backup:
  codec: gzip
  level: 6
verify-x: {level: hash}
`
	f, err := Parse("/etc/mbwrap.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{"", "repo", []string{"/backups", "s3://bucket/db"}, true, 3},
		{"", "server", []string{"db1"}, false, 5},
		{"", "json", []string{"true"}, false, 6},
		{"", "jobs", []string{"08"}, false, 7},
		{"", "verify", []string{"read"}, false, 8},
		{"backup", "codec", []string{"gzip"}, false, 11},
		{"backup", "level", []string{"6"}, false, 12},
		{"verify-x", "level", []string{"hash"}, false, 13},
	}
	if got := f.Entries(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v,\nwant %v", got, want)
	}
	if e, ok := f.Lookup("backup", "level"); !ok || e.Line != 12 {
		t.Errorf("backup level: got %v, %v, want line 12", e, ok)
	}
	if e, ok := f.Lookup("", "level"); ok {
		t.Errorf("level: got %v, want nothing outside of the sections", e)
	}
	if f.Path() != "/etc/mbwrap.yaml" {
		t.Errorf("Path: got %q", f.Path())
	}
}

func TestParseNothing(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# only a comment\n", "---\n", "{}"} {
		f, err := Parse("x", []byte(text))
		if err != nil || len(f.Entries()) != 0 {
			t.Errorf("%q: got %v, %v, want no entries", text, f, err)
		}
	}
}

func TestParseAliases(t *testing.T) {
	f, err := Parse("x", []byte("repo: &r [/a, /b]\nrestore:\n  repo: *r\n  server: &s db1\nlist: {server: *s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := f.Lookup("restore", "repo"); !reflect.DeepEqual(e.Items, []string{"/a", "/b"}) {
		t.Errorf("got %v, want the list of the anchor", e)
	}
	if e, _ := f.Lookup("list", "server"); !reflect.DeepEqual(e.Items, []string{"db1"}) {
		t.Errorf("got %v, want db1", e)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no mapping", "- a\n- b\n", "config file x:1: want lines of the form name: value"},
		{"a word", "hello\n", "config file x:1: want lines"},
		{"twice", "jobs: 1\nserver: a\njobs: 2\n", "config file x:3: jobs is set twice"},
		{"twice in a section", "backup:\n  jobs: 1\n  jobs: 2\n", "config file x:3: jobs is set twice"},
		{"no value", "server: a\nrepo:\n", "config file x:2: repo: no value"},
		{"no value in a list", "repo:\n- /a\n-\n", "repo: no value"},
		{"section in a section", "backup:\n  codec:\n    a: b\n", "config file x:3: codec: want a value"},
		{"list in a list", "repo:\n- [a]\n", "config file x:2: repo: want a value"},
		{"list as a key", "[a]: b\n", "config file x:1: want a flag's name"},
		{"two documents", "jobs: 1\n---\njobs: 2\n", "a second document"},
		{"not YAML", "jobs: [1\n", "config file x: yaml: line 1"},
		{"a tab", "backup:\n\tjobs: 1\n", "config file x: yaml: line 2"},
		{"itself", "a: &a\n  b: *a\n", "config file x:1: b: want a value"},
		{"too large", strings.Repeat("#", MaxSize+1), "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("x", []byte(tt.text))
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "config file x") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// write makes a file of that mode, whatever the umask.
func write(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mbwrap.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	f, err := Load(write(t, "password: secret\n", 0o640))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := f.Lookup("", "password")
	if err := f.CheckSecret(e); err != nil {
		t.Errorf("mode 0640: got %v, want no error", err)
	}
}

func TestLoadExposed(t *testing.T) {
	f, err := Load(write(t, "password: hunter2\n", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := f.Lookup("", "password")
	err = f.CheckSecret(e)
	if !errors.Is(err, ErrExposed) || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("mode 0644: got %v, want ErrExposed, without the secret", err)
	}
	if _, err := Load(write(t, "jobs: 1\n", 0o602)); !errors.Is(err, ErrExposed) {
		t.Errorf("mode 0602: got %v, want ErrExposed", err)
	}
}

func TestLoadFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v, want fs.ErrNotExist", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory: got no error")
	}
	if _, err := Load(write(t, "a: [", 0o600)); err == nil {
		t.Error("not YAML: got no error")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "repo: [/a, b]\nbackup: {level: 3}\n", "a: &a [x]\nb: *a\n", "---\n- 1\n", "a:\n\tb: 1", "<<: *x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("x", text)
		if (file == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want exactly one", file, err)
		}
		if err != nil {
			return
		}
		for _, e := range file.Entries() {
			if got, ok := file.Lookup(e.Section, e.Key); !ok || !reflect.DeepEqual(got, e) {
				t.Fatalf("Lookup(%q, %q): got %v, %v, want %v", e.Section, e.Key, got, ok, e)
			}
		}
	})
}
