package xbstream_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mbwrap/mbwrap/xbstream"
)

func TestWriteFile(t *testing.T) {
	const chunk = 1 << 20
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 2*chunk + 5} {
		data := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		var b bytes.Buffer
		w := xbstream.NewWriter(&b)
		n, err := w.WriteFile("db/t.ibd", iotest.HalfReader(strings.NewReader(data)))
		if err != nil || n != int64(size) {
			t.Fatalf("%d bytes: got %d, %v", size, n, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var want []byte
		for at := 0; at < size; at += chunk {
			want = append(want, payload("db/t.ibd", uint64(at), data[at:min(size, at+chunk)])...)
		}
		if want = append(want, end("db/t.ibd")...); !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%d bytes: got %d bytes of stream, want %d or others", size, b.Len(), len(want))
		}
	}
}

func TestWriteFileFaults(t *testing.T) {
	w := xbstream.NewWriter(io.Discard)
	n, err := w.WriteFile("a", io.MultiReader(strings.NewReader("xx"), iotest.ErrReader(errBroken)))
	if n != 0 || !errors.Is(err, errBroken) || err.Error() != `read "a": broken` {
		t.Errorf("source: got %d, %v, want %v", n, err, errBroken)
	}
	w = xbstream.NewWriter(io.Discard)
	if _, err := w.WriteFile("../a", strings.NewReader("x")); !errors.Is(err, xbstream.ErrPath) {
		t.Errorf("path: got %v, want %v", err, xbstream.ErrPath)
	}
	for limit := range file("a", "xyz") {
		w := xbstream.NewWriter(&limited{left: limit})
		_, err := w.WriteFile("a", strings.NewReader("xyz"))
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("destination breaks at %d: got %v, want %v", limit, err, errBroken)
		}
		if again := w.Close(); again != err {
			t.Errorf("close: got %v, want %v", again, err)
		}
	}
	if _, err := xbstream.NewWriter(short{}).WriteFile("a", strings.NewReader("x")); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: got %v, want %v", err, io.ErrShortWrite)
	}
}

// limited breaks after some bytes.
type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return l.left, errBroken
	}
	l.left -= len(p)
	return len(p), nil
}

// short says that it wrote nothing, and no reason.
type short struct{}

func (short) Write([]byte) (int, error) { return 0, nil }

func TestWriterRefuses(t *testing.T) {
	x := crc32.ChecksumIEEE([]byte("x"))
	for name, tt := range map[string]struct {
		header xbstream.Header
		want   error
	}{
		"type":             {xbstream.Header{Type: 'X', Path: "a"}, xbstream.ErrType},
		"no type":          {xbstream.Header{Path: "a"}, xbstream.ErrType},
		"flags":            {xbstream.Header{Type: 'P', Flags: 4, Path: "a"}, xbstream.ErrFlags},
		"path":             {xbstream.Header{Type: 'P', Path: "../a"}, xbstream.ErrPath},
		"path length":      {xbstream.Header{Type: 'P', Path: strings.Repeat("a", 512)}, xbstream.ErrPath},
		"new path":         {xbstream.Header{Type: 'R', Path: "a"}, xbstream.ErrPath},
		"negative size":    {xbstream.Header{Type: 'P', Path: "a", Size: -1}, xbstream.ErrLimit},
		"negative offset":  {xbstream.Header{Type: 'S', Path: "a", Offset: -1}, xbstream.ErrLimit},
		"order":            {xbstream.Header{Type: 'P', Path: "a", Offset: 1, Size: 1, CRC: x}, xbstream.ErrOrder},
		"empty checksum":   {xbstream.Header{Type: 'P', Path: "a", CRC: 1}, xbstream.ErrChecksum},
		"end with size":    {xbstream.Header{Type: 'E', Path: "a", Size: 1}, xbstream.ErrUsage},
		"payload with map": {xbstream.Header{Type: 'P', Path: "a", Size: 8, Extents: []xbstream.Extent{{Skip: 0, Len: 8}}}, xbstream.ErrUsage},
		"map":              {xbstream.Header{Type: 's', Path: "a", Size: 9, Extents: []xbstream.Extent{{Skip: 0, Len: 8}}}, xbstream.ErrSparse},
	} {
		var b bytes.Buffer
		w := xbstream.NewWriter(&b)
		err := w.WriteHeader(&tt.header)
		if !errors.Is(err, tt.want) || b.Len() != 0 {
			t.Errorf("%s: got %v and %d bytes, want %v and none", name, err, b.Len(), tt.want)
		}
		if again := w.WriteHeader(&xbstream.Header{Type: 'E', Path: "a"}); again != err {
			t.Errorf("%s: got %v the second time, want %v", name, again, err)
		}
	}
}

func TestWriterPayload(t *testing.T) {
	header := xbstream.Header{Type: 'P', Path: "a", Size: 3, CRC: crc32.ChecksumIEEE([]byte("xyz"))}
	begin := func() *xbstream.Writer {
		w := xbstream.NewWriter(io.Discard)
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if n, err := begin().Write([]byte("xyz!")); n != 3 || !errors.Is(err, xbstream.ErrUsage) {
		t.Errorf("too much: got %d, %v, want 3, %v", n, err, xbstream.ErrUsage)
	}
	if n, err := begin().Write([]byte("xyy")); n != 3 || !errors.Is(err, xbstream.ErrChecksum) {
		t.Errorf("other data: got %d, %v, want 3, %v", n, err, xbstream.ErrChecksum)
	}
	w := begin()
	mustWrite(t, w, []byte("xy"))
	if err := w.WriteHeader(&header); !errors.Is(err, xbstream.ErrUsage) {
		t.Errorf("too little: got %v, want %v", err, xbstream.ErrUsage)
	}
	w = begin()
	mustWrite(t, w, nil)
	mustWrite(t, w, []byte("x"))
	if err := w.Close(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("close inside a payload: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	w = begin()
	mustWrite(t, w, []byte("xyz"))
	if err := w.Close(); !errors.Is(err, xbstream.ErrUnended) {
		t.Errorf("close without an end: got %v, want %v", err, xbstream.ErrUnended)
	}
}

func TestWriterClose(t *testing.T) {
	w := xbstream.NewWriter(io.Discard)
	if err := w.Close(); !errors.Is(err, xbstream.ErrEmpty) {
		t.Errorf("nothing written: got %v, want %v", err, xbstream.ErrEmpty)
	}
	w = xbstream.NewWriter(io.Discard)
	if err := w.WriteHeader(&xbstream.Header{Type: 'E', Path: "a"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, xbstream.ErrUsage) {
		t.Errorf("write after close: got %v, want %v", err, xbstream.ErrUsage)
	}
}

func TestReader(t *testing.T) {
	r := xbstream.NewReader(bytes.NewReader(join(payload("a", 0, "one"), sparse("a", 3, "two", 1, 3), end("a"))))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read before Next: got %d, %v, want 0, EOF", n, err)
	}
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil || string(data) != "one" {
		t.Errorf("got %q, %v, want one", data, err)
	}
	second, err := r.Next()
	if err != nil || second.Type != xbstream.TypeSparse || len(second.Extents) != 1 || second.Extents[0] != (xbstream.Extent{Skip: 1, Len: 3}) {
		t.Errorf("got %+v, %v, want a sparse chunk", second, err)
	}
	if first.Type != xbstream.TypePayload || first.Path != "a" {
		t.Errorf("the first header has changed: %+v", first)
	}
	if h, err := r.Next(); err != nil || h.Type != xbstream.TypeEnd || second.Extents[0].Skip != 1 {
		t.Errorf("got %+v, %v, want the end", h, err)
	}
	for range 2 {
		if h, err := r.Next(); h != nil || err != io.EOF {
			t.Errorf("got %+v, %v, want EOF", h, err)
		}
	}
	if got := r.Stats(); got.Chunks != 3 || got.Files != 1 {
		t.Errorf("got %+v, want 3 chunks", got)
	}
}

// TestReaderChecksum finds damage in payload that is read and in payload that is skipped.
func TestReaderChecksum(t *testing.T) {
	stream := join(rawPayload(0, "a", 3, 0, 1, "one"), end("a"))
	r := xbstream.NewReader(bytes.NewReader(stream))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if string(data) != "one" || !errors.Is(err, xbstream.ErrChecksum) {
		t.Errorf("read: got %q, %v, want %v", data, err, xbstream.ErrChecksum)
	}
	if _, again := r.Next(); again != err {
		t.Errorf("next: got %v, want %v", again, err)
	}
	r = xbstream.NewReader(bytes.NewReader(stream))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	_, err = r.Next()
	if !errors.Is(err, xbstream.ErrChecksum) {
		t.Errorf("skipped: got %v, want %v", err, xbstream.ErrChecksum)
	}
	if _, again := r.Read(make([]byte, 1)); again != err {
		t.Errorf("read after an error: got %v, want %v", again, err)
	}
}
