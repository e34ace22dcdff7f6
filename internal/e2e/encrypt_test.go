package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mbwrap/mbwrap/internal/testenv"
)

// keygen makes a key, and returns the file with the identity and the recipient.
func keygen(t *testing.T, flags ...string) (identity, recipient string) {
	t.Helper()
	identity = filepath.Join(t.TempDir(), "key")
	o := suite.cgo.must(t, append([]string{"keygen", identity}, flags...)...)
	return identity, strings.TrimSpace(o.stdout)
}

// TestHowtoEncrypted restores an encrypted backup with nothing but what howto printed, which needs no key, and stock tools.
func TestHowtoEncrypted(t *testing.T) {
	s := source.get(t)
	path := stockPath(t)
	for _, p := range []string{"age", "mktemp", "rm"} {
		if err := os.Symlink(testenv.Need(t, p), filepath.Join(path, p)); err != nil {
			t.Fatal(err)
		}
	}
	identity, recipient := keygen(t)
	repo := filepath.Join(t.TempDir(), "a repo's dir")
	target := filepath.Join(shortDir(t), "data dir")
	suite.pure.must(t, s.backup(repo, "--volume-size", "3MiB", "--encrypt-to", recipient)...)
	script := suite.cgo.must(t, "howto", "latest", "--repo", repo, "--server", "e2e", "--target-dir", target).stdout
	run := func(env ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), testenv.Need(t, "bash"))
		cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader(script), append(env, "PATH="+path, "TMPDIR="+suite.dir), "/"
		return cmd.CombinedOutput()
	}
	if out, err := run(); err == nil || !strings.Contains(string(out), "IDENTITY") {
		t.Errorf("without a key: got %v, want to be told of IDENTITY\n%s", err, out)
	}
	if _, err := os.Stat(target); err == nil {
		t.Fatal("without a key: the target was made")
	}
	if out, err := run("IDENTITY=" + identity); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	same(t, "restored server", startOn(t, target).account(), s.account())
	left, err := filepath.Glob(filepath.Join(suite.dir, "tmp.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the backup's own key was left in %q, %v", left, err)
	}
}

// trial is what verify --level restore --json tells of the restore.
type trial struct {
	OK       bool
	Problems []struct {
		Message string
		Tables  []string
	}
	Pages struct {
		Pages, Bad int64
	}
	Trial struct {
		RTO            float64 `json:"rto_seconds"`
		SpaceNeeded    int64   `json:"space_needed"`
		SpaceUsed      int64   `json:"space_used"`
		Tables         int
		Checked        int
		NotChecked     []string `json:"not_checked"`
		Statements     int
		Compared       int
		ServerVersion  string `json:"server_version"`
		Extract, Check float64
	}
}

// tryRestore verifies the latest backup at level restore.
func tryRestore(t *testing.T, want int, c call, args ...string) trial {
	t.Helper()
	o := suite.cgo.start(t, c, append([]string{"verify", "--level", "restore", "--json"}, args...)...).wait()
	if o.code != want || o.stderr != "" {
		t.Fatalf("verify: got exit code %d, %s, want %d\n%s", o.code, o.stderr, want, o.stdout)
	}
	var all []trial
	if err := json.Unmarshal([]byte(o.stdout), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	return all[0]
}

// TestTrial proves an encrypted backup of a real server with tables of every kind by restoring it, and finds what is not
// as the baseline and the statements say.
func TestTrial(t *testing.T) {
	s := source.get(t)
	identity, recipient := keygen(t)
	dir := diskDir(t)
	repo, scratch := filepath.Join(dir, "repo"), filepath.Join(dir, "scratch")
	baseline, sql := filepath.Join(dir, "rows.json"), filepath.Join(dir, "checks.sql")
	suite.cgo.must(t, append(s.flags(), "verify", "--save-baseline", baseline)...)
	suite.cgo.must(t, s.backup(repo, "--encrypt-to", recipient)...)
	rows := s.text("SELECT COUNT(*) FROM odd.generated")
	write(t, sql, "SELECT COUNT(*) FROM odd.generated;\n-- expect: "+rows+"\nSELECT 1;\n")
	at := []string{"--repo", repo, "--server", "e2e", "--identity", identity, "--scratch-dir", scratch}
	got := tryRestore(t, 0, call{}, append(at, "--baseline", baseline, "--sql", sql, "--check", "extended")...)
	if !got.OK || got.Trial.Checked != got.Trial.Tables || got.Trial.Tables < 30 || got.Trial.Compared < 30 ||
		got.Trial.Statements != 2 || got.Trial.RTO <= 0 {
		t.Errorf("got %+v, want all tables checked and compared, two statements and a time", got)
	}
	if got.Pages.Pages < 1000 || got.Pages.Bad != 0 {
		t.Errorf("got %+v, want some thousand good pages", got.Pages)
	}
	if got.Trial.SpaceUsed > got.Trial.SpaceNeeded || got.Trial.SpaceUsed < 10<<20 {
		t.Errorf("space: got %d used, %d promised", got.Trial.SpaceUsed, got.Trial.SpaceNeeded)
	}
	empty(t, scratch)
	if l := list(t, repo); l[0].Verified == nil || l[0].Verified.Level != "restore" {
		t.Errorf("list: got %+v, want it verified at level restore", l[0].Verified)
	}

	t.Run("as the user mysql", func(t *testing.T) {
		open(t, repo)
		mine := shortDir(t)
		as := call{as: credential(t, "mysql"), dir: "/", env: append(ordinaryEnv(), "TMPDIR="+mine)}
		key := filepath.Join(mine, "key")
		copyTo(t, identity, key)
		for _, name := range []string{mine, key} {
			if err := os.Chown(name, int(as.as.Uid), int(as.as.Gid)); err != nil {
				t.Fatal(err)
			}
		}
		o := suite.cgo.start(t, as, "verify", "--level", "restore", "--json", "--repo", repo, "--server", "e2e", "--identity", key,
			"--scratch-dir", mine).wait()
		if o.code != 0 && o.code != 3 || !strings.Contains(o.stdout, `"ok": true`) {
			t.Errorf("got exit code %d, %s\n%s", o.code, o.stderr, o.stdout)
		}
		if left, _ := filepath.Glob(filepath.Join(mine, "mbwrap-*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})

	t.Run("wrong", func(t *testing.T) {
		write(t, sql, "SELECT COUNT(*) FROM odd.generated;\n-- expect: 1\nSELECT x FROM odd.no_such_table;\n")
		data, err := os.ReadFile(baseline)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), `"odd.generated": `+rows, `"odd.generated": `+rows+"0", 1)
		write(t, baseline, strings.Replace(changed, `"tables": {`, `"tables": {"odd.lost": 7,`, 1))
		got := tryRestore(t, 8, call{}, append(at, "--baseline", baseline, "--sql", sql)...)
		var text strings.Builder
		for _, p := range got.Problems {
			text.WriteString(p.Message + "\n")
		}
		for _, want := range []string{"odd.generated", "odd.lost", "no_such_table", "1"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("problems: got %s, want one of %q", &text, want)
			}
		}
		empty(t, scratch)
		if l := list(t, repo); l[0].State != "bad" {
			t.Errorf("list: got state %q, want bad", l[0].State)
		}
		// A shallower check that passes does not take that back.
		suite.cgo.must(t, "verify", "--level", "hash", "--repo", repo, "--server", "e2e", list(t, repo)[0].ID)
		if l := list(t, repo); l[0].State != "bad" {
			t.Errorf("list after a good hash: got state %q, want bad", l[0].State)
		}
	})
}

// credential is who a user is. Only root can act as somebody else.
func credential(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if os.Getuid() != 0 || err != nil {
		testenv.Missing(t, "root", "to act as another user")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(data))
}
