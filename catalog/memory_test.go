package catalog

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/sinktest"
)

// memory is a sink in memory, so that thousands of faults can be tried in a second.
type memory struct {
	mutex   sync.Mutex
	objects map[string][]byte
	locks   map[string][]byte // owners
}

func newMemory() *memory {
	return &memory{objects: make(map[string][]byte), locks: make(map[string][]byte)}
}

// TestMemoryIsASink: what is proven with it counts for every sink.
func TestMemoryIsASink(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinks.Sink { return newMemory() })
}

func (m *memory) begin(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return sinks.CheckName(name)
}

// taken tells whether name, or a name that can't stand beside it, is taken.
func (m *memory) taken(name string) bool {
	for other := range m.objects {
		if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return true
		}
	}
	return false
}

func (m *memory) Create(ctx context.Context, name string) (sinks.Writer, error) {
	if err := m.begin(ctx, name); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.taken(name) {
		return nil, fmt.Errorf("create %q: %w", name, fs.ErrExist)
	}
	return &memoryWriter{sink: m, ctx: ctx, name: name}, nil
}

type memoryWriter struct {
	sink  *memory
	ctx   context.Context
	name  string
	data  bytes.Buffer
	ended bool
	err   error
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	if w.err == nil && w.ended {
		w.err = fs.ErrClosed
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.data.Write(p)
}

func (w *memoryWriter) Commit() error {
	if w.ended {
		return w.err
	}
	w.ended = true
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return w.err
	}
	w.sink.mutex.Lock()
	defer w.sink.mutex.Unlock()
	if w.sink.taken(w.name) {
		w.err = fmt.Errorf("commit %q: %w", w.name, fs.ErrExist)
		return w.err
	}
	w.sink.objects[w.name] = w.data.Bytes()
	return nil
}

func (w *memoryWriter) Abort() error {
	if !w.ended {
		w.ended, w.err = true, fs.ErrClosed
	}
	return nil
}

func (m *memory) Open(ctx context.Context, name string) (sinks.Object, error) {
	if err := m.begin(ctx, name); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	data, found := m.objects[name]
	if !found {
		return nil, fmt.Errorf("open %q: %w", name, fs.ErrNotExist)
	}
	return memoryObject{bytes.NewReader(data)}, nil
}

type memoryObject struct{ *bytes.Reader }

func (memoryObject) Close() error { return nil }

func (m *memory) List(ctx context.Context, prefix string) ([]sinks.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if prefix != "" && sinks.CheckName(strings.TrimSuffix(prefix, "/")) != nil && sinks.CheckName(prefix+"x") != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, fs.ErrInvalid)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var list []sinks.Info
	for name, data := range m.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, sinks.Info{Name: name, Size: int64(len(data)), ModTime: time.Now()})
		}
	}
	slices.SortFunc(list, func(a, b sinks.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (m *memory) Remove(ctx context.Context, name string) error {
	if err := m.begin(ctx, name); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, found := m.objects[name]; !found {
		return fmt.Errorf("remove %q: %w", name, fs.ErrNotExist)
	}
	delete(m.objects, name)
	return nil
}

func (m *memory) Replace(ctx context.Context, name string, data []byte) error {
	if err := m.begin(ctx, name); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, found := m.objects[name]; !found && m.taken(name) {
		return fmt.Errorf("replace %q: %w", name, fs.ErrExist)
	}
	m.objects[name] = bytes.Clone(data)
	return nil
}

func (m *memory) Lock(ctx context.Context, name string, owner []byte) (sinks.Lock, error) {
	if err := m.begin(ctx, name); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if other, held := m.locks[name]; held {
		return nil, &sinks.LockedError{Name: name, Owner: other}
	}
	m.locks[name] = bytes.Clone(owner)
	return &memoryLock{sink: m, name: name}, nil
}

type memoryLock struct {
	sink *memory
	name string
	once sync.Once
}

func (l *memoryLock) Unlock() error {
	l.once.Do(func() {
		l.sink.mutex.Lock()
		defer l.sink.mutex.Unlock()
		delete(l.sink.locks, l.name)
	})
	return nil
}

// put places an object by hand.
func (m *memory) put(name string, data []byte) { m.objects[name] = data }

// names returns the objects whose names begin with prefix, sorted.
func (m *memory) names(prefix string) []string {
	var names []string
	for name := range m.objects {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
