package sinktest

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
)

func testOddNames(t *testing.T, s sinks.Sink) {
	odd := []string{
		"with space", " leading", "trailing ", "tab\tand\nnewline", "quote'\"`", `back\slash`, "per%20cent", "plus+and&equal=",
		"question?hash#", "colon:star*", "dollar$(x)", "~tilde", "-dash", "...", "..a", "a..", ".hidden", "ünï/世界/🙂",
		"UPPER", "upper", "con", "data.0001.xbs.zst.age", ".mbwrap", ".mbwraptmp", "mbwrap-tmp-x", "a/b/c/d/e/f/g/h",
		strings.Repeat("x", 255), strings.Repeat("d/", 200) + "deep",
	}
	for _, name := range odd {
		put(t, s, name, []byte(name))
	}
	for _, name := range odd {
		holds(t, s, name, []byte(name))
	}
	want := slices.Sorted(slices.Values(odd))
	lists(t, s, "", want...)
	for _, name := range odd {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Errorf("remove %q: got %v, want nil", name, err)
		}
	}
	lists(t, s, "")
}

func testInvalidNames(t *testing.T, s sinks.Sink) {
	invalid := []string{
		"", ".", "..", "/", "/x", "x/", "../x", "a/../b", "a/..", "./a", "a/./b", "a//b", "//a", "nul\x00nul",
		"bad\xffutf8", strings.Repeat("x", 256), strings.Repeat("a/", 512) + "b",
		".mbwrap-tmp-1-x", ".mbwrap-lock-x", "a/.mbwrap-tmp-1-x", ".mbwrap-x/a",
	}
	ctx := t.Context()
	for _, name := range invalid {
		w, err := s.Create(ctx, name)
		if err == nil {
			w.Abort()
		}
		wantError(t, "create "+name, err, fs.ErrInvalid)
		o, err := s.Open(ctx, name)
		if err == nil {
			o.Close()
		}
		wantError(t, "open "+name, err, fs.ErrInvalid)
		wantError(t, "remove "+name, s.Remove(ctx, name), fs.ErrInvalid)
		if r, ok := s.(sinks.Replacer); ok {
			wantError(t, "replace "+name, r.Replace(ctx, name, nil), fs.ErrInvalid)
		}
		if l, ok := s.(sinks.Locker); ok {
			_, err := l.Lock(ctx, name, nil)
			wantError(t, "lock "+name, err, fs.ErrInvalid)
		}
	}
	lists(t, s, "")
}
