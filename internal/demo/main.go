// Command demo shows what mbwrap is for, on a server of its own: it backs up a MariaDB full of generated data, changes
// the data, restores, starts a server on what was restored and compares every table with the moment of the backup.
//
//	go run ./internal/demo --mbwrap ./mbwrap
//
// It needs no root and no configuration, touches no server that runs already, and leaves nothing behind. It ends with
// status 0 only if every table is as it was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/term"

	"github.com/mbwrap/mbwrap/internal/gendata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; nothing is left running")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	program := flag.String("mbwrap", "./mbwrap", "the `program` to show")
	dir := flag.String("dir", "", "make the scratch folder in this `directory` instead of the temporary one")
	keep := flag.Bool("keep", false, "leave the scratch folder behind")
	size := gendata.Size(200_000_000)
	flag.Var(&size, "size", "about how much data, such as 300M")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	path, err := filepath.Abs(*program)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w; build it with: make build", err)
	}
	work, err := os.MkdirTemp(*dir, "mbwrap-demo-")
	if err != nil {
		return err
	}
	if work, err = filepath.Abs(work); err != nil {
		return err
	}
	if err := os.Chmod(work, 0o711); err != nil { // the servers' account must get through
		return err
	}
	fd := int(os.Stdout.Fd())
	s := newScreen(os.Stdout, term.IsTerminal(fd) && os.Getenv("NO_COLOR") == "")
	d := &demo{screen: s, program: path, work: work, size: int64(size)}
	defer func() {
		err = errors.Join(err, d.close())
		if *keep {
			s.note("left behind: %s", work)
			return
		}
		err = errors.Join(err, os.RemoveAll(work))
	}()
	return d.run(ctx)
}
