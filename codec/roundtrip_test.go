package codec

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 300000)
	for i := range data {
		data[i] = '0' + byte(r.IntN(10))
	}
	for _, name := range Names() {
		c, _ := Lookup(name)
		t.Log(name, c.Library())
		lo, hi := c.Levels()
		for l := lo; l <= hi; l++ {
			z, err := c.NewCompressor(CompressorOptions{Level: l, BlockSize: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			f, err := z.Append(nil, data)
			if err != nil {
				t.Fatal(err)
			}
			f2, err := z.Append(f, data[:1000])
			if err != nil {
				t.Fatal(err)
			}
			d, _ := c.NewDecompressor()
			back, err := d.Append([]byte("x"), f, len(data))
			if err != nil || !bytes.Equal(back[1:], data) {
				t.Fatal(name, l, err)
			}
			rd, _ := c.NewReader(bytes.NewReader(f2))
			all, err := io.ReadAll(rd)
			if err != nil || len(all) != len(data)+1000 {
				t.Fatal(name, l, err)
			}
		}
	}
}
