package faulty

import (
	"context"
	"errors"

	"github.com/mbwrap/mbwrap/sinks"
)

type replacer struct {
	sink  *sink
	inner sinks.Replacer
}

func (r *replacer) Replace(ctx context.Context, name string, data []byte) error {
	return r.sink.run(ctx, call{op: Replace, name: name}, func() error { return r.inner.Replace(ctx, name, data) })
}

type locker struct {
	sink  *sink
	inner sinks.Locker
}

func (l *locker) Lock(ctx context.Context, name string, owner []byte) (sinks.Lock, error) {
	var k sinks.Lock
	err := l.sink.run(ctx, call{op: Lock, name: name}, func() (err error) {
		k, err = l.inner.Lock(ctx, name, owner)
		return err
	})
	if err != nil {
		if k != nil { // late
			err = errors.Join(err, k.Unlock())
		}
		return nil, err
	}
	return &lock{sink: l.sink, name: name, inner: k}, nil
}

type lock struct {
	sink  *sink
	name  string
	inner sinks.Lock
}

func (k *lock) Unlock() error {
	err := k.inner.Unlock()
	ctx := context.Background() // a lock outlives the context it was taken with
	return errors.Join(err, k.sink.run(ctx, call{op: Unlock, name: k.name}, func() error { return nil }))
}

type scavenger struct {
	sink  *sink
	inner sinks.Scavenger
}

func (s *scavenger) Leftovers(ctx context.Context, prefix string) (infos []sinks.Info, err error) {
	err = s.sink.run(ctx, call{op: Leftovers, name: prefix}, func() (err error) {
		infos, err = s.inner.Leftovers(ctx, prefix)
		return err
	})
	return infos, err
}

func (s *scavenger) RemoveLeftover(ctx context.Context, name string) error {
	c := call{op: RemoveLeftover, name: name}
	return s.sink.run(ctx, c, func() error { return s.inner.RemoveLeftover(ctx, name) })
}

// freer is how a sink tells free space.
type freer interface {
	Free(ctx context.Context) (int64, error)
}

type space struct {
	sink  *sink
	inner freer
}

func (s *space) Free(ctx context.Context) (n int64, err error) {
	err = s.sink.run(ctx, call{op: Free}, func() (err error) {
		n, err = s.inner.Free(ctx)
		return err
	})
	return n, err
}
