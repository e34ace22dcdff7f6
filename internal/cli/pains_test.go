package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// rawChunk appends one chunk of an xbstream to dst, whatever its path: the writer of the format's own package refuses
// what these tests need. kind is P for a payload, E for the end of a file.
func rawChunk(dst []byte, kind byte, path string, offset uint64, payload []byte) []byte {
	dst = append(dst, "XBSTCK01\x00"...)
	dst = append(dst, kind)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(path)))
	dst = append(dst, path...)
	if kind != 'P' {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, offset)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(payload))
	return append(dst, payload...)
}

// scriptRawStream writes chunks into FILE:
//
//	rawstream FILE ITEM…
//
// where an ITEM is P:PATH:SIZE (a payload of SIZE letters at offset 0), E:PATH (the end of that file), PATH (a whole
// small file) or meta (the files that close a full backup).
func scriptRawStream(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "rawstream FILE ITEM…")
	var out []byte
	for _, item := range args[1:] {
		parts := strings.Split(item, ":")
		switch {
		case item == "meta":
			var whole strings.Builder
			ts.Check(writeStream(&whole, streamSpec{tables: 0, to: 47751}))
			// ibdata1 and ib_logfile0 come first; what is wanted begins with the checkpoints.
			i := strings.Index(whole.String(), "xtrabackup_checkpoints") - len("XBSTCK01\x00P") - 4
			out = append(out, whole.String()[i:]...)
		case len(parts) == 3:
			n, err := strconv.Atoi(parts[2])
			ts.Check(err)
			out = rawChunk(out, parts[0][0], parts[1], 0, []byte(strings.Repeat("x", n)))
		case len(parts) == 2:
			out = rawChunk(out, parts[0][0], parts[1], 0, nil)
		default:
			out = rawChunk(out, 'P', item, 0, []byte("content of "+item+"\n"))
			out = rawChunk(out, 'E', item, 0, nil)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o600))
}

// scriptNoFiles wants no file of any kind below the directories, which may be absent.
func scriptNoFiles(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "nofiles DIR…")
	for _, dir := range args {
		err := filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = fmt.Errorf("%s: got %s, want no file there", dir, path)
			}
			return err
		})
		if !errors.Is(err, fs.ErrNotExist) {
			ts.Check(err)
		}
	}
}

// scriptGone waits until the process whose number a file holds has ended. Without the file it has never got so far.
func scriptGone(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "gone PIDFILE")
	if _, err := os.Stat(ts.MkAbs(args[0])); errors.Is(err, fs.ErrNotExist) {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	for start := time.Now(); time.Since(start) < patience; time.Sleep(5 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || isZombie(pid) {
			return
		}
	}
	ts.Fatalf("process %d: still there after %v", pid, patience)
}

// isZombie tells whether a process has ended and only waits to be reaped, by an init that may be slow.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// scriptTimer fails unless less than the given time has passed since it was called without one.
func scriptTimer(ts *testscript.TestScript, neg bool, args []string) {
	clock := ts.Value(clockKey{}).(*time.Time)
	if len(args) == 0 {
		*clock = time.Now()
		return
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	if took := time.Since(*clock); took > limit {
		ts.Fatalf("got %v, want at most %v", took, limit)
	}
}

type clockKey struct{}

// scriptHookServer starts an HTTP server on loopback that appends the bodies of requests to NAME.body and their methods,
// paths and content types to NAME.req, and answers with STATUS. Its address becomes $NAME.
func scriptHookServer(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "hookserver NAME STATUS")
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	var mu sync.Mutex
	record := func(name, text string) {
		mu.Lock()
		defer mu.Unlock()
		f, err := os.OpenFile(ts.MkAbs(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		record(args[0]+".body", string(body)+"\n")
		record(args[0]+".req", r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+"\n")
		if status >= 300 && status < 400 {
			w.Header().Set("Location", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}
