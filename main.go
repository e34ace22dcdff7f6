// Mbwrap takes backups of MariaDB servers that restore. See the package internal/cli for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/mbwrap/mbwrap/internal/cli"
)

// gcPercent makes the garbage collector run when the heap has grown by half instead of doubled. What we hold is pooled
// blocks, whose number is fixed, so it costs next to no time, and it keeps the peak of a backup under 128 MiB. GOGC in
// the environment overrides it.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := withSignals(context.Background())
	code := cli.Main(ctx, os.Args, cli.System())
	stop()
	os.Exit(code)
}

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels with a *cli.Signal as its cause. The
// second one ends the process at once, because by then the signals do again what they do by default. A signal that was
// ignored when we started, as nohup does with SIGHUP, stays ignored.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	// Asked for and never read: a write to a pipe whose reader is gone then fails, and is reported, instead of ending us
	// before anything is cleaned up. Unlike with Ignore, our children still get it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case s := <-ch:
			number, _ := s.(syscall.Signal)
			cancel(&cli.Signal{Number: number})
			signal.Stop(ch)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
