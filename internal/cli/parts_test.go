package cli

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/internal/testenv"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "17": 17, "64GiB": 64 << 30, "64G": 64 << 30, "500MB": 500e6, "1.5k": 1536,
		"2 TB": 2e12, "3b": 3, "9223372036854775807": math.MaxInt64, "1kib": 1024} {
		if got, err := parseBytes(in); err != nil || got != want {
			t.Errorf("parseBytes(%q): got %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "G", "-1", "-1G", "1X", "NaN", "Inf", "1e30", "99999999PB", "1G1", "0x10"} {
		if got, err := parseBytes(in); err == nil {
			t.Errorf("parseBytes(%q): got %d, want an error", in, got)
		}
	}
}

func TestFormatBytesReadsBack(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1000: "1000", 1024: "1KiB", 64 << 30: "64GiB", 3 << 50: "3PiB", 1<<20 + 1: "1048577"} {
		got := formatBytes(n)
		if back, err := parseBytes(got); got != want || err != nil || back != n {
			t.Errorf("formatBytes(%d): got %q, read back %d, %v, want %q", n, got, back, err, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{"90s": 90 * time.Second, "26h": 26 * time.Hour, "2d": 48 * time.Hour, "0": 0,
		"1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := parseSpan(in); err != nil || got != want {
			t.Errorf("parseSpan(%q): got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "3", "-1s", "xd", "-1d", "1d-1h", "40000d", "1dx"} {
		if got, err := parseSpan(in); err == nil {
			t.Errorf("parseSpan(%q): got %v, want an error", in, got)
		}
	}
}

func TestFormatSpanReadsBack(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s",
		10 * time.Minute: "10m", time.Hour + 10*time.Second: "1h0m10s"} {
		got := formatSpan(d)
		if back, err := parseSpan(got); got != want || err != nil || back != d {
			t.Errorf("formatSpan(%v): got %q, read back %v, %v, want %q", d, got, back, err, want)
		}
	}
}

func TestParseFraction(t *testing.T) {
	for in, want := range map[string]float64{"10%": 0.1, "0.1": 0.1, "100%": 1, "1": 1, "0": 0, " 2.5 % ": 0.025} {
		if got, err := parseFraction(in); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("parseFraction(%q): got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "%", "-1%", "101%", "1.5", "NaN", "Inf", "ten", "0x1p-1%%"} {
		if got, err := parseFraction(in); err == nil {
			t.Errorf("parseFraction(%q): got %v, want an error", in, got)
		}
	}
}

func TestReadLine(t *testing.T) {
	r := strings.NewReader("first line\r\nsecond\n")
	for _, want := range []string{"first line", "second"} {
		if got, err := readLine(r); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := readLine(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: got %v, want EOF", err)
	}
}

// TestNobodyToAsk: without a terminal nothing waits for an answer, and a plugin is told that nobody is there.
func TestNobodyToAsk(t *testing.T) {
	env := &Env{Stderr: io.Discard}
	if _, err := ask(t.Context(), env, question{prompt: "?"}); !errors.Is(err, errNoTerminal) {
		t.Errorf("got %v, want errNoTerminal", err)
	}
	if _, err := askPassphrase(t.Context(), env, "key", ""); !errors.Is(err, errNoPassphrase) {
		t.Errorf("got %v, want errNoPassphrase", err)
	}
	if got, err := askPassphrase(t.Context(), env, "key", "given"); err != nil || got != "given" {
		t.Errorf("got %q, %v, want what was given", got, err)
	}
	ui := pluginUI(t.Context(), env)
	if ui.Ask != nil || ui.Confirm != nil || ui.Message == nil || ui.Wait == nil {
		t.Errorf("got %+v, want a UI that tells and does not ask", ui)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"backup", "restore", "verify", "list", "show", "files"}
	for in, want := range map[string]string{"bakcup": "backup", "restor": "restore", "lst": "list", "verfiy": "verify",
		"ver": "verify", "sohw": "show", "xyz": "", "": "", "frobnicate": "", "rest": "restore", "l": ""} {
		if got := nearest(in, words); got != want {
			t.Errorf("nearest(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable("NAME", ">SIZE", "STATE")
	table.add("full", "1.4 GB", "complete")
	table.add("überlang", "9 B")
	table.add("bad\x1b[2Jname", "", "x")
	var out bytes.Buffer
	if err := table.write(&out); err != nil {
		t.Fatal(err)
	}
	want := `NAME                SIZE  STATE
full              1.4 GB  complete
überlang             9 B  -
"bad\x1b[2Jname"       -  x
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := table.write(failing{errUnfit}); !errors.Is(err, errUnfit) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

func TestWriteJSON(t *testing.T) {
	v := struct {
		Z       string `json:"z"`
		A       moment `json:"a"`
		Nothing moment `json:"nothing"`
	}{"<&>", moment(time.Date(2026, 11, 30, 19, 1, 2, 500, time.FixedZone("", 3600))), moment{}}
	var out bytes.Buffer
	if err := writeJSON(&out, v); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"z\": \"<&>\",\n  \"a\": \"2026-11-30T18:01:02Z\",\n  \"nothing\": null\n}\n"
	if out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

func TestWhatIsSaid(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		args     string
		want     string
	}{
		{"cron", false, "trial", ""},
		{"terminal", true, "trial", "did it\n"},
		{"verbose", false, "trial -v", "did it\nin detail\n"},
		{"quiet terminal", true, "trial -q", ""},
		{"quiet wins", true, "trial --quiet --verbose", ""},
		{"for a program", true, "trial --json", ""},
		{"for a program and a person", true, "trial --json --verbose", "did it\nin detail\n"},
	}
	for _, tt := range tests {
		w := newWorld()
		w.StderrTTY = tt.terminal
		if _, code := w.try(t, nil, strings.Fields(tt.args)...); code != 0 || w.err.String() != tt.want {
			t.Errorf("%s: got %d, %q, want %q", tt.name, code, w.err.String(), tt.want)
		}
	}
}

func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		w := newWorld()
		if _, code := w.try(t, errUnfit, "trial", "--log-file", path); code != exitUnfit {
			t.Fatalf("got %d: %s", code, w.err.String())
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const stamp = "2026-11-30T18:01:02Z "
	want := strings.Repeat(stamp+"did it\n"+stamp+"in detail\n"+stamp+"mbwrap: not fit\n", 2)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLogFileFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		testenv.Missing(t, "/dev/full", err.Error())
	}
	w := newWorld()
	_, code := w.try(t, nil, "trial", "--log-file", "/dev/full")
	if code != exitSink || !strings.Contains(w.err.String(), "write log file") {
		t.Errorf("got %d, %q, want %d and the log file named", code, w.err.String(), exitSink)
	}
}

func TestWarningsPassTheBar(t *testing.T) {
	w := newWorld()
	w.out.Reset()
	k, err := openConsole(w.Env, &common{Progress: "json"})
	if err != nil {
		t.Fatal(err)
	}
	w.Env.out = k
	r, end := w.progress("backup", 100)
	r.SetPhase("copy")
	w.warnf("slow %s", "disk")
	end()
	end()
	w.warnf("after")
	text := w.err.String()
	if !strings.Contains(text, "}\nwarning: slow disk\n{") || !strings.HasSuffix(text, "}\nwarning: after\n") {
		t.Errorf("got %q, want whole lines between the objects", text)
	}
}

func TestConsoleOfAFunctionAlone(t *testing.T) {
	w := newWorld()
	r, end := w.progress("x", 1)
	r.AddRaw(1)
	w.notef("silent")
	w.warnf("heard")
	end()
	if got := w.err.String(); got != "warning: heard\n" {
		t.Errorf("got %q, want the warning", got)
	}
}

func TestConsoleModes(t *testing.T) {
	w := newWorld()
	if _, err := openConsole(w.Env, &common{Progress: "x"}); err == nil {
		t.Error("mode x: got no error")
	}
	k, err := openConsole(w.Env, &common{Progress: "auto", Quiet: true})
	if err != nil || k.mode != progress.None {
		t.Errorf("quiet: got %v, %v, want none", k.mode, err)
	}
}

func TestServerName(t *testing.T) {
	w := newWorld()
	if got, err := (&common{}).serverName(w.Env); got != "db1" || err != nil {
		t.Errorf("got %q, %v, want the host's name", got, err)
	}
	if got, err := (&common{Server: "x"}).serverName(w.Env); got != "x" || err != nil {
		t.Errorf("got %q, %v, want x", got, err)
	}
	w.Hostname = func() (string, error) { return "", nil }
	if _, err := (&common{}).serverName(w.Env); !as[*usageError](err) {
		t.Errorf("no name: got %v, want a usage error", err)
	}
	w.Hostname = func() (string, error) { return "", errUnfit }
	if _, err := (&common{}).serverName(w.Env); !errors.Is(err, errUnfit) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestNeedRepo(t *testing.T) {
	if err := (&common{Repos: []string{"/x"}}).needRepo(); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if code, hint := judge((&common{}).needRepo()); code != exitUsage || !strings.Contains(hint, "MBWRAP_REPO") {
		t.Errorf("got %d, %q, want %d and the variable named", code, hint, exitUsage)
	}
}

func TestGetenv(t *testing.T) {
	e := &Env{Environ: []string{"A=1", "AB=2", "A=3", "EMPTY="}}
	for name, want := range map[string]string{"A": "3", "AB": "2", "EMPTY": "", "NONE": ""} {
		if got := e.Getenv(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestSystem(t *testing.T) {
	e := System()
	if e.Stdout == nil || e.Now == nil || e.Hostname == nil || e.ConfigFile != "/etc/mbwrap.yaml" {
		t.Errorf("got %+v, want the process's world", e)
	}
}

func TestDescribe(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{{Path: ageModule, Version: "v1.3.2"}}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-30T18:00:00Z"},
		{Key: "vcs.modified", Value: "true"}, {Key: "CGO_ENABLED", Value: "1"}}}
	v := describe("", info)
	if v.Version != "v1.2.3" || v.Revision != "abc" || !v.Modified || !v.Cgo {
		t.Errorf("from build info: got %+v", v)
	}
	if got, want := v.text(), "mbwrap v1.2.3\ncommit abc of 2026-11-30T18:00:00Z, with changes\n"; !strings.HasPrefix(got, want) {
		t.Errorf("text: got %q, want %q first", got, want)
	}
	if want := "encryption by filippo.io/age v1.3.2\n"; !strings.Contains(v.text(), want) {
		t.Errorf("text: got %q, want %q in it", v.text(), want)
	}
	if v := describe("9.9", info); v.Version != "9.9" {
		t.Errorf("from the linker: got %q, want 9.9", v.Version)
	}
	info.Main.Version = "(devel)"
	if v := describe("", info); v.Version != "unreleased" {
		t.Errorf("development: got %q, want unreleased", v.Version)
	}
	if v := describe("", nil); v.Version != "unreleased" || v.Go == "" {
		t.Errorf("no info: got %+v", v)
	}
}

func TestOneOf(t *testing.T) {
	if got := oneOf([]string{"a"}); got != "a" {
		t.Errorf("got %q, want a", got)
	}
}
