// Mbwrap takes backups of MariaDB servers that restore. See the package internal/cli for its commands.
package main

import (
	"context"
	"os"
	"runtime/debug"

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
	ctx, stop := cli.WithSignals(context.Background())
	code := cli.Main(ctx, os.Args, cli.System())
	stop()
	os.Exit(code)
}
