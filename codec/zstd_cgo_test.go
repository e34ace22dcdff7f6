//go:build cgo

package codec

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
)

const zstdLibraryWant = "libzstd 1.5.7"

// TestLinked: every function we declare is in the program. The other tests call each.
func TestLinked(t *testing.T) {
	if err := zstdLinked(); err != nil {
		t.Error(err)
	}
}

// TestOtherImplementation: builds without cgo read what libzstd wrote, and the other way round, by block and as files.
func TestOtherImplementation(t *testing.T) {
	lib, pure := lookup(t, "zstd"), pureZstd(t)
	for _, kind := range kinds {
		for _, n := range []int{0, 1, 1000, 80_000} {
			data := kind.make(n)
			for _, level := range []int{1, 3, 19} {
				for _, way := range []struct{ from, to *Codec }{{lib, pure}, {pure, lib}, {pure, pure}} {
					frame := compress(t, way.from, level, data)
					got, err := newDecompressor(t, way.to).Append(nil, frame, n)
					if err != nil || !bytes.Equal(got, data) {
						t.Errorf("%s %d level %d block: got %d bytes, %v", kind.name, n, level, len(got), err)
					}
					if got, err = readAll(way.to, bytes.NewReader(append(frame, frame...))); err != nil || len(got) != 2*n {
						t.Errorf("%s %d level %d file: got %d bytes, %v", kind.name, n, level, len(got), err)
					}
				}
			}
		}
	}
	if got := string(compress(t, lib, 1, nil)); got != pureEmpty {
		t.Errorf("libzstd's empty frame: got %x, want %x", got, pureEmpty)
	}
}

// pureZstd returns the codec of builds without cgo.
func pureZstd(t testing.TB) *Codec {
	pure := *lookup(t, "zstd")
	pure.newCompress, pure.newDecompress, pure.newReader = newPureCompressor, newPureDecompressor, newPureReader
	return &pure
}

// TestParams: each parameter arrives, which shows in the frame.
func TestParams(t *testing.T) {
	c := lookup(t, "zstd")
	data := append(digitRows(150_000), businessRows(150_000)...)
	dec := newDecompressor(t, c)
	plain := compress(t, c, 3, data)
	for _, row := range []struct {
		name   string
		params Params
	}{
		{"level", Params{Level: 1}},
		{"negative level", Params{Level: -5}},
		{"level 22", Params{Level: 22}},
		{"windowLog", Params{Level: 3, WindowLog: 12}},
		{"hashLog", Params{Level: 3, HashLog: 8}},
		{"chainLog", Params{Level: 3, ChainLog: 8}},
		{"searchLog", Params{Level: 7, SearchLog: 1}},
		{"minMatch", Params{Level: 3, MinMatch: 7}},
		{"targetLength", Params{Level: 1, TargetLength: 50}},
		{"strategy", Params{Level: 3, Strategy: 9}},
		{"literals", Params{Level: 3, Literals: LiteralsRaw}},
	} {
		enc := newCompressor(t, c, CompressorOptions{Params: &row.params})
		frame := mustAppend(t, enc, nil, data)
		if bytes.Equal(frame, plain) {
			t.Errorf("%s: got the frame of level 3", row.name)
		}
		if got, err := dec.Append(nil, frame, len(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: got %d bytes, %v", row.name, len(got), err)
		}
	}
}

// TestLiterals: on digits, negative levels live on the coding of literals.
func TestLiterals(t *testing.T) {
	c, data := lookup(t, "zstd"), digitRows(1<<20)
	size := func(l Literals) int {
		enc := newCompressor(t, c, CompressorOptions{Params: &Params{Level: -5, Literals: l}})
		return len(mustAppend(t, enc, nil, data))
	}
	if got, raw := size(LiteralsCompressed), size(LiteralsAuto); got > raw*6/10 {
		t.Errorf("got %d bytes with, %d without, want 40 %% less", got, raw)
	}
	if auto, raw := size(LiteralsAuto), size(LiteralsRaw); auto != raw {
		t.Errorf("auto: got %d, want %d", auto, raw)
	}
}

func TestParamsRefused(t *testing.T) {
	for _, row := range []struct {
		want   string
		params Params
	}{
		{"windowLog", Params{WindowLog: 99}},
		{"hashLog", Params{HashLog: 99}},
		{"chainLog", Params{ChainLog: 99}},
		{"searchLog", Params{SearchLog: 99}},
		{"minMatch", Params{MinMatch: 99}},
		{"strategy", Params{Strategy: 99}},
		{"targetLength", Params{TargetLength: -1}},
		{"literals", Params{Literals: 99}},
	} {
		_, err := lookup(t, "zstd").NewCompressor(CompressorOptions{Params: &row.params})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %q", row.params, err, row.want)
		}
	}
}

// TestForgottenClose: contexts that nobody closed are freed by the collector; the test only shows that nothing breaks.
func TestForgottenClose(t *testing.T) {
	c, data := lookup(t, "zstd"), businessRows(100_000)
	for range 20 {
		enc, err := c.NewCompressor(CompressorOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.NewReader(bytes.NewReader(mustAppend(t, enc, nil, data)))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(data)) {
			t.Fatalf("got %d, %v, want %d", n, err, len(data))
		}
		runtime.GC()
	}
}

// FuzzZstdImplementations: where both accept a frame, they agree on its data.
func FuzzZstdImplementations(f *testing.F) {
	c := lookup(f, "zstd")
	for _, kind := range kinds {
		for _, level := range []int{1, 19} {
			f.Add(compress(f, c, level, kind.make(500)))
		}
	}
	dec, pure := newDecompressor(f, c), newDecompressor(f, pureZstd(f))
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := dec.Append(nil, frame, 500)
		if err != nil {
			return
		}
		if want, err := pure.Append(nil, frame, 500); err == nil && !bytes.Equal(got, want) {
			t.Errorf("libzstd got %x, Go got %x", got, want)
		}
	})
}
