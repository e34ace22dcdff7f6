package innodb_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/xbstream"
)

// BenchmarkChecker judges a generated stream of 64 MiB. The pieces are those of a reader whose buffer stays in the cache,
// and those of whole blocks; "stream" is the stream's own check alone, "both" has the pages judged with it.
func BenchmarkChecker(b *testing.B) {
	r := gendata.Stream(gendata.Sysbench, 64<<20, 1)
	stream, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	r.Close()
	for _, piece := range []int{128 << 10, 4 << 20} {
		for _, what := range []string{"stream", "both"} {
			b.Run(fmt.Sprintf("%s/%dKiB", what, piece>>10), func(b *testing.B) {
				b.SetBytes(int64(len(stream)))
				b.ReportAllocs()
				for b.Loop() {
					c := innodb.NewChecker(innodb.Options{})
					o := xbstream.Options{}
					if what == "both" {
						o.Handler = c
					}
					x := xbstream.NewChecker(o)
					for p := range slices.Chunk(stream, piece) {
						if _, err := x.Write(p); err != nil {
							b.Fatal(err)
						}
					}
					if err := x.Close(); err != nil {
						b.Fatal(err)
					}
					c.Close()
					if s := c.Stats(); what == "both" && (s.Bad != 0 || s.Pages < 4000) {
						b.Fatalf("got %+v, want thousands of sound pages", s)
					}
				}
			})
		}
	}
}

// BenchmarkPages judges pages of each format that lie whole in one piece of 1 MiB.
func BenchmarkPages(b *testing.B) {
	for _, s := range []shape{{16384, "full"}, {16384, "plain"}, {8192, "zip"}, {1024, "zip"}} {
		b.Run(fmt.Sprint(s.size, s.kind), func(b *testing.B) {
			data := buildSpace(s, 1<<20/s.size, nil, random(1))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				c := innodb.NewChecker(innodb.Options{})
				c.Chunk(&xbstream.Chunk{Header: xbstream.Header{Type: xbstream.TypePayload, Path: "d/t.ibd", Size: int64(len(data))}})
				c.Data(data)
				if s := c.Stats(); s.Bad != 0 || s.Pages == 0 {
					b.Fatalf("got %+v, want sound pages", s)
				}
			}
		})
	}
}

// BenchmarkManyTables judges the smallest tables there are, as a server with very many of them sends.
func BenchmarkManyTables(b *testing.B) {
	data := buildSpace(shape{16384, "full"}, 6, nil, random(1))
	const tables = 1000
	b.SetBytes(int64(len(data)) * tables)
	b.ReportAllocs()
	for b.Loop() {
		c := innodb.NewChecker(innodb.Options{})
		for i := range tables {
			h := xbstream.Chunk{File: i, Header: xbstream.Header{Type: xbstream.TypePayload, Path: "d/t.ibd", Size: int64(len(data))}}
			c.Chunk(&h)
			c.Data(data)
			h.Type = xbstream.TypeEnd
			c.Chunk(&h)
		}
		if s := c.Stats(); s.Bad != 0 || s.Files != tables {
			b.Fatalf("got %+v, want %d sound tables", s, tables)
		}
	}
}
