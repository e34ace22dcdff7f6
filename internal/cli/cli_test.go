package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is an Env for tests with buffers for its streams.
type world struct {
	*Env
	out, err bytes.Buffer
}

func newWorld(environ ...string) *world {
	w := &world{}
	w.Env = &Env{Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.err, Environ: environ,
		Now:      func() time.Time { return time.Date(2026, 11, 30, 18, 1, 2, 0, time.UTC) },
		Hostname: func() (string, error) { return "db1", nil }}
	return w
}

// trialOptions are those of a command made for these tests.
type trialOptions struct {
	common
	Codec   string
	Level   string
	Jobs    int
	Prepare bool
	Tables  []string
	Volume  int64
	Limit   time.Duration
	Secret  string

	in input
}

// trial is that command, with what it was last called with.
func trial(got *trialOptions, result error) func(*Env) []*command {
	return func(env *Env) []*command {
		o := &trialOptions{Codec: "zstd", Level: "auto", Prepare: true, Volume: 64 << 30}
		all := []*command{{
			name: "trial", summary: "try", args: "[BACKUP [OTHER]]", most: 2, rest: "tool options",
			common: &o.common, places: true, exits: []int{exitWarnings, exitSource},
			about: "Paragraphs.", examples: []string{"mbwrap trial # try", "mbwrap trial latest # try that"},
			settings: []*setting{
				text(&o.Codec, "codec", "NAME", "how to compress").among("zstd", "gzip", "lz4", "none"),
				text(&o.Level, "level", "N", "how hard"),
				number(&o.Jobs, "jobs", "N", "how many at once"),
				toggle(&o.Prepare, "prepare", "make the backup ready for a server"),
				list(&o.Tables, "table", "DB.TABLE", "only this; may repeat"),
				bytesize(&o.Volume, "volume-size", "SIZE", "cut here, at the latest after this many bytes"),
				span(&o.Limit, "max-runtime", "TIME", "no longer than this"),
				secret(&o.Secret, "password", "of the server"),
			},
			complete: func(_ context.Context, prefix string) []string { return append(o.Repos, "latest") },
			run: func(_ context.Context, in input) error {
				o.in = in
				*got = *o
				env.notef("did it")
				env.detailf("in detail")
				return result
			},
		}, {
			name: "other", summary: "verify", least: 2, most: -1, args: "A B…", common: &common{},
			settings: []*setting{text(new(string), "level", "NAME", "which")},
			run:      func(context.Context, input) error { return nil },
		}, newVersion(env)}
		return append(all, newHelp(env, &all))
	}
}

// try runs a command line in w.
func (w *world) try(t *testing.T, result error, args ...string) (trialOptions, int) {
	t.Helper()
	var got trialOptions
	code := runMain(t.Context(), append([]string{"mbwrap"}, args...), w.Env, trial(&got, result))
	return got, code
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mbwrap.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsStandAnywhere(t *testing.T) {
	want := trialOptions{Codec: "gzip", Jobs: 4, Tables: []string{"a.b", "c.d"}, Prepare: false}
	for _, line := range []string{
		"trial --codec gzip --jobs 4 --table a.b --table c.d --no-prepare latest -- --opt x --",
		"trial latest --codec gzip --jobs 4 --table a.b --table c.d --no-prepare -- --opt x --",
		"trial --codec=gzip latest --jobs=4 --table=a.b --prepare=false --table=c.d -- --opt x --",
		"--table a.b --codec gzip trial --jobs 4 --table c.d latest --prepare=no -- --opt x --",
		"-jobs 4 --codec gzip --table a.b --table c.d trial latest --no-prepare=true -- --opt x --",
		"trial --codec zstd --codec gzip --jobs 4 --table a.b --table c.d --no-no-prepare=x --no-prepare latest -- --opt x --",
	} {
		w := newWorld()
		got, code := w.try(t, nil, strings.Fields(line)...)
		if strings.Contains(line, "no-no") {
			if code != exitUsage {
				t.Errorf("%s: got exit code %d, want %d", line, code, exitUsage)
			}
			continue
		}
		if code != 0 {
			t.Fatalf("%s: got exit code %d: %s", line, code, w.err.String())
		}
		if got.Codec != want.Codec || got.Jobs != want.Jobs || !reflect.DeepEqual(got.Tables, want.Tables) || got.Prepare {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
		if !reflect.DeepEqual(got.in, input{args: []string{"latest"}, rest: []string{"--opt", "x", "--"}}) {
			t.Errorf("%s: got arguments %+v, want latest and [--opt x --]", line, got.in)
		}
	}
}

func TestDefaults(t *testing.T) {
	got, code := newWorld().try(t, nil, "trial")
	if code != 0 || got.Codec != "zstd" || !got.Prepare || got.Volume != 64<<30 || got.Progress != "auto" || got.JSON {
		t.Errorf("got %d and %+v, want the defaults", code, got)
	}
	if got.in.arg(0) != "" || got.in.rest != nil {
		t.Errorf("got arguments %+v, want none", got.in)
	}
}

func TestDashIsAnArgument(t *testing.T) {
	got, code := newWorld().try(t, nil, "trial", "-", "--log-file", filepath.Join(t.TempDir(), "log"))
	if code != 0 || got.in.arg(0) != "-" {
		t.Errorf("got %d and %q, want -", code, got.in.args)
	}
}

func TestDashesEndFlagsWithoutRest(t *testing.T) {
	w := newWorld()
	if _, code := w.try(t, nil, "other", "--", "--level", "x"); code != 0 {
		t.Errorf("got %d: %s, want two arguments taken", code, w.err.String())
	}
}

func TestPrecedence(t *testing.T) {
	const file = "codec: none\nlevel: 1\njobs: 7\ntable: [f.a, f.b]\ntrial:\n  level: 2\n  volume-size: 1GiB\nother:\n  level: hash\n"
	tests := []struct {
		name    string
		environ []string
		args    []string
		want    trialOptions
	}{
		{"file", nil, nil,
			trialOptions{Codec: "none", Level: "2", Jobs: 7, Volume: 1 << 30, Tables: []string{"f.a", "f.b"}}},
		{"environment beats file", []string{"MBWRAP_CODEC=lz4", "MBWRAP_LEVEL=3", "MBWRAP_TABLE=e.a, e.b", "MBWRAP_JOBS="}, nil,
			trialOptions{Codec: "lz4", Level: "3", Jobs: 7, Volume: 1 << 30, Tables: []string{"e.a", "e.b"}}},
		{"the command's own variable", []string{"MBWRAP_LEVEL=3", "MBWRAP_TRIAL_LEVEL=4", "MBWRAP_OTHER_LEVEL=5"}, nil,
			trialOptions{Codec: "none", Level: "4", Jobs: 7, Volume: 1 << 30, Tables: []string{"f.a", "f.b"}}},
		{"lines may hold commas", []string{"MBWRAP_TABLE=a,b\nc\n"}, nil,
			trialOptions{Codec: "none", Level: "2", Jobs: 7, Volume: 1 << 30, Tables: []string{"a,b", "c"}}},
		{"flag beats both", []string{"MBWRAP_CODEC=lz4", "MBWRAP_JOBS=8", "MBWRAP_TABLE=e.a"},
			[]string{"--codec", "gzip", "--jobs=9", "--table", "a,1", "--table", "a2", "--level", "6", "--volume-size", "2MB"},
			trialOptions{Codec: "gzip", Level: "6", Jobs: 9, Volume: 2e6, Tables: []string{"a,1", "a2"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, how := range []string{"flag", "environment", "default"} {
				w := newWorld(tt.environ...)
				args := append([]string{"trial"}, tt.args...)
				switch path := write(t, file); how {
				case "flag":
					args = append(args, "--config", path)
				case "environment":
					w.Environ = append(w.Environ, "MBWRAP_CONFIG="+path)
				default:
					w.ConfigFile = path
				}
				got, code := w.try(t, nil, args...)
				if code != 0 {
					t.Fatalf("exit code %d: %s", code, w.err.String())
				}
				seen := trialOptions{Codec: got.Codec, Level: got.Level, Jobs: got.Jobs, Volume: got.Volume, Tables: got.Tables}
				if !reflect.DeepEqual(seen, tt.want) {
					t.Errorf("config by %s: got  %+v,\nwant %+v", how, seen, tt.want)
				}
			}
		})
	}
}

func TestSwitchFromEverySource(t *testing.T) {
	off := write(t, "prepare: false\n")
	for name, w := range map[string]*world{"environment": newWorld("MBWRAP_PREPARE=0"), "file": newWorld("MBWRAP_CONFIG=" + off)} {
		if got, code := w.try(t, nil, "trial"); code != 0 || got.Prepare {
			t.Errorf("%s: got %d, prepare %v, want off", name, code, got.Prepare)
		}
		if got, code := w.try(t, nil, "trial", "--prepare"); code != 0 || !got.Prepare {
			t.Errorf("%s and flag: got %d, prepare %v, want on", name, code, got.Prepare)
		}
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		environ []string
		args    string
		want    string // in the message
	}{
		{"unknown flag", "", nil, "trial --jbos 3", "unknown flag --jbos of trial\nhint: did you mean --jobs?"},
		{"flag of nothing", "", nil, "trial --xyzzyx", "hint: how is it used? try: mbwrap trial --help"},
		{"another command's flag", "", nil, "other --jobs 3 a b", "unknown flag --jobs of other"},
		{"beginning of a flag", "", nil, "trial --vol 3", "did you mean --volume-size?"},
		{"unknown command", "", nil, "trail", "hint: did you mean: mbwrap trial"},
		{"too many arguments", "", nil, "trial a b c", `trial takes only [BACKUP [OTHER]]: got "a" "b" "c"`},
		{"no argument", "", nil, "other", "other needs A B…"},
		{"too few arguments", "", nil, "other a", `other needs A B…: got only "a"`},
		{"no value", "", nil, "trial --codec", "--codec needs a value: NAME"},
		{"a flag for a value", "", nil, "trial --codec --jobs", "--codec needs a value: NAME"},
		{"bad choice", "", nil, "trial --codec zst", `--codec: "zst": want zstd, gzip, lz4 or none; did you mean zstd?`},
		{"bad number", "", nil, "trial --jobs -3", `--jobs: "-3": want a whole number, 0 or more`},
		{"bad switch", "", nil, "trial --prepare=perhaps", `--prepare: "perhaps": want true or false`},
		{"bad size", "", nil, "trial --volume-size 3miles", `--volume-size: "3miles": want a size`},
		{"bad duration", "", nil, "trial --max-runtime 3", `--max-runtime: "3": want a duration`},
		{"secret on the command line", "", nil, "trial --password hunter2", "set MBWRAP_PASSWORD"},
		{"secret on the command line, inline", "", nil, "trial --password=hunter2", "set MBWRAP_PASSWORD"},
		{"bad variable", "", []string{"MBWRAP_JOBS=many"}, "trial", `MBWRAP_JOBS: "many": want a whole number`},
		{"bad file value", "codec: zstd\njobs: many\n", nil, "trial", `:2: `},
		{"unknown key", "\ntrial:\n  jbos: 3\n", nil, "trial", ":3: unknown setting jbos: did you mean jobs?"},
		{"unlike any key", "xyzzyxyzzy: 3\n", nil, "trial", ":1: unknown setting xyzzyxyzzy\n"},
		{"key of another command", "other:\n  jobs: 3\n", nil, "trial", ":2: unknown setting jobs"},
		{"unknown section", "trail:\n  jobs: 3\n", nil, "trial", ":2: unknown section trail"},
		{"the file names a file", "config: x\n", nil, "trial", ":1: unknown setting config"},
		{"list for one value", "codec: [zstd, gzip]\n", nil, "trial", ":1: codec: a list, but it takes one value"},
		{"not YAML", ": [\n", nil, "trial", "config file "},
		{"no such file", "", nil, "trial --config /nonexistent/x.yaml", "/nonexistent/x.yaml"},
		{"log file", "", nil, "trial --log-file /nonexistent/log", "open log file: "},
		{"helpless", "", nil, "help nothing", `unknown command "nothing"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.environ...)
			if tt.file != "" {
				w.ConfigFile = write(t, tt.file)
			}
			_, code := w.try(t, nil, strings.Fields(tt.args)...)
			if code != exitUsage || !strings.HasPrefix(w.err.String(), "mbwrap: ") || !strings.Contains(w.err.String(), tt.want) {
				t.Errorf("got %d and %q, want %d and %q", code, w.err.String(), exitUsage, tt.want)
			}
			if strings.Contains(w.err.String(), "hunter2") || w.out.Len() > 0 {
				t.Errorf("got %q and on stdout %q, want no secret and nothing", w.err.String(), w.out.String())
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	got, code := newWorld("MBWRAP_PASSWORD=a,b").try(t, nil, "trial")
	if code != 0 || got.Secret != "a,b" {
		t.Errorf("environment: got %d, %q, want a,b", code, got.Secret)
	}
	path := write(t, "trial:\n  password: p\n")
	w := newWorld()
	w.ConfigFile = path
	if got, code := w.try(t, nil, "trial"); code != 0 || got.Secret != "p" {
		t.Errorf("file: got %d, %q: %s, want p", code, got.Secret, w.err.String())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"trial", "other x y"} {
		w.err.Reset()
		_, code := w.try(t, nil, strings.Fields(cmd)...)
		if code != exitUsage || !strings.Contains(w.err.String(), "chmod 600") {
			t.Errorf("%s with a file for everyone: got %d, %q, want %d and chmod 600", cmd, code, w.err.String(), exitUsage)
		}
	}
}

func TestMissingUsualFileIsFine(t *testing.T) {
	w := newWorld()
	w.ConfigFile = filepath.Join(t.TempDir(), "absent.yaml")
	if _, code := w.try(t, nil, "trial"); code != 0 {
		t.Errorf("got %d: %s", code, w.err.String())
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code int
		kind string
		hint string
	}{
		{"plain", errors.New("no luck"), 1, "other", ""},
		{"warnings", fmt.Errorf("2 of them: %w", errWarnings), 3, "warnings", ""},
		{"source", fmt.Errorf("x: %w", errSource), 4, "source", "can a backup succeed here? try: mbwrap check"},
		{"full", fmt.Errorf("x: %w", syscall.ENOSPC), 6, "sink", "is the disk full? try: df -h"},
		{"damage", errDamage, 8, "damage", "which backups are good? try: mbwrap list"},
		{"unfit", errUnfit, 9, "unfit", ""},
		{"no backup", errNoBackup, 10, "no-backup", "which backups are there? try: mbwrap list"},
		{"time", errTimeout, 12, "timeout", ""},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), 12, "timeout", ""},
		{"usage", usagef("no"), 64, "usage", "how is it used? try: mbwrap trial --help"},
		{"own hint", withHint(errUnfit, "why?"), 9, "unfit", "why?"},
		{"damage on a full disk", errors.Join(syscall.ENOSPC, errDamage), 8, "damage", "which backups are good? try: mbwrap list"},
		{"permission", os.ErrPermission, 1, "other", "does this need to run as root, or as the user mysql?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			_, code := w.try(t, tt.err, "trial")
			want := "mbwrap: " + tt.err.Error() + "\n"
			if tt.hint != "" {
				want += "hint: " + tt.hint + "\n"
			}
			if code != tt.code || w.err.String() != want || w.out.Len() > 0 {
				t.Errorf("got %d, %q, want %d, %q", code, w.err.String(), tt.code, want)
			}
			w = newWorld()
			_, code = w.try(t, tt.err, "trial", "--json")
			var report struct {
				Error struct {
					Message, Code, Hint string
					Exit                int
				}
			}
			if err := json.Unmarshal(w.out.Bytes(), &report); err != nil {
				t.Fatalf("%q: %v", w.out.String(), err)
			}
			e := report.Error
			if code != tt.code || e.Exit != tt.code || e.Code != tt.kind || e.Hint != tt.hint || e.Message != tt.err.Error() {
				t.Errorf("json: got %d, %+v, want %d, %s", code, e, tt.code, tt.kind)
			}
			if w.err.Len() > 0 {
				t.Errorf("json: got %q on stderr, want nothing", w.err.String())
			}
		})
	}
}

func TestReported(t *testing.T) {
	for _, args := range [][]string{{"trial"}, {"trial", "--json"}} {
		w := newWorld()
		if _, code := w.try(t, reported(errDamage), args...); code != exitDamage || w.err.Len()+w.out.Len() > 0 {
			t.Errorf("got %d, %q, %q, want %d and silence", code, w.err.String(), w.out.String(), exitDamage)
		}
	}
	if got := reported(errDamage).Error(); got != "damaged" {
		t.Errorf("got %q, want damaged", got)
	}
}

func TestTwoIsNeverChosen(t *testing.T) {
	for _, e := range exitCodes {
		if e.code == 2 {
			t.Error("exit code 2 is a crash's")
		}
	}
	for _, r := range rules {
		if exitName(r.code) == fmt.Sprintf("signal-%d", r.code-exitSignal) {
			t.Errorf("rule with code %d: not in the table", r.code)
		}
	}
}

func TestSignals(t *testing.T) {
	joined := errors.Join(context.Canceled, errors.New("remove x: busy"))
	tests := []struct {
		name   string
		signal syscall.Signal
		err    error
		code   int
		want   string
	}{
		{"interrupted", syscall.SIGINT, context.Canceled, 130, "mbwrap: interrupted\n"},
		{"terminated", syscall.SIGTERM, fmt.Errorf("read: %w", context.Canceled), 143, "mbwrap: terminated\n"},
		{"hung up", syscall.SIGHUP, errors.Join(context.Canceled, &Signal{syscall.SIGHUP}), 129, "mbwrap: hung up\n"},
		{"another", syscall.SIGUSR1, context.Canceled, 138, "mbwrap: ended by signal user defined signal 1\n"},
		{"and more", syscall.SIGINT, joined, 130, "mbwrap: interrupted: context canceled\nremove x: busy\n"},
		{"outranks all", syscall.SIGINT, errSource, 130, "mbwrap: interrupted: the source failed\n"},
		{"too late", syscall.SIGINT, nil, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(&Signal{tt.signal})
			w := newWorld()
			var got trialOptions
			code := runMain(ctx, []string{"mbwrap", "trial"}, w.Env, trial(&got, tt.err))
			if code != tt.code || w.err.String() != tt.want {
				t.Errorf("got %d, %q, want %d, %q", code, w.err.String(), tt.code, tt.want)
			}
		})
	}
	if got := exitName(138); got != "signal-10" {
		t.Errorf("exitName(138): got %q, want signal-10", got)
	}
}

func TestWithSignals(t *testing.T) {
	ctx, stop := WithSignals(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if s, ok := errors.AsType[*Signal](context.Cause(ctx)); !ok || s.Number != syscall.SIGHUP {
		t.Errorf("got the cause %v, want SIGHUP", context.Cause(ctx))
	}
}

func TestStdoutFails(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code int
		want string
	}{
		"reader left": {syscall.EPIPE, exitSink, ""},
		"disk full":   {syscall.ENOSPC, exitSink, "mbwrap: write standard output: no space left on device\nhint: is the disk full? try: df -h\n"},
	} {
		w := newWorld()
		w.Stdout = failing{tt.err}
		_, code := w.try(t, nil, "version")
		if code != tt.code || w.err.String() != tt.want {
			t.Errorf("%s: got %d, %q, want %d, %q", name, code, w.err.String(), tt.code, tt.want)
		}
	}
	w := newWorld()
	w.Stdout = failing{syscall.EIO}
	if _, code := w.try(t, errUnfit, "trial", "--json"); code != exitUnfit || !strings.Contains(w.err.String(), "not fit") {
		t.Errorf("json error nowhere to go: got %d, %q, want it on stderr", code, w.err.String())
	}
}

// failing is a stream that can't be written.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestManual(t *testing.T) {
	w := newWorld()
	if _, code := w.try(t, nil, "trial", "--help"); code != 0 {
		t.Fatalf("got %d", code)
	}
	for _, want := range []string{
		"mbwrap trial: try\n", "usage: mbwrap trial [flags] [BACKUP [OTHER]] [-- tool options]\n", "\nParagraphs.\n",
		"  mbwrap trial         # try\n", "  mbwrap trial latest  # try that\n",
		"  --codec NAME              how to compress (default zstd)\n",
		"  --[no-]prepare            make the backup ready for a server (default on)\n",
		"  --volume-size SIZE        cut here, at the latest after this many bytes (default 64GiB)\n",
		"  MBWRAP_PASSWORD           of the server (environment, or password in the file)\n",
		"    3  done, with warnings", "    4  the source failed", "  130  interrupted", "beats the\nenvironment",
	} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", w.out.String(), want)
		}
	}
	if strings.Contains(w.out.String(), "  5  ") {
		t.Error("help lists a code that the command does not return")
	}
	for line := range strings.Lines(w.out.String()) {
		if len(line) > 121 {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
}

func TestCompleteAsksTheCommand(t *testing.T) {
	w := newWorld("MBWRAP_REPO=/a,/b")
	if _, code := w.try(t, nil, completeCommand, "trial", "--jobs", "3", ""); code != 0 || w.out.String() != "/a\n/b\nlatest\n" {
		t.Errorf("got %d, %q, want the command's own words", code, w.out.String())
	}
}

func TestParagraphs(t *testing.T) {
	word := strings.Repeat("x", 54)
	got := paragraphs("\n" + word + "  " + word + "\n" + word + " y\n\nz\n")
	if want := word + " " + word + "\n" + word + " y\n\nz"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := wrap("a bb", 2, "> "); got != "a\n> bb" {
		t.Errorf("got %q, want the second word on its own line", got)
	}
}

// TestEveryCommand holds the real commands to what the frame needs of them.
func TestEveryCommand(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands(newWorld().Env) {
		if seen[c.name] || c.summary == "" || c.run == nil || c.common == nil {
			t.Errorf("%s: twice, or without summary, run or common", c.name)
		}
		seen[c.name] = true
		names := map[string]bool{"help": true, "h": true}
		for _, s := range c.all() {
			if names[s.name] || s.short != "" && names[s.short] || s.help == "" || s.set == nil {
				t.Errorf("%s --%s: twice, or without help or value", c.name, s.name)
			}
			names[s.name] = true
			if s.short != "" {
				names[s.short] = true
			}
		}
		for _, code := range c.exits {
			if strings.HasPrefix(exitName(code), "signal-") {
				t.Errorf("%s: exit code %d is not in the table", c.name, code)
			}
		}
		if !c.hidden && c.name != "version" && c.name != "completion" && len(c.examples) == 0 {
			t.Errorf("%s: no examples", c.name)
		}
		for line := range strings.Lines(c.manual()) {
			if len(strings.TrimRight(line, "\n")) > 120 {
				t.Errorf("%s: line of help with %d columns: %s", c.name, len(line), line)
			}
		}
	}
}
