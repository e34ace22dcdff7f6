package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
)

// stream is a backup stream of a real server, kept in a file.
type stream struct {
	kind gendata.Kind
	path string
	size int64
	rows int

	plain, qpress *contender // mariadb-backup itself, without and with --compress
}

// takeStream makes a server full of data of one kind, takes its stream, and measures what the tool's own compression
// costs on top.
func (b *bench) takeStream(ctx context.Context, kind gendata.Kind) (*stream, error) {
	server := &scratch.Server{Dir: filepath.Join(b.work, "server-"+string(kind)), Args: []string{
		"--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
	}}
	if err := server.Init(ctx); err != nil {
		return nil, err
	}
	defer os.RemoveAll(server.Dir)
	s := &stream{kind: kind, path: filepath.Join(b.work, string(kind)+".xbs")}
	o := gendata.Options{Seed: 1, OnTable: func(_ string, rows int) { s.rows += rows }}
	if kind == gendata.Sysbench {
		o.Sysbench = int64(b.options.size)
	} else {
		o.TPCC = int64(b.options.size)
	}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	if err := gendata.Load(ctx, server.DB(), o); err != nil {
		return nil, fmt.Errorf("%w (stop: %v)", err, server.Stop())
	}
	// A clean restart writes all pages, so that the stream holds tablespaces and not the log of the load.
	if err := server.Stop(); err != nil {
		return nil, err
	}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	err := b.runTool(ctx, s, server)
	if stopErr := server.Stop(); err == nil {
		err = stopErr
	}
	return s, err
}

// runTool takes the stream, plainly and with the tool's own compression, in turns.
func (b *bench) runTool(ctx context.Context, s *stream, server *scratch.Server) error {
	tool, err := mariadb.FindTool("")
	if err != nil {
		return err
	}
	b.tool = tool
	argv := []string{tool, "--no-defaults", "--backup", "--stream=mbstream", "--user=root", "--socket=" + server.Socket(),
		"--target-dir=" + b.work, "--parallel=2"}
	compress := append(append([]string(nil), argv...), "--compress", "--compress-threads=2")
	run := func(argv []string, out string) func(context.Context) (sample, error) {
		return func(ctx context.Context) (sample, error) { return measure(ctx, command{argv: argv, out: out}) }
	}
	s.plain = &contender{name: "mariadb-backup", run: run(argv, s.path)}
	s.qpress = &contender{name: "mariadb-backup --compress", run: run(compress, b.path("out"))}
	if err := race(ctx, []*contender{s.plain, s.qpress}, b.options.runs, b.progress); err != nil {
		return err
	}
	s.size = s.plain.samples[len(s.plain.samples)-1].size
	return nil
}

// generateCommand makes this program write a generated stream to standard output. A process of its own keeps the
// generator's memory out of what is measured: a child's largest resident set starts as that of its parent.
const generateCommand = "generate-stream"

func generate(args []string) error {
	var size gendata.Size
	if len(args) != 1 {
		return fmt.Errorf("%s: want a size", generateCommand)
	}
	if err := size.Set(args[0]); err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := gendata.WriteStream(out, gendata.TPCC, int64(size), 1); err != nil {
		return err
	}
	return out.Flush()
}
