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

// TestNotLargerThanGzip: level 1 against the program's, level by level on digits.
func TestNotLargerThanGzip(t *testing.T) {
	c := lookup(t, "gzip")
	for _, kind := range kinds[:2] {
		data := kind.make(1 << 20)
		last := len(run(t, data, "gzip", "-1", "-c"))
		for level := 1; level <= 9; level++ {
			got := len(compress(t, c, level, data))
			if got > last+last/1000 {
				t.Errorf("%s level %d: got %d bytes, want at most %d", kind.name, level, got, last)
			}
			last = got
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
