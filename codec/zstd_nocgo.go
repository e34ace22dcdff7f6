//go:build !cgo

package codec

import "io"

func zstdLibrary() string { return moduleVersion("github.com/klauspost/compress") }

func newZstdCompressor(o CompressorOptions) (blockCompressor, error) { return newPureCompressor(o) }
func newZstdDecompressor() (blockDecompressor, error)                { return newPureDecompressor() }
func newZstdReader(r io.Reader) (io.ReadCloser, error)               { return newPureReader(r) }
