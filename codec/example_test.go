package codec_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/mbwrap/mbwrap/codec"
)

// Blocks become frames that can be decoded alone, and together are an ordinary .zst file.
func Example() {
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		panic(err)
	}
	enc, err := zstd.NewCompressor(codec.CompressorOptions{})
	if err != nil {
		panic(err)
	}
	defer enc.Close()

	file, err := enc.Append(nil, []byte("first block, "))
	if err != nil {
		panic(err)
	}
	second := len(file)
	if file, err = enc.Append(file, []byte("second block")); err != nil {
		panic(err)
	}

	dec, err := zstd.NewDecompressor()
	if err != nil {
		panic(err)
	}
	defer dec.Close()
	block, err := dec.Append(nil, file[second:], len("second block"))
	fmt.Printf("%s %v\n", block, err)

	r, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		panic(err)
	}
	defer r.Close()
	whole, err := io.ReadAll(r)
	fmt.Printf("%s %v\n", whole, err)
	// Output:
	// second block <nil>
	// first block, second block <nil>
}

// A file tells by its first bytes how to read it.
func ExampleDetect() {
	for _, head := range []string{"\x28\xB5\x2F\xFD\x04\x58", "\x1F\x8B\x08\x00", "XBSTCK01", "-- MariaDB dump"} {
		if c, ok := codec.Detect([]byte(head)); ok {
			fmt.Println(c.Name())
		} else {
			fmt.Println("unknown")
		}
	}
	// Output:
	// zstd
	// gzip
	// none
	// unknown
}
