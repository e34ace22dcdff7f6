package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
)

var ended = time.Date(2026, 11, 30, 18, 5, 0, 0, time.UTC)

func TestOutcomeOf(t *testing.T) {
	m := &catalog.Manifest{ID: "20261130T180102Z-full", RawBytes: 10, StoredBytes: 5, Warnings: []string{"w"}}
	tests := map[string]struct {
		err     error
		m       *catalog.Manifest
		result  string
		exit    int
		message string
	}{
		"done":               {nil, m, resultSuccess, exitDone, ""},
		"warnings":           {reported(errWarnings), m, resultWarning, exitWarnings, ""},
		"source":             {errSource, nil, resultFailure, exitSource, "the source failed"},
		"damage":             {errDamage, m, resultFailure, exitDamage, "damaged"},
		"a warning and more": {errors.Join(errDamage, errWarnings), m, resultFailure, exitDamage, "damaged\ndone, with warnings"},
	}
	for name, test := range tests {
		o := outcomeOf(test.err, test.m, ended.Add(-time.Minute), ended)
		if o.Result != test.result || o.Exit != test.exit || o.Message != test.message {
			t.Errorf("%s: got %s %d %q, want %s %d %q", name, o.Result, o.Exit, o.Message, test.result, test.exit, test.message)
		}
		if (o.ID != "") != (test.m != nil) || len(o.Warnings) > 0 != (test.m != nil) {
			t.Errorf("%s: got ID %q and warnings %q", name, o.ID, o.Warnings)
		}
	}
}

// hook returns a server that answers with status after asking for what came, and its URL with a secret in it.
func hook(t *testing.T, status int, seen func(*http.Request, []byte)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if seen != nil {
			seen(r, body)
		}
		if status/100 == 3 {
			w.Header().Set("Location", r.URL.String())
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hunter2?token=hunter3"
}

func TestPostSendsTheOutcome(t *testing.T) {
	var got outcomeSeen
	target := hook(t, http.StatusOK, func(r *http.Request, body []byte) {
		got.method, got.contentType = r.Method, r.Header.Get("Content-Type")
		got.err = json.Unmarshal(body, &got.fields)
	})
	o := outcomeOf(nil, &catalog.Manifest{ID: "x", RawBytes: 10}, ended, ended)
	o.Server = "db1"
	if err := callOne(t.Context(), newWorld().Env, target, o); err != nil {
		t.Fatal(err)
	}
	if got.method != "POST" || got.contentType != "application/json" || got.err != nil {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]any{"result": "success", "exit": 0.0, "server": "db1", "id": "x", "raw_bytes": 10.0,
		"finished": "2026-11-30T18:05:00Z", "message": ""} {
		if got.fields[name] != want {
			t.Errorf("%s: got %v, want %v", name, got.fields[name], want)
		}
	}
}

type outcomeSeen struct {
	method, contentType string
	fields              map[string]any
	err                 error
}

// TestHooksThatFail: each is told, and no message shows what may be a secret.
func TestHooksThatFail(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tests := map[string]struct{ target, want string }{
		"answers 404":        {hook(t, 404, nil), "it answered 404 Not Found"},
		"answers 500":        {hook(t, 500, nil), "it answered 500"},
		"redirects for ever": {hook(t, 302, nil), "stopped after 10 redirects"},
		"nobody there":       {gone.URL + "/hunter2", "connection refused"},
		"not a URL":          {"https://host/%zz/hunter2", "not a usable one"},
		"not a URL either":   {"HTTP://[hunter2", "not a usable one"},
		"user in the URL":    {strings.Replace(hook(t, 403, nil), "://", "://me:hunter2@", 1), "it answered 403"},
		"no host":            {"https:///hunter2", "no Host"},
		"exit status":        {"exit 3 # hunter2", `hook "exit": exit status 3`},
		"says why":           {"echo no such channel; false hunter2", `it said "no such channel"`},
		"says too much":      {"yes 0123456789 | head -n 100000; exit 1", "exit status 1"},
		"secret first":       {"TOKEN=hunter2 false", `hook "false": exit status 1`},
		"not there":          {"no-such-program-there", "not found"},
		"only a secret":      {"TOKEN=hunter2; [ -z hunter2 ]", `hook "[": exit status 1`},
	}
	for name, test := range tests {
		err := callOne(t.Context(), newWorld().Env, test.target, outcome{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter") || len(err.Error()) > 1000 {
			t.Errorf("%s: shows too much: %v", name, err)
		}
	}
}

// TestHooksThatHang are given up, with all that they started.
func TestHooksThatHang(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	pid := filepath.Join(t.TempDir(), "pid")
	for name, target := range map[string]string{
		"URL":     hook(t, 200, func(*http.Request, []byte) { <-release }),
		"command": "sleep 1000 & echo $! > " + pid + "; wait",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		start := time.Now()
		err := callOne(ctx, newWorld().Env, target, outcome{})
		cancel()
		if err == nil || time.Since(start) > 20*time.Second {
			t.Errorf("%s: got %v after %v", name, err, time.Since(start))
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: shows too much: %v", name, err)
		}
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var number int
	fmt.Sscan(string(text), &number)
	for start := time.Now(); !isZombie(number); time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatal("the hook's child is still there")
		}
	}
}

// TestHookMayLeaveSomethingRunning: what it started in the background is its own affair.
func TestHookMayLeaveSomethingRunning(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	if err := callOne(t.Context(), newWorld().Env, "sleep 20 & echo $! > "+pid, outcome{}); err != nil {
		t.Error(err)
	}
	if err := callOne(t.Context(), newWorld().Env, "kill $(cat "+pid+")", outcome{}); err != nil {
		t.Errorf("it was not left running: %v", err)
	}
}

func TestShellGetsTheOutcome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	env := newWorld("PATH="+os.Getenv("PATH"), "MBWRAP_PASSWORD=hunter2", "MBWRAP_BACKUP_PASSWORD=hunter2", "MBWRAP_PASSWORD_FILE=/f",
		"OTHER_PASSWORD=mine").Env
	o := outcome{Result: resultWarning, Exit: 3, ID: "x", Server: "db1", Message: "a\nb", RawBytes: 10, StoredBytes: 5}
	if err := callOne(t.Context(), env, "{ env; cat; } > "+file, o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MBWRAP_RESULT=warning\n", "MBWRAP_EXIT=3\n", "MBWRAP_ID=x\n", "MBWRAP_SERVER=db1\n", "MBWRAP_RAW_BYTES=10\n",
		"MBWRAP_STORED_BYTES=5\n", "MBWRAP_MESSAGE=a\nb\n", "MBWRAP_PASSWORD_FILE=/f\n", "OTHER_PASSWORD=mine\n", `"result":"warning"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s\nwant %q in it", text, want)
		}
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("the hook sees a secret of ours:\n%s", text)
	}
}

// TestCallAfterTheEnd: hooks are called although the run was interrupted, each whatever became of the others.
func TestCallAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	h := hookFlags{OnFailure: []string{"false", "touch " + dir + "/called"}, OnSuccess: []string{"touch " + dir + "/wrong"},
		OnWarning: []string{"touch " + dir + "/wrong"}, MetricsFile: dir + "/absent/m.prom"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := h.call(ctx, newWorld().Env, outcome{Result: resultFailure})
	if len(failed) != 2 || !strings.Contains(failed[1].Error(), "metrics file") {
		t.Errorf("got %v, want a failed hook and a failed metrics file", failed)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "called" {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/mbwrap.prom"
	good := outcome{Result: resultSuccess, Server: `db"1\`, RawBytes: 100, StoredBytes: 50, Started: moment(ended.Add(-90 * time.Second)),
		Finished: moment(ended)}
	if err := writeMetrics(file, good); err != nil {
		t.Fatal(err)
	}
	label := `{server="db\"1\\"}`
	checkMetrics(t, file, []string{
		"mbwrap_last_run_timestamp_seconds" + label + " 1796061900", "mbwrap_last_run_exit_code" + label + " 0",
		"mbwrap_last_run_duration_seconds" + label + " 90.000", "mbwrap_last_success_timestamp_seconds" + label + " 1796061900",
		"mbwrap_raw_bytes" + label + " 100", "mbwrap_stored_bytes" + label + " 50",
	})
	bad := good
	bad.Result, bad.Exit, bad.RawBytes, bad.StoredBytes = resultFailure, 4, 0, 0
	bad.Started, bad.Finished = moment(ended.Add(time.Hour)), moment(ended.Add(time.Hour))
	for range 2 { // what is known of the last good one survives any number of failures
		if err := writeMetrics(file, bad); err != nil {
			t.Fatal(err)
		}
		checkMetrics(t, file, []string{
			"mbwrap_last_run_timestamp_seconds" + label + " 1796065500", "mbwrap_last_run_exit_code" + label + " 4",
			"mbwrap_last_run_duration_seconds" + label + " 0.000", "mbwrap_last_success_timestamp_seconds" + label + " 1796061900",
			"mbwrap_raw_bytes" + label + " 100", "mbwrap_stored_bytes" + label + " 50",
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the file only", entries, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v, want a file that everybody can read", info.Mode(), err)
	}
	// A first run that fails has no last success.
	if err := writeMetrics(dir+"/new.prom", bad); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(dir + "/new.prom"); strings.Contains(string(text), "success") {
		t.Errorf("got %s", text)
	}
}

// checkMetrics wants these samples in the file, and nothing else but comments.
func checkMetrics(t *testing.T, file string, want []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	got := slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
