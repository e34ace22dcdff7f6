//go:build !cgo

package codec

import (
	"bytes"
	"testing"
)

const zstdLibraryWant = "klauspost/compress"

// TestParamsPure: the pure Go implementation takes the nearest of its speeds; any parameters give a good frame.
func TestParamsPure(t *testing.T) {
	c := lookup(t, "zstd")
	data := businessRows(200_000)
	for _, p := range []Params{{}, {Level: -5, Literals: LiteralsCompressed}, {Level: 22}, {Level: 3, MinMatch: 7}} {
		frame := mustAppend(t, newCompressor(t, c, CompressorOptions{Params: &p}), nil, data)
		if got, err := newDecompressor(t, c).Append(nil, frame, len(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%+v: got %d bytes, %v", p, len(got), err)
		}
	}
}
