package backup

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// watchdog is a reader that cancels the run when no byte came for too long.
type watchdog struct {
	io.Reader
	last  atomic.Int64 // time of the last byte, in nanoseconds since start
	start time.Time
	ended chan struct{}
}

// newWatchdog watches r. With a timeout of 0 it only passes the bytes on.
func newWatchdog(r io.Reader, timeout time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{Reader: r, start: time.Now(), ended: make(chan struct{})}
	if timeout > 0 {
		go w.watch(timeout, cancel)
	}
	return w
}

func (w *watchdog) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.last.Store(int64(time.Since(w.start)))
	}
	return n, err
}

// watch looks as often as it takes to be at most a tenth late.
func (w *watchdog) watch(timeout time.Duration, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(max(timeout/10, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-w.ended:
			return
		case <-ticker.C:
			if idle := time.Since(w.start) - time.Duration(w.last.Load()); idle > timeout {
				cancel(fmt.Errorf("%w: not a byte in %s", ErrStalled, idle.Round(max(timeout/10, time.Millisecond))))
				return
			}
		}
	}
}

// stop ends the watch.
func (w *watchdog) stop() { close(w.ended) }

// limited returns the source, slowed down to the rate that was asked for.
func (r *run) limited(ctx context.Context) io.Reader {
	if r.options.LimitRate <= 0 {
		return r.source
	}
	burst := min(max(r.options.LimitRate/4, leastBurst), mostBurst)
	return &limitedReader{r.source, rate.NewLimiter(rate.Limit(r.options.LimitRate), int(burst)), ctx}
}

// Bytes that are read at once under a limit. What a low limit reads in a quarter of a second must be little, or the wait
// for it looks like a stall.
const (
	leastBurst = 4 << 10
	mostBurst  = 1 << 20
)

// limitedReader reads no faster than its limiter allows, in pieces of at most the limiter's burst.
type limitedReader struct {
	src     io.Reader
	limiter *rate.Limiter
	ctx     context.Context
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.src.Read(p[:min(len(p), l.limiter.Burst())])
	if n > 0 {
		if werr := l.limiter.WaitN(l.ctx, n); werr != nil {
			if cause := context.Cause(l.ctx); cause != nil {
				werr = cause
			}
			return n, werr
		}
	}
	return n, err
}
