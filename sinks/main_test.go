package sinks

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// helperVariable makes the test binary do one thing and be killed at it: "WHAT NUMBER DIRECTORY".
const helperVariable = "MBWRAP_SINKS_TEST_HELPER"

func TestMain(m *testing.M) {
	if job := os.Getenv(helperVariable); job != "" {
		if err := help(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helper starts the test binary again for a job.
func helper(t *testing.T, what string, n int, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", helperVariable, what, n, dir))
	cmd.Stderr = os.Stderr
	return cmd
}

// startHelper starts a helper that says when it has what it should hold; it then stands still until it is killed.
func startHelper(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, what, 0, dir)
	in, err := cmd.StdinPipe() // never written: its end is the helper's end, should the test die
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	ready := make([]byte, len("ready"))
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("helper %s: got %v, want ready", what, err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // tells of the signal
}

// help runs in the helper.
func help(job string) error {
	fields := strings.SplitN(job, " ", 3)
	n, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	l, err := NewLocal(fields[2])
	if err != nil {
		return err
	}
	switch fields[0] {
	case "create":
		dieAt(l, n)
		return crashCreate(l)
	case "replace":
		dieAt(l, n)
		return l.Replace(background, "srv/id/object", []byte(crashData))
	case "lock":
		if _, err := l.Lock(background, "srv/run", []byte("helper")); err != nil {
			return err
		}
	case "write":
		w, err := l.Create(background, "srv/id/object")
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(crashData)); err != nil {
			return err
		}
	}
	fmt.Print("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// dieAt has the process killed at the n-th step.
func dieAt(l *Local, n int) {
	l.step = func(string) error {
		if n--; n < 0 {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}
}
