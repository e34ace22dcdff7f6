package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

// decode opens what a builder encodes.
func decode(t testing.TB, data []byte) *Index {
	t.Helper()
	ix, err := DecodeIndex(data)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// chunks returns copies of all chunks.
func chunks(ix *Index) []xbstream.Chunk {
	var all []xbstream.Chunk
	for c := range ix.Chunks() {
		kept := *c
		kept.Extents = append([]xbstream.Extent(nil), c.Extents...)
		all = append(all, kept)
	}
	return all
}

// TestIndexRecordsWhatTheCheckerSaw is the round trip, of streams with every chunk type.
func TestIndexRecordsWhatTheCheckerSaw(t *testing.T) {
	for name, stream := range map[string][]byte{"mariadb": mariadbStream(t), "percona": perconaStream(t)} {
		for _, step := range []int{1, 7, 4096, len(stream)} {
			t.Run(fmt.Sprintf("%s/%d", name, step), func(t *testing.T) {
				w := watch(t, stream, step)
				ix := decode(t, w.Encode())
				got := chunks(ix)
				if len(got) != len(w.chunks) || ix.NumChunks() != int64(len(got)) {
					t.Fatalf("got %d chunks, NumChunks %d, want %d", len(got), ix.NumChunks(), len(w.chunks))
				}
				for i := range got {
					if !reflect.DeepEqual(got[i], w.chunks[i]) {
						t.Errorf("chunk %d: got %+v, want %+v", i, got[i], w.chunks[i])
					}
				}
				if ix.RawSize() != int64(len(stream)) {
					t.Errorf("got %d bytes, want %d", ix.RawSize(), len(stream))
				}
				blocks := slices.Collect(ix.AllBlocks())
				if want := cut(int64(len(stream)), uint64(step)); !slices.Equal(blocks, want) || ix.NumBlocks() != int64(len(want)) {
					t.Errorf("got %d blocks, NumBlocks %d, want %d", len(blocks), ix.NumBlocks(), len(want))
				}
				if again := w.Encode(); !bytes.Equal(again, w.Encode()) || !w.SameChunks(ix) {
					t.Error("encoding changed the builder")
				}
				checkSane(t, ix)
			})
		}
	}
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		name   string
		stream []byte
		want   []Version
	}{
		{"mariadb", mariadbStream(t), []Version{
			{"ib_logfile0", 200, 2}, {"db/a.ibd", 71, 3}, {"db/b.ibd", 300, 2}, {"db/empty.opt", 0, 1},
			{"aria_log.00000001", 50, 4}, {"db/a.ibd", 11, 2}, {"db/p#P#p0.MYD", 5, 2}, {"db/p#P#p1.MYD", 6, 2},
			{"we@0020ird/\xff\x01.frm", 3, 2}, {"xtrabackup_info", 20, 2},
		}},
		{"percona", perconaStream(t), []Version{{"s.ibd", 10 + 127 + 1<<31 + 1 + 10 + 4096, 6}, {"xtrabackup_info", 20, 2}}},
	} {
		if got := decode(t, watch(t, test.stream, 100).Encode()).Versions(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestSeekAloneMakesNoFileLonger: only bytes do.
func TestSeekAloneMakesNoFileLonger(t *testing.T) {
	m := newMaker(t)
	m.payload("a", 10, 0)
	m.seek("a", 1000)
	m.end("a")
	if got := decode(t, watch(t, m.data.Bytes(), 100).Encode()).Versions()[0].Size; got != 10 {
		t.Errorf("got size %d, want 10", got)
	}
}

// TestSameChunks tells a stream from one that differs in a single place.
func TestSameChunks(t *testing.T) {
	stream := mariadbStream(t)
	ix := decode(t, watch(t, stream, 100).Encode())
	seen := func(stream []byte) *IndexBuilder { // as verify does: without blocks
		b := new(IndexBuilder)
		c := xbstream.NewChecker(xbstream.Options{Handler: b, Expect: xbstream.ExpectAny})
		if _, err := c.Write(stream); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !seen(stream).SameChunks(ix) {
		t.Error("the same stream is not the same")
	}
	for name, other := range map[string][]byte{
		"another path":      bytes.Replace(stream, []byte("db/gone.frm"), []byte("db/g0ne.frm"), 1),
		"last file missing": stream[:bytes.Index(stream, []byte("xtrabackup_info"))-14],
		"nothing":           nil,
	} {
		if seen(other).SameChunks(ix) {
			t.Errorf("%s: taken for the same", name)
		}
	}
}

// TestBlocksOfARange compares with a search through all blocks, for every range.
func TestBlocksOfARange(t *testing.T) {
	const size = 700
	all := cut(size, 1)
	var b IndexBuilder
	for _, block := range all {
		b.Block(block)
	}
	ix := decode(t, b.Encode()) // a stream of nothing but skipped chunks
	for start := int64(-2); start < size+3; start += 7 {
		for end := int64(-2); end < size+3; end++ {
			var want []pipeline.Block
			for _, block := range all {
				if start < end && block.Raw < end && block.Raw+block.RawSize > start {
					want = append(want, block)
				}
			}
			if got := slices.Collect(ix.Blocks(start, end)); !slices.Equal(got, want) {
				t.Fatalf("from %d to %d: got %d blocks, want %d", start, end, len(got), len(want))
			}
		}
	}
}

// TestBlocksBeyondAMark has so many blocks that decoding starts in their midst.
func TestBlocksBeyondAMark(t *testing.T) {
	const count = 5*blocksPerMark + 3
	var b IndexBuilder
	var all []pipeline.Block
	for i := range int64(count) {
		block := pipeline.Block{Raw: 10 * i, RawSize: 10, Volume: 1 + int(i/700), Stored: i % 700 * 5, StoredSize: 5, CRC: uint32(i)}
		all = append(all, block)
		b.Block(block)
	}
	ix := decode(t, b.Encode())
	for _, i := range []int{0, 1, blocksPerMark - 1, blocksPerMark, blocksPerMark + 1, 3 * blocksPerMark, count - 1} {
		for _, n := range []int{1, 2, blocksPerMark + 1} {
			want := all[i:min(i+n, count)]
			if got := slices.Collect(ix.Blocks(int64(10*i), int64(10*(i+n)))); !slices.Equal(got, want) {
				t.Errorf("%d blocks from %d: got %d, beginning %+v; want %+v", n, i, len(got), got[:1], want[:1])
			}
		}
	}
	for range ix.AllBlocks() {
		break // an early end must be possible
	}
	for range ix.Chunks() {
		break
	}
}

// checkSane checks what every decoded index promises, whatever was decoded.
func checkSane(t testing.TB, ix *Index) {
	t.Helper()
	next := pipeline.Block{}
	var count int64
	for block := range ix.AllBlocks() {
		opens := block.Volume == next.Volume+1 && block.Stored == 0
		if block.Raw != next.Raw || !opens && (block.Volume != next.Volume || block.Stored != next.Stored) {
			t.Fatalf("block %d, %+v, does not follow %+v", count, block, next)
		}
		if block.RawSize < 1 || block.RawSize > pipeline.MaxBlockSize || block.StoredSize < 1 {
			t.Fatalf("block %d has %d bytes stored as %d", count, block.RawSize, block.StoredSize)
		}
		next = after(block)
		count++
	}
	if next.Raw != ix.RawSize() || count != ix.NumBlocks() {
		t.Fatalf("%d blocks hold %d bytes, the index says %d and %d", count, next.Raw, ix.NumBlocks(), ix.RawSize())
	}
	var end, events int64
	seen := make(map[int]bool)
	for c := range ix.Chunks() {
		events++
		if c.Start < end || c.Data <= c.Start || c.Size < 0 || c.Data > ix.RawSize()-c.Size {
			t.Fatalf("chunk %+v lies outside of the %d bytes, or before %d", c, ix.RawSize(), end)
		}
		end = c.Data + c.Size
		if err := checkPath(c.Type, c.Path); err != nil {
			t.Fatalf("path %q: %v", c.Path, err)
		}
		if c.File >= 0 {
			seen[c.File] = true
			if got := ix.Versions()[c.File].Path; got != c.Path {
				t.Fatalf("chunk of %q belongs to %q", c.Path, got)
			}
		}
	}
	if events != ix.NumChunks() || len(seen) != len(ix.Versions()) {
		t.Fatalf("got %d chunks of %d files, the index says %d and %d", events, len(seen), ix.NumChunks(), len(ix.Versions()))
	}
	for _, f := range ix.Tree() {
		if err := xbstream.CheckPath(f.Path); err != nil || f.Size < 0 || f.Version >= len(ix.Versions()) {
			t.Fatalf("file %+v: %v", f, err)
		}
	}
}

// TestDamagedIndex cuts an index at every byte, flips every bit, and appends to it. A cut is always found; a flip is, or
// makes another index that keeps every promise.
func TestDamagedIndex(t *testing.T) {
	for name, stream := range map[string][]byte{"mariadb": mariadbStream(t), "percona": perconaStream(t)} {
		data := watch(t, stream, 100).Encode()
		for n := range data {
			if _, err := DecodeIndex(slices.Clip(data[:n])); !errors.Is(err, ErrIndex) {
				t.Errorf("%s, cut at %d: got error %v, want %v", name, n, err, ErrIndex)
			}
		}
		if _, err := DecodeIndex(append(slices.Clip(data), 0)); !errors.Is(err, ErrIndex) {
			t.Errorf("%s with a byte more: got error %v, want %v", name, err, ErrIndex)
		}
		for i := range 8 * len(data) {
			bad := bytes.Clone(data)
			bad[i/8] ^= 1 << (i % 8)
			ix, err := DecodeIndex(bad)
			switch {
			case err == nil:
				checkSane(t, ix)
			case !errors.Is(err, ErrIndex) && !errors.Is(err, ErrFormat):
				t.Errorf("%s, bit %d: got error %v", name, i, err)
			}
		}
	}
}

// index makes an index of raw bytes of a stream, from blocks and chunks in encoded form.
func rawIndex(blocks, chunks string) []byte {
	data := appendSection([]byte(indexMagic), sectionBlocks, []byte(blocks))
	return appendSection(appendSection(data, sectionChunks, []byte(chunks)), sectionEnd, nil)
}

func uvarint(n uint64) string { return string(binary.AppendUvarint(nil, n)) }

func TestHostileIndex(t *testing.T) {
	block := uvarint(100<<1|1) + "\x32crc!" // 100 bytes, stored as 50 in a new volume
	file := "\x00\x01a"
	const most = 1<<64 - 1
	for _, test := range []struct {
		name string
		data []byte
		want error // nil: it is good
	}{
		{"good", rawIndex(block, "\x07\x64"), nil},
		{"good, with a file", rawIndex(block, file+"\x01\x00\x41"), nil},
		{"empty", nil, ErrIndex},
		{"no number", []byte("mbwrap index \n"), ErrIndex},
		{"no decimal number", []byte("mbwrap index 0x1\n"), ErrIndex},
		{"number zero", []byte("mbwrap index 0\n"), ErrIndex},
		{"leading zero", append([]byte("mbwrap index 01\n"), rawIndex(block, "\x07\x64")[len(indexMagic):]...), ErrIndex},
		{"newer", []byte("mbwrap index 2\nwhatever"), ErrFormat},
		{"much newer", []byte("mbwrap index 1000000\n"), ErrFormat},
		{"no line end", []byte("mbwrap index " + strings.Repeat("1", 100)), ErrIndex},
		{"section of unknown capital", append(appendSection([]byte(indexMagic), 'Q', nil), rawIndex(block, "\x07\x64")[len(indexMagic):]...), ErrIndex},
		{"section of unknown small letter", append(appendSection([]byte(indexMagic), 'q', []byte("later")), rawIndex(block, "\x07\x64")[len(indexMagic):]...), nil},
		{"sections in wrong order", appendSection(appendSection([]byte(indexMagic), sectionChunks, nil), sectionBlocks, nil), ErrIndex},
		{"section twice", appendSection(appendSection([]byte(indexMagic), sectionBlocks, nil), sectionBlocks, nil), ErrIndex},
		{"section longer than all", append([]byte(indexMagic), "B"+uvarint(most)...), ErrIndex},
		{"section with an endless number", append([]byte(indexMagic), "B"+strings.Repeat("\xff", 20)...), ErrIndex},
		{"end with content", appendSection(appendSection(appendSection([]byte(indexMagic), sectionBlocks, nil), sectionChunks, nil), sectionEnd, []byte{1}), ErrIndex},
		{"block outside of a volume", rawIndex(uvarint(100<<1)+"\x32crc!", "\x07\x64"), ErrIndex},
		{"block of no bytes", rawIndex("\x01\x32crc!", ""), ErrIndex},
		{"block stored as no bytes", rawIndex(uvarint(100<<1|1)+"\x00crc!", "\x07\x64"), ErrIndex},
		{"block too large", rawIndex(uvarint((pipeline.MaxBlockSize+1)<<1|1)+"\x32crc!", ""), ErrIndex},
		{"block huge", rawIndex(uvarint(most)+"\x32crc!", ""), ErrIndex},
		{"block stored as huge", rawIndex(uvarint(100<<1|1)+uvarint(most)+"crc!", ""), ErrIndex},
		{"block without checksum", rawIndex(uvarint(100<<1|1)+"\x32crc", "\x07\x64"), ErrIndex},
		{"chunks end early", rawIndex(block, "\x07\x63"), ErrIndex},
		{"chunks end late", rawIndex(block, "\x07\x65"), ErrIndex},
		{"gap huge", rawIndex(block, "\x07"+uvarint(most)), ErrIndex},
		{"no chunks", rawIndex(block, ""), ErrIndex},
		{"unknown tag", rawIndex(block, "\x08\x64"), ErrIndex},
		{"chunk of no file", rawIndex(block, "\x02\x00\x07\x55"), ErrIndex},
		{"chunk of a file before the first", rawIndex(block, file+"\x02\x01\x07\x54"), ErrIndex},
		{"chunk of a file to come", rawIndex(block, file+"\x02\x02\x07\x54"), ErrIndex},
		{"chunk of a file far off", rawIndex(block, file+"\x02"+uvarint(most)+"\x07\x54"), ErrIndex},
		{"files in wrong order", rawIndex(block, file+"\x00\x01b\x02\x02\x02\x01\x07\x46"), ErrIndex},
		{"file without chunk before another", rawIndex(block, file+"\x00\x01b\x02\x02\x07\x55"), ErrIndex},
		{"gap before a file's first chunk", rawIndex(block, file+"\x07\x01\x01\x00\x40"), ErrIndex},
		{"rename before a file's first chunk", rawIndex(block, file+"\x04\x01b\x01c\x01\x00\x2d"), ErrIndex},
		{"another file's chunk before a file's first", rawIndex(block, file+"\x02\x00\x00\x01b\x02\x00\x07\x46"), ErrIndex},
		{"last file without chunk", rawIndex(block, file+"\x07\x64"), ErrIndex},
		{"payload beyond the stream", rawIndex(block, file+"\x01\x00\x42"), ErrIndex},
		{"payload huge", rawIndex(block, file+"\x01\x00"+uvarint(most)), ErrIndex},
		{"payload that reaches the limit of a file", rawIndex(block, file+"\x03\x00"+uvarint(1<<62-42)+"\x01\x00\x2a"), nil},
		{"payload that reaches beyond it", rawIndex(block, file+"\x03\x00"+uvarint(1<<62-41)+"\x01\x00\x2a"), ErrIndex},
		{"seek huge", rawIndex(block, file+"\x03\x00"+uvarint(most)), ErrIndex},
		{"sparse with a huge map", rawIndex(block, file+"\x06\x00"+uvarint(1<<40)), ErrIndex},
		{"sparse with a huge hole", rawIndex(block, file+"\x06\x00\x01"+uvarint(1<<32)+"\x00"), ErrIndex},
		{"sparse with huge data", rawIndex(block, file+"\x06\x00\x01\x00"+uvarint(1<<32-1)), ErrIndex},
		{"sparse cut", rawIndex(block, file+"\x06\x00\x01\x00"), ErrIndex},
		{"path to the parent", rawIndex(block, "\x00\x04../a\x02\x00\x07\x50"), ErrIndex},
		{"absolute path", rawIndex(block, "\x00\x02/a\x02\x00\x07\x50"), ErrIndex},
		{"empty path", rawIndex(block, "\x00\x00\x02\x00\x07\x50"), ErrIndex},
		{"path with a star", rawIndex(block, "\x00\x02a*\x02\x00\x07\x50"), ErrIndex},
		{"path longer than the index", rawIndex(block, "\x00\x7fa"), ErrIndex},
		{"path huge", rawIndex(block, "\x00"+uvarint(most)), ErrIndex},
		{"rename to the parent", rawIndex(block, "\x04\x01a\x04../b\x07\x40"), ErrIndex},
		{"rename with a star", rawIndex(block, "\x04\x02a*\x01b\x07\x40"), ErrIndex},
		{"rename cut", rawIndex(block, "\x04\x01a"), ErrIndex},
		{"remove of all", rawIndex(block, "\x05\x01*\x07\x55"), ErrIndex},
		{"remove in the parent", rawIndex(block, "\x05\x04../*\x07\x52"), ErrIndex},
		{"remove of a folder's files", rawIndex(block, "\x05\x03a/*\x07\x53"), nil},
		{"remove of names that end in a star", rawIndex(block, "\x05\x03a**\x07\x53"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			ix, err := DecodeIndex(test.data)
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Fatalf("got error %v, want %v", err, test.want)
			}
			if err == nil {
				checkSane(t, ix)
			}
		})
	}
}

// TestRemovesLikeTheChecker holds the index to the checker's rule for the paths of removes.
func TestRemovesLikeTheChecker(t *testing.T) {
	for _, path := range []string{"a", "a*", "a**", "a/*", "a/b*", "*", "/*", "a//*", "../*", "..*", "a/..*", "a/.*", ".*", "a*b", "",
		strings.Repeat("a", xbstream.MaxPath), strings.Repeat("a", xbstream.MaxPath) + "*", strings.Repeat("a", xbstream.MaxPath-1) + "*"} {
		h := xbstream.Header{Type: xbstream.TypeRemove, Path: path}
		werr := xbstream.NewWriter(new(bytes.Buffer)).WriteHeader(&h)
		if err := checkPath(xbstream.TypeRemove, path); (err == nil) != (werr == nil) {
			t.Errorf("remove of %q: the index says %v, the checker %v", path, err, werr)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	for _, c := range []xbstream.Chunk{
		{Header: xbstream.Header{Type: 'X'}},
		{Header: xbstream.Header{Type: xbstream.TypeEnd, Path: "a"}, File: 1}, // where is 0?
	} {
		if err := new(IndexBuilder).Chunk(&c); err == nil {
			t.Errorf("chunk %+v: got no error", c)
		}
	}
}

// FuzzDecodeIndex: no input makes the decoder panic, take much memory, or return an index that breaks a promise.
func FuzzDecodeIndex(f *testing.F) {
	f.Add(watch(f, mariadbStream(f), 100).Encode())
	f.Add(watch(f, perconaStream(f), 100).Encode())
	f.Add(rawIndex(uvarint(100<<1|1)+"\x32crc!", "\x00\x01a\x01\x00\x41"))
	f.Add([]byte("mbwrap index 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ix, err := DecodeIndex(data)
		if err != nil {
			if !errors.Is(err, ErrIndex) && !errors.Is(err, ErrFormat) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		checkSane(t, ix)
	})
}
