package codec

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzDecompress: any bytes are refused or decode to exactly the size that was asked for, and then survive another round.
func FuzzDecompress(f *testing.F) {
	names := Names()
	for i, name := range names {
		c := lookup(f, name)
		for _, kind := range kinds {
			f.Add(byte(i), compress(f, c, 0, kind.make(500)), uint16(500))
		}
		f.Add(byte(i), compress(f, c, 0, nil), uint16(0))
	}
	f.Fuzz(func(t *testing.T, which byte, frame []byte, size uint16) {
		c := lookup(t, names[int(which)%len(names)])
		got, err := newDecompressor(t, c).Append([]byte("kept"), frame, int(size))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || string(got) != "kept" {
				t.Errorf("got %q, %v, want ErrCorrupt and nothing appended", got, err)
			}
			return
		}
		if len(got) != 4+int(size) {
			t.Fatalf("got %d bytes, want %d", len(got)-4, size)
		}
		again, err := newDecompressor(t, c).Append(nil, compress(t, c, 0, got[4:]), int(size))
		if err != nil || !bytes.Equal(again, got[4:]) {
			t.Errorf("another round: got %d bytes, %v, want %d", len(again), err, size)
		}
	})
}

// FuzzReader: any file ends, in an error that tells damage, or in io.EOF.
func FuzzReader(f *testing.F) {
	names := Names()
	for i, name := range names {
		c := lookup(f, name)
		one, two := compress(f, c, 0, businessRows(300)), compress(f, c, 0, digitRows(300))
		f.Add(byte(i), append(one, two...))
	}
	f.Add(byte(2), []byte("\x02\x21\x4C\x18\x06\x00\x00\x00\x50hello"))
	f.Fuzz(func(t *testing.T, which byte, file []byte) {
		c := lookup(t, names[int(which)%len(names)])
		r, err := c.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		// A few bytes can be a valid file of gigabytes of zeros.
		if _, err := io.Copy(io.Discard, io.LimitReader(r, 16<<20)); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
	})
}
