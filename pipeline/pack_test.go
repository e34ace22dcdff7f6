package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestByteForByte is the invariant: decoded blocks, concatenated, are the source, and the stored bytes do not depend on
// how the source's bytes arrive or on the number of workers.
func TestByteForByte(t *testing.T) {
	steps := []struct {
		name string
		wrap func(io.Reader) io.Reader
	}{
		{"all", func(r io.Reader) io.Reader { return r }},
		{"half", iotest.HalfReader},
		{"data with error", iotest.DataErrReader},
		{"one byte", iotest.OneByteReader},
	}
	for _, name := range codec.Names() {
		for _, size := range []int{0, 1, b - 1, b, b + 1, 2*b + 5, 10*b + 7} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				raw := text(size)
				first := pack(t, raw, pipeline.PackOptions{Codec: lookup(t, name), Jobs: 1, BlockSize: b, VolumeSize: 3 * b})
				checkBlocks(t, first)
				checkRoundTrip(t, first)
				for _, jobs := range []int{1, 2, 8} {
					for _, step := range steps {
						s := &shelf{t: t}
						_, err := pipeline.Pack(t.Context(), s, step.wrap(bytes.NewReader(raw)), pipeline.PackOptions{
							Codec: lookup(t, name), Jobs: jobs, BlockSize: b, VolumeSize: 3 * b})
						if err != nil {
							t.Fatalf("%d workers, steps of %s: %v", jobs, step.name, err)
						}
						if !bytes.Equal(s.stored(), first.stored()) || len(s.volumes) != len(first.volumes) {
							t.Errorf("%d workers, steps of %s: %d bytes in %d volumes, not the %d in %d of one worker",
								jobs, step.name, len(s.stored()), len(s.volumes), len(first.stored()), len(first.volumes))
						}
					}
				}
			})
		}
	}
}

// checkBlocks compares the blocks that were reported with the volumes and with the source.
func checkBlocks(t *testing.T, p *packed) {
	t.Helper()
	p.ended(false)
	d, err := p.codec.NewDecompressor()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var raw, stored int64
	at := pipeline.Block{}
	for i, block := range p.blocks {
		if block.Volume != at.Volume {
			at.Volume, at.Stored = at.Volume+1, 0
		}
		if block.Raw != at.Raw || block.Volume != at.Volume || block.Stored != at.Stored {
			t.Fatalf("block %d is at raw %d, volume %d, offset %d; want %d, %d, %d",
				i, block.Raw, block.Volume, block.Stored, at.Raw, at.Volume, at.Stored)
		}
		frame := p.volumes[block.Volume-1].Bytes()[block.Stored : block.Stored+block.StoredSize]
		part, err := d.Append(nil, frame, int(block.RawSize))
		if want := p.raw[block.Raw : block.Raw+block.RawSize]; err != nil || !bytes.Equal(part, want) {
			t.Fatalf("block %d decodes to %d bytes (%v), want %d", i, len(part), err, len(want))
		}
		if want := pipeline.Checksum(part); block.CRC != want {
			t.Errorf("block %d: crc %08x, want %08x", i, block.CRC, want)
		}
		at.Raw, at.Stored = block.Raw+block.RawSize, block.Stored+block.StoredSize
		raw, stored = raw+block.RawSize, stored+block.StoredSize
	}
	if int(raw) != len(p.raw) || int(stored) != len(p.stored()) {
		t.Errorf("blocks hold %d raw and %d stored bytes, want %d and %d", raw, stored, len(p.raw), len(p.stored()))
	}
	want := pipeline.PackResult{RawSize: raw, StoredSize: stored, Blocks: int64(len(p.blocks)), Volumes: len(p.volumes)}
	if p.result != want {
		t.Errorf("got result %+v, want %+v", p.result, want)
	}
}

// checkRoundTrip decodes p with Unpack, and its volumes with the codec's sequential reader.
func checkRoundTrip(t *testing.T, p *packed) {
	t.Helper()
	if got, err := collect(t.Context(), p.options()); err != nil || !bytes.Equal(got, p.raw) {
		t.Fatalf("unpacked %d bytes (%v), want the %d of the source", len(got), err, len(p.raw))
	}
	if len(p.raw) == 0 {
		return
	}
	r, err := p.codec.NewReader(bytes.NewReader(p.stored()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, p.raw) {
		t.Fatalf("the concatenated volumes decode to %d bytes (%v), want %d", len(got), err, len(p.raw))
	}
}

// TestChecksumIsCRC32C holds Block.CRC to the check value of the polynomial.
func TestChecksumIsCRC32C(t *testing.T) {
	if got := pipeline.Checksum([]byte("123456789")); got != 0xE3069283 {
		t.Errorf("got %08x, want e3069283", got)
	}
}

// TestVolumesAreOrdinaryFiles decodes each volume, and all of them in a row, with the stock programs.
func TestVolumesAreOrdinaryFiles(t *testing.T) {
	for _, name := range []string{"zstd", "gzip", "lz4"} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Need(t, name)
			p := pack(t, text(20*b+11), pipeline.PackOptions{Codec: lookup(t, name), BlockSize: b, VolumeSize: 3 * b})
			if len(p.volumes) < 3 {
				t.Fatalf("got %d volumes, want several", len(p.volumes))
			}
			var apart []byte
			for _, v := range p.volumes {
				apart = append(apart, run(t, v.Bytes(), program, "-dc")...)
			}
			if !bytes.Equal(apart, p.raw) || !bytes.Equal(run(t, p.stored(), program, "-dc"), p.raw) {
				t.Error("the volumes do not decode to the source")
			}
		})
	}
}

// run returns what a program makes of a file with that content.
func run(t *testing.T, stdin []byte, program string, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(file, stdin, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return out
}

func TestVolumes(t *testing.T) {
	const n = 5*b + 1 // six blocks; the codec "none" makes sizes exact
	for _, test := range []struct {
		name string
		size int64 // of volumes
		want []int // bytes in each
	}{
		{"one volume", 0, []int{n}},
		{"larger than all", n + 1, []int{n}},
		{"exactly all", n, []int{n}},
		{"two blocks", 2 * b, []int{2 * b, 2 * b, b + 1}},
		{"one byte less than two blocks", 2*b - 1, []int{b, b, b, b, b + 1}},
		{"one block", b, []int{b, b, b, b, b, 1}},
		{"less than a block", 1, []int{b, b, b, b, b, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pack(t, noise(n), pipeline.PackOptions{Codec: lookup(t, "none"), BlockSize: b, VolumeSize: test.size})
			var got []int
			for _, v := range p.volumes {
				got = append(got, v.Len())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got volumes of %v bytes, want %v", got, test.want)
			}
			checkBlocks(t, p)
			checkRoundTrip(t, p)
		})
	}
}

func TestEmptySourceOpensNothing(t *testing.T) {
	p := pack(t, nil, pipeline.PackOptions{Codec: lookup(t, "zstd")})
	if len(p.volumes) != 0 || p.result != (pipeline.PackResult{}) {
		t.Errorf("got %d volumes and %+v, want none", len(p.volumes), p.result)
	}
}

// recorder is a checker that keeps what it saw.
type recorder struct {
	bytes.Buffer
	fails int // bytes after which Write fails; 0: never
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.fails > 0 && r.Len()+len(p) >= r.fails {
		return 0, errBoom
	}
	return r.Buffer.Write(p)
}

func TestCheckSeesEveryByte(t *testing.T) {
	raw := text(7*b + 3)
	for _, jobs := range []int{1, 8} {
		seen := new(recorder)
		pack(t, raw, pipeline.PackOptions{Codec: lookup(t, "zstd"), Jobs: jobs, BlockSize: b, Check: seen})
		if !bytes.Equal(seen.Bytes(), raw) {
			t.Errorf("%d workers: the checker saw %d bytes, not the source", jobs, seen.Len())
		}
	}
}

// TestPackFails lets each part fail; every time the error must come through, the open volume be aborted, the source be
// interrupted once, and nothing be left running.
func TestPackFails(t *testing.T) {
	const size = 9*b + 9
	for _, test := range []struct {
		name  string
		set   func(*shelf, *pipeline.PackOptions)
		want  error
		close bool // the last volume was closed, not aborted
	}{
		{"open of the first", func(s *shelf, o *pipeline.PackOptions) { s.openFails = 1 }, errBoom, false},
		{"open of the second", func(s *shelf, o *pipeline.PackOptions) { s.openFails = 2 }, errBoom, true},
		{"write of the first byte", func(s *shelf, o *pipeline.PackOptions) { s.failing = errBoom }, errBoom, false},
		{"write within a block", func(s *shelf, o *pipeline.PackOptions) { s.failing, s.writeFails = errBoom, 5*b+5 }, errBoom, false},
		{"write of the last byte", func(s *shelf, o *pipeline.PackOptions) { s.failing, s.writeFails = errBoom, size-1 }, errBoom, false},
		{"short write", func(s *shelf, o *pipeline.PackOptions) { s.short = true }, io.ErrShortWrite, false},
		{"close of the first", func(s *shelf, o *pipeline.PackOptions) { s.closeFails = 1 }, errBoom, true},
		{"close of the last", func(s *shelf, o *pipeline.PackOptions) { s.closeFails = 4 }, errBoom, true},
		{"check of the first byte", func(s *shelf, o *pipeline.PackOptions) { o.Check = &recorder{fails: 1} }, errBoom, false},
		{"check of the last byte", func(s *shelf, o *pipeline.PackOptions) { o.Check = &recorder{fails: size} }, errBoom, false},
	} {
		for _, jobs := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%s/%d", test.name, jobs), func(t *testing.T) {
				defer goleak.VerifyNone(t)
				var interrupt counter
				s := &shelf{t: t}
				o := pipeline.PackOptions{Codec: lookup(t, "none"), Jobs: jobs, BlockSize: b, VolumeSize: 3 * b,
					Interrupt: interrupt.count}
				test.set(s, &o)
				_, err := pipeline.Pack(t.Context(), s, bytes.NewReader(noise(size)), o)
				if !errors.Is(err, test.want) {
					t.Errorf("got error %v, want %v", err, test.want)
				}
				interrupt.want(t, 1)
				s.ended(!test.close)
			})
		}
	}
}

// TestFailedAbortIsTold: what is left behind must not be hidden by the first error.
func TestFailedAbortIsTold(t *testing.T) {
	left := errors.New("left behind")
	s := &shelf{t: t, failing: errBoom, writeFails: b, abortError: left}
	_, err := pipeline.Pack(t.Context(), s, bytes.NewReader(text(9*b)), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	if !errors.Is(err, errBoom) || !errors.Is(err, left) {
		t.Errorf("got error %v, want both %v and %v", err, errBoom, left)
	}
}

// TestSourceFails: an error of the source fails the Pack wherever it comes, alone or together with bytes. Only a bare
// io.EOF is an end.
func TestSourceFails(t *testing.T) {
	wrapped := fmt.Errorf("tool: %w", io.EOF)
	for _, failure := range []error{errBoom, io.ErrUnexpectedEOF, wrapped} {
		for _, n := range []int{0, 1, b - 1, b, b + 1, 3*b - 1, 3 * b, 9*b + 5} {
			for _, apart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/%v", failure, n, apart), func(t *testing.T) {
					defer goleak.VerifyNone(t)
					var interrupt counter
					s, seen := &shelf{t: t}, new(recorder)
					raw := text(n)
					_, err := pipeline.Pack(t.Context(), s, &both{raw, failure, apart}, pipeline.PackOptions{
						Codec: lookup(t, "zstd"), Jobs: 2, BlockSize: b, Check: seen, Interrupt: interrupt.count})
					if err != failure { // the very error: whoever made it knows best what to say
						t.Errorf("got error %v, want %v", err, failure)
					}
					if !bytes.Equal(seen.Bytes(), raw) {
						t.Errorf("the checker saw %d bytes, want the %d before the error", seen.Len(), n)
					}
					interrupt.want(t, 1)
					s.ended(true)
				})
			}
		}
	}
}

// TestSourceOutranksCheck: a source that failed is why the stream looks wrong.
func TestSourceOutranksCheck(t *testing.T) {
	for _, test := range []struct {
		source, want error
	}{{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF}, {io.EOF, errBoom}} {
		_, err := pipeline.Pack(t.Context(), &shelf{t: t}, &both{text(10), test.source, false}, pipeline.PackOptions{
			Codec: lookup(t, "zstd"), Check: &recorder{fails: 5}})
		if err != test.want {
			t.Errorf("source ends with %v: got error %v, want %v", test.source, err, test.want)
		}
	}
}

// stuck returns no bytes and no error.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestSourceWithoutProgress(t *testing.T) {
	_, err := pipeline.Pack(t.Context(), &shelf{t: t}, stuck{}, pipeline.PackOptions{Codec: lookup(t, "zstd")})
	if err != io.ErrNoProgress {
		t.Errorf("got error %v, want %v", err, io.ErrNoProgress)
	}
}

func TestPackRefuses(t *testing.T) {
	zstd := lookup(t, "zstd")
	for _, test := range []struct {
		name    string
		options pipeline.PackOptions
	}{
		{"no codec", pipeline.PackOptions{}},
		{"blocks too small", pipeline.PackOptions{Codec: zstd, BlockSize: pipeline.MinBlockSize - 1}},
		{"blocks too large", pipeline.PackOptions{Codec: zstd, BlockSize: pipeline.MaxBlockSize + 1}},
		{"negative block size", pipeline.PackOptions{Codec: zstd, BlockSize: -1}},
		{"negative volume size", pipeline.PackOptions{Codec: zstd, VolumeSize: -1}},
		{"level out of range", pipeline.PackOptions{Codec: zstd, Level: 99, Jobs: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var interrupt counter
			test.options.Interrupt = interrupt.count
			src := bytes.NewReader(text(b))
			s := &shelf{t: t}
			if _, err := pipeline.Pack(t.Context(), s, src, test.options); err == nil {
				t.Error("got no error")
			}
			if src.Len() != b || len(s.volumes) > 0 {
				t.Error("it began before it refused")
			}
			interrupt.want(t, 0)
		})
	}
}

func TestInterruptIsNotCalledOnSuccess(t *testing.T) {
	var interrupt counter
	pack(t, text(5*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b, Interrupt: interrupt.count})
	interrupt.want(t, 0)
	err := pipeline.Feed(t.Context(), bytes.NewReader(text(5*b)), pipeline.FeedOptions{Interrupt: interrupt.count},
		func(r *pipeline.Raw) error { r.Release(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	interrupt.want(t, 0)
}

// TestCancelWins: a context that ends before a Pack has finished fails it with its cause, even when no part noticed.
func TestCancelWins(t *testing.T) {
	for _, at := range []int64{0, 3 * b, 5 * b} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var interrupt counter
		s := &shelf{t: t}
		_, err := pipeline.Pack(ctx, s, bytes.NewReader(text(6*b)), pipeline.PackOptions{
			Codec: lookup(t, "none"), BlockSize: b, Interrupt: interrupt.count, OnBlock: func(block pipeline.Block) {
				if block.Raw == at {
					cancel(errBoom)
				}
			}})
		if err != errBoom {
			t.Errorf("cancelled at %d: got error %v, want %v", at, err, errBoom)
		}
		interrupt.want(t, 1)
		s.ended(true)
	}
}

// TestFirstErrorWins: neither the cancel that a failure brings about nor what Interrupt makes of the source hides it.
func TestFirstErrorWins(t *testing.T) {
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		src, feed := io.Pipe()
		go feed.Write(text(3 * b))
		s := &shelf{t: t, failing: errBoom, writeFails: b}
		_, err := pipeline.Pack(ctx, s, src, pipeline.PackOptions{Codec: lookup(t, "none"), Jobs: 1, BlockSize: b,
			Interrupt: func() {
				cancel()
				feed.CloseWithError(errors.New("interrupted"))
			}})
		if err != errBoom {
			t.Fatalf("got error %v, want %v", err, errBoom)
		}
	}
}
