package codec

import "io"

// noneMagics: a plain xbstream starts with the magic of its first chunk.
var noneMagics = []magic{{want: []byte("XBSTCK01")}}

// none is the identity, in both directions.
type none struct{}

func noneLibrary() string                             { return "" }
func noneBound(n int) int                             { return n }
func (none) close()                                   {}
func (none) compress(dst, src []byte) ([]byte, error) { return append(dst, src...), nil }

func newNoneCompressor(CompressorOptions) (blockCompressor, error) { return none{}, nil }
func newNoneDecompressor() (blockDecompressor, error)              { return none{}, nil }

func (none) check(src []byte, size int) error {
	if len(src) != size {
		return wrongSize(uint64(len(src)), size)
	}
	return nil
}

func (none) decompress(dst, src []byte) error {
	copy(dst, src)
	return nil
}

func newNoneReader(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }
