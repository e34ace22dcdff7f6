// Package config reads mbwrap's configuration file: a YAML mapping from flag names to values, with one optional section
// per command. It keeps values as the text that stands in the file, so that a flag parses them as it parses its
// argument, and it knows the line of everything, so that a mistake can be pointed at. Which names are flags, and what
// they mean, is not its business.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxSize is the size in bytes of the largest file that is read.
const MaxSize = 1 << 20

// File is a configuration file that was read. It is immutable and safe for concurrent use.
type File struct {
	path    string
	mode    fs.FileMode
	entries []Entry
	places  map[place]int // index into entries
}

// Entry is one setting in a file.
type Entry struct {
	Section string   // the command whose section it stands in; "" outside of all
	Key     string   // the flag's name
	Items   []string // the value's text; several only when List
	List    bool     // written as a list
	Line    int      // from 1
}

type place struct{ section, key string }

// Error is a mistake in a file. Line is 0 when it has no line.
type Error struct {
	Path string
	Line int
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("config file %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("config file %s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Load reads the file at path. A file that is not there gives fs.ErrNotExist; every other mistake is an *Error. A file
// that anyone may write is refused, because it can name programs to run.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, &Error{Path: path, Err: fmt.Errorf("%w (mode %04o): chmod o-w it", ErrExposed, info.Mode().Perm())}
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	file, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	file.mode = info.Mode().Perm()
	return file, nil
}

// ErrExposed says that others than the owner may do with a file what they must not.
var ErrExposed = errors.New("open to everyone")

// Parse reads text, which is called path in errors.
func Parse(path string, text []byte) (*File, error) {
	if len(text) > MaxSize {
		return nil, &Error{Path: path, Err: fmt.Errorf("larger than %d bytes", MaxSize)}
	}
	f := &File{path: path, places: map[place]int{}}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return f, nil // empty, or nothing but comments
		}
		return nil, &Error{Path: path, Err: err}
	}
	if err := f.sections(document.Content[0]); err != nil {
		return nil, err
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &Error{Path: path, Line: more.Line, Err: errors.New("a second document: one is all there can be")}
	}
	return f, nil
}

// Path returns the file's name as it was given.
func (f *File) Path() string { return f.path }

// Entries returns every setting in the order of the file. The caller must not change it.
func (f *File) Entries() []Entry { return f.entries }

// Lookup returns the setting key of section.
func (f *File) Lookup(section, key string) (Entry, bool) {
	i, ok := f.places[place{section, key}]
	if !ok {
		return Entry{}, false
	}
	return f.entries[i], true
}

// CheckSecret refuses a file that anyone may read, for the sake of e, which holds a secret.
func (f *File) CheckSecret(e Entry) error {
	if f.mode&0o004 == 0 {
		return nil
	}
	return f.Errorf(e.Line, "%s is a secret, and this file is %w (mode %04o): chmod 600 it", e.Key, ErrExposed, f.mode)
}

// Errorf makes an *Error about a line of the file.
func (f *File) Errorf(line int, format string, args ...any) error {
	return &Error{Path: f.path, Line: line, Err: fmt.Errorf(format, args...)}
}
