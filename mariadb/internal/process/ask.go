package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// most is how much of an answer is kept, in bytes.
const most = 1 << 20

// askTimeout bounds a question to a program that should answer at once.
const askTimeout = 10 * time.Second

// Ask runs a program that answers a question and returns what it wrote to both its outputs, at most 1 MiB.
func Ask(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = WithoutSecrets(cmd.Environ())
	cmd.Stdout = &limitedWriter{w: &out, left: most}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%w: %s", err, Clip(strings.TrimSpace(out.String())))
	}
	return out.String(), err
}

// limitedWriter passes on the first left bytes and swallows the rest.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.left)]
	l.left -= len(keep)
	if _, err := l.w.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Clip shortens text for an error message.
func Clip(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
