package restore_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// page0 is the first page of a tablespace with these flags.
func page0(flags uint32) []byte {
	page := bytes.Repeat([]byte{0xa5}, 16<<10)
	binary.BigEndian.PutUint32(page[54:], flags)
	return page
}

func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(p)
	return p
}

// streamCase is a stream and the files that it stands for.
type streamCase struct {
	name  string
	build func(b *builder)
	want  map[string]string
}

func streamCases() []streamCase {
	big := string(noise(1, 300_000))
	compressed := string(page0(0x35)) + strings.Repeat("\x00", 50_000) + "end" + strings.Repeat("\x00", 40_000)
	return []streamCase{
		{"empty file", func(b *builder) { b.file("db/t.del", "") }, map[string]string{"db/t.del": ""}},
		{"files at any depth", func(b *builder) { b.file("a", "1").file("d/e/f/g", "2").file("d/h", "3") },
			map[string]string{"a": "1", "d/e/f/g": "2", "d/h": "3"}},
		{"large file in pieces", func(b *builder) {
			for i := 0; i < len(big); i += 70_000 {
				b.put("db/big.ibd", []byte(big[i:min(i+70_000, len(big))]))
			}
			b.end("db/big.ibd")
		}, map[string]string{"db/big.ibd": big}},
		{"interleaved", func(b *builder) {
			b.put("a", []byte("a1")).put("b", []byte("b1")).put("a", []byte("a2")).end("a").put("b", []byte("b2")).end("b")
		}, map[string]string{"a": "a1a2", "b": "b1b2"}},
		{"names as the server makes them", func(b *builder) { b.file("we@0020ird@0023/t@0kb#P#p0.ibd", "x") },
			map[string]string{"we@0020ird@0023/t@0kb#P#p0.ibd": "x"}},
		{"rename", func(b *builder) { b.file("db/a.MAI", "x").rename("db/a.MAI", "db/b.MAI") },
			map[string]string{"db/b.MAI": "x"}},
		{"rename of what is not there", func(b *builder) { b.file("a", "x").rename("nothing", "b").rename("no/dir", "c") },
			map[string]string{"a": "x"}},
		{"rename over another file", func(b *builder) { b.file("a", "x").file("b", "old").rename("a", "b") },
			map[string]string{"b": "x"}},
		{"rename into a new directory empties the old one", func(b *builder) { b.file("old/t", "x").rename("old/t", "new/t") },
			map[string]string{"new/t": "x"}},
		{"renames in a chain", func(b *builder) {
			b.file("db/a", "A").file("db/b", "B").rename("db/b", "db/c").rename("db/a", "db/b").file("db/a", "new A")
		}, map[string]string{"db/a": "new A", "db/b": "A", "db/c": "B"}},
		{"renames that swap", func(b *builder) {
			b.file("db/a", "A").file("db/b", "B").rename("db/a", "db/tmp").rename("db/b", "db/a").rename("db/tmp", "db/b")
		}, map[string]string{"db/a": "B", "db/b": "A"}},
		{"renamed, then sent anew, then renamed", func(b *builder) {
			b.file("t", "1").rename("t", "u").file("t", "2").rename("t", "v").file("t", "3")
		}, map[string]string{"t": "3", "u": "1", "v": "2"}},
		{"remove", func(b *builder) {
			b.file("db/a", "A").file("db/b", "B").remove("db/a").remove("db/none").remove("no/dir")
		},
			map[string]string{"db/b": "B"}},
		{"remove, then sent anew", func(b *builder) { b.file("db/a", "A").remove("db/a").file("db/a", "2") },
			map[string]string{"db/a": "2"}},
		{"remove of a directory", func(b *builder) {
			b.file("db/a", "A").file("db/sub/b", "B").file("db2/a", "C").remove("db")
		}, map[string]string{"db2/a": "C"}},
		{"directory removed and made again", func(b *builder) { b.file("db/a", "A").remove("db").file("db/a", "B") },
			map[string]string{"db/a": "B"}},
		{"remove of a prefix", func(b *builder) {
			b.file("db/t#P#p0.MAD", "0").file("db/t#P#p1.MAD", "1").file("db/t.par", "x").file("db/u", "u").file("t#P#p2", "top")
			b.remove("db/t#P#*").remove("none/x*")
		}, map[string]string{"db/t.par": "x", "db/u": "u", "t#P#p2": "top"}},
		{"rewrite shorter", func(b *builder) { b.file("db/a", "long content").again("db/a", "short") },
			map[string]string{"db/a": "short"}},
		{"rewrite longer, twice", func(b *builder) { b.file("db/a", "1").again("db/a", "longer").again("db/a", "the longest") },
			map[string]string{"db/a": "the longest"}},
		{"rewrite to nothing", func(b *builder) { b.file("db/a", "1").again("db/a", "").again("db/b", "2") },
			map[string]string{"db/a": "", "db/b": "2"}},
		{"rewrite of what never was", func(b *builder) { b.again("db/db.opt", "2") }, map[string]string{"db/db.opt": "2"}},
		{"rewrite of a renamed file", func(b *builder) { b.file("a", "1").rename("a", "b").again("b", "2") },
			map[string]string{"b": "2"}},
		{"seek back", func(b *builder) {
			b.put("aria_log.00000001", []byte("0123456789")).seek("aria_log.00000001", 3)
			b.put("aria_log.00000001", []byte("abc")).end("aria_log.00000001")
		}, map[string]string{"aria_log.00000001": "012abc6789"}},
		{"seek beyond the end", func(b *builder) {
			b.put("f", []byte("01")).seek("f", 5).put("f", []byte("x")).end("f")
		}, map[string]string{"f": "01\x00\x00\x00x"}},
		{"sparse", func(b *builder) {
			b.sparse("db/t.ibd", []byte("aabbb"), xbstream.Extent{Len: 2}, xbstream.Extent{Skip: 4, Len: 3}, xbstream.Extent{Skip: 2})
			b.sparse("db/t.ibd", []byte("d"), xbstream.Extent{Skip: 1, Len: 1}).put("db/t.ibd", []byte("e"))
			b.sparse("db/t.ibd", nil, xbstream.Extent{Skip: 3}).end("db/t.ibd")
		}, map[string]string{"db/t.ibd": "aa\x00\x00\x00\x00bbb\x00\x00\x00de\x00\x00\x00"}},
		{"holes of page compression", func(b *builder) { b.file("db/c.ibd", compressed).file("db/d.new", compressed) },
			map[string]string{"db/c.ibd": compressed, "db/d.new": compressed}},
	}
}

// TestStreamsAndPlans makes the files of each stream in every way there is.
func TestStreamsAndPlans(t *testing.T) {
	for _, c := range streamCases() {
		t.Run(c.name, func(t *testing.T) {
			b := newStream(t)
			c.build(b)
			stream := b.meta().bytes()
			want := with(c.want)
			t.Run("stream", func(t *testing.T) {
				target := filepath.Join(memoryDir(t), "t")
				result, err := restore.Extract(t.Context(), streamOf(stream), restore.ExtractOptions{Target: target})
				if err != nil {
					t.Fatal(err)
				}
				sameTree(t, target, want)
				sameCounts(t, result, want)
			})
			for _, block := range []int{4 << 10, 1 << 20} {
				t.Run(fmt.Sprint("plan of blocks of ", block), func(t *testing.T) {
					backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: block})
					target := filepath.Join(memoryDir(t), "t")
					result, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, NoPrepare: true})
					if err != nil {
						t.Fatal(err)
					}
					sameTree(t, target, want)
					sameCounts(t, result, want)
				})
			}
			t.Run("plan of every file alone", func(t *testing.T) {
				backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 4 << 10})
				for name, content := range want {
					target := filepath.Join(memoryDir(t), "t")
					_, err := restore.Run(t.Context(), restore.Options{
						Target: target, Backup: backup, NoPrepare: true,
						Select: func(f catalog.File) bool { return f.Path == name },
					})
					if err != nil {
						t.Fatal(err)
					}
					sameTree(t, target, map[string]string{name: content})
				}
			})
		})
	}
}

// sameCounts compares what a result says with the files.
func sameCounts(t *testing.T, r restore.Result, want map[string]string) {
	t.Helper()
	var bytes int64
	for _, content := range want {
		bytes += int64(len(content))
	}
	if r.Files != int64(len(want)) || r.Bytes != bytes {
		t.Errorf("result: got %d files of %d bytes, want %d of %d", r.Files, r.Bytes, len(want), bytes)
	}
}
