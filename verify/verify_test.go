package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is a file of a test stream.
type file struct {
	path    string
	content []byte
}

// wholeStream returns a whole backup's stream with some files of random letters, which compress to about a half.
func wholeStream(t testing.TB, files ...file) []byte {
	t.Helper()
	for _, name := range []string{"xtrabackup_checkpoints", "backup-my.cnf", "xtrabackup_info"} {
		files = append(files, file{name, []byte(name + " = 1\n")})
	}
	var b bytes.Buffer
	w := xbstream.NewWriter(&b)
	for _, f := range files {
		if _, err := w.WriteFile(f.path, bytes.NewReader(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// letters returns n random bytes of 16 values.
func letters(n int) []byte {
	r := rand.NewPCG(1, uint64(n))
	var bits uint64
	p := make([]byte, n)
	for i := range p {
		if i%16 == 0 {
			bits = r.Uint64()
		}
		p[i] = 'a' + byte(bits>>(i%16*4)&15)
	}
	return p
}

// made says how a test backup is made.
type made struct {
	codec      string
	blockSize  int
	volumeSize int64
	index      []byte // the index, when it is not the right one
	lie        []byte // the stream that the index describes, when it is another one
	rawBytes   int64  // what the manifest says, when it is not the truth
	server     string // version of the server
}

// backup files raw as a backup and returns the repository, its folder and the backup.
func backup(t testing.TB, raw []byte, o made) (*catalog.Repository, string, *catalog.Backup) {
	t.Helper()
	return filed(t, raw, o, catalog.BeginOptions{})
}

// filed files raw as a backup, encrypted if there is a key.
func filed(t testing.TB, raw []byte, o made, begin catalog.BeginOptions) (*catalog.Repository, string, *catalog.Backup) {
	t.Helper()
	dir := memoryDir(t)
	sink, err := sinks.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	r, _, err := catalog.Init(ctx, sink, dir)
	if err != nil {
		t.Fatal(err)
	}
	row, err := codec.Lookup(o.codec)
	if err != nil {
		t.Fatal(err)
	}
	started := time.Date(2026, 11, 30, 18, 1, 2, 0, time.UTC)
	begin.Type, begin.Started, begin.Codec = catalog.Full, started, row
	p, err := catalog.Begin(ctx, []*catalog.Repository{r}, "db1", begin)
	if err != nil {
		t.Fatal(err)
	}
	var index catalog.IndexBuilder
	checker := xbstream.NewChecker(xbstream.Options{Handler: &index, Expect: xbstream.ExpectAny})
	if o.lie != nil {
		if _, err := checker.Write(o.lie); err != nil {
			t.Fatal(err)
		}
		checker = nil
	}
	result, err := pipeline.Pack(ctx, p.Volumes(ctx), bytes.NewReader(raw), pipeline.PackOptions{
		Codec: row, Level: level(row), Jobs: 1, BlockSize: o.blockSize, VolumeSize: o.volumeSize,
		Check: writerOf(checker), OnBlock: index.Block,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.rawBytes != 0 {
		result.RawSize = o.rawBytes
	}
	encoded := index.Encode()
	if o.index != nil {
		encoded = o.index
	}
	m := &catalog.Manifest{
		Type: catalog.Full, Started: started, Finished: started, Codec: o.codec, Level: "auto", Source: "tool",
		RawBytes: result.RawSize, Blocks: result.Blocks, BlockSize: int64(o.blockSize), ServerVersion: o.server,
	}
	if err := p.Commit(ctx, m, encoded, []byte("a log, whatever it says\n")); err != nil {
		t.Fatal(err)
	}
	b, err := r.Find(ctx, "db1", catalog.Latest)
	if err != nil {
		t.Fatal(err)
	}
	return r, filepath.Join(dir, "db1", b.ID), b
}

// writerOf returns nil for no checker.
func writerOf(c *xbstream.Checker) io.Writer {
	if c == nil {
		return nil
	}
	return c
}

// memoryDir is a temporary directory in memory where there is such a place: these tests are not about disks.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mbwrap-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func level(row *codec.Codec) int {
	n, err := row.ParseLevel("auto")
	if err != nil {
		panic(err)
	}
	return n
}

// offline are the levels that need no server.
func offline() []Level { return []Level{Hash, Read} }

// run verifies b, which must be possible.
func run(t testing.TB, b *catalog.Backup, l Level) *Report {
	t.Helper()
	report, err := Run(t.Context(), b, Options{Level: l, Jobs: 1})
	if err != nil {
		t.Fatalf("verify at level %s: %v", l, err)
	}
	return report
}

// again finds the backup anew, as the next run of the program would.
func again(t testing.TB, r *catalog.Repository, id string) *catalog.Backup {
	t.Helper()
	b, err := r.Find(t.Context(), "db1", id)
	if err != nil {
		t.Fatalf("find %s: %v", id, err)
	}
	return b
}

func TestGoodBackups(t *testing.T) {
	raw := wholeStream(t, file{"db/t.ibd", letters(50_000)}, file{"db/empty", nil}, file{"db/u.ibd", letters(9000)})
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		for _, volume := range []int64{0, 10_000} {
			t.Run(fmt.Sprintf("%s/volumes of %d", name, volume), func(t *testing.T) {
				_, _, b := backup(t, raw, made{codec: name, blockSize: 4096, volumeSize: volume})
				for _, l := range offline() {
					report := run(t, b, l)
					if !report.OK || len(report.Problems) > 0 {
						t.Errorf("level %s: got problems %v, want none", l, report.Problems)
					}
					if got, want := report.Objects, len(b.Manifest.Volumes)+2; got != want {
						t.Errorf("level %s: got %d objects, want %d", l, got, want)
					}
				}
				report := run(t, b, Read)
				if report.RawBytes != int64(len(raw)) || report.Files != 6 {
					t.Errorf("got %d bytes in %d files, want %d in 6", report.RawBytes, report.Files, len(raw))
				}
				if want := int64(len(raw)+4095) / 4096; report.Blocks != want {
					t.Errorf("got %d blocks, want %d", report.Blocks, want)
				}
			})
		}
	}
}

// objects returns the names of the files in a backup's folder.
func objects(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// small is a backup of a few kilobytes in several blocks and volumes.
func small(t testing.TB, name string) (*catalog.Repository, string, *catalog.Backup) {
	raw := wholeStream(t, file{"db/t.ibd", letters(2000)}, file{"db/u.ibd", letters(5000)})
	r, dir, b := backup(t, raw, made{codec: name, blockSize: 4096, volumeSize: 2500})
	if len(b.Manifest.Volumes) < 2 {
		t.Fatalf("got %d volumes, want several", len(b.Manifest.Volumes))
	}
	return r, dir, b
}

// everyByte calls damage for every byte of every object of a backup, with the file's good content, and expects that
// both levels see what it leaves on disk.
func everyByte(t *testing.T, codecName string, damage func(data []byte, at int) []byte) {
	r, dir, b := small(t, codecName)
	names := objects(t, dir)
	if len(names) < 6 {
		t.Fatalf("got objects %q, want volumes, index, log, sums and manifest", names)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(good); at += stride {
			if err := os.WriteFile(path, damage(slices.Clone(good), at), 0o600); err != nil {
				t.Fatal(err)
			}
			bad := again(t, r, b.ID)
			for _, l := range offline() {
				if report := run(t, bad, l); report.OK || len(report.Problems) == 0 {
					t.Fatalf("byte %d of %s damaged: level %s found nothing", at, name, l)
				}
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if report := run(t, again(t, r, b.ID), Read); !report.OK {
		t.Fatalf("the restored backup has problems: %v", report.Problems)
	}
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	for _, name := range []string{"zstd", "none"} {
		t.Run(name, func(t *testing.T) {
			everyByte(t, name, func(data []byte, at int) []byte {
				data[at] ^= 1 << (at % 8)
				return data
			})
		})
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	everyByte(t, "zstd", func(data []byte, at int) []byte { return data[:at] })
}

// decoded returns what the codec's sequential reader makes of a volume, nil if it refuses it.
func decoded(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	row, err := codec.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := row.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return raw
}

// TestReadAloneFindsDamage turns the sums off by making them those of the damaged object, so that only decoding can
// find the fault.
func TestReadAloneFindsDamage(t *testing.T) {
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(name, func(t *testing.T) {
			_, dir, b := small(t, name)
			volume := &b.Manifest.Volumes[0]
			path := filepath.Join(dir, volume.Name)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(good); at += stride {
				bad := slices.Clone(good)
				bad[at] ^= 1 << (at % 8)
				if err := os.WriteFile(path, bad, 0o600); err != nil {
					t.Fatal(err)
				}
				volume.SHA256 = fmt.Sprintf("%x", sha256.Sum256(bad))
				report := run(t, b, Read)
				if bytes.Equal(decoded(t, name, bad), decoded(t, name, good)) {
					continue // padding inside the format: the data is what it was
				}
				problems := slices.DeleteFunc(report.Problems, func(p Problem) bool { return p.Object == catalog.SumsObject })
				if len(problems) == 0 {
					t.Fatalf("byte %d flipped: decoding found nothing", at)
				}
			}
		})
	}
}

func TestDamageIsDescribed(t *testing.T) {
	raw := wholeStream(t, file{"db/t.ibd", letters(3000)}, file{"db/u.ibd", letters(30_000)}, file{"db/v.ibd", letters(3000)})
	r, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 0})
	path := filepath.Join(dir, b.Manifest.Volumes[0].Name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := b.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	blocks := slices.Collect(index.AllBlocks())
	for _, hit := range []int{0, 4} {
		data[blocks[hit].Stored+blocks[hit].StoredSize/2] ^= 0x10
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	report := run(t, again(t, r, b.ID), Read)
	var got []Problem
	for _, p := range report.Problems {
		if p.Offset >= 0 {
			got = append(got, p)
		}
	}
	if len(got) != 2 {
		t.Fatalf("got %d problems with a place, want the 2 damaged blocks: %v", len(got), report.Problems)
	}
	for i, want := range []struct {
		block pipeline.Block
		files []string
	}{
		{blocks[0], []string{"db/t.ibd", "db/u.ibd"}},
		{blocks[4], []string{"db/u.ibd"}},
	} {
		p := got[i]
		if p.Object != b.Manifest.Volumes[0].Name || p.Offset != want.block.Stored || p.RawOffset != want.block.Raw {
			t.Errorf("problem %d: got %s at %d (raw %d), want %d (raw %d)",
				i, p.Object, p.Offset, p.RawOffset, want.block.Stored, want.block.Raw)
		}
		if !slices.Equal(p.Files, want.files) || p.FileCount != len(want.files) {
			t.Errorf("problem %d: got files %q (%d), want %q", i, p.Files, p.FileCount, want.files)
		}
		if text := p.String(); !strings.Contains(text, want.files[0]) || !strings.Contains(text, "offset") {
			t.Errorf("problem %d reads %q", i, text)
		}
	}
}

func TestMissingObjects(t *testing.T) {
	for _, name := range []string{"index.zst", "backup.log.zst", "SHA256SUMS", "data.0001.xbs.zst", "data.0002.xbs.zst"} {
		t.Run(name, func(t *testing.T) {
			r, dir, b := small(t, "zstd")
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			for _, l := range offline() {
				report := run(t, again(t, r, b.ID), l)
				if report.OK {
					t.Fatalf("level %s: %s is gone, but nothing was found", l, name)
				}
				found := slices.ContainsFunc(report.Problems, func(p Problem) bool {
					return p.Object == name && strings.Contains(p.Message, "missing")
				})
				if !found {
					t.Errorf("level %s: got %v, want a word that %s is missing", l, report.Problems, name)
				}
			}
		})
	}
}

// TestDataWithoutIndex: when only the index is damaged the report shows that the stream itself is whole.
func TestDataWithoutIndex(t *testing.T) {
	r, dir, b := small(t, "zstd")
	if err := os.WriteFile(filepath.Join(dir, "index.zst"), []byte("no index"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := run(t, again(t, r, b.ID), Read)
	for _, p := range report.Problems {
		if p.Object != "index.zst" {
			t.Errorf("got problem %v, want only the index's", p)
		}
	}
	if report.OK || report.RawBytes != b.Manifest.RawBytes {
		t.Errorf("got ok %v and %d raw bytes, want damage and all %d bytes", report.OK, report.RawBytes, b.Manifest.RawBytes)
	}
}

func TestForeignParts(t *testing.T) {
	t.Run("index of another backup", func(t *testing.T) {
		r, dir, b := small(t, "zstd")
		raw := wholeStream(t, file{"db/x.ibd", letters(2000)}, file{"db/u.ibd", letters(5000)})
		_, other, _ := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 2500})
		replace(t, filepath.Join(other, "index.zst"), filepath.Join(dir, "index.zst"))
		if report := run(t, again(t, r, b.ID), Read); report.OK {
			t.Error("another backup's index was not found out")
		}
	})
	t.Run("volumes swapped", func(t *testing.T) {
		r, dir, b := small(t, "zstd")
		one, two := filepath.Join(dir, "data.0001.xbs.zst"), filepath.Join(dir, "data.0002.xbs.zst")
		data, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, two, one)
		if err := os.WriteFile(two, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, l := range offline() {
			if report := run(t, again(t, r, b.ID), l); report.OK {
				t.Errorf("level %s: swapped volumes were not found out", l)
			}
		}
	})
	t.Run("bytes appended", func(t *testing.T) {
		r, dir, b := small(t, "zstd")
		for _, name := range objects(t, dir) {
			path := filepath.Join(dir, name)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(slices.Clone(good), '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, l := range offline() {
				if report := run(t, again(t, r, b.ID), l); report.OK {
					t.Errorf("level %s: a byte after the end of %s was not found", l, name)
				}
			}
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStreamThatEndsEarly: every block is as it was stored, but what was stored is no whole backup.
func TestStreamThatEndsEarly(t *testing.T) {
	var raw bytes.Buffer
	w := xbstream.NewWriter(&raw)
	if _, err := w.WriteFile("db/t.ibd", bytes.NewReader(letters(5000))); err != nil {
		t.Fatal(err)
	}
	_, _, b := backup(t, raw.Bytes(), made{codec: "zstd", blockSize: 4096, volumeSize: 0})
	if report := run(t, b, Hash); !report.OK {
		t.Errorf("level hash: got %v, want that the bytes are as they were stored", report.Problems)
	}
	report := run(t, b, Read)
	if report.OK || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Message, "metadata") {
		t.Errorf("level read: got %v, want that the closing metadata is missing", report.Problems)
	}
}

func TestCannotLook(t *testing.T) {
	_, dir, b := small(t, "zstd")
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		for _, l := range offline() {
			if _, err := Run(ctx, b, Options{Level: l}); !errors.Is(err, cause) {
				t.Errorf("level %s: got %v, want the cause of the cancel", l, err)
			}
		}
	})
	t.Run("no permission", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may read everything")
		}
		if err := os.Chmod(filepath.Join(dir, "index.zst"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), b, Options{}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v, want that it may not be read", err)
		}
	})
}

func TestParseLevel(t *testing.T) {
	for _, l := range Levels() {
		if got, err := ParseLevel(string(l)); err != nil || got != l {
			t.Errorf("got %q, %v, want %q", got, err, l)
		}
	}
	if _, err := ParseLevel("deep"); err == nil {
		t.Error("got no error for a level that does not exist")
	}
}
