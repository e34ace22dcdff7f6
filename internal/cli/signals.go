package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels with a *Signal as its cause. The second
// one ends the process at once, because by then the signals do again what they do by default. A signal that was
// ignored when the program started, as nohup does with SIGHUP, stays ignored. The caller must call stop.
//
// A write to a pipe whose reader is gone fails from now on, so that it is reported, instead of ending the process before
// anything is cleaned up.
func WithSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	// Asked for and never read. Unlike with signal.Ignore, child processes still get it.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		select {
		case s := <-ch:
			number, _ := s.(syscall.Signal)
			cancel(&Signal{Number: number})
			signal.Stop(ch)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		signal.Stop(ch)
		signal.Stop(pipe)
	}
}
