package codec

// What both implementations of zstd share; newZstdCompressor, newZstdDecompressor, newZstdReader and zstdLibrary stand
// in zstd_cgo.go and zstd_nocgo.go.

// zstdMaxWindow is the most memory that a sequential reader gives a window: what `zstd --long=27` needs, and the limit
// of the zstd program itself.
const (
	zstdMaxWindowLog = 27
	zstdMaxWindow    = 1 << zstdMaxWindowLog
)

// zstdBound is libzstd's ZSTD_COMPRESSBOUND: with that much room it never runs short. Frames stay far below it: 22
// bytes and 3 for every 64 KiB.
func zstdBound(n int) int {
	bound := n + n>>8
	if n < zstdMaxBlock {
		bound += (zstdMaxBlock - n) >> 11
	}
	return bound
}

// zstdParams returns the parameters that the options ask for.
func zstdParams(o CompressorOptions) Params {
	if o.Params != nil {
		return *o.Params
	}
	return zstdLevels[o.Level-1]
}
