package cli

import (
	"sync"
	"time"

	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/pipeline"
)

// watchEvery is how often a running pipeline's counters are looked at.
const watchEvery = 100 * time.Millisecond

// watch shows the progress of a pipeline that counts in m; total is the raw bytes expected, 0 if unknown. end must be
// called; it may be called twice.
func (e *Env) watch(title string, total int64, m *pipeline.Meter) (r *progress.Reporter, end func()) {
	r, done := e.progress(title, total)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var raw, stored int64
		look := func() {
			now, out := m.Raw.Load(), m.Stored.Load()
			r.AddRaw(now - raw)
			r.AddStored(out - stored)
			raw, stored = now, out
		}
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				look()
			case <-stop:
				look()
				return
			}
		}
	}()
	return r, sync.OnceFunc(func() {
		close(stop)
		<-stopped
		done()
	})
}
