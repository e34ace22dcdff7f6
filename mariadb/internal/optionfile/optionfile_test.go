package optionfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
)

func TestOptions(t *testing.T) {
	testenv.Need(t, "my_print_defaults")
	file := filepath.Join(t.TempDir(), "my.cnf")
	text := "[client]\nuser=a\npassword='x y'\n[mysqld]\nsocket=/s\n[mariadb-backup]\nuser=b\nverbose\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file   string
		groups []string
		want   []string
	}{
		{file, []string{"client", "mariadb-backup"}, []string{"--user=a", "--password=x y", "--user=b", "--verbose"}},
		{file, []string{"mysqld"}, []string{"--socket=/s"}},
		{file, []string{"none"}, nil},
		{file + ".none", []string{"client"}, nil},
	} {
		if got := optionfile.Options(t.Context(), tt.file, tt.groups...); !slices.Equal(got, tt.want) {
			t.Errorf("%s %q: got %q, want %q", tt.file, tt.groups, got, tt.want)
		}
	}
	for _, name := range optionfile.Defaults(t.Context()) {
		if info, err := os.Stat(name); err != nil || !filepath.IsAbs(name) {
			t.Errorf("got %q, which is %v, error %v, want a file that is there", name, info, err)
		}
	}
	t.Setenv("HOME", filepath.Dir(file))
	if err := os.Rename(file, filepath.Join(filepath.Dir(file), ".my.cnf")); err != nil {
		t.Fatal(err)
	}
	if got, want := optionfile.Defaults(t.Context()), filepath.Join(filepath.Dir(file), ".my.cnf"); !slices.Contains(got, want) {
		t.Errorf("got %q, want %q among them", got, want)
	}
}

func TestName(t *testing.T) {
	for given, want := range map[string]string{
		"user": "user", "log_bin": "log-bin", "loose-log_bin": "log-bin", "skip-compress": "skip-compress", "loose_enable_compress": "compress",
	} {
		if got := optionfile.Name(given); got != want {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
}
