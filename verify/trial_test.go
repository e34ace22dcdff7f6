package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// engines are the kinds of tables of the real server.
func engines() map[string]string {
	return map[string]string{
		"inno": "ENGINE=InnoDB", "zip": "ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", "pagec": "ENGINE=InnoDB PAGE_COMPRESSED=1",
		"aria": "ENGINE=Aria TRANSACTIONAL=1", "isam": "ENGINE=MyISAM", "part": "ENGINE=InnoDB PARTITION BY HASH(id) PARTITIONS 3",
	}
}

// source is a backup of a real server, and what it counted in its tables.
type source struct {
	stream  []byte
	rows    []server.Rows
	version string
}

func realSource(t *testing.T) *source {
	t.Helper()
	testenv.Need(t, "mariadbd")
	testenv.Need(t, "mariadb-backup")
	s := &scratch.Server{Dir: filepath.Join(memoryDir(t), "source")}
	if err := errors.Join(s.Init(t.Context()), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	execute(t, s, "CREATE DATABASE shop")
	for name, engine := range engines() {
		execute(t, s, fmt.Sprintf(`CREATE TABLE shop.%s (id INT NOT NULL PRIMARY KEY, a VARCHAR(200) NOT NULL, KEY (a)) %s;
			INSERT INTO shop.%s SELECT seq, REPEAT(MD5(seq), 5) FROM mysql.seq_1_to_2000`, name, engine, name))
	}
	execute(t, s, "SET GLOBAL innodb_fast_shutdown = 1; FLUSH TABLES shop.inno FOR EXPORT; UNLOCK TABLES")
	src := new(source)
	var err error
	if src.rows, err = s.CountRows(t.Context(), server.CountOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.DB().QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&src.version); err != nil {
		t.Fatal(err)
	}
	p, err := mariadb.StartBackup(t.Context(), mariadb.BackupOptions{
		ConnectOptions: mariadb.ConnectOptions{Socket: s.Socket(), User: "root"}, Parallel: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if src.stream, err = io.ReadAll(p); err != nil {
		t.Fatal(err)
	}
	return src
}

func execute(t *testing.T, s *scratch.Server, statement string) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// backup files the stream.
func (s *source) backup(t *testing.T, stream []byte) *vault {
	t.Helper()
	return seal(t, stream, made{codec: "zstd", blockSize: 1 << 20, volumeSize: 4 << 20, server: s.version})
}

func (s *source) baseline() *Baseline {
	b := &Baseline{Time: time.Now().UTC(), Server: "db1"}
	b.Set(s.rows)
	return b
}

// openDir is a directory that every account may pass through; closedDir one that only we may.
func openDir(t *testing.T) string {
	t.Helper()
	dir := memoryDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func closedDir(t *testing.T) string {
	t.Helper()
	return memoryDir(t)
}

// assertEmpty tells whether a trial left anything.
func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("the trial left %q", e.Name())
	}
}

func TestTrial(t *testing.T) {
	src := realSource(t)
	v := src.backup(t, src.stream)
	t.Run("good", func(t *testing.T) { goodTrial(t, src, v) })
	t.Run("wrong rows and statements", func(t *testing.T) { wrongRows(t, src, v) })
	t.Run("cancelled", func(t *testing.T) { cancelledTrial(t, v) })
	t.Run("altered", func(t *testing.T) { alteredTrial(t, src) })
	t.Run("within the promise", func(t *testing.T) { promisedSpace(t, v) })
	t.Run("bad page", func(t *testing.T) { badPage(t, src) })
	t.Run("no prepare", func(t *testing.T) { noPrepare(t, src) })
	t.Run("sampled pages", func(t *testing.T) { sampledPages(t, v, src) })
}

// goodTrial verifies the whole of a good backup, with the server under its own account where that is possible.
func goodTrial(t *testing.T, src *source, v *vault) {
	statements, err := scratch.ParseSQL(strings.NewReader("SELECT COUNT(*) FROM shop.inno;\n-- expect: 2000\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	var phases []string
	var tables int
	r, err := Run(t.Context(), v.open(t), Options{
		Level: Restore, Jobs: 2, OnPhase: func(p string) { phases = append(phases, p) },
		Trial: TrialOptions{
			Dir: dir, Check: scratch.Quick, Statements: statements, Baseline: src.baseline(), Version: "test",
			OnTables: func(done, all int) { tables = max(tables, done) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	trial := r.Trial
	if !r.OK || r.Restorable != RestorableAll || r.Pages == nil || r.Pages.Pages < 100 || r.Pages.Bad != 0 {
		t.Errorf("got problems %v, pages %+v", r.Problems, r.Pages)
	}
	if want := []string{"reading", "extracting", "preparing", "moving", "starting", "checking"}; !slices.Equal(phases, want) {
		t.Errorf("got phases %q, want %q", phases, want)
	}
	if trial.Tables < len(engines()) || trial.Checked == 0 || trial.Checked+trial.NotCheckedCount != trial.Tables || tables != trial.Tables {
		t.Errorf("got %d of %d tables checked, %d told", trial.Checked, trial.Tables, tables)
	}
	if trial.Compared != len(engines()) || trial.Statements != len(statements) || trial.ServerVersion != src.version {
		t.Errorf("got %d tables compared, %d statements, server %s", trial.Compared, trial.Statements, trial.ServerVersion)
	}
	if sum := trial.Extract + trial.Prepare + trial.HandOver + trial.Start; trial.RTO != sum || trial.Prepare <= 0 || trial.Start <= 0 || trial.Check <= 0 {
		t.Errorf("got times %+v", trial)
	}
	if trial.SpaceUsed == 0 || trial.SpaceUsed > trial.SpaceNeeded {
		t.Errorf("got %d bytes used, promised %d", trial.SpaceUsed, trial.SpaceNeeded)
	}
	if slices.ContainsFunc(trial.Notes, func(n string) bool { return strings.Contains(n, "as root") }) {
		t.Errorf("got notes %q, want that the server's own account was used", trial.Notes)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("space: %d of %d; %s", trial.SpaceUsed, trial.SpaceNeeded, text.String())
	if w := r.Verification(); !w.OK || w.Level != "restore" || w.Tables != int64(trial.Checked) || w.RTO != trial.RTO || w.Pages == 0 {
		t.Errorf("got record %+v", w)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	assertEmpty(t, dir)
}

// wrongRows plants what a restored backup must not pass with, in a place that only we can reach.
func wrongRows(t *testing.T, src *source, v *vault) {
	baseline := src.baseline()
	baseline.Tables["shop.isam"]++
	baseline.Tables["shop.gone"] = 7
	delete(baseline.Tables, "shop.aria")
	statements, err := scratch.ParseSQL(strings.NewReader("SELECT COUNT(*) FROM shop.part;\n-- expect: 1999\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := closedDir(t)
	r, err := Run(t.Context(), v.open(t), Options{
		Level: Restore, Trial: TrialOptions{Dir: dir, Check: scratch.Quick, Baseline: baseline, Statements: statements, Keep: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Problems {
		got = append(got, p.Message)
	}
	for _, want := range []string{"shop.isam has 2000 rows", "shop.gone is missing", "1999"} {
		if !slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, want) }) {
			t.Errorf("got problems %q, want one with %q", got, want)
		}
	}
	if len(got) != 3 || r.OK {
		t.Errorf("got problems %q, want 3", got)
	}
	if !slices.ContainsFunc(r.Trial.Notes, func(n string) bool { return strings.Contains(n, "shop.aria") }) {
		t.Errorf("got notes %q, want one of shop.aria", r.Trial.Notes)
	}
	if os.Geteuid() == 0 && !slices.ContainsFunc(r.Trial.Notes, func(n string) bool { return strings.Contains(n, "as root") }) {
		t.Errorf("got notes %q, want that the server ran as root", r.Trial.Notes)
	}
	sweep(dir) // another trial doesn't take for leftovers what was kept
	if _, err := os.Stat(filepath.Join(r.Trial.Dir, "data", "ibdata1")); err != nil || !r.Trial.Kept {
		t.Errorf("got %v, kept %v", err, r.Trial.Kept)
	}
}

// alteredTrial: what someone without the key has changed is not started.
func alteredTrial(t *testing.T, src *source) {
	v := src.backup(t, src.stream)
	data := bytes.Replace(v.read(t, catalog.ManifestObject), []byte(`"host": "`), []byte(`"host": "x`), 1)
	v.write(t, catalog.ManifestObject, resum(data))
	dir := closedDir(t)
	r, err := Run(t.Context(), v.open(t), Options{Level: Restore, Trial: TrialOptions{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || !strings.Contains(r.Trial.Skipped, "key") {
		t.Errorf("got %v, %+v", r.Problems, r.Trial)
	}
	assertEmpty(t, dir)
}

// promisedSpace gives the trial exactly the space that it says it needs.
func promisedSpace(t *testing.T, v *vault) {
	mount := func(flags uintptr, dir string, size int64) {
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%d", size)); err != nil {
			testenv.Missing(t, "mount", "a file system of limited size: "+err.Error())
		}
	}
	dir := t.TempDir()
	mount(0, dir, 1<<20)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	o := Options{Level: Restore, Trial: TrialOptions{Dir: filepath.Join(dir, "new", "dir"), Check: scratch.Extended}}
	_, err := Run(t.Context(), v.open(t), o)
	full, ok := errors.AsType[*restore.SpaceError](err)
	if !ok {
		t.Fatalf("got %v, want that there is no room", err)
	}
	mount(unix.MS_REMOUNT, dir, full.Need+64<<10) // of the directories
	r, err := Run(t.Context(), v.open(t), o)
	if err != nil || !r.OK || r.Trial.SpaceNeeded != full.Need {
		t.Errorf("got %v, %+v, want that it gets by with %d bytes", err, r, full.Need)
	}
}

// cancelledTrial stops in the middle.
func cancelledTrial(t *testing.T, v *vault) {
	for _, phase := range []string{"preparing", "starting"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		dir := closedDir(t)
		_, err := Run(ctx, v.open(t), Options{
			Level: Restore, Trial: TrialOptions{Dir: dir, Keep: true},
			OnPhase: func(p string) {
				if p == phase {
					cancel(cause)
				}
			},
		})
		if !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the cause of the cancel", phase, err)
		}
		assertEmpty(t, dir)
	}
}

// rewrite passes every payload through change and makes a stream of it whose checksums are right.
func rewrite(t *testing.T, stream []byte, change func(h *xbstream.Header, payload []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := xbstream.NewReader(bytes.NewReader(stream)), xbstream.NewWriter(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		payload, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Type == xbstream.TypePayload {
			payload = change(h, payload)
			h.Size, h.CRC = int64(len(payload)), crc32.ChecksumIEEE(payload)
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if len(payload) > 0 {
			if _, err := w.Write(payload); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// badPage damages a page before the backup was stored: everything but the page's own checksum is right.
func badPage(t *testing.T, src *source) {
	const page, table = 4, "shop.inno"
	hit := false
	stream := rewrite(t, src.stream, func(h *xbstream.Header, payload []byte) []byte {
		at := int64(page)*16384 - h.Offset
		if strings.HasPrefix(h.Path, "shop/inno.") && strings.HasSuffix(h.Path, "ibd") || h.Path == "shop/inno.new" {
			if at >= 0 && at+16384 <= int64(len(payload)) {
				payload = slices.Clone(payload)
				payload[at+8000] ^= 0x55
				hit = true
			}
		}
		return payload
	})
	if !hit {
		t.Fatal("no page was damaged")
	}
	v := src.backup(t, stream)
	if r := run(t, v.open(t), Read); !r.OK {
		t.Errorf("read: got %v, want that it can't tell", r.Problems)
	}
	dir := closedDir(t)
	r, err := Run(t.Context(), v.open(t), Options{Level: Restore, Trial: TrialOptions{Dir: dir, Check: scratch.Medium}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Problems[0]
	if !strings.Contains(p.Message, fmt.Sprintf("bad page %d at byte %d of the file", page, page*16384)) || !slices.Equal(p.Tables, []string{table}) {
		t.Errorf("got %v, tables %q, want page %d of %s", p, p.Tables, page, table)
	}
	if p.Block < 0 || p.StoredOffset < 0 || p.RawOffset < 0 || r.Pages.Bad != 1 {
		t.Errorf("got place %+v, %d bad pages", p, r.Pages.Bad)
	}
	if r.Restorable != RestorableTables || !slices.Equal(r.LostTables, []string{table}) || r.Lost[0].Why != whyPages {
		t.Errorf("got %s, lost tables %q, files %+v", r.Restorable, r.LostTables, r.Lost)
	}
	if r.Trial.Skipped != "" || r.Trial.Checked == 0 { // the redo log may have mended the page in the restored files
		t.Errorf("got trial %+v, want that it took place", r.Trial)
	}
	assertEmpty(t, dir)
}

// noPrepare takes away what a prepare can't do without.
func noPrepare(t *testing.T, src *source) {
	stream := rewrite(t, src.stream, func(h *xbstream.Header, payload []byte) []byte {
		if h.Path == "ib_logfile0" {
			return bytes.Repeat([]byte{7}, len(payload))
		}
		return payload
	})
	dir := closedDir(t)
	r, err := Run(t.Context(), src.backup(t, stream).open(t), Options{Level: Restore, Trial: TrialOptions{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, "prepare") || r.Trial.RTO != 0 {
		t.Errorf("got %v, %+v", r.Problems, r.Trial)
	}
	assertEmpty(t, dir)
}

// sampledPages has no false alarms of pages of which only a part was read.
func sampledPages(t *testing.T, v *vault, src *source) {
	small := seal(t, src.stream, made{codec: "lz4", blockSize: 40_000, server: src.version})
	for seed := range uint64(12) {
		r, err := Run(t.Context(), small.open(t), Options{Level: Pages, Sample: 0.2, Seed: seed + 1})
		if err != nil {
			t.Fatal(err)
		}
		if !r.OK || r.Pages.Pages == 0 || r.Restorable != RestorableUnknown {
			t.Errorf("seed %d: got %v, pages %+v", seed+1, r.Problems, r.Pages)
		}
	}
}

// TestTrialWithoutRoom: the check of the space comes first, and its error can be matched.
func TestTrialWithoutRoom(t *testing.T) {
	dir := memoryDir(t)
	_, err := newTrialDir(dir, 1<<60)
	if full, ok := errors.AsType[*restore.SpaceError](err); !ok || full.Need != 1<<60 || full.Free <= 0 {
		t.Errorf("got %v, want that there is no room", err)
	}
	assertEmpty(t, dir)
}

// TestLeftoversOfTrials: what a dead process left goes, what a living one holds stays.
func TestLeftoversOfTrials(t *testing.T) {
	dir := memoryDir(t)
	living, err := newTrialDir(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"mbwrap-verify.1": lockName, "mbwrap-verify.2": "data", "other": lockName} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700), os.WriteFile(filepath.Join(dir, name, file), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	next, err := newTrialDir(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	next.stopWatch()
	if err := next.remove(); err != nil {
		t.Fatal(err)
	}
	if got, want := objects(t, dir), []string{filepath.Base(living.path), "mbwrap-verify.2", "other"}; !sameNames(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	living.stopWatch()
	if err := living.remove(); err != nil {
		t.Fatal(err)
	}
}

func sameNames(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestTrialIsSkipped: a damaged backup is not restored, and that is said.
func TestTrialIsSkipped(t *testing.T) {
	r, dir, b := small(t, "zstd")
	if err := os.Truncate(filepath.Join(dir, "data.0001.xbs.zst"), 100); err != nil {
		t.Fatal(err)
	}
	place := memoryDir(t)
	report, err := Run(t.Context(), again(t, r, b.ID), Options{Level: Restore, Trial: TrialOptions{Dir: place}})
	if err != nil {
		t.Fatal(err)
	}
	if report.OK || report.Trial == nil || report.Trial.Skipped == "" {
		t.Errorf("got %+v, want that the trial was skipped", report.Trial)
	}
	assertEmpty(t, place)
}

// TestServerArgs: what a backup says of its server's settings leads nowhere else.
func TestServerArgs(t *testing.T) {
	tests := []struct {
		name   string
		config map[string]string
		want   []string
	}{
		{"nothing", nil, []string{serverLog}},
		{"usual", map[string]string{"innodb_page_size": "4096", "innodb_data_file_path": "ibdata1:12M;ibdata2:10M:autoextend", "datadir": "/x"},
			[]string{serverLog, "--innodb_page_size=4096", "--innodb_data_file_path=ibdata1:12M;ibdata2:10M:autoextend"}},
		{"a path", map[string]string{"innodb_data_file_path": "../../ibdata1:12M"}, nil},
		{"two words", map[string]string{"innodb_page_size": "4096 --plugin-load=x"}, nil},
	}
	for _, tt := range tests {
		got, err := serverArgs(&mariadb.Position{Config: tt.config})
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.want == nil) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}
