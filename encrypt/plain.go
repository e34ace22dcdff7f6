package encrypt

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"filippo.io/age"
	"golang.org/x/crypto/chacha20poly1305"
)

// The payload of an age file, https://age-encryption.org/v1: a nonce, then chunks of plaintext, each sealed with
// ChaCha20-Poly1305 under a nonce that counts them and marks the last one.
const (
	chunkSize  = 64 << 10                              // bytes of plaintext in every chunk but the last
	storedSize = chunkSize + chacha20poly1305.Overhead // bytes of such a chunk in the file
	nonceSize  = 16                                    // bytes of the payload's nonce, behind the header
	spanChunks = 64                                    // chunks that are read at once, at most
	headCache  = 8 << 10                               // bytes of the front that are read once for header and checks
)

// Plain is the plaintext of one age file that is read at random. It may be used by several goroutines at once; they
// share a buffer of a few MiB each while they read, and one decrypted chunk.
type Plain struct {
	aead    cipher.AEAD
	src     io.ReaderAt // gives marked errors
	payload int64       // where the first chunk begins in the stored file
	stored  int64       // bytes of all chunks
	size    int64       // bytes of plaintext
	sound   bool        // the last chunk is proven: nothing is missing behind it
	spans   sync.Pool   // of *[]byte; got and put by span
	recent  atomic.Pointer[recent]
}

// recent is the chunk that the last read ended in.
type recent struct {
	chunk int64
	data  []byte
}

// OpenAt opens an age file of size bytes in r for reading at random. Header and last chunk are checked here, so the
// size of the plaintext is proven. Armoured files can't be read like this: that error matches errors.ErrUnsupported.
// Other errors are those of Open. r is read until the Plain is no longer used, by several goroutines at once.
func (ids *Identities) OpenAt(r io.ReaderAt, size int64) (*Plain, error) {
	p, key, err := ids.openPayload(r, size)
	if err != nil {
		return nil, err
	}
	_, plain, err := age.DecryptReaderAt(p.src, size, age.NewInjectedFileKeyIdentity(key))
	if err != nil {
		return nil, explain(err, "its end is changed or cut off")
	}
	p.size, p.sound = plain, true
	return p, nil
}

// OpenFrontAt opens a file as OpenAt does, but also one whose end is damaged or cut off: every chunk that is intact can
// be read, wherever it stands, and reading another fails with ErrDamaged. It costs no more than OpenAt. When the end is
// not proven, Size is one byte more than the stored bytes can hold: who reads to the end meets an error, never a short
// file that looks whole. Errors of the header are those of OpenAt: without it nothing can be read.
func (ids *Identities) OpenFrontAt(r io.ReaderAt, size int64) (*Plain, error) {
	p, _, err := ids.openPayload(r, size)
	if err != nil {
		return nil, err
	}
	last := max(0, (p.stored-1)/storedSize)
	p.size = max(p.stored-(last+1)*chacha20poly1305.Overhead, last*chunkSize)
	if p.sound, err = p.provenEnd(last); err != nil {
		return nil, err
	}
	if !p.sound {
		p.size++
	}
	return p, nil
}

// provenEnd tells whether the chunk that is the last by the file's size is intact and marked as the last. An error is
// one of the source.
func (p *Plain) provenEnd(n int64) (bool, error) {
	stored := make([]byte, p.stored-n*storedSize)
	err := readFullAt(p.src, stored, p.payload+n*storedSize)
	if _, failed := errors.AsType[*sourceError](err); failed {
		return false, explain(err, "")
	}
	if err != nil {
		return false, nil
	}
	data, err := p.aead.Open(nil, chunkNonce(n, true), stored, nil)
	return err == nil && (len(data) > 0 || n == 0), nil // only an empty file has an empty chunk
}

// openPayload opens the header and prepares to read the chunks behind it.
func (ids *Identities) openPayload(r io.ReaderAt, size int64) (*Plain, []byte, error) {
	if size < 0 || size > math.MaxInt64-storedSize {
		return nil, nil, damaged(nil, "%d bytes is no size of an age file", size)
	}
	front, err := newFront(source{at: r}, size)
	if err != nil {
		return nil, nil, err
	}
	key, header, err := ids.fileKey(front, size)
	if err != nil {
		return nil, nil, err
	}
	nonce := make([]byte, nonceSize)
	if size-header < nonceSize {
		return nil, nil, damaged(io.ErrUnexpectedEOF, "it is cut off behind the header")
	}
	if err := readFullAt(front, nonce, header); err != nil {
		return nil, nil, explain(err, "its nonce can't be read")
	}
	aead, err := payloadCipher(key, nonce)
	if err != nil {
		return nil, nil, err
	}
	payload := header + nonceSize
	return &Plain{aead: aead, src: front, payload: payload, stored: size - payload}, key, nil
}

// payloadCipher derives the key of the chunks.
func payloadCipher(fileKey, nonce []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, fileKey, nonce, "payload", chacha20poly1305.KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive payload key: %w", err)
	}
	return chacha20poly1305.New(key)
}

// chunkNonce returns the nonce of the n-th chunk.
func chunkNonce(n int64, last bool) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSize)
	for i := range 8 {
		nonce[10-i] = byte(n >> (8 * i))
	}
	if last {
		nonce[11] = 1
	}
	return nonce
}

// Size returns the bytes of plaintext. After OpenFrontAt it may be more than can be read.
func (p *Plain) Size() int64 { return p.size }

// StoredOffset returns where the chunk with the byte at offset plain of the plaintext begins in the stored file.
// Offsets outside the plaintext give the first or the last chunk.
func (p *Plain) StoredOffset(plain int64) int64 {
	return p.payload + max(0, min(plain, p.size-1))/chunkSize*storedSize
}

// ReadAt reads plaintext as io.ReaderAt says. A call reads what it needs of the source in pieces of up to 4 MiB, so it
// is cheap in calls when it is asked for much at once. An error that matches ErrDamaged says where the damage is; what
// was read before it is genuine.
func (p *Plain) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read plaintext at offset %d: offset is negative", off)
	}
	done := 0
	for done < len(b) {
		at := off + int64(done)
		if at < off || at >= p.size {
			return done, io.EOF
		}
		n, err := p.readSpan(b[done:], at)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// readSpan reads plaintext from off, which is inside, up to the end of what one read of the source brings.
func (p *Plain) readSpan(b []byte, off int64) (int, error) {
	b = b[:min(int64(len(b)), p.size-off)]
	first := off / chunkSize
	if r := p.recent.Load(); r != nil && r.chunk == first && off-first*chunkSize < int64(len(r.data)) {
		return copy(b, r.data[off-first*chunkSize:]), nil
	}
	last := min((off+int64(len(b))-1)/chunkSize, first+spanChunks-1)
	begin, end := first*storedSize, min((last+1)*storedSize, p.stored)
	if begin >= end {
		return 0, p.damage(first, io.ErrUnexpectedEOF)
	}
	span := p.span(int(end - begin))
	defer p.spans.Put(span)
	got, err := p.src.ReadAt(*span, p.payload+begin)
	done, rest := 0, (*span)[:got]
	for n := first; n <= last; n++ {
		size := int(min(storedSize, p.stored-n*storedSize))
		if len(rest) < size { // what came before it is as good as ever
			return done, p.missing(n, err)
		}
		got, err := p.openChunk(b[done:], off+int64(done), n, rest[:size])
		done += got
		if err != nil {
			return done, err
		}
		rest = rest[size:]
	}
	return done, nil
}
