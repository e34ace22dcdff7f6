package codec

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// digitRows returns n bytes like the rows of sysbench: groups of eleven random digits. Level of entropy: nothing to
// match but the frame of the row.
func digitRows(n int) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 0, n+200)
	for id := 1; len(b) < n; id++ {
		b = append(b, 0x80, byte(id>>16), byte(id>>8), byte(id), 0, 0, byte(r.IntN(256)), byte(r.IntN(256)))
		for group := range 15 {
			if group != 0 && group != 10 {
				b = append(b, '-')
			}
			b = fmt.Appendf(b, "%011d", r.Int64N(1e11))
		}
	}
	return b[:n]
}

// businessRows returns n bytes like the rows of a shop: names, streets, numbers, dates, random identifiers.
func businessRows(n int) []byte {
	r := rand.New(rand.NewPCG(2, 2))
	words := []string{"James", "Mary", "Patricia", "BAROUGHTABLE", "PRESESEANTI", "Maple St", "Oakville", "CA", "NY",
		"shipped", "ordered", "returned", "GC", "BC", "express", "standard", "gift wrap", "leave at the door"}
	b := make([]byte, 0, n+200)
	for id := 1; len(b) < n; id++ {
		b = append(b, 0x80, byte(id>>16), byte(id>>8), byte(id), 0, 0, 0, 33)
		for range 5 {
			b = append(b, words[r.IntN(len(words))]...)
		}
		b = fmt.Appendf(b, "2026-%02d-%02d%9.2f%016x", 1+r.IntN(12), 1+r.IntN(28), r.Float64()*9999, r.Uint64())
	}
	return b[:n]
}

// randomBytes returns n bytes that nothing can compress.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{3}).Read(b)
	return b
}

// kinds are the kinds of data that tests and benchmarks use.
var kinds = []struct {
	name string
	make func(n int) []byte
}{
	{"digits", digitRows},
	{"business", businessRows},
	{"random", randomBytes},
	{"zeros", func(n int) []byte { return make([]byte, n) }},
}

// lookup returns the codec of that name.
func lookup(t testing.TB, name string) *Codec {
	t.Helper()
	c, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forEach runs a subtest for every codec.
func forEach(t *testing.T, test func(t *testing.T, c *Codec)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { test(t, lookup(t, name)) })
	}
}

// newCompressor returns a compressor that is closed at the end of the test.
func newCompressor(t testing.TB, c *Codec, o CompressorOptions) Compressor {
	t.Helper()
	z, err := c.NewCompressor(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.Close() })
	return z
}

// newDecompressor returns a decompressor that is closed at the end of the test.
func newDecompressor(t testing.TB, c *Codec) Decompressor {
	t.Helper()
	z, err := c.NewDecompressor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.Close() })
	return z
}

// compress returns data as one frame.
func compress(t testing.TB, c *Codec, level int, data []byte) []byte {
	t.Helper()
	frame, err := newCompressor(t, c, CompressorOptions{Level: level, BlockSize: len(data)}).Append(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
