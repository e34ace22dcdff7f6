package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// stockPath makes a PATH that holds the programs that the commands may use, and nothing else.
func stockPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	programs := []string{"bash", "cat", "sha256sum", "mkdir", "id", "chown", "mbstream", "mariadb-backup", "zstd", "gzip", "lz4"}
	for _, p := range programs {
		if err := os.Symlink(testenv.Need(t, p), filepath.Join(dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestHowto restores with nothing but what howto printed and stock tools, from several volumes, with every codec.
func TestHowto(t *testing.T) {
	s := source.get(t)
	path := stockPath(t)
	want := s.account()
	for i, codec := range []string{"zstd", "gzip", "lz4", "none"} {
		t.Run(codec, func(t *testing.T) {
			repo := filepath.Join(t.TempDir(), "a repo's dir")
			target := filepath.Join(shortDir(t), "data dir")
			writer := builds()[i%2]
			writer.must(t, s.backup(repo, "--codec", codec, "--volume-size", "3MiB")...)
			if m := show(t, repo, "latest"); len(m.Volumes) < 3 {
				t.Errorf("got %d volumes, want several", len(m.Volumes))
			}
			script := writer.must(t, "howto", "latest", "--repo", repo, "--server", "e2e", "--target-dir", target).stdout
			cmd := exec.CommandContext(t.Context(), testenv.Need(t, "bash"))
			cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader(script), []string{"PATH=" + path}, "/"
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			same(t, "restored server", startOn(t, target).account(), want)
		})
	}
}

// TestHowtoFindsDamage changes one byte: the script must end before it makes a directory.
func TestHowtoFindsDamage(t *testing.T) {
	s := source.get(t)
	repo, target := filepath.Join(t.TempDir(), "repo"), filepath.Join(shortDir(t), "data")
	suite.cgo.must(t, s.backup(repo)...)
	var how struct{ Commands []string }
	o := suite.cgo.must(t, "howto", "latest", "--repo", repo, "--server", "e2e", "--target-dir", target, "--json")
	if err := json.Unmarshal([]byte(o.stdout), &how); err != nil {
		t.Fatal(err)
	}
	volumes := slices.DeleteFunc(fileNames(t, repo), func(name string) bool { return !strings.Contains(name, "data.0001") })
	if len(volumes) != 1 {
		t.Fatalf("got volumes %q, want one", volumes)
	}
	flip(t, filepath.Join(repo, volumes[0]))
	out, err := exec.CommandContext(t.Context(), testenv.Need(t, "bash"), "-e", "-c", strings.Join(how.Commands, "\n")).CombinedOutput()
	if _, made := os.Stat(target); err == nil || made == nil {
		t.Errorf("got %v, target %v, want a failure before the target is made: %s", err, made, out)
	}
	if o := suite.cgo.run(t, "verify", "--level", "hash", "--repo", repo); o.code != 8 {
		t.Errorf("verify: got exit code %d, want 8", o.code)
	}
}

// flip turns round the bits of a byte in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xff
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
