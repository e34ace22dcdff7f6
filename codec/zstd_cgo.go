//go:build cgo

package codec

/*
#include <stddef.h>

// The prototypes we use, from libzstd's zstd.h. The code is the one that github.com/DataDog/zstd compiles; that package
// exports no parameters. They are declared weak because this package is linked alone, without those objects, while it
// is built; one that is missing in the end is NULL, and zr_missing names it.
#define ZR __attribute__((weak)) extern

typedef struct ZSTD_CCtx_s ZSTD_CCtx;
typedef struct ZSTD_DCtx_s ZSTD_DCtx;
typedef struct { const void* src; size_t size; size_t pos; } ZSTD_inBuffer;
typedef struct { void* dst; size_t size; size_t pos; } ZSTD_outBuffer;

ZR unsigned ZSTD_versionNumber(void);
ZR unsigned ZSTD_isError(size_t code);
ZR const char* ZSTD_getErrorName(size_t code);
ZR ZSTD_CCtx* ZSTD_createCCtx(void);
ZR size_t ZSTD_freeCCtx(ZSTD_CCtx*);
ZR size_t ZSTD_CCtx_setParameter(ZSTD_CCtx*, int param, int value);
ZR size_t ZSTD_compress2(ZSTD_CCtx*, void* dst, size_t cap, const void* src, size_t size);
ZR ZSTD_DCtx* ZSTD_createDCtx(void);
ZR size_t ZSTD_freeDCtx(ZSTD_DCtx*);
ZR size_t ZSTD_DCtx_setParameter(ZSTD_DCtx*, int param, int value);
ZR size_t ZSTD_decompressDCtx(ZSTD_DCtx*, void* dst, size_t cap, const void* src, size_t size);
ZR size_t ZSTD_decompressStream(ZSTD_DCtx*, ZSTD_outBuffer*, ZSTD_inBuffer*);

#define ZR_NEED(f) if (!f) return #f
static const char* zr_missing(void) {
	ZR_NEED(ZSTD_versionNumber);
	ZR_NEED(ZSTD_isError);
	ZR_NEED(ZSTD_getErrorName);
	ZR_NEED(ZSTD_createCCtx);
	ZR_NEED(ZSTD_freeCCtx);
	ZR_NEED(ZSTD_CCtx_setParameter);
	ZR_NEED(ZSTD_compress2);
	ZR_NEED(ZSTD_createDCtx);
	ZR_NEED(ZSTD_freeDCtx);
	ZR_NEED(ZSTD_DCtx_setParameter);
	ZR_NEED(ZSTD_decompressDCtx);
	ZR_NEED(ZSTD_decompressStream);
	return NULL;
}

// zr_stream makes the two buffers here, so that no Go memory holds Go pointers when C is called.
static size_t zr_stream(ZSTD_DCtx* ctx, void* dst, size_t cap, size_t* out, const void* src, size_t size, size_t* in) {
	ZSTD_outBuffer o = { dst, cap, 0 };
	ZSTD_inBuffer i = { src, size, 0 };
	size_t const code = ZSTD_decompressStream(ctx, &o, &i);
	*out = o.pos;
	*in = i.pos;
	return code;
}

#cgo noescape ZSTD_compress2
#cgo nocallback ZSTD_compress2
#cgo noescape ZSTD_decompressDCtx
#cgo nocallback ZSTD_decompressDCtx
#cgo noescape zr_stream
#cgo nocallback zr_stream
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"unsafe"

	_ "github.com/DataDog/zstd" // its objects are libzstd
)

// Numbers of ZSTD_cParameter and ZSTD_dParameter. The literal mode is experimental: its number is that of this release.
const (
	zstdLevel        = 100
	zstdWindowLog    = 101
	zstdHashLog      = 102
	zstdChainLog     = 103
	zstdSearchLog    = 104
	zstdMinMatch     = 105
	zstdTargetLength = 106
	zstdStrategy     = 107
	zstdChecksum     = 201
	zstdLiteralMode  = 1002
	zstdWindowLogMax = 100 // of ZSTD_dParameter
)

// zstdReadSize is ZSTD_DStreamInSize: a block and its header.
const zstdReadSize = zstdMaxBlock + 3

var errNoMemory = errors.New("libzstd: out of memory")

// zstdLinked returns an error if the program was linked without part of libzstd.
func zstdLinked() error {
	if name := C.zr_missing(); name != nil {
		return fmt.Errorf("internal error: this program was linked without %s", C.GoString(name))
	}
	return nil
}

func zstdLibrary() string {
	if err := zstdLinked(); err != nil {
		return "libzstd: " + err.Error()
	}
	v := uint(C.ZSTD_versionNumber())
	return fmt.Sprintf("libzstd %d.%d.%d", v/10000, v/100%100, v%100)
}

// zstdError turns a libzstd result into an error.
func zstdError(code C.size_t) error {
	if C.ZSTD_isError(code) == 0 {
		return nil
	}
	return fmt.Errorf("libzstd: %s", C.GoString(C.ZSTD_getErrorName(code)))
}

// zstdCompressor owns a context; the cleanup frees it if close was forgotten.
type zstdCompressor struct {
	ctx     *C.ZSTD_CCtx
	cleanup runtime.Cleanup
}

func newZstdCompressor(o CompressorOptions) (blockCompressor, error) {
	if err := zstdLinked(); err != nil {
		return nil, err
	}
	z := &zstdCompressor{ctx: C.ZSTD_createCCtx()}
	if z.ctx == nil {
		return nil, errNoMemory
	}
	z.cleanup = runtime.AddCleanup(z, func(ctx *C.ZSTD_CCtx) { C.ZSTD_freeCCtx(ctx) }, z.ctx)
	if err := z.set(zstdParams(o)); err != nil {
		z.close()
		return nil, err
	}
	return z, nil
}

// set gives the context its parameters; a zero one means libzstd's default, which for most is to follow the level.
func (z *zstdCompressor) set(p Params) error {
	for _, s := range []struct {
		name         string
		param, value int
	}{
		{"level", zstdLevel, p.Level},
		{"windowLog", zstdWindowLog, p.WindowLog},
		{"hashLog", zstdHashLog, p.HashLog},
		{"chainLog", zstdChainLog, p.ChainLog},
		{"searchLog", zstdSearchLog, p.SearchLog},
		{"minMatch", zstdMinMatch, p.MinMatch},
		{"targetLength", zstdTargetLength, p.TargetLength},
		{"strategy", zstdStrategy, p.Strategy},
		{"literals", zstdLiteralMode, int(p.Literals)},
		{"checksum", zstdChecksum, 1},
	} {
		if err := zstdError(C.ZSTD_CCtx_setParameter(z.ctx, C.int(s.param), C.int(s.value))); err != nil {
			return fmt.Errorf("set %s to %d: %w", s.name, s.value, err)
		}
	}
	return nil
}

func (z *zstdCompressor) compress(dst, src []byte) ([]byte, error) {
	room := dst[len(dst):cap(dst)]
	n := C.ZSTD_compress2(z.ctx, unsafe.Pointer(unsafe.SliceData(room)), C.size_t(len(room)),
		unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)))
	runtime.KeepAlive(z)
	if err := zstdError(n); err != nil {
		return dst, err
	}
	return dst[:len(dst)+int(n)], nil
}

func (z *zstdCompressor) close() {
	z.cleanup.Stop()
	C.ZSTD_freeCCtx(z.ctx)
	z.ctx = nil
}

// zstdDecoder owns a context; the cleanup frees it if close was forgotten.
type zstdDecoder struct {
	ctx     *C.ZSTD_DCtx
	cleanup runtime.Cleanup
}

func newZstdDecoder() (*zstdDecoder, error) {
	if err := zstdLinked(); err != nil {
		return nil, err
	}
	z := &zstdDecoder{ctx: C.ZSTD_createDCtx()}
	if z.ctx == nil {
		return nil, errNoMemory
	}
	z.cleanup = runtime.AddCleanup(z, func(ctx *C.ZSTD_DCtx) { C.ZSTD_freeDCtx(ctx) }, z.ctx)
	return z, nil
}

func newZstdDecompressor() (blockDecompressor, error) { return newZstdDecoder() }

func (z *zstdDecoder) check(src []byte, size int) error { return checkZstd(src, size) }

func (z *zstdDecoder) decompress(dst, src []byte) error {
	n := C.ZSTD_decompressDCtx(z.ctx, unsafe.Pointer(unsafe.SliceData(dst)), C.size_t(len(dst)),
		unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)))
	runtime.KeepAlive(z)
	if err := zstdError(n); err != nil {
		return corrupt("%w", err)
	}
	if int(n) != len(dst) {
		return wrongSize(uint64(n), len(dst))
	}
	return nil
}

func (z *zstdDecoder) close() {
	z.cleanup.Stop()
	C.ZSTD_freeDCtx(z.ctx)
	z.ctx = nil
}

// zstdReader feeds a context from a source. Between frames it looks at the magic itself: libzstd would also take frames
// of its versions before 0.8.
type zstdReader struct {
	*zstdDecoder
	src    io.Reader
	buf    []byte // all that is buffered is buf[start:end]
	start  int
	end    int
	inside bool // inside of a frame
	more   bool // the context may hold output that had no room
	eof    bool // src is exhausted
}

func newZstdReader(r io.Reader) (io.ReadCloser, error) {
	dec, err := newZstdDecoder()
	if err != nil {
		return nil, err
	}
	if err := zstdError(C.ZSTD_DCtx_setParameter(dec.ctx, zstdWindowLogMax, zstdMaxWindowLog)); err != nil {
		dec.close()
		return nil, err
	}
	return &zstdReader{zstdDecoder: dec, src: r, buf: make([]byte, zstdReadSize)}, nil
}

func (z *zstdReader) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if err := z.fill(); err != nil {
			return 0, err
		}
		n, err := z.decode(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// fill makes sure that decode has something to do, or returns io.EOF at the end of the last frame.
func (z *zstdReader) fill() error {
	if z.more || z.inside && z.start < z.end {
		return nil
	}
	need := 1
	if !z.inside {
		need = 4
	}
	if err := z.buffer(need); err != nil {
		return err
	}
	switch have := z.end - z.start; {
	case have == 0 && !z.inside:
		return io.EOF
	case have < need:
		return io.ErrUnexpectedEOF
	}
	if z.inside {
		return nil
	}
	m := uint32(z.buf[z.start]) | uint32(z.buf[z.start+1])<<8 | uint32(z.buf[z.start+2])<<16 | uint32(z.buf[z.start+3])<<24
	if m != zstdMagic && m&^0xF != zstdSkipMagic {
		return corrupt("unexpected magic %#08x", m)
	}
	return nil
}

// buffer reads until need bytes are buffered or the source ends.
func (z *zstdReader) buffer(need int) error {
	if z.end-z.start >= need || z.eof {
		return nil
	}
	z.end = copy(z.buf, z.buf[z.start:z.end])
	z.start = 0
	n, err := io.ReadAtLeast(z.src, z.buf[z.end:], need-z.end)
	z.end += n
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		z.eof = true
		return nil
	}
	return err
}

// decode gives the context what is buffered and returns what came out into p, which is not empty.
func (z *zstdReader) decode(p []byte) (int, error) {
	in := z.buf[z.start:z.end]
	var out, used C.size_t
	code := C.zr_stream(z.ctx, unsafe.Pointer(unsafe.SliceData(p)), C.size_t(len(p)), &out,
		unsafe.Pointer(unsafe.SliceData(in)), C.size_t(len(in)), &used)
	runtime.KeepAlive(z.zstdDecoder)
	z.start += int(used)
	if err := zstdError(code); err != nil {
		return int(out), corrupt("%w", err)
	}
	z.inside = code != 0
	z.more = z.inside && int(out) == len(p)
	return int(out), nil
}

func (z *zstdReader) Close() error {
	z.close()
	return nil
}
