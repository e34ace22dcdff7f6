package xbstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// archive makes a small stream for the examples.
func archive() []byte {
	var b bytes.Buffer
	w := xbstream.NewWriter(&b)
	for _, f := range []struct{ path, data string }{{"db/t.frm", "definition"}, {"db/t.MYD", "row 1, row 2"}, {"db/empty.MYD", ""}} {
		if _, err := w.WriteFile(f.path, strings.NewReader(f.data)); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

// lister is a Handler that prints what it is shown.
type lister struct{}

func (lister) Chunk(c *xbstream.Chunk) error {
	_, err := fmt.Printf("%3d %-7v %s, %d bytes\n", c.Start, c.Type, c.Path, c.Size)
	return err
}

func (lister) Data([]byte) error { return nil }

// Check a stream while it is copied somewhere else, and list its chunks.
func ExampleChecker() {
	stream, dst := bytes.NewReader(archive()), io.Discard

	c := xbstream.NewChecker(xbstream.Options{Handler: lister{}, Expect: xbstream.ExpectAny})
	if _, err := io.Copy(io.MultiWriter(c, dst), stream); err != nil {
		log.Fatal(err)
	}
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Stats().Files, "files")
	// Output:
	//   0 payload db/t.frm, 10 bytes
	//  52 end     db/t.frm, 0 bytes
	//  74 payload db/t.MYD, 12 bytes
	// 128 end     db/t.MYD, 0 bytes
	// 150 end     db/empty.MYD, 0 bytes
	// 3 files
}

// A stream that was cut between two chunks looks whole to mbstream.
func ExampleChecker_Close() {
	stream := archive()[:128]

	c := xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
	if _, err := c.Write(stream); err != nil {
		log.Fatal(err)
	}
	err := c.Close()
	fmt.Println(err)
	fmt.Println(errors.Is(err, xbstream.ErrUnended))
	// Output:
	// end of stream at offset 128: 1 without an end: "db/t.MYD"
	// true
}

// Print the payload of one file.
func ExampleReader() {
	r := xbstream.NewReader(bytes.NewReader(archive()))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break // and every rule was kept
		}
		if err != nil {
			log.Fatal(err)
		}
		if h.Path != "db/t.MYD" {
			continue // what is not read is checked all the same
		}
		if _, err := io.Copy(os.Stdout, r); err != nil {
			log.Fatal(err)
		}
	}
	// Output: row 1, row 2
}

// Write a stream that mbstream -x can extract.
func ExampleWriter() {
	var b bytes.Buffer
	w := xbstream.NewWriter(&b)
	if _, err := w.WriteFile("db/t.frm", strings.NewReader("definition")); err != nil {
		log.Fatal(err)
	}
	if err := w.WriteHeader(&xbstream.Header{Type: xbstream.TypeRename, Path: "db/t.frm", NewPath: "db/u.frm"}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes, from %q\n", b.Len(), b.Bytes()[:10])
	// Output: 108 bytes, from "XBSTCK01\x00P"
}

func ExampleCheckPath() {
	for _, path := range []string{"db/t.ibd", "../etc/passwd", "/etc/passwd", "db//t.ibd"} {
		fmt.Println(path, xbstream.CheckPath(path))
	}
	// Output:
	// db/t.ibd <nil>
	// ../etc/passwd path has an empty, "." or ".." element
	// /etc/passwd path is absolute
	// db//t.ibd path has an empty, "." or ".." element
}
