package encrypt

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"filippo.io/age"
)

// TestReadAtIsAges compares every kind of read with what age's own reader gives.
func TestReadAtIsAges(t *testing.T) {
	to, ids := pair(t, false)
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize + 7, (spanChunks+3)*chunkSize + 11} {
		plain := noise(size, 5)
		sealed := sealAll(t, to, plain)
		p, err := ids.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		theirs, n, err := age.DecryptReaderAt(bytes.NewReader(sealed), int64(len(sealed)), ids.keys()...)
		if err != nil || n != p.Size() || n != int64(size) {
			t.Fatalf("size: got %d, age says %d and error %v, want %d", p.Size(), n, err, size)
		}
		random := rand.New(rand.NewPCG(1, uint64(size)))
		for range 200 {
			off := random.Int64N(int64(size) + 1)
			length := random.IntN(2*chunkSize + 2)
			if random.IntN(10) == 0 {
				length = size
			}
			want := make([]byte, length)
			wantN, _ := theirs.ReadAt(want, off)
			got := make([]byte, length)
			gotN, err := p.ReadAt(got, off)
			if gotN != wantN || !bytes.Equal(got[:gotN], want[:wantN]) || !bytes.Equal(got[:gotN], plain[off:off+int64(gotN)]) {
				t.Fatalf("size %d, %d bytes at %d: got %d bytes, age gives %d", size, length, off, gotN, wantN)
			}
			if wantErr := error(nil); gotN < length && err != io.EOF || gotN == length && err != wantErr {
				t.Fatalf("size %d, %d bytes at %d: got %d bytes and error %v", size, length, off, gotN, err)
			}
		}
	}
}

func TestReadAtEdges(t *testing.T) {
	to, ids := pair(t, false)
	plain := noise(chunkSize+10, 6)
	sealed := sealAll(t, to, plain)
	p, err := ids.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		off    int64
		length int
		n      int
		err    error
	}{
		{"nothing", 0, 0, 0, nil},
		{"nothing behind the end", math.MaxInt64, 0, 0, nil},
		{"all", 0, len(plain), len(plain), nil},
		{"more than all", 0, len(plain) + 1, len(plain), io.EOF},
		{"last byte", int64(len(plain)) - 1, 1, 1, nil},
		{"across the border", chunkSize - 1, 2, 2, nil},
		{"at the end", int64(len(plain)), 1, 0, io.EOF},
		{"behind the end", int64(len(plain)) + 1, 1, 0, io.EOF},
		{"far behind the end", math.MaxInt64 - 1, 10, 0, io.EOF},
	} {
		b := make([]byte, c.length)
		n, err := p.ReadAt(b, c.off)
		if n != c.n || err != c.err {
			t.Errorf("%s: got %d bytes and error %v, want %d and %v", c.name, n, err, c.n, c.err)
		}
		if n > 0 && !bytes.Equal(b[:n], plain[c.off:c.off+int64(n)]) {
			t.Errorf("%s: got other bytes", c.name)
		}
	}
	if n, err := p.ReadAt(make([]byte, 1), -1); n != 0 || err == nil || err == io.EOF {
		t.Errorf("negative offset: got %d bytes and error %v, want an error", n, err)
	}
}

func TestStoredOffset(t *testing.T) {
	to, ids := pair(t, false)
	for _, size := range []int64{0, 1, chunkSize, chunkSize + 1, 3*chunkSize + 5} {
		sealed := sealAll(t, to, noise(int(size), 7))
		p, err := ids.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		last := max(0, size-1) / chunkSize
		header := int64(len(sealed)) - size - (last+1)*16
		for _, plain := range []int64{math.MinInt64, -1, 0, 1, chunkSize - 1, chunkSize, 2*chunkSize + 3, size - 1, size, math.MaxInt64} {
			chunk := min(max(plain, 0)/chunkSize, last)
			if got, want := p.StoredOffset(plain), header+chunk*(chunkSize+16); got != want {
				t.Errorf("size %d, StoredOffset(%d): got %d, want %d", size, plain, got, want)
			}
		}
		// The place is right when a change there is a change of that chunk and of no other.
		if size > chunkSize {
			changed := bytes.Clone(sealed)
			changed[p.StoredOffset(chunkSize)] ^= 1
			if got, err := openAll(ids, changed); len(got) != chunkSize || !errors.Is(err, ErrDamaged) {
				t.Errorf("size %d, second chunk changed: got %d bytes and error %v, want %d and ErrDamaged", size, len(got), err, chunkSize)
			}
		}
	}
}

// counting counts the reads of a source.
type counting struct {
	r     io.ReaderAt
	mu    sync.Mutex
	reads int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.r.ReadAt(p, off)
}

// TestReadAtAsksSeldom: a read of a store far away costs a round trip, so a file is opened with two and a block is one.
func TestReadAtAsksSeldom(t *testing.T) {
	for _, postQuantum := range []bool{false, true} {
		to, ids := pair(t, postQuantum)
		sealed := sealAll(t, to, noise(100*chunkSize, 8))
		src := &counting{r: bytes.NewReader(sealed)}
		p, err := ids.OpenAt(src, int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		if src.reads != 2 {
			t.Errorf("OpenAt: got %d reads, want 2: the front and the last chunk", src.reads)
		}
		src.reads = 0
		if _, err := p.ReadAt(make([]byte, 4<<20), chunkSize*3); err != nil || src.reads != 1 {
			t.Errorf("4 MiB: got %d reads and error %v, want 1", src.reads, err)
		}
		src.reads = 0
		small := io.NewSectionReader(p, 0, 20*chunkSize)
		for b := make([]byte, 4096); ; {
			if _, err := small.Read(b); err != nil {
				break
			}
		}
		if src.reads != 20 {
			t.Errorf("20 chunks by 4 KiB: got %d reads, want one for each chunk", src.reads)
		}
	}
}

func TestReadAtByManyGoroutines(t *testing.T) {
	to, ids := pair(t, false)
	plain := noise(40*chunkSize+99, 9)
	sealed := sealAll(t, to, plain)
	for name, open := range map[string]func(io.ReaderAt, int64) (*Plain, error){"OpenAt": ids.OpenAt, "OpenFrontAt": ids.OpenFrontAt} {
		p, err := open(bytes.NewReader(sealed), int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for worker := range uint64(8) {
			group.Go(func() {
				random := rand.New(rand.NewPCG(2, worker))
				b := make([]byte, 5*chunkSize)
				for range 40 {
					off := random.Int64N(p.Size())
					n, err := p.ReadAt(b[:random.IntN(len(b))], off)
					if err != nil && err != io.EOF || !bytes.Equal(b[:n], plain[off:off+int64(n)]) {
						t.Errorf("%s at %d: got %d bytes and error %v", name, off, n, err)
					}
				}
			})
		}
		group.Wait()
	}
}

func TestOpenAtPassesOnReadErrors(t *testing.T) {
	lost := errors.New("connection lost")
	to, ids := pair(t, false)
	plain := noise(20*chunkSize, 10) // more than the front that is kept
	sealed := sealAll(t, to, plain)
	size := int64(len(sealed))
	for _, at := range []int64{0, 10, 100, headCache - 1, headCache + 1, size - 1} {
		for name, open := range map[string]func(io.ReaderAt, int64) (*Plain, error){"OpenAt": ids.OpenAt, "OpenFrontAt": ids.OpenFrontAt} {
			p, err := open(brokenAt{sealed, at, lost}, size)
			if p != nil || !errors.Is(err, lost) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s, source fails at %d: got %v and error %v, want only %v", name, at, p, err, lost)
			}
		}
	}
	src := &swapped{r: bytes.NewReader(sealed)}
	p, err := ids.OpenAt(src, size)
	if err != nil {
		t.Fatal(err)
	}
	src.r = brokenAt{sealed, p.StoredOffset(5*chunkSize) + 10, lost}
	b := make([]byte, 10*chunkSize)
	n, err := p.ReadAt(b, 100)
	if want := 5*chunkSize - 100; n != want || !errors.Is(err, lost) || errors.Is(err, ErrDamaged) || !bytes.Equal(b[:n], plain[100:100+n]) {
		t.Errorf("got %d bytes and error %v, want the %d before the failure and %v", n, err, want, lost)
	}
	src.r = bytes.NewReader(sealed[:p.StoredOffset(5*chunkSize)+10])
	if n, err := p.ReadAt(b, 100); n != 5*chunkSize-100 || !errors.Is(err, ErrDamaged) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("file got shorter: got %d bytes and error %v, want ErrDamaged", n, err)
	}
}

// swapped is a source that can be changed under its reader.
type swapped struct{ r io.ReaderAt }

func (s *swapped) ReadAt(p []byte, off int64) (int, error) { return s.r.ReadAt(p, off) }

// TestEOFWithTheLastByte: sources may return io.EOF together with the last bytes.
func TestEOFWithTheLastByte(t *testing.T) {
	to, ids := pair(t, false)
	plain := noise(chunkSize+5, 11)
	sealed := sealAll(t, to, plain)
	for _, open := range []func(io.ReaderAt, int64) (*Plain, error){ids.OpenAt, ids.OpenFrontAt} {
		p, err := open(eager{bytes.NewReader(sealed)}, int64(len(sealed)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(io.NewSectionReader(p, 0, p.Size())); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %d bytes and error %v, want %d", len(got), err, len(plain))
		}
	}
}

type eager struct{ *bytes.Reader }

func (e eager) ReadAt(p []byte, off int64) (int, error) {
	n, err := e.Reader.ReadAt(p, off)
	if err == nil && off+int64(n) == e.Size() {
		err = io.EOF
	}
	return n, err
}

// endless is a source of any size: a head, then zeros.
type endless struct{ head []byte }

func (e endless) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(e.head)) {
		copy(p, e.head[off:])
	}
	return len(p), nil
}

// TestHostileSizes: a size near 2^63 costs no memory and overflows nothing.
func TestHostileSizes(t *testing.T) {
	to, ids := pair(t, false)
	sealed := sealAll(t, to, noise(2*chunkSize, 12))
	for _, size := range []int64{math.MinInt64, -1, 0, 1, 16, 100, 215, 216, 217, 231, 232, 233, 1 << 40, math.MaxInt64 - 2*storedSize,
		math.MaxInt64 - storedSize, math.MaxInt64 - storedSize + 1, math.MaxInt64 - 1, math.MaxInt64} {
		for _, src := range []io.ReaderAt{endless{sealed}, bytes.NewReader(sealed)} {
			if _, err := ids.OpenAt(src, size); !errors.Is(err, ErrDamaged) {
				t.Errorf("OpenAt, %d bytes: got error %v, want ErrDamaged", size, err)
			}
			p, err := ids.OpenFrontAt(src, size)
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("OpenFrontAt, %d bytes: got error %v, want ErrDamaged", size, err)
				}
				continue
			}
			checkHostileFront(t, p, size)
		}
	}
}

func checkHostileFront(t *testing.T, p *Plain, size int64) {
	t.Helper()
	if p.Size() <= 0 || p.Size() > size {
		t.Errorf("%d bytes: got size %d, want something below", size, p.Size())
	}
	for _, off := range []int64{0, p.Size() / 2, p.Size() - 1} {
		if at := p.StoredOffset(off); at < 0 || at > size {
			t.Errorf("%d bytes: StoredOffset(%d): got %d, want a place in the file", size, off, at)
		}
	}
	if n, err := p.ReadAt(make([]byte, 10), p.Size()-1); n > 0 || !errors.Is(err, ErrDamaged) {
		t.Errorf("%d bytes: last byte: got %d bytes and error %v, want ErrDamaged", size, n, err)
	}
	if n, err := p.ReadAt(make([]byte, 10), p.Size()); n > 0 || err != io.EOF {
		t.Errorf("%d bytes: end: got %d bytes and error %v, want io.EOF", size, n, err)
	}
}
