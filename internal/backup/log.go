package backup

import (
	"sync"

	"github.com/mbwrap/mbwrap/codec"
)

// logBuffer collects what the source says, compressed: the log of a backup of 100,000 tables has tens of megabytes of
// text that shrink to a few. It may be written by several goroutines.
type logBuffer struct {
	mutex      sync.Mutex
	compressor codec.Compressor
	text       []byte // not yet compressed
	frames     []byte
}

// Sizes in bytes: of a frame's text, and of all frames, beyond which the middle of the log is left out.
const (
	logFrame = 256 << 10
	logLimit = 16 << 20
)

const logLevel = 3

func newLogBuffer() (*logBuffer, error) {
	zstd, err := codec.Lookup("zstd")
	if err != nil {
		return nil, err
	}
	c, err := zstd.NewCompressor(codec.CompressorOptions{Level: logLevel, BlockSize: logFrame})
	if err != nil {
		return nil, err
	}
	return &logBuffer{compressor: c}, nil
}

// Write takes text. It never fails for want of room: beyond the limit the text before the last frame is left out.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, p...)
	for len(l.text) >= logFrame {
		if len(l.frames) < logLimit {
			var err error
			if l.frames, err = l.compressor.Append(l.frames, l.text[:logFrame]); err != nil {
				return 0, err
			}
		}
		l.text = append(l.text[:0], l.text[logFrame:]...)
	}
	return len(p), nil
}

// Close returns the whole log as zstd frames. Nothing may be written after it.
func (l *logBuffer) Close() ([]byte, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.compressor == nil {
		return l.frames, nil
	}
	var err error
	l.frames, err = l.compressor.Append(l.frames, l.text)
	l.text = nil
	l.compressor.Close()
	l.compressor = nil
	return l.frames, err
}
