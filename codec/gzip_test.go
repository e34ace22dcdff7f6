package codec

import (
	"bytes"
	"slices"
	"testing"
)

func TestMostlyDigits(t *testing.T) {
	for _, row := range []struct {
		name string
		data []byte
		want bool
	}{
		{"digit rows", digitRows(1 << 20), true},
		{"few digit rows", digitRows(20_000), true},
		{"digit rows in half-empty pages", slices.Concat(digitRows(500_000), make([]byte, 500_000)), true},
		{"business rows", businessRows(1 << 20), false},
		{"random", randomBytes(1 << 20), false},
		{"half digits, half business", slices.Concat(digitRows(500_000), businessRows(500_000)), false},
		{"zeros", make([]byte, 100_000), false},
		{"nothing", nil, false},
	} {
		if got := mostlyDigits(row.data); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
	}
}

// TestNotLargerThanGzip: level 1 against the program's, and no level much larger than the one before.
func TestNotLargerThanGzip(t *testing.T) {
	c := lookup(t, "gzip")
	for _, kind := range kinds {
		for _, n := range []int{20_000, 100_000, 1 << 20} {
			data := kind.make(n)
			last := len(run(t, data, "gzip", "-1", "-c"))
			for _, level := range []int{1, 3, 6} {
				got := len(compress(t, c, level, data))
				if got > last+last/100+64 {
					t.Errorf("%s %d level %d: got %d bytes, want at most %d", kind.name, n, level, got, last)
				}
				last = got
			}
		}
	}
}

// TestNoMatches: letters that never repeat are still coded, not stored.
func TestNoMatches(t *testing.T) {
	data := randomBytes(500_000)
	for i := range data {
		data[i] = 'A' + data[i]%32
	}
	for _, level := range []int{1, 6} {
		if got, want := len(compress(t, lookup(t, "gzip"), level, data)), len(data)*5/8; got > want+want/50 {
			t.Errorf("level %d: got %d bytes, want %d and 2 %%", level, got, want)
		}
	}
}

// TestGzipMixedBlocks: both writers of one compressor, in turn.
func TestGzipMixedBlocks(t *testing.T) {
	c := lookup(t, "gzip")
	enc := newCompressor(t, c, CompressorOptions{Level: 5})
	var data, file []byte
	for range 2 {
		for _, block := range [][]byte{digitRows(50_000), businessRows(50_000)} {
			data, file = append(data, block...), mustAppend(t, enc, file, block)
		}
	}
	if got, err := readAll(c, bytes.NewReader(file)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, %v, want the same %d", len(got), err, len(data))
	}
}
