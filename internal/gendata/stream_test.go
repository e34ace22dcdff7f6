package gendata_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestStreamIsWholeAndRepeatable(t *testing.T) {
	for _, kind := range []gendata.Kind{gendata.Sysbench, gendata.TPCC} {
		t.Run(string(kind), func(t *testing.T) {
			const size = 3 << 20
			c := xbstream.NewChecker(xbstream.Options{Handler: &pageChecker{t: t}})
			sum := sha256.New()
			n, err := io.Copy(io.MultiWriter(c, sum), gendata.Stream(kind, size, 7))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if n < size*90/100 || n > size*110/100 {
				t.Errorf("got %d bytes, want about %d", n, size)
			}
			for seed, want := range map[uint64]bool{7: true, 8: false} {
				again := sha256.New()
				if err := gendata.WriteStream(again, kind, size, seed); err != nil {
					t.Fatal(err)
				}
				if got := bytes.Equal(sum.Sum(nil), again.Sum(nil)); got != want {
					t.Errorf("seed %d gives the bytes of seed 7: got %v, want %v", seed, got, want)
				}
			}
		})
	}
}

// pageChecker holds the pages of tablespaces against their checksums and numbers.
type pageChecker struct {
	t    *testing.T
	ibd  bool
	page []byte
	next uint32
}

func (p *pageChecker) Chunk(c *xbstream.Chunk) error {
	p.ibd = bytes.HasSuffix([]byte(c.Path), []byte(".ibd"))
	if c.Offset == 0 {
		p.next = 0
	}
	return nil
}

func (p *pageChecker) Data(data []byte) error {
	const size = 16 << 10
	if !p.ibd {
		return nil
	}
	p.page = append(p.page, data...)
	for len(p.page) >= size {
		page := p.page[:size]
		got := crc32.Checksum(page[:size-4], crc32.MakeTable(crc32.Castagnoli))
		if want := binary.BigEndian.Uint32(page[size-4:]); got != want {
			p.t.Errorf("page %d: got checksum %08x, want %08x", p.next, got, want)
		}
		if number := binary.BigEndian.Uint32(page[4:]); number != p.next {
			p.t.Errorf("got page number %d, want %d", number, p.next)
		}
		p.next++
		p.page = p.page[size:]
	}
	return nil
}

func TestStreamLeftEarly(t *testing.T) {
	r := gendata.Stream(gendata.Sysbench, 1<<40, 1)
	if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestParseKind(t *testing.T) {
	if got, err := gendata.ParseKind("tpcc"); got != gendata.TPCC || err != nil {
		t.Errorf("got %q, %v, want tpcc", got, err)
	}
	if _, err := gendata.ParseKind("oracle"); err == nil {
		t.Error("got no error, want one")
	}
}

func BenchmarkStream(b *testing.B) {
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		if err := gendata.WriteStream(io.Discard, gendata.Sysbench, size, 1); err != nil {
			b.Fatal(err)
		}
	}
}
