package mariadb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
)

func TestCheckArgs(t *testing.T) {
	for _, tt := range []struct {
		args string // separated by blanks
		want string // the refused option; "" is allowed
	}{
		{"", ""},
		{"--galera-info --slave-info --safe-slave-backup --no-lock", ""},
		{"--tables=^db --databases shop --databases-exclude=x", ""},
		{"--user=bk --host h --port=3306 -u bk -ubk -P3306 -S /s -h /data", ""},
		{"--defaults-group=mysqld1", ""},
		{"--history --history=x --throttle=10 --verbose -V", ""},
		{"--skip-compress --disable-encrypt --skip-encrypted-backup --encrypted-backup", ""},
		{"--stream=mbstream --stream=xbstream --stream mbstream", ""},
		{"--incremental-force-scan --log-innodb-page-corruption", ""},
		{"--mysqld-args --innodb-x=1", ""},
		{"word - =", ""},
		{"--compress", "--compress"},
		{"--compress=quicklz", "--compress"},
		{"--compr", "--compr"},
		{"--COMPRESS", ""}, // the tool does not know it either
		{"--compress_threads=4", "--compress_threads"},
		{"--loose-compress", "--loose-compress"},
		{"--loose_enable_compress", "--loose_enable_compress"},
		{"--compress-chunk-size=1", "--compress-chunk-size"},
		{"--encrypt=AES256", "--encrypt"},
		{"--encrypt-key=x", "--encrypt-key"},
		{"--encrypt-key-f=x", "--encrypt-key-f"},
		{"--stream=tar", "--stream"},
		{"--stream tar", "--stream"},
		{"--str=tar", "--str"},
		{"--stream", "--stream"},
		{"--prepare", "--prepare"},
		{"--copy-back", "--copy-back"},
		{"--mov", "--mov"},
		{"--decompress", "--decompress"},
		{"--export", "--export"},
		{"--target-dir=/x", "--target-dir"},
		{"--target_dir /x", "--target_dir"},
		{"--incremental-lsn=5", "--incremental-lsn"},
		{"--incremental-basedir=/x", "--incremental-basedir"},
		{"--incremental-history-name=x", "--incremental-history-name"},
		{"--incr=1", "--incr"},
		{"--password=S3cret", "--password"},
		{"--pass=S3cret", "--pass"},
		{"-pS3cret", "-p"},
		{"-p", "-p"},
		{"-VpS3cret", "-p"},
		{"-ubk -pS3cret", "-p"},
		{"-up", ""}, // the user p
		{"-u -pass", ""},
		{"-v", "-v"},
		{"-?", "-?"},
		{"--version", "--version"},
		{"--help", "--help"},
		{"--print-defaults", "--print-defaults"},
		{"--defaults-file=/x", "--defaults-file"},
		{"--no-defaults", "--no-defaults"},
		{"--defaults-extra-file=/x", "--defaults-extra-file"},
		{"--galera-info -- --compress", "--"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, err := checkArgs(strings.Fields(tt.args))
			var usage *UsageError
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want it allowed", err)
			case tt.want != "" && !errors.As(err, &usage):
				t.Errorf("got %v, want a UsageError", err)
			case tt.want != "" && (usage.Option != tt.want || usage.Reason == "" || usage.Hint == ""):
				t.Errorf("got %+v, want option %q, a reason and a hint", usage, tt.want)
			case err != nil && strings.Contains(err.Error()+usage.Hint, "S3cret"):
				t.Errorf("the error %q shows the password", err)
			}
		})
	}
}

func TestCheckArgsFinds(t *testing.T) {
	for _, tt := range []struct {
		args     string
		parallel bool
		warnings int
	}{
		{"--galera-info", false, 0},
		{"--parallel=2", true, 0},
		{"--paral 2", true, 0},
		{"--log-copy-interval=5 --parallel=2", true, 0},
		{"--extra-lsndir=/x", false, 1},
		{"--extra_lsn=/x", false, 1},
	} {
		found, err := checkArgs(strings.Fields(tt.args))
		if err != nil || found.parallel != tt.parallel || len(found.warnings) != tt.warnings {
			t.Errorf("%s: got %+v, error %v, want parallel %v, %d warnings", tt.args, found, err, tt.parallel, tt.warnings)
		}
		if want := strings.Contains(tt.args, "copy"); found.copyInterval != want {
			t.Errorf("%s: got an interval: %v, want %v", tt.args, found.copyInterval, want)
		}
	}
}

func TestCheckFileArgs(t *testing.T) {
	found, err := checkFileArgs([]string{"--target_dir=/x", "--password=S3cret", "--user=bk", "--parallel=3"})
	if err != nil || !found.parallel {
		t.Errorf("got %+v, error %v, want it allowed, with parallel", found, err)
	}
	_, err = checkFileArgs([]string{"--compress"})
	var usage *UsageError
	if !errors.As(err, &usage) || !strings.Contains(usage.Reason, "in an option file") {
		t.Errorf("got %v, want a UsageError that names the option file", err)
	}
}

func TestOptionFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.cnf")
	text := "[mariadb-backup]\nparallel=3\n[client]\nuser=bk\n[mysqld]\nsocket=/s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Need(t, "my_print_defaults")
	c := ConnectOptions{DefaultsFile: file}
	if got := optionfile.Options(t.Context(), c.DefaultsFile, toolGroups...); len(got) != 1 || got[0] != "--parallel=3" {
		t.Errorf("got %q, want --parallel=3", got)
	}
	if got := optionfile.Options(t.Context(), "/nonexistent", toolGroups...); got != nil {
		t.Errorf("missing file: got %q, want nothing", got)
	}
	if files := optionfile.Defaults(t.Context()); files == nil {
		t.Error("default option files: got unknown, want a list")
	}
	o, err := newOptionFile(t.Context(), ConnectOptions{Password: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer o.file.Close()
	if want := "--defaults-file=/dev/fd/3"; o.arg != want {
		t.Errorf("got %q, want %q", o.arg, want)
	}
}

func TestFindTool(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mariabackup", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Chdir(dir)
	for _, tt := range []struct{ ask, want string }{
		{"other", filepath.Join(dir, "other")},
		{"./other", filepath.Join(dir, "other")},
		{filepath.Join(dir, "other"), filepath.Join(dir, "other")},
		{"none", ""}, {"./none", ""}, {"/", ""},
	} {
		got, err := FindTool(tt.ask)
		if got != tt.want {
			t.Errorf("FindTool(%q): got %q, want %q", tt.ask, got, tt.want)
		}
		var usage *UsageError
		if tt.want == "" && (!errors.Is(err, ErrNoTool) || !errors.As(err, &usage) || !strings.Contains(usage.Hint, "apt install mariadb-backup")) {
			t.Errorf("FindTool(%q): got %v, want %v with advice", tt.ask, err, ErrNoTool)
		}
	}
	// With a poor PATH the usual places are searched, the new name first.
	got, err := FindTool("")
	if _, statErr := os.Stat("/usr/bin/mariadb-backup"); statErr == nil && (err != nil || got != "/usr/bin/mariadb-backup") {
		t.Errorf("FindTool: got %q, error %v, want /usr/bin/mariadb-backup", got, err)
	}
}

// FuzzCheckArgs: whatever the options, a password in them is refused, and no error repeats a value.
func FuzzCheckArgs(f *testing.F) {
	f.Add("--tables", "-ubk", "--stream")
	f.Add("--", "-V", "--loose_par=2")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		_, err := checkArgs([]string{"--password=S3cret", a, b, c})
		var usage *UsageError
		if !errors.As(err, &usage) || usage.Option != "--password" {
			t.Errorf("got %v, want --password refused", err)
		}
		if _, err = checkArgs([]string{a, b, c, "--pass=S3cret"}); err != nil && strings.Contains(err.Error(), "S3cret") {
			t.Errorf("the error %q shows the password", err)
		}
	})
}
