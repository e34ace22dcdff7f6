package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/internal/progress"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks"
)

func TestReadSecretFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	good := map[string]struct{ path, want string }{
		"a line":          {file("a", "hunter2\n", 0o600), "hunter2"},
		"without its end": {file("b", "hunter2", 0o400), "hunter2"},
		"from Windows":    {file("c", "hunter2\r\n", 0o600), "hunter2"},
		"two lines":       {file("d", "hunter2\nsecond\n", 0o600), "hunter2"},
		"spaces count":    {file("e", " hunter 2 \n", 0o600), " hunter 2 "},
		"for a group":     {file("f", "hunter2\n", 0o640), "hunter2"},
		"an empty line":   {file("g", "\n", 0o600), ""},
		"a device":        {"/dev/zero", strings.Repeat("\x00", maxSecret)},
	}
	for name, test := range good {
		if got, err := readSecretFile("password", test.path); err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, want %q", name, got[:min(len(got), 20)], err, test.want[:min(len(test.want), 20)])
		}
	}
	bad := map[string]struct {
		path, want string
		code       int
	}{
		"not there":                 {filepath.Join(dir, "absent"), "no such file", exitUsage},
		"empty":                     {file("h", "", 0o600), "is empty", exitUsage},
		"everybody may read it":     {file("i", "hunter2\n", 0o644), "can be used by everybody (mode 0644)", exitUsage},
		"everybody may write it":    {file("j", "hunter2\n", 0o602), "can be used by everybody (mode 0602)", exitUsage},
		"a directory, which is one": {dir, "is empty", exitUsage},
	}
	for name, test := range bad {
		got, err := readSecretFile("password", test.path)
		if got != "" || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
			continue
		}
		if code, hint := judge(err); code != test.code || hint == "" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got code %d, hint %q, error %v", name, code, hint, err)
		}
	}
}

func TestOpenSink(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(os.MkdirAll(filepath.Join(dir, "empty"), 0o700))
	must(os.MkdirAll(filepath.Join(dir, "disk", "lost+found"), 0o700))
	must(os.MkdirAll(filepath.Join(dir, "used", "photos"), 0o700))
	must(os.MkdirAll(filepath.Join(dir, "died"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "died", ".mbwrap-tmp-1"), nil, 0o600))
	sink, err := sinks.NewLocal(filepath.Join(dir, "repo"))
	must(err)
	_, _, err = catalog.Init(t.Context(), sink, "repo")
	must(err)
	tests := map[string]struct {
		place  string
		create bool
		want   error // nil: fine
		code   int
	}{
		"a new one":             {"new", true, nil, 0},
		"not there":             {"absent", false, catalog.ErrNotRepository, exitUsage},
		"a file":                {"file", true, catalog.ErrNotRepository, exitUsage},
		"a file, to read":       {"file", false, catalog.ErrNotRepository, exitUsage},
		"below a file":          {"file/x", true, syscall.ENOTDIR, exitOther},
		"empty":                 {"empty", true, nil, 0},
		"a new disk":            {"disk", true, nil, 0},
		"in use":                {"used", true, catalog.ErrNotEmpty, exitUsage},
		"in use, to read":       {"used", false, nil, 0}, // found out when it is opened
		"of a run that died":    {"died", true, nil, 0},
		"a repository":          {"repo", true, nil, 0},
		"a repository, to read": {"repo", false, nil, 0},
	}
	for name, test := range tests {
		for _, scheme := range []string{"", "file://"} {
			got, err := openSink(scheme+filepath.Join(dir, test.place), test.create)
			if !errors.Is(err, test.want) || (got != nil) != (test.want == nil) {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
			}
			if code, _ := judge(err); code != test.code {
				t.Errorf("%s: got code %d, want %d", name, code, test.code)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading has made a directory: %v", err)
	}
	for _, place := range []string{"s3://bucket/x", "sftp://host/x"} {
		_, err := openSink(place, true)
		if code, hint := judge(err); code != exitUsage || hint == "" || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: got %v, code %d", place, err, code)
		}
	}
}

func TestIsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("full.xbs", nil, 0o600), os.Mkdir("latest", 0o700)); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]bool{
		"-": true, "/x/y": true, "./x": true, "full.xbs": true, "latest": false, "20261130T180102Z-full": false, "2026": false, "": false,
	} {
		if got := isFile(ref); got != want {
			t.Errorf("%q: got %v, want %v", ref, got, want)
		}
	}
}

func TestOpenFile(t *testing.T) {
	w := newWorld()
	if _, err := openFile(w.Env, "-"); err == nil {
		t.Error("a standard input that is no file: got no error")
	}
	w.Stdin, w.StdinTTY = os.Stdin, true
	if _, err := openFile(w.Env, "-"); !as[*usageError](err) {
		t.Errorf("a terminal: got %v, want a usage error", err)
	}
	w.StdinTTY = false
	if f, err := openFile(w.Env, "-"); err != nil || f != os.Stdin {
		t.Errorf("standard input: got %v, %v", f, err)
	}
	if _, err := openFile(w.Env, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, errNoBackup) {
		t.Errorf("absent: got %v, want errNoBackup", err)
	}
}

// TestFindBackupByServer: whose backup is meant when nobody says so.
func TestFindBackupByServer(t *testing.T) {
	w := newWorld()
	find := func(place, server, ref string) (string, error) {
		b, err := findBackup(t.Context(), w.Env, &common{Repos: []string{place}, Server: server}, ref)
		if err != nil {
			return "", err
		}
		return b.Server, nil
	}
	place := func(servers ...string) string {
		dir := t.TempDir()
		for _, server := range servers {
			stream := filepath.Join(t.TempDir(), "stream")
			f, err := os.Create(stream)
			if err == nil {
				err = errors.Join(writeStream(f, streamSpec{tables: 1, size: 10, to: 100}), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			in, err := os.Open(stream)
			if err != nil {
				t.Fatal(err)
			}
			run := newWorld()
			run.Stdin = in
			code := Main(t.Context(), []string{"mbwrap", "backup", "--stdin", "--repo", dir, "--server", server}, run.Env)
			if in.Close(); code != 0 {
				t.Fatalf("exit code %d: %s", code, run.err.String())
			}
		}
		return dir
	}
	mine, foreign, both := place("db1", "db2"), place("db7"), place("db2", "db3")
	tests := map[string]struct {
		place, server, want string
		err                 error
	}{
		"this host's":         {mine, "", "db1", nil},
		"the one asked for":   {mine, "db2", "db2", nil},
		"the only one":        {foreign, "", "db7", nil},
		"one of several":      {both, "", "", catalog.ErrAmbiguous},
		"one that is not":     {both, "db9", "", catalog.ErrNoBackup},
		"not a server's name": {both, "../x", "", catalog.ErrServerName},
	}
	for name, test := range tests {
		got, err := find(test.place, test.server, catalog.Latest)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, test.want, test.err)
		}
		if _, hint := judge(err); err != nil && hint == "" {
			t.Errorf("%s: no hint", name)
		}
	}
	w.Hostname = func() (string, error) { return "not a server's name!", nil }
	if got, err := find(foreign, "", catalog.Latest); got != "db7" || err != nil {
		t.Errorf("odd host name: got %q, %v", got, err)
	}
	w.Hostname = func() (string, error) { return "", fs.ErrPermission }
	if _, err := find(foreign, "", catalog.Latest); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("no host name: got %v", err)
	}
	if _, err := findBackup(t.Context(), w.Env, &common{}, "x"); !errors.Is(err, errNoRepo) {
		t.Errorf("no repository: got %v", err)
	}
	two := &common{Repos: []string{foreign, both}, Server: "db3"}
	if b, err := findBackup(t.Context(), w.Env, two, catalog.Latest); err != nil || b.Server != "db3" {
		t.Errorf("in the second: got %v, %v", b, err)
	}
}

func TestHowto(t *testing.T) {
	sink, err := sinks.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := catalog.Init(t.Context(), sink, "file:///srv/back ups")
	if err != nil {
		t.Fatal(err)
	}
	b := &catalog.Backup{Repository: r, Server: "db1", ID: "20261130T180102Z-full", Manifest: &catalog.Manifest{
		Codec: "gzip", Volumes: []catalog.Object{{Name: "data.0001.xbs.gz"}, {Name: "data.0002.xbs.gz"}},
	}}
	got, err := howto(b, "/srv/it's")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"cd '/srv/back ups/db1/20261130T180102Z-full'\n", "sha256sum --quiet -c SHA256SUMS\n", `mkdir -m 700 '/srv/it'\''s'` + "\n",
		"cat data.0001.xbs.gz data.0002.xbs.gz | gzip -dc | mbstream -x -C '/srv/it'\\''s'\n",
		`mariadb-backup --prepare --target-dir='/srv/it'\''s'` + "\n",
	} {
		if !strings.Contains(text+"\n", want) {
			t.Errorf("got\n%s\nwant in it %s", text, want)
		}
	}
	for _, name := range []string{"zstd", "gzip", "lz4", "none"} {
		b.Manifest.Codec = name
		if _, err := howto(b, "/x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.Manifest.Codec = "future"
	if _, err := howto(b, "/x"); err == nil {
		t.Error("unknown codec: got no error")
	}
}

func TestShellQuote(t *testing.T) {
	for s, want := range map[string]string{
		"/var/lib/mysql": "/var/lib/mysql", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "a;b": "'a;b'", "~x": "'~x'",
		"*": "'*'", "a\nb": "'a\nb'", "ä": "'ä'",
	} {
		if got := shellQuote(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// TestWatch counts what the pipeline counts, to the last byte, and leaves nothing running.
func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newWorld()
	w.show(progress.JSON)
	meter := new(pipeline.Meter)
	reporter, end := w.watch("backup", 1000, meter)
	reporter.SetPhase("copying")
	meter.Raw.Add(700)
	meter.Stored.Add(300)
	end()
	end()
	text := w.err.String()
	if !strings.Contains(text, `700`) || !strings.Contains(text, `300`) || !strings.Contains(text, "copying") {
		t.Errorf("got %s, want the counts and the phase", text)
	}
}

// show gives the world a console with that progress mode.
func (w *world) show(mode progress.Mode) {
	w.Env.out = &console{env: w.Env, mode: mode, err: w.Stderr}
}
