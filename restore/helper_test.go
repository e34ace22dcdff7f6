package restore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == helperArgument {
		os.Exit(helperMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

const unfinished = "mbwrap-restore.unfinished"

// builder makes streams chunk by chunk.
type builder struct {
	t   testing.TB
	buf bytes.Buffer
	w   *xbstream.Writer
	at  map[string]int64
	log []record
}

// record is a chunk that was written, and its place in the stream.
type record struct {
	xbstream.Header
	start, end int64
}

func newStream(t testing.TB) *builder {
	b := &builder{t: t, at: map[string]int64{}}
	b.w = xbstream.NewWriter(&b.buf)
	return b
}

func (b *builder) head(h xbstream.Header, payload []byte) *builder {
	b.t.Helper()
	start := int64(b.buf.Len())
	if err := b.w.WriteHeader(&h); err != nil {
		b.t.Fatal(err)
	}
	if len(payload) > 0 {
		if _, err := b.w.Write(payload); err != nil {
			b.t.Fatal(err)
		}
	}
	b.log = append(b.log, record{h, start, int64(b.buf.Len())})
	return b
}

// put appends to a file.
func (b *builder) put(path string, data []byte) *builder { return b.putFlags(path, data, 0) }

func (b *builder) putFlags(path string, data []byte, flags byte) *builder {
	h := xbstream.Header{
		Type: xbstream.TypePayload, Flags: flags, Path: path, Offset: b.at[path],
		Size: int64(len(data)), CRC: crc32.ChecksumIEEE(data),
	}
	b.at[path] += int64(len(data))
	return b.head(h, data)
}

func (b *builder) end(path string) *builder {
	delete(b.at, path)
	return b.head(xbstream.Header{Type: xbstream.TypeEnd, Path: path}, nil)
}

func (b *builder) seek(path string, to int64) *builder {
	b.at[path] = to
	return b.head(xbstream.Header{Type: xbstream.TypeSeek, Path: path, Offset: to}, nil)
}

func (b *builder) rename(from, to string) *builder {
	return b.head(xbstream.Header{Type: xbstream.TypeRename, Path: from, NewPath: to}, nil)
}

func (b *builder) remove(path string) *builder {
	return b.head(xbstream.Header{Type: xbstream.TypeRemove, Path: path}, nil)
}

// sparse appends data with holes.
func (b *builder) sparse(path string, data []byte, extents ...xbstream.Extent) *builder {
	var table []byte
	at := b.at[path]
	for _, e := range extents {
		table = binary.LittleEndian.AppendUint32(table, e.Skip)
		table = binary.LittleEndian.AppendUint32(table, e.Len)
		b.at[path] += int64(e.Skip) + int64(e.Len)
	}
	h := xbstream.Header{
		Type: xbstream.TypeSparse, Path: path, Offset: at, Size: int64(len(data)),
		CRC: crc32.Update(crc32.ChecksumIEEE(table), crc32.IEEETable, data), Extents: extents,
	}
	return b.head(h, data)
}

// file sends a whole file.
func (b *builder) file(path, content string) *builder {
	if content != "" {
		b.put(path, []byte(content))
	}
	return b.end(path)
}

// again sends an ended file again.
func (b *builder) again(path, content string) *builder {
	if content != "" {
		b.putFlags(path, []byte(content), xbstream.FlagRewrite)
	}
	return b.end(path)
}

const checkpoints = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 45419\nlast_lsn = 45500\nrecover_binlog_info = 0\n"

// meta is what a whole backup ends with.
func (b *builder) meta() *builder {
	b.file("xtrabackup_binlog_info", "bin.000007\t4711\t0-1-34\n")
	b.file("xtrabackup_checkpoints", checkpoints)
	b.file("backup-my.cnf", "[mysqld]\ninnodb_page_size=16384\ninnodb_data_file_path=ibdata1:10M:autoextend\n")
	return b.file("xtrabackup_info", "tool_version = 10.11.19-MariaDB\nserver_version = 10.11.19-MariaDB\npartial = N\n")
}

// metaFiles are the files that meta sends.
func metaFiles() map[string]string {
	return map[string]string{
		"xtrabackup_binlog_info": "bin.000007\t4711\t0-1-34\n",
		"xtrabackup_checkpoints": checkpoints,
		"backup-my.cnf":          "[mysqld]\ninnodb_page_size=16384\ninnodb_data_file_path=ibdata1:10M:autoextend\n",
		"xtrabackup_info":        "tool_version = 10.11.19-MariaDB\nserver_version = 10.11.19-MariaDB\npartial = N\n",
	}
}

func (b *builder) bytes() []byte {
	b.t.Helper()
	if err := b.w.Close(); err != nil {
		b.t.Fatal(err)
	}
	return b.buf.Bytes()
}

// with returns the files of a whole backup that also holds these.
func with(files map[string]string) map[string]string {
	all := metaFiles()
	maps.Copy(all, files)
	return all
}

// mustCodec returns a codec of the table.
func mustCodec(t testing.TB, name string) *codec.Codec {
	t.Helper()
	c, err := codec.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// packing says how makeBackup stores a stream.
type packing struct {
	codec      string // "" is lz4
	level      string
	blockSize  int
	volumeSize int64
	server     string // version; "" is 10.11.19
	typ        string
	lie        []byte // the stream that the index describes, when it is another one
	noCheck    bool   // the stream itself is not looked at: it is damaged
	sealed     bool   // encrypted
	locked     bool   // it stays locked
}

// newKeys makes the keys of a backup: its own, whom it is sealed to, and who can open it.
func newKeys() (*encrypt.Key, *encrypt.Recipients, *encrypt.Identities, error) {
	secret, public, err := encrypt.Generate(false)
	if err != nil {
		return nil, nil, nil, err
	}
	ids, err := encrypt.ReadIdentities(strings.NewReader(secret+"\n"), encrypt.IdentityOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	recipients, err := encrypt.ParseRecipients(public)
	if err != nil {
		return nil, nil, nil, err
	}
	key, err := encrypt.NewKey(false)
	return key, recipients, ids, err
}

// makeBackup stores a stream as a backup in a repository in dir.
func makeBackup(t testing.TB, dir string, stream []byte, o packing) *catalog.Backup {
	t.Helper()
	b, err := pack(t.Context(), dir, bytes.NewReader(stream), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pack(ctx context.Context, dir string, stream io.Reader, o packing) (*catalog.Backup, error) {
	sink, err := sinks.NewLocal(dir)
	if err != nil {
		return nil, err
	}
	r, _, err := catalog.Init(ctx, sink, dir)
	if err != nil {
		return nil, err
	}
	if o.codec == "" {
		o.codec = "lz4"
	}
	c, err := codec.Lookup(o.codec)
	if err != nil {
		return nil, err
	}
	level, err := c.ParseLevel(o.level)
	if err != nil {
		return nil, err
	}
	if o.typ == "" {
		o.typ = catalog.Full
	}
	if o.server == "" {
		o.server = "10.11.19-MariaDB"
	}
	started := time.Date(2026, 11, 30, 18, 1, 2, 0, time.UTC)
	begin := catalog.BeginOptions{Type: o.typ, Started: started, Codec: c}
	var ids *encrypt.Identities
	if o.sealed {
		if begin.Key, begin.Recipients, ids, err = newKeys(); err != nil {
			return nil, err
		}
	}
	p, err := catalog.Begin(ctx, []*catalog.Repository{r}, "db1", begin)
	if err != nil {
		return nil, err
	}
	var index catalog.IndexBuilder
	checker := xbstream.NewChecker(xbstream.Options{Handler: &index, Expect: xbstream.ExpectAny})
	if o.lie != nil {
		if _, err := checker.Write(o.lie); err != nil {
			return nil, err
		}
		checker = xbstream.NewChecker(xbstream.Options{Expect: xbstream.ExpectAny})
	}
	var check io.Writer = checker
	if o.noCheck {
		check = nil
	}
	packed, err := pipeline.Pack(ctx, p.Volumes(ctx), stream, pipeline.PackOptions{
		Codec: c, Level: level, Jobs: 2, BlockSize: o.blockSize, VolumeSize: o.volumeSize, Check: check, OnBlock: index.Block,
	})
	if err == nil && !o.noCheck {
		err = checker.Close()
	}
	if err != nil {
		return nil, errors.Join(err, p.Abort(ctx))
	}
	m := &catalog.Manifest{
		Type: o.typ, Started: started, Finished: started.Add(time.Minute), Codec: c.Name(), Level: "auto", Source: "tool",
		RawBytes: packed.RawSize, Blocks: packed.Blocks, BlockSize: int64(o.blockSize),
		ServerVersion: o.server,
	}
	if err := p.Commit(ctx, m, index.Encode(), nil); err != nil {
		return nil, err
	}
	b, err := r.Find(ctx, "db1", p.ID)
	if err != nil || !o.sealed || o.locked {
		return b, err
	}
	return b, b.Unlock(ctx, ids)
}

// readTree returns the files below dir and the directories, with their contents; lost+found is left out.
func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || rel == "." {
			return err
		}
		if entry.IsDir() {
			if rel == "lost+found" {
				return fs.SkipDir
			}
			list, err := os.ReadDir(name)
			if err == nil && len(list) == 0 {
				files[rel+"/"] = ""
			}
			return err
		}
		data, err := os.ReadFile(name)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameTree compares what is in dir with what should be.
func sameTree(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := readTree(t, dir)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		content, found := got[name]
		switch {
		case !found:
			t.Errorf("file %q: is missing", name)
		case content != want[name]:
			t.Errorf("file %q: got %d bytes %.60q, want %d bytes %.60q", name, len(content), content, len(want[name]), want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, found := want[name]; !found {
			t.Errorf("file %q: got %d bytes, want no such file", name, len(got[name]))
		}
	}
}

// memoryDir is a temporary directory in memory where there is such a place: most tests are about files, not about disks.
func memoryDir(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
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

// streamOf is a stream in memory.
func streamOf(data []byte) *restore.Stream {
	return &restore.Stream{Reader: bytes.NewReader(data), Name: "test.xbs", Identity: "test"}
}

// compress makes one frame of every so many bytes.
func compress(t testing.TB, name string, data []byte, block int) []byte {
	t.Helper()
	c := mustCodec(t, name)
	level, err := c.ParseLevel("auto")
	if err != nil {
		t.Fatal(err)
	}
	z, err := c.NewCompressor(codec.CompressorOptions{Level: level, BlockSize: block})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var out []byte
	for part := range slices.Chunk(data, block) {
		if out, err = z.Append(out, part); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// assertUnfinished tells whether the target shows nothing but the mark of an unfinished restore.
func assertUnfinished(t testing.TB, target string) {
	t.Helper()
	entries, err := os.ReadDir(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != unfinished && e.Name() != "lost+found" {
			t.Errorf("target of an unfinished restore holds %q", e.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(target, unfinished, "state.json")); err != nil {
		t.Errorf("mark of an unfinished restore: %v", err)
	}
}

func absentFile(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// ourselves is the owner that every user may give files to.
func ourselves() string { return fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()) }
