// Command bench measures mbwrap beside the programs that people use in its place, on streams of a real server, in one
// run on one machine, and checks the promises made about its speed, size and memory.
//
//	go run ./internal/bench --mbwrap ./mbwrap --write docs/benchmarks.md
//
// Every contender reads the same file from the page cache on standard input and writes a file on the same disk; only
// dirty pages of the one before are flushed in between. Contenders take turns, and the median of their runs counts.
// The command ends with status 1 if a promise is not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/mbwrap/mbwrap/internal/gendata"
)

// errBroken says that a promise was not kept.
var errBroken = errors.New("a promise is not kept")

func main() {
	if len(os.Args) > 1 && os.Args[1] == generateCommand {
		if err := generate(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	mbwrap      string
	dir         string
	write       string
	size        gendata.Size // of the real streams
	small, huge gendata.Size // of the generated streams
	runs        int
	only        string // the part to measure, "" for all
}

func parse() (*options, error) {
	o := &options{size: 800 << 20, small: 1 << 30, huge: 20 << 30}
	flag.StringVar(&o.mbwrap, "mbwrap", "./mbwrap", "the `program` to measure")
	flag.StringVar(&o.dir, "dir", "", "work in a scratch folder in this `directory` instead of the temporary one")
	flag.StringVar(&o.write, "write", "", "write the report to this Markdown `file` too")
	flag.Var(&o.size, "size", "about how large each real stream is, such as 800M")
	flag.Var(&o.small, "small", "the smaller generated stream of the memory test")
	flag.Var(&o.huge, "huge", "the larger generated stream of the memory test")
	flag.IntVar(&o.runs, "runs", 3, "runs of each contender; those that take over 20 seconds run once")
	flag.StringVar(&o.only, "only", "", "measure one `part`: pack, cost, seal, restore or memory; the report of a part is not written")
	flag.Parse()
	if flag.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if err := o.checkOnly(); err != nil {
		return nil, err
	}
	var err error
	o.mbwrap, err = filepath.Abs(o.mbwrap)
	return o, err
}

// checkOnly refuses parts that there are not.
func (o *options) checkOnly() error {
	names := []string{"", partMemory}
	for _, p := range (&bench{}).parts() {
		names = append(names, p.name)
	}
	if !slices.Contains(names, o.only) {
		return fmt.Errorf("--only: there is no part %q", o.only)
	}
	if o.only != "" && o.write != "" {
		return errors.New("--only and --write exclude each other: the report is about everything")
	}
	return nil
}

func run(ctx context.Context) (err error) {
	o, err := parse()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "mbwrap-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b := &bench{options: o, work: work, out: os.Stdout}
	if err := b.run(ctx); err != nil {
		return err
	}
	if o.write != "" {
		if err := os.WriteFile(o.write, b.markdown(), 0o644); err != nil {
			return err
		}
	}
	if b.broken() > 0 {
		return fmt.Errorf("%w: %d of %d", errBroken, b.broken(), len(b.promises))
	}
	return nil
}
