// Command genstream writes a generated backup stream to standard output, for scripts that need one without a server.
//
//	go run ./internal/gendata/genstream --kind tpcc --size 100M | zstd -1 >stream.zst
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/mbwrap/mbwrap/internal/gendata"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "genstream:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("kind", string(gendata.Sysbench), "`kind` of data: sysbench or tpcc")
	size := gendata.Size(100 << 20)
	flag.Var(&size, "size", "about how many bytes, such as 64M or 20G")
	seed := flag.Uint64("seed", 1, "the same `number` gives the same bytes")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	kind, err := gendata.ParseKind(*name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := gendata.WriteStream(out, kind, int64(size), *seed); err != nil {
		return err
	}
	return out.Flush()
}
