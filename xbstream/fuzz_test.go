package xbstream_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/xbstream"
)

// FuzzStream compares Checker, Reader, Writer and the model on any input.
func FuzzStream(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.stream, uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint16) {
		agree(t, stream, int(step)+1, len(stream)+1)
	})
}

// FuzzFragment gives a Checker any run of bytes as a fragment, whole and in pieces.
func FuzzFragment(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.stream, uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint16) {
		whole, pieces := recorder{}, recorder{}
		s1, err1 := check(stream, len(stream)+1, xbstream.Options{Handler: &whole, Fragment: true, Base: 1000})
		s2, err2 := check(stream, int(step)+1, xbstream.Options{Handler: &pieces, Fragment: true, Base: 1000})
		if (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() || s1 != s2 {
			t.Fatalf("whole: %v %+v, in pieces: %v %+v", err1, s1, err2, s2)
		}
		for _, c := range whole.places {
			checkPlace(t, stream, c)
		}
	})
}

// checkPlace holds a chunk that was shown to a handler against the input it came from.
func checkPlace(t *testing.T, stream []byte, c xbstream.Chunk) {
	t.Helper()
	at := c.Start - 1000
	if c.File != -1 || string(stream[at:at+8]) != magic || string(stream[at+14:at+14+int64(len(c.Path))]) != c.Path {
		t.Fatalf("chunk %+v is not at its place", c)
	}
	for _, name := range []string{c.Path, c.NewPath} {
		if name != "" && c.Type != xbstream.TypeRemove && xbstream.CheckPath(name) != nil {
			t.Fatalf("chunk %+v has an illegal path", c)
		}
	}
}

// FuzzCheckPath checks that a legal path stays inside, names one thing in one way, and survives being joined.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"a", "db/t.ibd", "../x", "/abs", "a/../b", "a//b", "./a", "a/", "a\x00b", "a*", "..", ".", "", "C:\\x", "a\\..\\b", strings.Repeat("a", 512)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got := xbstream.CheckPath(p) == nil
		if want := legal(p) && filepath.IsLocal(p); got != want {
			t.Fatalf("%q: got legal %v, want %v", p, got, want)
		}
		if got && (!strings.HasPrefix(path.Join("/root", p), "/root/") || path.Join("/root", p) != "/root/"+p) {
			t.Fatalf("%q leads to %q", p, path.Join("/root", p))
		}
	})
}
