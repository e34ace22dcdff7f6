package sinks

import "os"

// writeBack keeps the pages of a growing file that wait for the disk few: without it the kernel collects gigabytes and
// the final sync takes minutes, in which everything else on that disk waits too.
type writeBack struct {
	size    int64 // bytes written
	started int64 // up to here the disk was asked to begin
	ended   int64 // up to here the bytes are on the disk and out of the cache
}

const (
	backWindow = 16 << 20       // bytes handed to the disk at a time
	backAhead  = 4 * backWindow // bytes that may be under way before the writer waits
)

// wrote takes note of n bytes appended to f.
func (b *writeBack) wrote(f *os.File, n int64) error {
	b.size += n
	for b.size-b.started >= backWindow {
		if err := startWriteBack(f, b.started, backWindow); err != nil {
			return err
		}
		b.started += backWindow
		if b.started-b.ended <= backAhead {
			continue
		}
		if err := endWriteBack(f, b.ended, backWindow); err != nil {
			return err
		}
		b.ended += backWindow
	}
	return nil
}
