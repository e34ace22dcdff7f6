package sinks_test

import (
	"testing"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/sinktest"
)

func TestLocalConforms(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinks.Sink {
		l, err := sinks.NewLocal(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Errorf("close: got %v, want nil", err)
			}
		})
		return l
	})
}
