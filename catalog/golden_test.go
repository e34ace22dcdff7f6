package catalog

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/xbstream"
)

// update rewrites the golden files. They are what this version of the format is: one that must change is a new format.
var update = flag.Bool("update", false, "rewrite the golden files")

// golden is a repository of format 1 with two backups, and the decoded forms of its indexes in hex.
var golden = filepath.Join("testdata", "format1")

// goldenStream has every chunk type that MariaDB sends, in three blocks.
func goldenStream(t testing.TB) []byte {
	m := newMaker(t)
	m.payload("ib_logfile0", 200, 0)
	m.payload("db/a.ibd", 4100, 0)
	m.payload("db/b.ibd", 3900, 0)
	m.end("db/a.ibd")
	m.end("db/empty.opt")
	m.ignorable()
	m.end("db/b.ibd")
	m.payload("aria_log.00000001", 50, 0)
	m.seek("aria_log.00000001", 37)
	m.payload("aria_log.00000001", 7, 0)
	m.end("aria_log.00000001")
	m.rename("db/b.ibd", "db/c.ibd")
	m.payload("db/a.ibd", 11, xbstream.FlagRewrite)
	m.end("db/a.ibd")
	m.remove("db/p#P#*")
	m.end("ib_logfile0")
	m.file("we@0020ird/\xff.frm", 3)
	m.file("xtrabackup_info", 20)
	m.ignorable()
	return m.data.Bytes()
}

// goldenJobs are the two backups: one plain, so that every build stores the same bytes, one compressed.
func goldenJobs(t testing.TB) []job {
	stream := goldenStream(t)
	return []job{
		{stream: stream, volumes: 6000},
		{stream: stream, volumes: 100, codec: "zstd", typ: Incremental, started: began.Add(time.Hour), edit: func(m *Manifest) {
			m.Parent, m.Warnings = new(beganID), []string{"example <warning> & \"quotes\" ä"}
			m.FromLSN, m.ToLSN, m.LastLSN, m.Binlog, m.Partial = 46000, 47000, 1<<64-1, nil, true
		}},
	}
}

func goldenVerification(manifest []byte) *Verification {
	return &Verification{Time: began.Add(2 * time.Hour), Level: "read", OK: true, Host: "backup.example", Mbwrap: "1.0.0",
		Seconds: 1.5, Problems: []string{}, Manifest: sumOf(manifest)}
}

// hexDump is how the golden files show an index: 32 bytes a line.
func hexDump(data []byte) []byte {
	var out bytes.Buffer
	for line := range slices.Chunk(data, 32) {
		fmt.Fprintln(&out, hex.EncodeToString(line))
	}
	return out.Bytes()
}

func readFile(t testing.TB, name ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{golden}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// updateGolden makes the golden files anew.
func updateGolden(t *testing.T) {
	if err := os.RemoveAll(filepath.Join(golden, "repository")); err != nil {
		t.Fatal(err)
	}
	r := repositories(t, local(t, filepath.Join(golden, "repository")))[0]
	for _, j := range goldenJobs(t) {
		b := j.mustRun(t, "db1", r)
		manifest, err := b.ReadManifest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if j.typ == Incremental {
			if err := b.Record(t.Context(), goldenVerification(manifest)); err != nil {
				t.Fatal(err)
			}
		}
		var index IndexBuilder
		if err := rebuild(b, j.stream, &index); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(golden, b.ID+".index.hex"), hexDump(index.Encode()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	percona := hexDump(watch(t, perconaStream(t), 1000).Encode())
	if err := os.WriteFile(filepath.Join(golden, "percona.index.hex"), percona, 0o644); err != nil {
		t.Fatal(err)
	}
}

// rebuild fills index with the chunks of the stream and with the blocks of a backup of it.
func rebuild(b *Backup, stream []byte, index *IndexBuilder) error {
	c := xbstream.NewChecker(xbstream.Options{Handler: index, Expect: xbstream.ExpectAny})
	if _, err := c.Write(stream); err != nil {
		return err
	}
	ix, err := b.Index(context.Background())
	if err != nil {
		return err
	}
	for block := range ix.AllBlocks() {
		index.Block(block)
	}
	return nil
}

// TestGoldenFilesAreWrittenAgain: what this version writes is, byte for byte, what format 1 is. The bytes of zstd frames
// may differ between libraries; whatever holds some is compared by what it says.
func TestGoldenFilesAreWrittenAgain(t *testing.T) {
	if *update {
		updateGolden(t)
	}
	sink := newMemory()
	r := repositories(t, sink)[0]
	if got, want := sink.objects[RepositoryObject], readFile(t, "repository", RepositoryObject); !bytes.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", RepositoryObject, got, want)
	}
	stored := repositories(t, local(t, filepath.Join(golden, "repository")))[0]
	for _, j := range goldenJobs(t) {
		b := j.mustRun(t, "db1", r)
		want, err := stored.Find(t.Context(), "db1", b.ID)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range sink.objects {
			if strings.HasPrefix(name, "db1/"+b.ID+"/") && strings.HasSuffix(name, ".xbs") && !bytes.Equal(data, readFile(t, "repository", name)) {
				t.Errorf("%s differs", name)
			}
		}
		m := b.Manifest
		m.Index, m.Log = want.Manifest.Index, want.Manifest.Log
		if m.Codec == "zstd" {
			m.Volumes, m.StoredBytes = want.Manifest.Volumes, want.Manifest.StoredBytes
		}
		data, err := encodeManifest(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join("repository", "db1", b.ID)
		if golden := readFile(t, folder, ManifestObject); !bytes.Equal(data, golden) {
			t.Errorf("%s of %s: got %s, want %s", ManifestObject, b.ID, data, golden)
		}
		if golden := readFile(t, folder, SumsObject); !bytes.Equal(m.Sums(), golden) {
			t.Errorf("%s of %s: got %s, want %s", SumsObject, b.ID, m.Sums(), golden)
		}
		var index IndexBuilder
		if err := rebuild(want, j.stream, &index); err != nil {
			t.Fatal(err)
		}
		if got, golden := hexDump(index.Encode()), readFile(t, b.ID+".index.hex"); !bytes.Equal(got, golden) {
			t.Errorf("index of %s: got\n%s\nwant\n%s", b.ID, got, golden)
		}
		if want.Verified != nil {
			verified, err := seal(goldenVerification(data))
			if golden := readFile(t, folder, VerifiedObject); err != nil || !bytes.Equal(verified, golden) {
				t.Errorf("%s: got %s (%v), want %s", VerifiedObject, verified, err, golden)
			}
		}
	}
	if got, golden := hexDump(watch(t, perconaStream(t), 1000).Encode()), readFile(t, "percona.index.hex"); !bytes.Equal(got, golden) {
		t.Errorf("index of a stream with sparse chunks: got\n%s\nwant\n%s", got, golden)
	}
}

// TestGoldenRepositoryIsRead: every later version must read what format 1 has stored.
func TestGoldenRepositoryIsRead(t *testing.T) {
	r := repositories(t, local(t, filepath.Join(golden, "repository")))[0]
	list, err := r.List(t.Context(), "")
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d backups (%v), want 2", len(list), err)
	}
	stream := goldenStream(t)
	for i, want := range []struct {
		state    State
		typ      string
		codec    string
		verified bool
	}{{Complete, Full, "none", false}, {Warning, Incremental, "zstd", true}} {
		b := list[i]
		if b.State != want.state || b.Manifest.Type != want.typ || b.Manifest.Codec != want.codec || (b.Verified != nil) != want.verified {
			t.Errorf("%s: got state %s, type %s, codec %s, verified %v; want %+v",
				b.ID, b.State, b.Manifest.Type, b.Manifest.Codec, b.Verified != nil, want)
		}
		if err := prove(b, stream); err != nil {
			t.Errorf("%s: %v", b.ID, err)
		}
		ix, err := b.Index(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantTree := []File{
			{"aria_log.00000001", 4, 50}, {"db/a.ibd", 5, 11}, {"db/c.ibd", 2, 3900}, {"db/empty.opt", 3, 0}, {"ib_logfile0", 0, 200},
			{"we@0020ird/\xff.frm", 6, 3}, {"xtrabackup_info", 7, 20},
		}
		if got := ix.Tree(); !slices.Equal(got, wantTree) {
			t.Errorf("%s: got files %+v, want %+v", b.ID, got, wantTree)
		}
		if ix.NumBlocks() != b.Manifest.Blocks || ix.NumChunks()+2 != b.Manifest.Chunks { // two are skipped
			t.Errorf("%s: got %d blocks and %d chunks, the manifest says %d and %d",
				b.ID, ix.NumBlocks(), ix.NumChunks(), b.Manifest.Blocks, b.Manifest.Chunks)
		}
	}
	if last := list[1].Manifest.LastLSN; last != 1<<64-1 {
		t.Errorf("got LSN %d, want all bits of it", last)
	}
	if got, want := list[1].Manifest.Warnings[0], "example <warning> & \"quotes\" ä"; got != want {
		t.Errorf("got warning %q, want %q", got, want)
	}
	want := goldenVerification(readFile(t, "repository", "db1", list[1].ID, ManifestObject))
	if !reflect.DeepEqual(list[1].Verified, want) {
		t.Errorf("got %+v, want %+v", list[1].Verified, want)
	}
}

// formatText is docs/FORMAT.md.
func formatText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryMemberIsDocumented: the document changes with the code.
func TestEveryMemberIsDocumented(t *testing.T) {
	text := formatText(t)
	for _, v := range []any{repositoryMark{}, Manifest{}, LevelCount{}, Binlog{}, Object{}, Timings{}, Verification{}, keyChange{}} {
		for field := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() {
				continue
			}
			if name == "" || !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, `"`+name+`"`) {
				t.Errorf("member %q of %T is not in docs/FORMAT.md", name, v)
			}
		}
	}
}

// TestDocumentedExample: the index that docs/FORMAT.md takes apart is the golden one.
func TestDocumentedExample(t *testing.T) {
	_, text, found := strings.Cut(formatText(t), "### Example")
	text, _, cut := strings.Cut(text, "\n      …\n")
	if !found || !cut {
		t.Fatal("docs/FORMAT.md has no example")
	}
	var digits strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if record, indented := strings.CutPrefix(line, "    "); indented {
			shown, _, _ := strings.Cut(strings.TrimSpace(record), "  ")
			digits.WriteString(strings.ReplaceAll(shown, " ", ""))
		}
	}
	whole := strings.ReplaceAll(string(readFile(t, beganID+".index.hex")), "\n", "")
	if got := digits.String(); len(got) < 200 || !strings.HasPrefix(whole, got) {
		t.Errorf("the example is %s, the golden file %s", got, whole)
	}
}

// TestGoldenBackupWithStockTools restores by hand what format 1 has stored.
func TestGoldenBackupWithStockTools(t *testing.T) {
	sha256sum, zstd := testenv.Need(t, "sha256sum"), testenv.Need(t, "zstd")
	stream := string(goldenStream(t))
	db1 := filepath.Join(golden, "repository", "db1")
	for id, command := range map[string]string{"20261130T180102Z-full": "cat data.*", "20261130T190102Z-incr": "cat data.* | " + zstd + " -dc"} {
		folder := filepath.Join(db1, id)
		shell(t, folder, sha256sum+" -c SHA256SUMS")
		if got := shell(t, folder, command); got != stream {
			t.Errorf("%s: got %d bytes, want %d", id, len(got), len(stream))
		}
	}
}
