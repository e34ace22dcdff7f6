package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// began is when the backups of the tests begin.
var began = time.Date(2026, 11, 30, 18, 1, 2, 0, time.UTC)

const beganID = "20261130T180102Z-full"

func lookup(t testing.TB, name string) *codec.Codec {
	t.Helper()
	c, err := codec.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// maker makes a stream, chunk by chunk.
type maker struct {
	t    testing.TB
	data bytes.Buffer
	w    *xbstream.Writer
	at   map[string]int64 // where the next payload of each file goes
}

func newMaker(t testing.TB) *maker {
	m := &maker{t: t, at: make(map[string]int64)}
	m.w = xbstream.NewWriter(&m.data)
	return m
}

func (m *maker) header(h xbstream.Header) {
	m.t.Helper()
	if err := m.w.WriteHeader(&h); err != nil {
		m.t.Fatal(err)
	}
}

// payload appends n bytes to a file; flags go to the chunk.
func (m *maker) payload(path string, n int, flags byte) {
	m.t.Helper()
	p := bytes.Repeat([]byte{byte(n)}, n)
	m.header(xbstream.Header{Type: xbstream.TypePayload, Path: path, Flags: flags, Offset: m.at[path], Size: int64(n),
		CRC: crc32.ChecksumIEEE(p)})
	if _, err := m.w.Write(p); err != nil {
		m.t.Fatal(err)
	}
	m.at[path] += int64(n)
}

func (m *maker) end(path string) {
	m.t.Helper()
	m.header(xbstream.Header{Type: xbstream.TypeEnd, Path: path})
	delete(m.at, path)
}

func (m *maker) file(path string, n int) {
	m.t.Helper()
	m.payload(path, n, xbstream.FlagRewrite)
	m.end(path)
}

func (m *maker) seek(path string, to int64) {
	m.t.Helper()
	m.header(xbstream.Header{Type: xbstream.TypeSeek, Path: path, Offset: to})
	m.at[path] = to
}

func (m *maker) rename(from, to string) {
	m.t.Helper()
	m.header(xbstream.Header{Type: xbstream.TypeRename, Path: from, NewPath: to})
}

func (m *maker) remove(path string) {
	m.t.Helper()
	m.header(xbstream.Header{Type: xbstream.TypeRemove, Path: path})
}

// sparse appends extents of a file.
func (m *maker) sparse(path string, extents ...xbstream.Extent) {
	m.t.Helper()
	h := xbstream.Header{Type: xbstream.TypeSparse, Path: path, Offset: m.at[path], Extents: extents}
	sum := crc32.NewIEEE()
	for _, e := range extents {
		h.Size += int64(e.Len)
		sum.Write([]byte{byte(e.Skip), byte(e.Skip >> 8), byte(e.Skip >> 16), byte(e.Skip >> 24)})
		sum.Write([]byte{byte(e.Len), byte(e.Len >> 8), byte(e.Len >> 16), byte(e.Len >> 24)})
	}
	p := bytes.Repeat([]byte{7}, int(h.Size))
	sum.Write(p)
	h.CRC = sum.Sum32()
	m.header(h)
	if _, err := m.w.Write(p); err != nil {
		m.t.Fatal(err)
	}
	m.at[path] += h.Advance()
}

// ignorable writes a chunk of a type that nobody knows and everybody skips: it looks like a payload.
func (m *maker) ignorable() {
	m.data.WriteString(xbstream.Magic + "\x01X\x01\x00\x00\x00z")
	m.data.Write([]byte{3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	m.data.Write([]byte{0xc2, 0x41, 0x24, 0x35}) // CRC-32 of abc
	m.data.WriteString("abc")
}

// watcher builds an index and keeps copies of the chunks that it saw.
type watcher struct {
	IndexBuilder
	chunks []xbstream.Chunk
}

func (w *watcher) Chunk(c *xbstream.Chunk) error {
	kept := *c
	kept.CRC, kept.Flags = 0, 0 // not recorded
	kept.Extents = append([]xbstream.Extent(nil), c.Extents...)
	w.chunks = append(w.chunks, kept)
	return w.IndexBuilder.Chunk(c)
}

// watch has a checker read the stream in pieces of step bytes, and cuts it into blocks of random sizes.
func watch(t testing.TB, stream []byte, step int) *watcher {
	t.Helper()
	w := new(watcher)
	c := xbstream.NewChecker(xbstream.Options{Handler: w, Expect: xbstream.ExpectAny})
	for part := range slices.Chunk(stream, step) {
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, block := range cut(int64(len(stream)), uint64(step)) {
		w.Block(block)
	}
	return w
}

// cut returns blocks of random sizes for a stream of that size, in several volumes.
func cut(size int64, seed uint64) []pipeline.Block {
	random := rand.New(rand.NewPCG(seed, 3))
	var blocks []pipeline.Block
	next := pipeline.Block{Volume: 1}
	for next.Raw < size {
		if len(blocks) > 0 && random.IntN(5) == 0 {
			next.Volume, next.Stored = next.Volume+1, 0
		}
		block := next
		block.RawSize = min(1+random.Int64N(100), size-next.Raw)
		block.StoredSize, block.CRC = 1+random.Int64N(200), random.Uint32()
		blocks = append(blocks, block)
		next.Raw, next.Stored = block.Raw+block.RawSize, block.Stored+block.StoredSize
	}
	return blocks
}

// cutOne is a stream in one block.
func cutOne(size int64) pipeline.Block {
	return pipeline.Block{RawSize: size, Volume: 1, StoredSize: size}
}

// mariadbStream has every chunk type that MariaDB sends.
func mariadbStream(t testing.TB) []byte {
	m := newMaker(t)
	m.payload("ib_logfile0", 200, 0)
	m.payload("db/a.ibd", 1, 0)
	m.payload("db/b.ibd", 300, 0)
	m.payload("db/a.ibd", 70, 0)
	m.end("db/a.ibd")
	m.end("db/empty.opt")
	m.ignorable()
	m.ignorable()
	m.end("db/b.ibd")
	m.payload("aria_log.00000001", 50, 0)
	m.seek("aria_log.00000001", 37)
	m.payload("aria_log.00000001", 7, 0)
	m.end("aria_log.00000001")
	m.rename("db/b.ibd", "db/c.ibd")
	m.rename("db/never.MAD", "db/sent.MAD")
	m.payload("db/a.ibd", 11, xbstream.FlagRewrite)
	m.end("db/a.ibd")
	m.file("db/p#P#p0.MYD", 5)
	m.file("db/p#P#p1.MYD", 6)
	m.remove("db/p#P#*")
	m.remove("db/gone.frm")
	m.remove("other/*")
	m.end("ib_logfile0")
	m.file("we@0020ird/\xff\x01.frm", 3)
	m.file("xtrabackup_info", 20)
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	m.ignorable() // nothing recorded follows it
	return m.data.Bytes()
}

// longStream is a stream of several blocks.
func longStream(t testing.TB) []byte {
	m := newMaker(t)
	for i := range 10 {
		m.file(fmt.Sprintf("db/t%d.ibd", i), 1000+i)
	}
	m.file("xtrabackup_info", 20)
	return m.data.Bytes()
}

// perconaStream has sparse chunks.
func perconaStream(t testing.TB) []byte {
	m := newMaker(t)
	m.payload("s.ibd", 10, 0)
	m.sparse("s.ibd", xbstream.Extent{Skip: 100, Len: 20}, xbstream.Extent{Skip: 3, Len: 4})
	m.sparse("s.ibd", xbstream.Extent{Skip: 1 << 31, Len: 1})
	m.payload("s.ibd", 10, 0)
	m.sparse("s.ibd", xbstream.Extent{Skip: 4096, Len: 0})
	m.end("s.ibd")
	m.file("xtrabackup_info", 20)
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	return m.data.Bytes()
}

// job is a small backup.
type job struct {
	stream  []byte
	codec   string
	volumes int64 // stored bytes of a volume
	started time.Time
	typ     string
	key     *encrypt.Key // of an encrypted backup: see sealed
	to      *encrypt.Recipients
	ids     *encrypt.Identities
	// between is called after the volumes were written, before the commit.
	between func(*Pending)
	edit    func(*Manifest) // changes the manifest before the commit
}

// repositories makes sinks repositories, called A, B, …
func repositories(t testing.TB, all ...sinks.Sink) []*Repository {
	t.Helper()
	var repositories []*Repository
	for i, sink := range all {
		r, _, err := Init(context.Background(), sink, string(rune('A'+i)))
		if err != nil {
			t.Fatal(err)
		}
		repositories = append(repositories, r)
	}
	return repositories
}

// through returns the repository as seen through another sink.
func through(r *Repository, sink sinks.Sink) *Repository { return &Repository{sink, r.location} }

// run takes the backup as a program would: everything that was begun is ended.
func (j job) run(ctx context.Context, server string, to ...*Repository) (p *Pending, err error) {
	if j.codec == "" {
		j.codec = "none"
	}
	if j.started.IsZero() {
		j.started = began
	}
	if j.typ == "" {
		j.typ = Full
	}
	c, err := codec.Lookup(j.codec)
	if err != nil {
		return nil, err
	}
	p, err = Begin(ctx, to, server, BeginOptions{Type: j.typ, Started: j.started, Codec: c, Owner: []byte("pid 42"),
		Key: j.key, Recipients: j.to})
	if err != nil {
		return nil, err
	}
	if err := j.fill(ctx, p, c); err != nil {
		return p, errors.Join(err, p.Abort(ctx))
	}
	return p, nil
}

// fill writes the volumes and commits.
func (j job) fill(ctx context.Context, p *Pending, c *codec.Codec) error {
	var index IndexBuilder
	checker := xbstream.NewChecker(xbstream.Options{Handler: &index, Expect: xbstream.ExpectAny})
	result, err := pipeline.Pack(ctx, p.Volumes(ctx), bytes.NewReader(j.stream), pipeline.PackOptions{
		Codec: c, Jobs: 1, BlockSize: pipeline.MinBlockSize, VolumeSize: j.volumes, Check: checker, OnBlock: index.Block})
	if err != nil {
		return err
	}
	if err := checker.Close(); err != nil {
		return err
	}
	if j.between != nil {
		j.between(p)
	}
	stats := checker.Stats()
	m := &Manifest{
		Type: j.typ, Started: j.started, Finished: j.started.Add(time.Minute), Mbwrap: "1.0.0", Host: "db1.example",
		Source: "tool", ToolVersion: "10.11.19", ToolOptions: []string{"--parallel"}, ServerVersion: "10.11.19-MariaDB",
		Codec: c.Name(), Level: "auto", Levels: []LevelCount{{Level: 1, Blocks: result.Blocks}},
		RawBytes: result.RawSize, BlockSize: pipeline.MinBlockSize, Blocks: result.Blocks,
		Chunks: stats.Chunks, Files: int64(stats.Files), ToLSN: 46000, LastLSN: 46100,
		Binlog:  &Binlog{File: "mysql-bin.000007", Position: 344, GTID: "0-1-9"},
		Timings: Timings{Total: 60, Source: 50.5, Check: 1, Compress: 20.25, Sink: 3, Locked: 0.5, Bottleneck: "source"},
	}
	if j.edit != nil {
		j.edit(m)
	}
	log, err := compressIndex([]byte("[00] 2026-11-30 18:02:02 completed OK!\n"))
	if err != nil {
		return err
	}
	return p.Commit(ctx, m, index.Encode(), log)
}

// person makes an identity, and who it is to others.
func person(t testing.TB, postQuantum bool) (*encrypt.Identities, *encrypt.Recipients) {
	t.Helper()
	secret, public, err := encrypt.Generate(postQuantum)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encrypt.ReadIdentities(strings.NewReader(secret), encrypt.IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	return ids, to
}

// sealed returns the same job, encrypted to somebody new.
func (j job) sealed(t testing.TB) job {
	t.Helper()
	var err error
	j.ids, j.to = person(t, false)
	if j.key, err = encrypt.NewKey(false); err != nil {
		t.Fatal(err)
	}
	return j
}

// plainAndSealed calls test with the job as it is and encrypted.
func (j job) plainAndSealed(t *testing.T, test func(t *testing.T, j job)) {
	t.Run("plain", func(t *testing.T) { test(t, j) })
	t.Run("encrypted", func(t *testing.T) { test(t, j.sealed(t)) })
}

// prove reads the whole backup with the job's identity.
func (j job) prove(b *Backup) error {
	if err := b.Unlock(context.Background(), j.ids); err != nil {
		return err
	}
	return prove(b, j.stream)
}

// mustRun takes the backup and returns it, unlocked, as the first repository lists it.
func (j job) mustRun(t testing.TB, server string, to ...*Repository) *Backup {
	t.Helper()
	p, err := j.run(t.Context(), server, to...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := to[0].Find(t.Context(), server, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), j.ids); err != nil {
		t.Fatal(err)
	}
	return b
}

// prove reads the whole backup: all objects against the manifest and the sums, the index, and the stream.
func prove(b *Backup, stream []byte) error {
	ctx := context.Background()
	if !b.Usable() || b.Err != nil {
		return fmt.Errorf("it is %s (%v)", b.State, b.Err)
	}
	sums, err := b.ReadSums(ctx)
	if err != nil || !b.SumsFit(sums) {
		return fmt.Errorf("sums %q (%v), want %q", sums, err, b.Manifest.Sums())
	}
	if b.Manifest.Encrypted {
		if _, err := b.ReadKey(ctx); err != nil {
			return err
		}
	}
	for _, o := range b.Manifest.Objects() {
		data, err := readObject(ctx, b.Repository.sink, join(b.Server, b.ID, o.Name), MaxIndex)
		if err != nil || int64(len(data)) != o.Size || sumOf(data) != o.SHA256 {
			return fmt.Errorf("object %q has %d bytes with sum %s (%v), want %+v", o.Name, len(data), sumOf(data), err, o)
		}
	}
	ix, err := b.Index(ctx)
	if err != nil {
		return err
	}
	c, err := codec.Lookup(b.Manifest.Codec)
	if err != nil {
		return err
	}
	volumes := b.StoredVolumes(ctx)
	var out []byte
	err = pipeline.Unpack(ctx, pipeline.UnpackOptions{Codec: c, Jobs: 1, Blocks: ix.AllBlocks(), Volume: volumes.At},
		func(r *pipeline.Raw) error {
			defer r.Release()
			out = append(out, r.Data...)
			return nil
		})
	if err := errors.Join(err, volumes.Close()); err != nil {
		return err
	}
	if !bytes.Equal(out, stream) {
		return fmt.Errorf("it holds %d bytes, not the %d of the stream", len(out), len(stream))
	}
	return nil
}
