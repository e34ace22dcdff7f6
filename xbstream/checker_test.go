package xbstream_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/xbstream"
)

func TestCheckerShowsChunks(t *testing.T) {
	stream := join(payload("a", 0, "one"), file("b", "x"), payload("a", 3, "two"), end("a"), rename("a", "c"), remove("b*"),
		rewrite("c", 0, "new"), end("c"), sparse("s", 0, "data", 8, 4), seek("s", 2), end("s"))
	crc := func(i int) uint32 { return []uint32{0x7a6c86f1, 0x8cdc1683, 0x11ca8a66}[i] }
	want := []xbstream.Chunk{
		{Header: xbstream.Header{Type: 'P', Path: "a", Size: 3, CRC: crc(0)}, Start: 100, Data: 135, File: 0},
		{Header: xbstream.Header{Type: 'P', Path: "b", Size: 1, CRC: crc(1)}, Start: 138, Data: 173, File: 1},
		{Header: xbstream.Header{Type: 'E', Path: "b"}, Start: 174, Data: 189, File: 1},
		{Header: xbstream.Header{Type: 'P', Path: "a", Offset: 3, Size: 3, CRC: crc(2)}, Start: 189, Data: 224, File: 0},
		{Header: xbstream.Header{Type: 'E', Path: "a"}, Start: 227, Data: 242, File: 0},
		{Header: xbstream.Header{Type: 'R', Path: "a", NewPath: "c"}, Start: 242, Data: 262, File: -1},
		{Header: xbstream.Header{Type: 'D', Path: "b*"}, Start: 262, Data: 278, File: -1},
		{Header: xbstream.Header{Type: 'P', Flags: 2, Path: "c", Size: 3}, Start: 278, Data: 313, File: 2},
		{Header: xbstream.Header{Type: 'E', Path: "c"}, Start: 316, Data: 331, File: 2},
		{Header: xbstream.Header{Type: 's', Path: "s", Size: 4, Extents: []xbstream.Extent{{Skip: 8, Len: 4}}}, Start: 331, Data: 378, File: 3},
		{Header: xbstream.Header{Type: 'S', Path: "s", Offset: 2}, Start: 382, Data: 405, File: 3},
		{Header: xbstream.Header{Type: 'E', Path: "s"}, Start: 405, Data: 420, File: 3},
	}
	for step := 1; step <= len(stream); step++ {
		var rec recorder
		stats, err := check(stream, step, xbstream.Options{Handler: &rec, Base: 100, Expect: xbstream.ExpectAny})
		if err != nil {
			t.Fatal(err)
		}
		rec.places[7].CRC, rec.places[9].CRC = 0, 0 // the vectors hold the checksums
		for i, got := range rec.places {
			if len(got.Extents) == 0 {
				got.Extents = nil
			}
			if !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("step %d, chunk %d: got %+v, want %+v", step, i, got, want[i])
			}
		}
		wantStats := xbstream.Stats{Bytes: 320, Chunks: 12, Files: 4, Rewrites: 1, Renames: 1, Removes: 1, Dialect: xbstream.DialectMariaDB}
		if stats != wantStats || len(rec.places) != len(want) {
			t.Errorf("step %d: got %+v and %d chunks, want %+v and %d", step, stats, len(rec.places), wantStats, len(want))
		}
	}
}

func TestCheckerStats(t *testing.T) {
	for name, tt := range map[string]struct {
		stream []byte
		want   xbstream.Stats
	}{
		"plain":     {file("a", "x"), xbstream.Stats{Chunks: 2, Files: 1}},
		"ignored":   {join(unknown(1, 'X', "a", "x"), end("a")), xbstream.Stats{Chunks: 2, Files: 1, Ignored: 1}},
		"percona":   {join(sparse("a", 0, ""), end("a")), xbstream.Stats{Chunks: 2, Files: 1, Dialect: xbstream.DialectPercona}},
		"seek":      {join(seek("a", 0), end("a")), xbstream.Stats{Chunks: 2, Files: 1, Dialect: xbstream.DialectMariaDB}},
		"no source": {join(end("a"), rename("b", "c"), remove("d")), xbstream.Stats{Chunks: 3, Files: 1, Renames: 1, Removes: 1, Dialect: xbstream.DialectMariaDB}},
		"flag only": {join(rewrite("a", 0, "x"), end("a")), xbstream.Stats{Chunks: 2, Files: 1, Dialect: xbstream.DialectMariaDB}},
	} {
		tt.want.Bytes = int64(len(tt.stream))
		if got, err := check(tt.stream, 5, xbstream.Options{Expect: xbstream.ExpectAny}); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
}

func TestCheckerMessages(t *testing.T) {
	unendedStream := []byte{}
	for i := range 7 {
		unendedStream = append(unendedStream, payload(fmt.Sprintf("f%d", i), 0, "x")...)
	}
	for _, tt := range []struct {
		stream []byte
		want   string
		is     error
	}{
		{join(end("a"), []byte("XBSTCK02.......")), `read chunk head at offset 15: unexpected magic "XBSTCK02"`, xbstream.ErrMagic},
		{rawPayload(0, "db/t.ibd", 1, 0, 1, "x"), `payload of "db/t.ibd" at offset 0: checksum is 0x8cdc1683, the chunk says 0x00000001`, xbstream.ErrChecksum},
		{payload("db/t.ibd", 0, "page")[:44], `chunk of "db/t.ibd" at offset 0: stream ends at offset 44, 2 bytes of payload are missing: unexpected EOF`, io.ErrUnexpectedEOF},
		{end("a")[:9], `read chunk head at offset 0: stream ends after 9 bytes of it: unexpected EOF`, io.ErrUnexpectedEOF},
		{nil, `end of stream at offset 0: empty stream`, xbstream.ErrEmpty},
		{end("a"), `end of stream at offset 15: closing metadata files missing: xtrabackup_checkpoints (mariadb_backup_checkpoints since 11.1), backup-my.cnf, xtrabackup_info (mariadb_backup_info since 11.1)`, xbstream.ErrMetadata},
		{payload("a", 0, "x"), `end of stream at offset 36: 1 without an end: "a"`, xbstream.ErrUnended},
		{unendedStream, `end of stream at offset 259: 7 without an end: "f0", "f1", "f2", "f3", "f4", …`, xbstream.ErrUnended},
		{unknown(0, 'X', "a", ""), `chunk of "a" at offset 0: unknown chunk type 0x58`, xbstream.ErrType},
		{payloadFlags(8, "a", 0, ""), `chunk of "a" at offset 0: unknown flags 0x08`, xbstream.ErrFlags},
		{payload("../a", 0, ""), `chunk of "../a" at offset 0: path has an empty, "." or ".." element`, xbstream.ErrPath},
		{payload("a", 7, ""), `chunk of "a" at offset 0: payload out of order: position is 7, expected 0`, xbstream.ErrOrder},
		{join(end("a"), payload("a", 0, "")), `chunk of "a" at offset 15: repeated path: the file has ended before`, xbstream.ErrRepeated},
		{join(payload("d/a", 0, ""), remove("d")), `chunk of "d" at offset 37: remove: file "d/a" has not ended`, xbstream.ErrOpen},
		{rawPayload(0, "a", 1<<63, 0, 0, ""), `chunk of "a" at offset 0: 9223372036854775808 bytes at position 0 are out of bounds`, xbstream.ErrLimit},
		{sparse("a", 0, "x", 0, 2), `chunk of "a" at offset 0: lengths in the sparse map add up to 2, the payload has 1 bytes`, xbstream.ErrSparse},
	} {
		_, err := check(tt.stream, 3, xbstream.Options{})
		if err == nil || err.Error() != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("got %v (is %v: %v), want %s", err, tt.is, errors.Is(err, tt.is), tt.want)
		}
		if errors.Is(err, errBroken) || errors.Is(err, xbstream.ErrUsage) {
			t.Errorf("%v: is something it is not", err)
		}
	}
}

func TestCheckerErrorSticks(t *testing.T) {
	c := xbstream.NewChecker(xbstream.Options{})
	bad := join(end("a"), []byte("not a chunk, but long enough"), end("b"))
	n, err := c.Write(bad)
	if n != 15 || !errors.Is(err, xbstream.ErrMagic) {
		t.Fatalf("got %d, %v, want 15, %v", n, err, xbstream.ErrMagic)
	}
	if n, again := c.Write(end("b")); n != 0 || again != err {
		t.Errorf("second write: got %d, %v, want 0, %v", n, again, err)
	}
	if again := c.Close(); again != err {
		t.Errorf("close: got %v, want %v", again, err)
	}
}

func TestCheckerClose(t *testing.T) {
	c := xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
	if _, err := c.Write(end("a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Write(end("b")); n != 0 || !errors.Is(err, xbstream.ErrUsage) {
		t.Errorf("write after close: got %d, %v, want %v", n, err, xbstream.ErrUsage)
	}
	c = xbstream.NewChecker(xbstream.Options{})
	first := c.Close()
	if second := c.Close(); first == nil || second != first {
		t.Errorf("got %v then %v, want the same error twice", first, second)
	}
}

// failing is a Handler that fails on the chunk or the payload with a number.
type failing struct{ chunk, data, chunks, datas int }

func (f *failing) Chunk(*xbstream.Chunk) error {
	f.chunks++
	if f.chunks == f.chunk {
		return errBroken
	}
	return nil
}

func (f *failing) Data([]byte) error {
	f.datas++
	if f.datas == f.data {
		return errBroken
	}
	return nil
}

func TestCheckerHandlerError(t *testing.T) {
	stream := join(file("a", "x"), file("b", "x"))
	for name, h := range map[string]*failing{"chunk": {chunk: 3}, "data": {data: 2}} {
		_, err := check(stream, len(stream), xbstream.Options{Handler: h})
		want := fmt.Sprintf(`chunk of "b" at offset %d: broken`, len(stream)/2)
		if kindOf(err) != xbstream.KindHandler || !errors.Is(err, errBroken) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	h := &failing{chunk: 1}
	if _, err := check(seek("a", 8), 100, xbstream.Options{Handler: h}); !errors.Is(err, errBroken) {
		t.Errorf("seek at the end: got %v, want %v", err, errBroken)
	}
}

func TestFragment(t *testing.T) {
	whole := mixed()
	starts := []int{}
	for n := range borders(whole) {
		starts = append(starts, n)
	}
	slices.Sort(starts)
	for i, from := range starts {
		for _, to := range append(starts[i+1:], len(whole)) {
			stats, err := check(whole[from:to], 11, xbstream.Options{Fragment: true, Base: int64(from)})
			if err != nil || stats.Bytes != int64(to-from) {
				t.Errorf("%d to %d: got %+v, %v, want no error", from, to, stats, err)
			}
		}
	}
}

func TestFragmentFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		stream []byte
		want   error
	}{
		"repeated":       {join(file("a", "x"), file("a", "x")), nil},
		"order":          {payload("a", 7, "x"), nil},
		"seek last":      {seek("a", 7), nil},
		"empty":          {nil, xbstream.ErrEmpty},
		"path":           {payload("../a", 0, "x"), xbstream.ErrPath},
		"rename target":  {rename("a", "../b"), xbstream.ErrPath},
		"remove":         {remove("../*"), xbstream.ErrPath},
		"remove prefix":  {remove("a*"), nil},
		"star after all": {join(remove("a*"), end("a*")), xbstream.ErrPath},
		"checksum":       {rawPayload(0, "a", 1, 0, 1, "x"), xbstream.ErrChecksum},
		"cut":            {payload("a", 0, "xx")[:36], io.ErrUnexpectedEOF},
		"magic":          {join(end("a"), []byte("junk")), xbstream.ErrMagic},
	} {
		if _, err := check(tt.stream, 9, xbstream.Options{Fragment: true}); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// TestFragmentManyPaths has more paths than a fragment shares.
func TestFragmentManyPaths(t *testing.T) {
	c := xbstream.NewChecker(xbstream.Options{Fragment: true})
	before := live()
	for i := range 50000 {
		mustWrite(t, c, payload(fmt.Sprintf("db/t%d", i), 5, "x"))
	}
	if used := live() - before; used > 2<<20 {
		t.Errorf("50,000 paths take %d bytes, want a bound that they don't move", used)
	}
	if err := c.Close(); err != nil || c.Stats().Chunks != 50000 {
		t.Errorf("got %+v, %v, want 50,000 chunks", c.Stats(), err)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"payload": xbstream.TypePayload, "end": xbstream.TypeEnd, "seek": xbstream.TypeSeek, "rename": xbstream.TypeRename,
		"remove": xbstream.TypeRemove, "sparse": xbstream.TypeSparse, "type 0x58": xbstream.Type('X'),
		"checksum": xbstream.KindChecksum, "handler": xbstream.KindHandler, "kind 0": xbstream.Kind(0), "kind 99": xbstream.Kind(99),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if errors.Is(&xbstream.Error{Kind: 99, Err: errBroken}, xbstream.ErrMagic) {
		t.Error("an unknown kind is a known error")
	}
	h := xbstream.Header{Size: 8, Extents: []xbstream.Extent{{Skip: 1 << 31, Len: 8}, {Skip: 1 << 31}}}
	if got, want := h.Advance(), int64(1<<32+8); got != want {
		t.Errorf("got advance %d, want %d", got, want)
	}
}

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]bool{
		"a": true, "db/t.ibd": true, "a/b/c": true, "...": true, "a..": true, "db/t#P#p0.ibd": true, "\xff": true, strings.Repeat("x", 511): true,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false, "./a": false, "a/.": false, "a/../b": false,
		"a\x00": false, "a*": false, "*": false, strings.Repeat("x", 512): false,
	} {
		if err := xbstream.CheckPath(path); (err == nil) != want {
			t.Errorf("%q: got %v, want legal %v", path, err, want)
		}
	}
}
