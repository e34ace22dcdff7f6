package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestManifestOfAGoodRun(t *testing.T) {
	t.Parallel()
	data := stream(t, 9000)
	r := repository(t, newMemory())
	s := play(data)
	s.report = mariadb.Report{DDLBlocked: 2 * time.Second, CommitsBlocked: time.Second, Phases: []mariadb.Phase{{}}}
	o := options(t, s)
	o.ToolOptions = []string{"--parallel"}
	var phases []string
	o.OnPhase = func(p string) { phases = append(phases, p) }
	result, err := Run(t.Context(), target(r), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Find(t.Context(), "db1", catalog.Latest)
	if err != nil {
		t.Fatal(err)
	}
	m := b.Manifest
	got := fmt.Sprint(m.Type, m.Server, m.Host, m.Mbwrap, m.Source, m.Codec, m.Level, m.Levels, m.ToolOptions, m.FromLSN, m.ToLSN,
		m.LastLSN, m.ServerVersion, m.ToolVersion, m.Binlog, m.RawBytes, m.Blocks, m.BlockSize, m.Files, m.Timings.Locked, m.Partial)
	want := fmt.Sprint("full", "db1", "host", "1.0", "tool", "zstd", "auto", []catalog.LevelCount{{Level: 1, Blocks: 3}},
		[]string{"--parallel"}, 0, 100, 112, "10.11.11-MariaDB", "10.11.11-MariaDB", &catalog.Binlog{File: "b.1", Position: 4},
		len(data), 3, 4096, 5, 2.0, false)
	if got != want {
		t.Errorf("manifest:\ngot  %s\nwant %s", got, want)
	}
	if m.Finished.Before(m.Started) || m.Timings.Total <= 0 || m.Timings.Bottleneck == "" || m.StoredBytes == 0 {
		t.Errorf("times: got %+v from %v to %v", m.Timings, m.Started, m.Finished)
	}
	if len(result.Failed) > 0 || len(result.Phases) != 1 || result.Elapsed <= 0 || result.Manifest.ID != b.ID {
		t.Errorf("result: got %+v", result)
	}
	if want := []string{"backup", "commit"}; !slices.Equal(phases, want) {
		t.Errorf("phases: got %q, want %q", phases, want)
	}
	if got := decodeLog(t, r, b); got != "the tool says something\n" {
		t.Errorf("log: got %q", got)
	}
}

// decodeLog returns what the backup's log says.
func decodeLog(t *testing.T, r *catalog.Repository, b *catalog.Backup) string {
	t.Helper()
	object, err := b.Open(t.Context(), b.Manifest.Log.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	return plain(t, io.NewSectionReader(object, 0, object.Size()))
}

// plain decodes zstd.
func plain(t *testing.T, r io.Reader) string {
	t.Helper()
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	text, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSourcesThatFail: no stream that is not proven makes a backup, whatever is wrong, and nothing is left of it.
func TestSourcesThatFail(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); sourcesThatFail(t, nil) })
	to, _ := operator(t)
	t.Run("encrypted", func(t *testing.T) { t.Parallel(); sourcesThatFail(t, to) })
}

func sourcesThatFail(t *testing.T, to *encrypt.Recipients) {
	whole := stream(t, 9000)
	boom := errors.New("boom")
	died := &mariadb.ToolError{Tool: "tool", Exit: 1}
	tests := map[string]struct {
		source *script
		want   error
		change func(*Options)
	}{
		"whole, then its failure": {source: ends(whole, boom), want: boom},
		"nothing, then a failure": {source: ends(nil, boom), want: boom},
		"half, then a failure":    {source: ends(whole[:5000], boom), want: boom},
		"nothing":                 {source: play(nil), want: xbstream.ErrEmpty},
		"cut in a chunk":          {source: play(whole[:5000]), want: io.ErrUnexpectedEOF},
		"without checkpoints":     {source: play(stream(t, 10, "xtrabackup_checkpoints=none")), want: xbstream.ErrMetadata},
		"LSNs the wrong way":      {source: play(stream(t, 10, "xtrabackup_checkpoints=backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 100\nlast_lsn = 99\n")), want: ErrPosition},
		"full, but not from 0":    {source: play(stream(t, 10, "xtrabackup_checkpoints=backup_type = full-backuped\nfrom_lsn = 5\nto_lsn = 100\nlast_lsn = 112\n")), want: ErrPosition},
		"incremental": {source: play(stream(t, 10, "xtrabackup_checkpoints=backup_type = incremental\nfrom_lsn = 5\nto_lsn = 100\nlast_lsn = 112\n",
			"xtrabackup_info=incremental = Y\nformat = xbstream\n")), want: ErrPosition},
		"unreadable checkpoints": {source: play(stream(t, 10, "xtrabackup_checkpoints=nonsense")), want: ErrPosition},
		"broken stream of a tool that died": {source: func() *script {
			s := ends(bytes.Repeat([]byte("this is no stream"), 1000), died)
			s.report.ExitCode = 1
			return s
		}(), want: died},
		"broken stream of a tool that ended well": {source: play(bytes.Repeat([]byte("this is no stream"), 1000)),
			want: xbstream.ErrMagic},
		"hangs": {source: hangs(whole[:5000]), want: ErrStalled,
			change: func(o *Options) { o.StallTimeout = 30 * time.Millisecond }},
		"hangs at once": {source: hangs(nil), want: ErrStalled,
			change: func(o *Options) { o.StallTimeout = 30 * time.Millisecond }},
		"takes too long": {source: hangs(whole[:5000]), want: ErrMaxRuntime,
			change: func(o *Options) { o.MaxRuntime = 30 * time.Millisecond }},
		"does not start": {source: play(whole), want: boom,
			change: func(o *Options) { o.Start = func(context.Context, io.Writer) (Source, error) { return nil, boom } }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newMemory()
			r := repository(t, store)
			o := options(t, test.source)
			o.VolumeSize, o.Recipients = 100, to
			if test.change != nil {
				test.change(&o)
			}
			soon(t, name, func() {
				result, err := Run(t.Context(), target(r), o)
				if !errors.Is(err, test.want) || result != nil {
					t.Errorf("got %v, %v, want %v", result, err, test.want)
				}
			})
			store.checkClean(t, name)
			if !test.source.isStopped() {
				t.Error("the source was not stopped")
			}
		})
	}
}

func ends(data []byte, err error) *script {
	s := play(data)
	s.end = err
	return s
}

func hangs(data []byte) *script {
	s := play(data)
	s.hang = true
	return s
}

// TestEveryTruncation cuts the stream at every byte: whatever the source says, it is no backup.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	whole := stream(t, 500)
	for n := 0; n < len(whole); n += stride {
		store := newMemory()
		r := repository(t, store)
		_, err := Run(t.Context(), target(r), options(t, play(whole[:n])))
		if err == nil {
			t.Fatalf("cut at %d: got no error", n)
		}
		store.checkClean(t, fmt.Sprint("cut at ", n))
	}
}

// TestCancelled: the run ends with the cause, the source is stopped and nothing is left, wherever it was.
func TestCancelled(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); cancelled(t, nil) })
	to, _ := operator(t)
	t.Run("encrypted", func(t *testing.T) { t.Parallel(); cancelled(t, to) })
}

func cancelled(t *testing.T, to *encrypt.Recipients) {
	whole := stream(t, 9000)
	cause := errors.New("interrupted")
	for name, when := range map[string]string{"while it streams": "backup", "before the commit": "commit"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newMemory()
			r := repository(t, store)
			ctx, cancel := context.WithCancelCause(t.Context())
			s := play(whole)
			if when == "backup" {
				s = hangs(whole[:5000])
			}
			o := options(t, s)
			o.Recipients = to
			o.OnPhase = func(p string) {
				if p == when {
					cancel(cause)
				}
			}
			soon(t, name, func() {
				if _, err := Run(ctx, target(r), o); !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the cause", err)
				}
			})
			store.checkClean(t, name)
			if !s.isStopped() {
				t.Error("the source was not stopped")
			}
		})
	}
}

// endless is a stream that goes on as long as it is read.
type endless struct{ *script }

func newEndless(t *testing.T) *endless {
	t.Helper()
	r, w := io.Pipe()
	s := &script{data: r, stopped: make(chan struct{})}
	go func() {
		x := xbstream.NewWriter(w)
		random := rand.NewChaCha8([32]byte{})
		for i := 0; ; i++ {
			if _, err := x.WriteFile(fmt.Sprintf("shop/t%d.ibd", i), io.LimitReader(random, 64<<10)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { r.Close() })
	return &endless{s}
}

func (e *endless) Stop() error {
	if closer, ok := e.data.(io.Closer); ok {
		closer.Close()
	}
	return e.script.Stop()
}

// TestEndlessSourceAndFullSink: a sink that fails ends a source that would go on for ever.
func TestEndlessSourceAndFullSink(t *testing.T) {
	t.Parallel()
	store, table := newMemory(), faulty.New()
	r := repository(t, table.Wrap(store))
	table.Set(faulty.Fault{Op: faulty.Write, After: 1 << 20, Err: io.ErrShortWrite})
	source := newEndless(t)
	soon(t, "endless source", func() {
		if _, err := Run(t.Context(), target(r), options(t, source)); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("got %v, want the sink's error", err)
		}
	})
	if !source.isStopped() {
		t.Error("the source was not stopped")
	}
	store.checkClean(t, "endless source")
}

func TestWaitForLock(t *testing.T) {
	t.Parallel()
	r := repository(t, newMemory())
	locker := r.Sink().(sinks.Locker)
	lock, err := locker.Lock(t.Context(), "db1/lock", []byte("another"))
	if err != nil {
		t.Fatal(err)
	}
	var held *sinks.LockedError
	if _, err := Run(t.Context(), target(r), options(t, play(small(t)))); !errors.As(err, &held) {
		t.Errorf("without waiting: got %v, want LockedError", err)
	}
	to := target(r)
	to.WaitLock = 10 * time.Millisecond
	if _, err := Run(t.Context(), to, options(t, play(small(t)))); !errors.As(err, &held) {
		t.Errorf("waited in vain: got %v, want LockedError", err)
	}
	to.WaitLock = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, play(small(t)))
	o.OnPhase = func(p string) {
		if p == "waiting for another run" {
			cancel()
		}
	}
	if _, err := Run(ctx, to, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	o = options(t, play(small(t)))
	o.OnPhase = func(p string) {
		if p == "waiting for another run" {
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Run(t.Context(), to, o); err != nil {
		t.Errorf("freed while it waited: got %v", err)
	}
}

func TestShrunk(t *testing.T) {
	t.Parallel()
	store, table := newMemory(), faulty.New()
	r := repository(t, table.Wrap(store))
	large, tiny := stream(t, 90_000), stream(t, 900)
	run := func(data []byte, refuse bool) (*Result, error) {
		o := options(t, play(data))
		o.FailOnShrink = refuse
		return Run(t.Context(), target(r), o)
	}
	if _, err := run(large, true); err != nil {
		t.Fatalf("the first one: %v", err)
	}
	if _, err := run(tiny, true); !errors.Is(err, ErrShrunk) || len(listed(t, r)) != 1 {
		t.Errorf("refused: got %v, listed %v", err, listed(t, r))
	}
	if result, err := run(stream(t, 60_000), true); err != nil || len(result.Manifest.Warnings) > 0 {
		t.Errorf("two thirds: got %v", err)
	}
	result, err := run(tiny, false)
	if err != nil || len(result.Manifest.Warnings) != 1 || !strings.Contains(result.Manifest.Warnings[0], ErrShrunk.Error()) {
		t.Errorf("tiny: got %v, %v, want a warning", result, err)
	}

	// A repository that can't be asked for its last backup is no reason to lose this one.
	store, table = newMemory(), faulty.New()
	r = repository(t, table.Wrap(store))
	table.Set(faulty.Fault{Op: faulty.List, Skip: 1, Err: io.ErrClosedPipe})
	result, err = run(large, false)
	if err != nil || len(result.Manifest.Warnings) != 1 || !strings.Contains(result.Manifest.Warnings[0], "could not be compared") {
		t.Errorf("list fails: got %v, %v, want a warning", result, err)
	}
	table.Set(faulty.Fault{Op: faulty.List, Skip: 1, Err: io.ErrClosedPipe})
	var sink *catalog.RepositoryError
	if _, err = run(large, true); !errors.As(err, &sink) {
		t.Errorf("list fails, and the size matters: got %v, want a RepositoryError", err)
	}
}

// TestAnyStream: what was asked for as any stream may be any.
func TestAnyStream(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"one file":            file(t, "notes.txt", "hello"),
		"broken checkpoints":  file(t, "xtrabackup_checkpoints", "nonsense"),
		"an incremental":      stream(t, 10, "xtrabackup_checkpoints=backup_type = incremental\nfrom_lsn = 5\nto_lsn = 100\nlast_lsn = 112\n"),
		"a whole backup":      stream(t, 10),
		"without checkpoints": stream(t, 10, "xtrabackup_checkpoints=none"),
	} {
		o := options(t, play(data))
		o.AnyStream = true
		var out bytes.Buffer
		result, err := RunPlain(t.Context(), &out, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := plain(t, bytes.NewReader(out.Bytes())); got != string(data) || result.Manifest.StoredBytes != int64(out.Len()) {
			t.Errorf("%s: got %d bytes and %d stored, want %d and %d", name, len(got), result.Manifest.StoredBytes, len(data), out.Len())
		}
	}
	o := options(t, play(nil))
	o.AnyStream = true
	if _, err := RunPlain(t.Context(), io.Discard, o); !errors.Is(err, xbstream.ErrEmpty) {
		t.Errorf("empty: got %v, want ErrEmpty", err)
	}
}

// file makes a stream of one file.
func file(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := xbstream.NewWriter(&out).WriteFile(name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestLimitRate: a low rate slows the run down and does not look like a stall.
func TestLimitRate(t *testing.T) {
	t.Parallel()
	o := options(t, play(stream(t, 60_000)))
	o.LimitRate, o.StallTimeout = 50_000, 3*time.Second
	start := time.Now()
	if _, err := RunPlain(t.Context(), io.Discard, o); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 700*time.Millisecond {
		t.Errorf("61 kB at 50 kB/s: got %v, want a second or so", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	o = options(t, play(stream(t, 60_000)))
	o.LimitRate = 1
	soon(t, "cancelled while it is slow", func() {
		if _, err := RunPlain(ctx, io.Discard, o); err == nil {
			t.Error("cancelled: got no error")
		}
	})
}

func TestUsualBlockSizeAndJobs(t *testing.T) {
	t.Parallel()
	o := options(t, play(small(t)))
	o.Jobs, o.BlockSize = 0, 0
	result, err := RunPlain(t.Context(), io.Discard, o)
	if err != nil || result.Manifest.BlockSize != pipeline.DefaultBlockSize || result.Manifest.Blocks != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestLogBuffer(t *testing.T) {
	t.Parallel()
	l, err := newLogBuffer()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 1<<20)
	var all bytes.Buffer
	for range 3 {
		random.Read(noise)
		all.Write(noise)
		if n, err := l.Write(noise); n != len(noise) || err != nil {
			t.Fatal(n, err)
		}
	}
	frames, err := l.Close()
	if err != nil {
		t.Fatal(err)
	}
	if got := plain(t, bytes.NewReader(frames)); got != all.String() {
		t.Errorf("got %d bytes, want the %d written", len(got), all.Len())
	}
	if again, err := l.Close(); err != nil || !bytes.Equal(again, frames) {
		t.Errorf("second Close: %v", err)
	}
}

// TestLogBufferIsBounded: a source that talks without end fills no memory, and its last words are kept.
func TestLogBufferIsBounded(t *testing.T) {
	t.Parallel()
	l, err := newLogBuffer()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 1<<20)
	for range logLimit>>20 + 4 {
		random.Read(noise)
		if _, err := l.Write(noise); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(l, "last words"); err != nil {
		t.Fatal(err)
	}
	frames, err := l.Close()
	if err != nil || len(frames) > logLimit+2*logFrame {
		t.Fatalf("got %d bytes, %v, want at most about %d", len(frames), err, logLimit)
	}
	if got := plain(t, bytes.NewReader(frames)); !strings.HasSuffix(got, "last words") {
		t.Error("the last words are lost")
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	data := small(t)
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		go func() { w.Write(data); w.Close() }()
		s, err := NewStdin(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("stopped while it waits", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		s, err := NewStdin(r)
		if err != nil {
			t.Fatal(err)
		}
		o := options(t, s)
		o.StallTimeout = 30 * time.Millisecond
		soon(t, "hanging pipe", func() {
			if _, err := RunPlain(t.Context(), io.Discard, o); !errors.Is(err, ErrStalled) {
				t.Errorf("got %v, want ErrStalled", err)
			}
		})
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		name := t.TempDir() + "/stream"
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := NewStdin(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunPlain(t.Context(), io.Discard, options(t, s)); err != nil {
			t.Error(err)
		}
	})
	t.Run("device", func(t *testing.T) {
		t.Parallel()
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := NewStdin(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunPlain(t.Context(), io.Discard, options(t, s)); !errors.Is(err, xbstream.ErrEmpty) {
			t.Errorf("got %v, want ErrEmpty", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := NewStdin(f); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}
