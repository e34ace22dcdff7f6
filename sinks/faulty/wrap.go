package faulty

import "github.com/mbwrap/mbwrap/sinks"

// Wrap returns s with the faults of the table. The result is a Replacer, Locker, Scavenger, and has Free, exactly as far as
// s has. Several sinks may share one table.
func (f *Faults) Wrap(s sinks.Sink) sinks.Sink {
	b := &sink{faults: f, inner: s}
	have := 0
	replaces, ok := s.(sinks.Replacer)
	have |= bit(ok, 1)
	locks, ok := s.(sinks.Locker)
	have |= bit(ok, 2)
	scavenges, ok := s.(sinks.Scavenger)
	have |= bit(ok, 4)
	frees, ok := s.(freer)
	have |= bit(ok, 8)
	return parts{b, &replacer{b, replaces}, &locker{b, locks}, &scavenger{b, scavenges}, &space{b, frees}}.combine(have)
}

func bit(ok bool, value int) int {
	if ok {
		return value
	}
	return 0
}

// parts are the wrappers of all interfaces.
type parts struct {
	base  *sink
	repl  *replacer
	lock  *locker
	scav  *scavenger
	space *space
}

// combine picks the type that has just the methods that the bits of have tell: a type assertion must find what is there
// and nothing else.
func (p parts) combine(have int) sinks.Sink {
	b, r, l, s, f := p.base, p.repl, p.lock, p.scav, p.space
	return [...]sinks.Sink{
		b,
		sinkR{b, r},
		sinkL{b, l},
		sinkRL{b, r, l},
		sinkS{b, s},
		sinkRS{b, r, s},
		sinkLS{b, l, s},
		sinkRLS{b, r, l, s},
		sinkF{b, f},
		sinkRF{b, r, f},
		sinkLF{b, l, f},
		sinkRLF{b, r, l, f},
		sinkSF{b, s, f},
		sinkRSF{b, r, s, f},
		sinkLSF{b, l, s, f},
		sinkRLSF{b, r, l, s, f},
	}[have]
}

// One type for each set of optional interfaces; the letters are those of replacer, locker, scavenger and free space.
type (
	sinkR struct {
		*sink
		*replacer
	}
	sinkL struct {
		*sink
		*locker
	}
	sinkRL struct {
		*sink
		*replacer
		*locker
	}
	sinkS struct {
		*sink
		*scavenger
	}
	sinkRS struct {
		*sink
		*replacer
		*scavenger
	}
	sinkLS struct {
		*sink
		*locker
		*scavenger
	}
	sinkRLS struct {
		*sink
		*replacer
		*locker
		*scavenger
	}
	sinkF struct {
		*sink
		*space
	}
	sinkRF struct {
		*sink
		*replacer
		*space
	}
	sinkLF struct {
		*sink
		*locker
		*space
	}
	sinkRLF struct {
		*sink
		*replacer
		*locker
		*space
	}
	sinkSF struct {
		*sink
		*scavenger
		*space
	}
	sinkRSF struct {
		*sink
		*replacer
		*scavenger
		*space
	}
	sinkLSF struct {
		*sink
		*locker
		*scavenger
		*space
	}
	sinkRLSF struct {
		*sink
		*replacer
		*locker
		*scavenger
		*space
	}
)
