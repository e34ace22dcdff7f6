package encrypt

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// The input is 16 MiB of random bytes: ciphers don't care what they encrypt.
const benchSize = 16 << 20

// BenchmarkSeal writes in the pieces in which compressed blocks arrive.
func BenchmarkSeal(b *testing.B) {
	plain := noise(benchSize, 1)
	for _, step := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", step>>10), func(b *testing.B) {
			key := newKey(b, false)
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				w, err := key.Seal(io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				for off := 0; off < benchSize; off += step {
					if _, err := w.Write(plain[off : off+step]); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSealSmall is the price of a file by itself: header and key.
func BenchmarkSealSmall(b *testing.B) {
	for _, postQuantum := range []bool{false, true} {
		b.Run(fmt.Sprintf("postQuantum=%v", postQuantum), func(b *testing.B) {
			key := newKey(b, postQuantum)
			b.ReportAllocs()
			for b.Loop() {
				w, err := key.Seal(io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	key := newKey(b, false)
	sealed := sealAll(b, key, noise(benchSize, 2))
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		r, err := key.Open(bytes.NewReader(sealed))
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); n != benchSize || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkReadAt reads at random places, which begin and end inside of chunks.
func BenchmarkReadAt(b *testing.B) {
	key := newKey(b, false)
	plain := noise(benchSize, 3)
	sealed := sealAll(b, key, plain)
	p, err := key.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 1))
			out := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				off := random.IntN(benchSize - size)
				if _, err := p.ReadAt(out, int64(off)); err != nil {
					b.Fatal(err)
				}
				if out[0] != plain[off] || out[size-1] != plain[off+size-1] {
					b.Fatal("other bytes")
				}
			}
		})
	}
}

// BenchmarkSHA256 is what the digests of stored bytes cost, to compare with.
func BenchmarkSHA256(b *testing.B) {
	plain := noise(benchSize, 4)
	b.SetBytes(benchSize)
	for b.Loop() {
		sum := sha256.New()
		sum.Write(plain)
		if len(sum.Sum(nil)) != sha256.Size {
			b.Fatal("no sum")
		}
	}
}
