package progress

import (
	"bytes"
	"io"
)

// Writer returns a writer for lines that are to appear among the progress without garbling it. What is written is held
// until its line is complete; Close passes on an unfinished last line. It may be used after Done, and concurrently
// with everything else; a line is never torn, nor mixed with another Writer's. On a nil Reporter it discards.
func (r *Reporter) Writer() io.WriteCloser {
	return &lineWriter{r: r}
}

// lineWriter holds the beginning of a line; the Reporter's lock guards it.
type lineWriter struct {
	r    *Reporter
	held []byte
}

// maxHeld bounds what is held of a line that does not end.
const maxHeld = 64 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.r == nil {
		return len(p), nil
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.held = append(w.held, p...)
	if len(w.held) > maxHeld && w.held[len(w.held)-1] != '\n' {
		w.held = append(w.held, '\n')
	}
	end := bytes.LastIndexByte(w.held, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	err := w.r.emit(w.held[:end])
	w.held = append(w.held[:0], w.held[end:]...)
	return len(p), err
}

// Close passes on what is left, as a line.
func (w *lineWriter) Close() error {
	if w.r == nil {
		return nil
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	line := append(w.held, '\n')
	w.held = nil
	return w.r.emit(line)
}

// emit writes whole lines, past the view once that has ended. The caller holds r.mu.
func (r *Reporter) emit(lines []byte) error {
	if r.done {
		return silent{r}.log(lines)
	}
	return r.view.log(lines)
}
