package restore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/sinks"
)

// helperArgument makes the test binary restore a backup and exit: a process of its own that can be killed.
const helperArgument = "-restore-helper"

// helperMain restores the only backup in a repository, the first argument, into the second. A third one, "prepare", has
// it prepared; a fourth is after how many bytes it says "read" and waits to be killed.
func helperMain(args []string) int {
	ctx := context.Background()
	sink := &slowSink{after: math.MaxInt}
	if len(args) > 3 {
		sink.after, _ = strconv.Atoi(args[3]) // 0 is as good
		sink.stop = sync.OnceFunc(func() {
			fmt.Println("read")
			select {}
		})
	}
	backup, err := openBackup(ctx, args[0], sink)
	if err == nil {
		o := restore.SyncOften(restore.Options{Target: args[1], Backup: backup, NoPrepare: len(args) < 3 || args[2] != "prepare"})
		var result restore.Result
		if result, err = restore.Run(ctx, o); err == nil {
			fmt.Println("kept", result.Kept)
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// openBackup opens the only backup in a repository through a sink.
func openBackup(ctx context.Context, dir string, sink *slowSink) (*catalog.Backup, error) {
	local, err := sinks.NewLocal(dir)
	if err != nil {
		return nil, err
	}
	sink.Sink = local
	r, err := catalog.Open(ctx, sink, dir)
	if err != nil {
		return nil, err
	}
	return r.Find(ctx, "db1", catalog.Latest)
}

// helper returns a command that restores the backup in repository into target; see helperMain.
func helper(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{helperArgument}, arguments...)...)
	// The race detector would have a process that is done wait for a second, in which kills hit nothing.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// killStream is large enough to be killed in, with renames so that the plan is not the stream.
func killStream(t testing.TB) ([]byte, map[string]string) {
	b := newStream(t)
	want := make(map[string]string)
	for i := range 120 {
		name := fmt.Sprintf("db%d/t%d.ibd", i%7, i)
		content := string(noise(uint64(i), 20_000+i*800))
		for at := 0; at < len(content); at += 30_000 {
			b.put(name, []byte(content[at:min(at+30_000, len(content))]))
		}
		b.end(name)
		want[name] = content
		if i%10 == 9 {
			b.rename(name, name+".moved")
			want[name+".moved"] = content
			delete(want, name)
		}
	}
	b.file("ibdata1", "system")
	want["ibdata1"] = "system"
	return b.meta().bytes(), with(want)
}

// TestKilledAndRunAgain kills a restore at any moment, over and over, until one gets through.
func TestKilledAndRunAgain(t *testing.T) {
	stream, want := killStream(t)
	repository := memoryDir(t)
	makeBackup(t, repository, stream, packing{blockSize: 64 << 10, codec: "none"})
	whole := timeOf(t, func() {
		if out, err := helper(t, repository, filepath.Join(memoryDir(t), "t")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	r := rand.New(rand.NewPCG(3, 1))
	kills, resumed := 0, 0
	for round := range 5 {
		target := filepath.Join(memoryDir(t), "t")
		after := len(stream) / 6 * (round + 1)
		killWhenRead(t, helper(t, repository, target, "extract", fmt.Sprint(after)), target)
		assertUnfinished(t, target)
		kills++
		for kill := 0; ; kill++ {
			delay := time.Duration(r.Int64N(int64(whole) * int64(kill+2) / 2))
			out, killed := killAfter(t, helper(t, repository, target), delay)
			if !killed {
				if strings.HasPrefix(out, "kept ") && out != "kept 0\n" {
					resumed++
				}
				break
			}
			kills++
			if !absentFile(target) {
				assertNotWhole(t, target, want)
			}
		}
		sameTree(t, target, want)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	t.Logf("%d kills, %d last runs that kept files", kills, resumed)
	if resumed == 0 {
		t.Error("no run kept files of one that was killed")
	}
}

// killWhenRead kills a helper that says that it has read as much as it should, once it has noted some files in its
// journal.
func killWhenRead(t *testing.T, cmd *exec.Cmd, target string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "read\n" {
		t.Errorf("got %q, %v, want it to read", said, err)
	}
	journal := filepath.Join(target, "mbwrap-restore.unfinished", "done.log")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(journal); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("it noted no file")
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was done before it was killed")
	}
}

func timeOf(t *testing.T, do func()) time.Duration {
	t.Helper()
	start := time.Now()
	do()
	return time.Since(start)
}

// killAfter runs cmd, kills it after delay, and tells whether it had not ended well before, and what it said.
func killAfter(t *testing.T, cmd *exec.Cmd, delay time.Duration) (said string, killed bool) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(delay, func() { _ = cmd.Process.Signal(syscall.SIGKILL) }) // it may have ended
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		return "", true
	}
	// A kill at the very end finds the target whole: the next run refuses it, and nothing is lost.
	if err != nil && !strings.Contains(out.String(), "is not empty") {
		t.Fatalf("%v: %s", err, out.String())
	}
	return out.String(), false
}

// assertNotWhole tells whether the target of a killed restore shows more than a mark, unless everything else is there.
func assertNotWhole(t *testing.T, target string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(target)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	marked := false
	for _, e := range entries {
		marked = marked || e.Name() == unfinished
		names = append(names, e.Name())
	}
	if slices.Contains(names, "ibdata1") && !marked {
		sameTree(t, target, want)
	}
	if !marked && len(names) > 0 && !slices.Contains(names, "ibdata1") {
		t.Errorf("target of a killed restore holds %q and no mark", names)
	}
}

// slowSink calls stop whenever a volume of a backup is read beyond so many bytes.
type slowSink struct {
	sinks.Sink
	after int
	stop  func()
}

type slowObject struct {
	sinks.Object
	sink *slowSink
}

func (s *slowSink) Open(ctx context.Context, name string) (sinks.Object, error) {
	o, err := s.Sink.Open(ctx, name)
	if err != nil || !strings.Contains(name, "data.") {
		return o, err
	}
	return &slowObject{o, s}, nil
}

func (o *slowObject) ReadAt(p []byte, at int64) (int, error) {
	if at > int64(o.sink.after) {
		o.sink.stop()
	}
	return o.Object.ReadAt(p, at)
}

// TestCancelledAndRunAgain cancels a planned restore, and looks at what the next run keeps.
func TestCancelledAndRunAgain(t *testing.T) {
	stream, want := killStream(t)
	repository := memoryDir(t)
	makeBackup(t, repository, stream, packing{blockSize: 64 << 10, codec: "none"})
	target := filepath.Join(memoryDir(t), "t")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	sink := &slowSink{after: len(stream) / 2, stop: func() { cancel(cause) }}
	backup, err := openBackup(t.Context(), repository, sink)
	if err != nil {
		t.Fatal(err)
	}
	_, err = restore.Run(ctx, restore.Options{Target: target, Backup: backup, NoPrepare: true})
	var incomplete *restore.IncompleteError
	if !errors.Is(err, cause) || !errors.As(err, &incomplete) || !incomplete.Again || incomplete.Phase != restore.PhaseExtract {
		t.Fatalf("got %#v, want an IncompleteError of the cause", err)
	}
	assertUnfinished(t, target)

	var total int64
	result, err := restore.Run(t.Context(), restore.Options{
		Target: target, Backup: backup, NoPrepare: true, OnTotal: func(n int64) { total = n },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Resumed || result.Kept < 40 || result.Kept >= int64(len(want)) {
		t.Errorf("second run: resumed %v, kept %d of %d files", result.Resumed, result.Kept, len(want))
	}
	if total <= 0 || total > int64(len(stream))*2/3 {
		t.Errorf("second run: reads %d of %d bytes", total, len(stream))
	}
	sameTree(t, target, want)
	sameCounts(t, result, want)
}

// TestCancelledStream cancels an extraction whose source blocks.
func TestCancelledStream(t *testing.T) {
	stream, want := killStream(t)
	target := filepath.Join(memoryDir(t), "t")
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	go func() {
		_, _ = writer.Write(stream[:len(stream)/2]) // fails when the reader is closed
		cancel()
	}()
	s := &restore.Stream{Reader: reader, Name: "-", Interrupt: func() { reader.CloseWithError(io.ErrClosedPipe) }}
	_, err := restore.Extract(ctx, s, restore.ExtractOptions{Target: target})
	var incomplete *restore.IncompleteError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &incomplete) || incomplete.Again {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	assertUnfinished(t, target)
	s = &restore.Stream{Reader: strings.NewReader(string(stream)), Name: "-"}
	result, err := restore.Extract(t.Context(), s, restore.ExtractOptions{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Resumed || result.Kept != 0 {
		t.Errorf("second run: got resumed %v, kept %d; want true, 0", result.Resumed, result.Kept)
	}
	sameTree(t, target, maps.Clone(want))
}
