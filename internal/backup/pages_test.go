package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/innodb"
	"github.com/mbwrap/mbwrap/internal/gendata"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/xbstream"
)

// flip is a byte that is changed in a file of a stream.
type flip struct {
	path   string
	offset int64
}

// flipped rewrites a stream with other bytes in it, and with the checksums that then belong to its chunks: as a server
// would send it whose file is damaged.
func flipped(t *testing.T, data []byte, flips ...flip) []byte {
	t.Helper()
	r := xbstream.NewReader(bytes.NewReader(data))
	var out bytes.Buffer
	w := xbstream.NewWriter(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		payload, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flips {
			if at := f.offset - h.Offset; f.path == h.Path && at >= 0 && at < h.Size {
				payload[at] ^= 1
			}
		}
		h.CRC = crc32.ChecksumIEEE(payload)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(payload); err != nil {
			t.Fatal(err)
		}
	}
}

// generated returns a generated stream.
func generated(t testing.TB, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := gendata.WriteStream(&out, gendata.Sysbench, size, 1); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const pageSize = 16 << 10

// TestBadPages: damaged pages don't stop the backup. Its manifest counts them, the result and the log name them.
func TestBadPages(t *testing.T) {
	t.Parallel()
	whole := generated(t, 4<<20)
	one, three := []flip{{"sbtest/sbtest2.ibd", 7*pageSize + 5000}}, []flip{{"sbtest/sbtest1.ibd", 3*pageSize + 40},
		{"sbtest/sbtest1.ibd", 5 * pageSize}, {"sbtest/sbtest3.ibd", 60*pageSize - 1}}
	tests := map[string]struct {
		flips   []flip
		check   bool
		warning string
		details []string // beginnings
	}{
		"none":           {check: true},
		"not looked for": {flips: three},
		"one": {flips: one, check: true, warning: "1 page of 1 tablespace has a wrong checksum",
			details: []string{`table "sbtest.sbtest2" (sbtest/sbtest2.ibd), page 7, at byte 114688 of the file: `}},
		"three": {flips: three, check: true, warning: "3 pages of 2 tablespaces have wrong checksums",
			details: []string{`table "sbtest.sbtest1" (sbtest/sbtest1.ibd), page 3, at byte 49152 of the file: `,
				`table "sbtest.sbtest1" (sbtest/sbtest1.ibd), page 5, at byte 81920 of the file: `,
				`table "sbtest.sbtest3" (sbtest/sbtest3.ibd), page 59, at byte 966656 of the file: `}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := flipped(t, whole, test.flips...)
			r := repository(t, newMemory())
			to, ids := operator(t)
			o := options(t, play(data))
			o.CheckPages, o.Recipients, o.BlockSize = test.check, to, 100<<10 // pages lie across the borders of blocks
			result, err := Run(t.Context(), target(r), o)
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.Find(t.Context(), "db1", catalog.Latest)
			if err != nil {
				t.Fatal(err)
			}
			checkWarned(t, b, test.warning)
			checkBeginnings(t, result.Details, test.details)
			if got := readBack(t, b, ids); got != string(data) {
				t.Error("the stream did not come back as it was")
			}
			log := sealedLog(t, b)
			for _, d := range result.Details {
				if !strings.Contains(log, "mbwrap: "+d+"\n") {
					t.Errorf("the log has no %q: %s", d, log)
				}
			}
			if got, want := result.Pages.Pages > 200, test.check; got != want || result.Pages.Bad != int64(len(test.details)) {
				t.Errorf("got %+v", result.Pages)
			}
		})
	}
}

// checkWarned wants the warning, if any, and no other.
func checkWarned(t *testing.T, b *catalog.Backup, warning string) {
	t.Helper()
	state, want := catalog.Complete, []string(nil)
	if warning != "" {
		state, want = catalog.Warning, []string{warning}
	}
	if b.State != state || !slices.Equal(b.Manifest.Warnings, want) {
		t.Errorf("got state %s and warnings %q, want %s and %q", b.State, b.Manifest.Warnings, state, want)
	}
}

func checkBeginnings(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("details:\ngot  %q\nwant %q", got, want)
	}
}

// sealedLog returns what the log of an unlocked backup says.
func sealedLog(t *testing.T, b *catalog.Backup) string {
	t.Helper()
	object, err := b.OpenPlain(t.Context(), b.Manifest.Log.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	return plain(t, io.NewSectionReader(object, 0, object.Size()))
}

// TestManyBadPages: a ruined server fills neither memory nor the screen.
func TestManyBadPages(t *testing.T) {
	t.Parallel()
	p := newPages()
	for i := range 3 * maxPages {
		for range 50 {
			p.note(innodb.Page{Path: fmt.Sprintf("shop/t%03d.ibd", i), Table: fmt.Sprintf("shop.t%03d", i), Message: "m"})
		}
	}
	p.note(innodb.Page{Path: "ibdata1"})
	details := p.details()
	if p.total != 3*maxPages*50+1 || len(p.bad) != 3*maxPages+1 || len(details) != 2*maxPages+1 {
		t.Errorf("got %d pages of %d tablespaces in %d lines", p.total, len(p.bad), len(details))
	}
	for i, want := range map[int]string{
		0: `table "shop.t000" (shop/t000.ibd), page 0, at byte 0 of the file: m`, maxPages: `file "ibdata1" has 1 bad page more`,
		maxPages + 1: `file "shop/t002.ibd" has 50 bad pages more`, 2 * maxPages: `199 files more have bad pages`,
	} {
		if details[i] != want {
			t.Errorf("line %d: got %q, want %q", i, details[i], want)
		}
	}
}

// brokenChecker is a page checker that fails in one of its calls.
type brokenChecker struct{ in, how string }

func (b brokenChecker) call(name string) error {
	switch {
	case name != b.in:
		return nil
	case b.how == "error":
		return errors.New("lost in shop/secret.ibd")
	}
	panic("no such page")
}

func (b brokenChecker) Chunk(*xbstream.Chunk) error { return b.call("chunk") }
func (b brokenChecker) Data([]byte) error           { return b.call("data") }
func (b brokenChecker) Close()                      { _ = b.call("close") }
func (b brokenChecker) Stats() innodb.Stats         { _ = b.call("stats"); return innodb.Stats{Pages: 1} }

// TestBrokenPageChecker: a check that fails is a warning, and the backup is whole.
func TestBrokenPageChecker(t *testing.T) {
	t.Parallel()
	data := small(t)
	for _, c := range []brokenChecker{{"chunk", "error"}, {"data", "error"}, {"chunk", "panic"}, {"data", "panic"},
		{"close", "panic"}, {"stats", "panic"}} {
		o := options(t, play(data))
		o.CheckPages = true
		r, err := newRun(o)
		if err != nil {
			t.Fatal(err)
		}
		r.pages.checker = c
		repository := repository(t, newMemory())
		to := target(repository)
		pending, err := begin(t.Context(), to, r)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.into(t.Context(), to, pending)
		if err != nil {
			t.Errorf("%v: got %v, want a backup", c, err)
			continue
		}
		result := r.result(m)
		b, err := repository.Find(t.Context(), "db1", catalog.Latest)
		if err != nil {
			t.Fatal(err)
		}
		checkWarned(t, b, "the check of InnoDB's pages failed, and not all of them were looked at")
		if len(result.Details) != 1 || !strings.Contains(result.Details[0], map[string]string{"error": "secret.ibd", "panic": "no such page"}[c.how]) {
			t.Errorf("%v: got details %q", c, result.Details)
		}
	}
}

// TestInPieces: everything comes through, in pieces, and an error with what was taken before.
func TestInPieces(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Repeat("0123456789abcdef", 2*checkPiece/16+1))
	for _, n := range []int{0, 1, checkPiece - 1, checkPiece, checkPiece + 1, len(data)} {
		var out bytes.Buffer
		if got, err := (inPieces{&out}).Write(data[:n]); got != n || err != nil || !bytes.Equal(out.Bytes(), data[:n]) {
			t.Errorf("%d bytes: got %d, %v", n, got, err)
		}
	}
	w := &fullWriter{room: checkPiece + 5}
	if got, err := (inPieces{w}).Write(data); got != checkPiece+5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %d, %v, want %d and what the writer said", got, err, checkPiece+5)
	}
}

// TestRealPages: no page of a real server, in tables of every sort, raises an alarm.
func TestRealPages(t *testing.T) {
	t.Parallel()
	tool := testenv.Need(t, "mariadb-backup")
	testenv.Need(t, "mariadbd")
	testenv.Need(t, "mariadb-install-db")
	server := &scratch.Server{Dir: filepath.Join(t.TempDir(), "data"), Args: []string{"--innodb-flush-log-at-trx-commit=0"}}
	if err := server.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	if err := gendata.Load(t.Context(), server.DB(), gendata.Options{Sysbench: 4 << 20, Special: true, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.BlockSize, o.CheckPages = 0, true
	o.Start = func(ctx context.Context, log io.Writer) (Source, error) {
		return mariadb.StartBackup(ctx, mariadb.BackupOptions{
			ConnectOptions: mariadb.ConnectOptions{DefaultsFile: os.DevNull, User: "root", Socket: server.Socket()}, Tool: tool, Log: log,
		})
	}
	result, err := RunPlain(t.Context(), io.Discard, o)
	if err != nil {
		t.Fatal(err)
	}
	p := result.Pages
	if len(result.Manifest.Warnings) > 0 || p.Bad > 0 || p.Pages < 1000 || p.Unchecked*2 > p.Pages {
		t.Errorf("got warnings %q, details %q, pages %+v, want none bad of thousands", result.Manifest.Warnings, result.Details, p)
	}
}
