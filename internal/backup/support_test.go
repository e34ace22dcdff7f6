package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/mariadb"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/xbstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a sink in memory: the tests here run a backup thousands of times, and what a disk does is tested elsewhere.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	locks   map[string][]byte
	writing int // writers neither committed nor aborted
}

func newMemory() *memory {
	return &memory{objects: map[string][]byte{}, locks: map[string][]byte{}}
}

type memoryWriter struct {
	sink  *memory
	name  string
	data  []byte
	ended bool
}

func (m *memory) Create(ctx context.Context, name string) (sinks.Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, taken := m.objects[name]; taken {
		return nil, fs.ErrExist
	}
	m.writing++
	return &memoryWriter{sink: m, name: name}, nil
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *memoryWriter) end(keep bool) error {
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if w.ended {
		return nil
	}
	w.ended = true
	w.sink.writing--
	if keep {
		w.sink.objects[w.name] = w.data
	}
	return nil
}

func (w *memoryWriter) Commit() error { return w.end(true) }
func (w *memoryWriter) Abort() error  { return w.end(false) }

type memoryObject struct{ *bytes.Reader }

func (o memoryObject) Close() error { return nil }

func (m *memory) Open(_ context.Context, name string) (sinks.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, found := m.objects[name]
	if !found {
		return nil, fs.ErrNotExist
	}
	return memoryObject{bytes.NewReader(data)}, nil
}

func (m *memory) List(_ context.Context, prefix string) ([]sinks.Info, error) {
	var all []sinks.Info
	for _, name := range m.names() {
		if strings.HasPrefix(name, prefix) {
			all = append(all, sinks.Info{Name: name})
		}
	}
	return all, nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.objects[name]; !found {
		return fs.ErrNotExist
	}
	delete(m.objects, name)
	return nil
}

type memoryLock struct {
	sink *memory
	name string
}

func (m *memory) Lock(_ context.Context, name string, owner []byte) (sinks.Lock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder, held := m.locks[name]; held {
		return nil, &sinks.LockedError{Name: name, Owner: holder}
	}
	m.locks[name] = owner
	return memoryLock{m, name}, nil
}

func (l memoryLock) Unlock() error {
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	delete(l.sink.locks, l.name)
	return nil
}

func (m *memory) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for name := range m.objects {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// size is what the sink holds, in bytes.
func (m *memory) size() (n int64) {
	for _, data := range m.objects {
		n += int64(len(data))
	}
	return n
}

// checkClean wants nothing in the sink but the repository's mark, no lock held and no writer open.
func (m *memory) checkClean(t *testing.T, when string) {
	t.Helper()
	if got := m.names(); !slices.Equal(got, []string{catalog.RepositoryObject}) {
		t.Errorf("%s: left behind: got %q, want the mark only", when, got)
	}
	m.checkFree(t, when)
}

func (m *memory) checkFree(t *testing.T, when string) {
	t.Helper()
	if len(m.locks) > 0 || m.writing != 0 {
		t.Errorf("%s: got %d locks and %d writers, want none", when, len(m.locks), m.writing)
	}
}

// repository makes sink, which may be a faulty wrapper of one, a repository.
func repository(t *testing.T, sink sinks.Sink) *catalog.Repository {
	t.Helper()
	r, _, err := catalog.Init(t.Context(), sink, "memory")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listed returns the states of the backups in r.
func listed(t *testing.T, r *catalog.Repository) []catalog.State {
	t.Helper()
	list, err := r.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var states []catalog.State
	for _, b := range list {
		states = append(states, b.State)
	}
	return states
}

// stream makes a full backup's stream with a table of that many bytes. What changes are the closing files: name=text.
func stream(t testing.TB, size int, changes ...string) []byte {
	t.Helper()
	files := []string{
		"ibdata1=" + strings.Repeat("page", 50),
		"shop/t1.ibd=" + strings.Repeat("0123456789 row of a table\n", size/26+1)[:size],
		"xtrabackup_checkpoints=backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 100\nlast_lsn = 112\n",
		"backup-my.cnf=[mariadbd]\ninnodb_page_size=16384\n",
		"xtrabackup_info=tool_version = 10.11.11-MariaDB\nserver_version = 10.11.11-MariaDB\nbinlog_pos = filename 'b.1', position '4'\n" +
			"partial = N\nincremental = N\nformat = xbstream\n",
	}
	for _, c := range changes {
		name, _, _ := strings.Cut(c, "=")
		i := slices.IndexFunc(files, func(f string) bool { return strings.HasPrefix(f, name+"=") })
		if i < 0 {
			files = append(files, c)
		} else {
			files[i] = c
		}
	}
	var out bytes.Buffer
	w := xbstream.NewWriter(&out)
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		if text == "none" {
			continue
		}
		if _, err := w.WriteFile(name, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// script is a source that plays data and then ends with end, or hangs until it is stopped.
type script struct {
	data   io.Reader
	end    error // nil: io.EOF
	hang   bool
	report mariadb.Report

	started bool
	once    sync.Once
	stopped chan struct{}
}

var errStopped = errors.New("the source was stopped")

func play(data []byte) *script {
	return &script{data: bytes.NewReader(data), stopped: make(chan struct{})}
}

func (s *script) Read(p []byte) (int, error) {
	select {
	case <-s.stopped:
		if s.end != nil {
			return 0, s.end // as a tool that ended by itself before it was stopped
		}
	default:
	}
	n, err := s.data.Read(p)
	switch {
	case n > 0 || err == nil:
		return n, nil
	case s.hang:
		<-s.stopped
		return 0, errStopped
	case s.end != nil:
		return 0, s.end
	}
	return 0, io.EOF
}

func (s *script) Stop() error {
	s.once.Do(func() { close(s.stopped) })
	return nil
}

func (s *script) Report() mariadb.Report { return s.report }

// isStopped tells whether the source was stopped, as it must be after every run that started it.
func (s *script) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return !s.started
	}
}

// options are those of a run that plays s.
func options(t testing.TB, s Source) Options {
	t.Helper()
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Start: func(_ context.Context, log io.Writer) (Source, error) {
			if played, ok := s.(*script); ok {
				played.started = true
			}
			_, err := fmt.Fprintln(log, "the tool says something")
			return s, err
		},
		Source: "tool", Codec: zstd, Level: 1, LevelText: "auto", Jobs: 1, BlockSize: 4 << 10,
	}
}

// operator makes the recipients of somebody who can read backups, and what it takes.
func operator(t testing.TB) (*encrypt.Recipients, *encrypt.Identities) {
	t.Helper()
	return operatorOf(t, false)
}

func operatorOf(t testing.TB, postQuantum bool) (*encrypt.Recipients, *encrypt.Identities) {
	t.Helper()
	secret, public, err := encrypt.Generate(postQuantum)
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encrypt.ReadIdentities(strings.NewReader(secret), encrypt.IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return to, ids
}

// target is one that files under db1.
func target(repositories ...*catalog.Repository) Target {
	return Target{Repositories: repositories, Server: "db1", Mbwrap: "1.0", Host: "host"}
}

// soon fails a test that hangs, with a message of its own.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: not over after 30 s", what)
	}
}
