package backup

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stdin is a Source that reads a file handed in from outside, such as standard input. The exit status of what writes
// into it is unknown: only the stream itself is proven.
type Stdin struct{ file *os.File }

// NewStdin returns a source that reads f, which it takes over. A pipe is switched to non-blocking mode so that Stop can
// end a blocked Read.
func NewStdin(f *os.File) (*Stdin, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		return &Stdin{f}, nil
	}
	if info.Mode()&os.ModeNamedPipe != 0 {
		// Room for a whole read; the kernel may refuse, which costs a little speed only.
		unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	}
	if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return &Stdin{f}, nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Stdin{os.NewFile(uintptr(fd), f.Name())}, nil
}

// pipeSize is the kernel's buffer that is asked for, in bytes.
const pipeSize = 1 << 20

func (s *Stdin) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Stop makes a blocked Read return. What writes into the pipe is not ours to end: it finds the pipe closed when this
// process ends.
func (s *Stdin) Stop() error {
	if err := s.file.SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return err
	}
	return nil
}
