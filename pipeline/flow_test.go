package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/pipeline"
)

// zeros is a source without end.
type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	z.read += len(p)
	return len(p), nil
}

// TestSlowSinkBoundsMemory stops the sink: the reader must run into the bound and stay there.
func TestSlowSinkBoundsMemory(t *testing.T) {
	for _, jobs := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("%d workers", jobs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				gate := make(chan struct{})
				s := &shelf{t: t, onWrite: func() {
					select {
					case <-gate:
					case <-ctx.Done():
					}
				}}
				src, slots := new(zeros), 2*jobs+2
				result := make(chan error)
				go func() {
					_, err := pipeline.Pack(ctx, s, src, pipeline.PackOptions{
						Codec: lookup(t, "none"), Jobs: jobs, BlockSize: b})
					result <- err
				}()
				for written := range 5 {
					synctest.Wait()
					if got, want := src.read, (slots+written)*b; got != want {
						t.Errorf("after %d written blocks %d bytes were read, want %d: %d slots and no more",
							written, got, want, slots)
					}
					gate <- struct{}{}
				}
				cancel(errBoom)
				if err := <-result; err != errBoom {
					t.Errorf("got error %v, want %v", err, errBoom)
				}
			})
		})
	}
}

// TestCancelFreesBlockedSource: a source that waits for bytes that do not come is freed by Interrupt.
func TestCancelFreesBlockedSource(t *testing.T) {
	for name, start := range map[string]func(ctx context.Context, t *testing.T, src io.Reader, interrupt func()) error{
		"pack": func(ctx context.Context, t *testing.T, src io.Reader, interrupt func()) error {
			s := &shelf{t: t}
			_, err := pipeline.Pack(ctx, s, src, pipeline.PackOptions{
				Codec: lookup(t, "zstd"), Jobs: 2, BlockSize: b, Interrupt: interrupt})
			s.ended(true)
			return err
		},
		"feed": func(ctx context.Context, _ *testing.T, src io.Reader, interrupt func()) error {
			o := pipeline.FeedOptions{BlockSize: b, Interrupt: interrupt}
			return pipeline.Feed(ctx, src, o, func(r *pipeline.Raw) error { r.Release(); return nil })
		},
	} {
		for _, n := range []int{0, 1, b, 20*b + 1} {
			t.Run(fmt.Sprintf("%s/after %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					src, feed := io.Pipe()
					var interrupt counter
					result := make(chan error)
					go func() {
						result <- start(ctx, t, src, func() {
							interrupt.count()
							feed.CloseWithError(errors.New("interrupted"))
						})
					}()
					if _, err := feed.Write(text(n)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					cancel(errBoom)
					if err := <-result; err != errBoom {
						t.Errorf("got error %v, want %v", err, errBoom)
					}
					interrupt.want(t, 1)
				})
			})
		}
	}
}

// TestFailureFreesBlockedSource: the sink fails while the source waits.
func TestFailureFreesBlockedSource(t *testing.T) {
	defer goleak.VerifyNone(t)
	src, feed := io.Pipe()
	var interrupt counter
	go feed.Write(text(b))
	s := &shelf{t: t, failing: errBoom}
	_, err := pipeline.Pack(t.Context(), s, src, pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b,
		Interrupt: func() {
			interrupt.count()
			feed.CloseWithError(errors.New("interrupted"))
		}})
	if err != errBoom {
		t.Errorf("got error %v, want %v", err, errBoom)
	}
	interrupt.want(t, 1)
}

func TestCancelledBeforeItBegins(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	p := pack(t, text(5*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	if _, err := pipeline.Pack(ctx, &shelf{t: t}, bytes.NewReader(p.raw), pipeline.PackOptions{Codec: p.codec}); err != errBoom {
		t.Errorf("Pack: got error %v, want %v", err, errBoom)
	}
	if _, err := collect(ctx, p.options()); err != errBoom {
		t.Errorf("Unpack: got error %v, want %v", err, errBoom)
	}
	if err := pipeline.Feed(ctx, bytes.NewReader(p.raw), pipeline.FeedOptions{}, func(r *pipeline.Raw) error {
		r.Release()
		return nil
	}); err != errBoom {
		t.Errorf("Feed: got error %v, want %v", err, errBoom)
	}
}

func TestUnpackCancelled(t *testing.T) {
	p := pack(t, text(20*b), pipeline.PackOptions{Codec: lookup(t, "zstd"), BlockSize: b})
	for _, at := range []int64{0, 10 * b, 19 * b} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := pipeline.Unpack(ctx, p.options(), func(r *pipeline.Raw) error {
			defer r.Release()
			if r.Offset == at {
				cancel(errBoom)
			}
			return nil
		})
		if err != errBoom {
			t.Errorf("cancelled at %d: got error %v, want %v", at, err, errBoom)
		}
		goleak.VerifyNone(t)
	}
}

func TestFeed(t *testing.T) {
	for _, size := range []int{0, 1, b - 1, b, b + 1, 2*b + 5, 30*b + 7} {
		for _, failure := range []error{io.EOF, errBoom, io.ErrUnexpectedEOF} {
			for _, apart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d/%v/%v", size, failure, apart), func(t *testing.T) {
					defer goleak.VerifyNone(t)
					raw := text(size)
					var got []byte
					var meter pipeline.Meter
					var interrupt counter
					o := pipeline.FeedOptions{BlockSize: b, Meter: &meter, Interrupt: interrupt.count}
					err := pipeline.Feed(t.Context(), &both{raw, failure, apart}, o, func(r *pipeline.Raw) error {
						defer r.Release()
						if r.Offset != int64(len(got)) {
							t.Errorf("got offset %d, want %d", r.Offset, len(got))
						}
						got = append(got, r.Data...)
						return nil
					})
					if failure == io.EOF {
						if err != nil || !bytes.Equal(got, raw) || meter.Raw.Load() != int64(size) {
							t.Errorf("got %d bytes, %d in the meter, error %v, want %d", len(got), meter.Raw.Load(), err, size)
						}
						interrupt.want(t, 0)
						return
					}
					if err != failure || !bytes.HasPrefix(raw, got) {
						t.Errorf("got error %v after %d bytes, want %v", err, len(got), failure)
					}
					interrupt.want(t, 1)
				})
			}
		}
	}
}

// slow sleeps before each Read; in a synctest bubble that takes no time and is exact.
type slow struct {
	io.Reader
	pause time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.Reader.Read(p)
}

// slowCheck sleeps before each piece.
type slowCheck time.Duration

func (s slowCheck) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(s))
	return len(p), nil
}

// TestMeterTimes scripts where the time goes, in a bubble whose clock moves only while all sleep: the workers' time is
// then zero.
func TestMeterTimes(t *testing.T) {
	const blocks = 40
	for _, test := range []struct {
		name                string
		source, check, sink time.Duration // of each block
		elapsed             time.Duration
		want                pipeline.Times
		bottleneck          string
	}{
		{"source", 10 * time.Millisecond, 0, 0, 410 * time.Millisecond,
			pipeline.Times{Source: 410 * time.Millisecond}, "source"}, // one Read more, for the end
		{"checker", 0, 10 * time.Millisecond, 0, 400 * time.Millisecond,
			pipeline.Times{Check: 400 * time.Millisecond}, "cpu"},
		{"sink", 0, 0, 10 * time.Millisecond, 400 * time.Millisecond,
			// The reader fills all 6 slots at once, then waits for each of the other blocks, and for the end.
			pipeline.Times{Sink: 400 * time.Millisecond, Room: 350 * time.Millisecond}, "sink"},
		{"source and sink", 5 * time.Millisecond, 0, 10 * time.Millisecond, 405 * time.Millisecond,
			pipeline.Times{Source: 205 * time.Millisecond, Sink: 400 * time.Millisecond, Room: 150 * time.Millisecond}, "sink"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var meter pipeline.Meter
				s := &shelf{t: t}
				if test.sink > 0 {
					s.onWrite = func() { time.Sleep(test.sink) }
				}
				start := time.Now()
				_, err := pipeline.Pack(t.Context(), s, slow{bytes.NewReader(make([]byte, blocks*b)), test.source}, pipeline.PackOptions{
					Codec: lookup(t, "none"), Jobs: 2, BlockSize: b, Check: slowCheck(test.check), Meter: &meter})
				if err != nil {
					t.Fatal(err)
				}
				elapsed, got := time.Since(start), meter.Times()
				if elapsed != test.elapsed {
					t.Errorf("it took %v, want %v", elapsed, test.elapsed)
				}
				if test.name == "source and sink" {
					got.Room = test.want.Room // depends on who is first when two wake at once
				}
				if got != test.want {
					t.Errorf("got times %+v, want %+v", got, test.want)
				}
				if got := got.Bottleneck(elapsed, 2); got != test.bottleneck {
					t.Errorf("got bottleneck %q, want %q", got, test.bottleneck)
				}
			})
		})
	}
}

// TestSlowCodecIsTheBottleneck has a codec that really works.
func TestSlowCodecIsTheBottleneck(t *testing.T) {
	var meter pipeline.Meter
	start := time.Now()
	_, err := pipeline.Pack(t.Context(), &shelf{t: t}, bytes.NewReader(text(1<<20)), pipeline.PackOptions{
		Codec: lookup(t, "zstd"), Level: 19, Jobs: 2, BlockSize: 256 << 10, Meter: &meter})
	if err != nil {
		t.Fatal(err)
	}
	elapsed, times := time.Since(start), meter.Times()
	if got := times.Bottleneck(elapsed, 2); got != "cpu" {
		t.Errorf("got bottleneck %q of %+v in %v, want cpu", got, times, elapsed)
	}
	if raw := meter.Raw.Load(); raw != 1<<20 {
		t.Errorf("the meter says %d raw bytes, want %d", raw, 1<<20)
	}
}

// TestMeterCountsCloseOfVolumes: the last volume's fsync may be the longest of all writes.
func TestMeterCountsCloseOfVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var meter pipeline.Meter
		_, err := pipeline.Pack(t.Context(), slowToClose{}, bytes.NewReader(text(3*b)), pipeline.PackOptions{
			Codec: lookup(t, "none"), BlockSize: b, VolumeSize: b, Meter: &meter})
		if got := meter.Times().Sink; err != nil || got != 3*time.Second {
			t.Errorf("got %v in the sink (%v), want 3s", got, err)
		}
	})
}

// slowToClose is volumes that take a second to close.
type slowToClose struct{ io.Writer }

func (slowToClose) Open(int) (pipeline.Volume, error) { return slowToClose{io.Discard}, nil }
func (slowToClose) Abort() error                      { return nil }
func (slowToClose) Close() error                      { time.Sleep(time.Second); return nil }

func TestBottleneck(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name    string
		times   pipeline.Times
		elapsed time.Duration
		jobs    int
		want    string
	}{
		{"nothing known", pipeline.Times{}, 0, 0, "source"},
		{"one worker a core", pipeline.Times{Source: s, Work: 2 * s * time.Duration(runtime.GOMAXPROCS(0))}, 3 * s, 0, "cpu"},
		{"workers share the work", pipeline.Times{Source: 4 * s, Work: 6 * s}, 10 * s, 2, "source"},
		{"workers busy", pipeline.Times{Source: 4 * s, Work: 16 * s}, 10 * s, 2, "cpu"},
		{"one checker", pipeline.Times{Source: 4 * s, Check: 5 * s, Work: 2 * s}, 10 * s, 2, "cpu"},
		{"sink", pipeline.Times{Source: 4 * s, Work: 6 * s, Sink: 9 * s}, 10 * s, 2, "sink"},
		{"sink as busy as the source", pipeline.Times{Source: 9 * s, Sink: 9 * s}, 10 * s, 2, "sink"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.times.Bottleneck(test.elapsed, test.jobs); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
