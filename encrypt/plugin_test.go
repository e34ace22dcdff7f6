package encrypt

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age/plugin"
)

// withPlugin puts the test plugin, which is this very program, into PATH.
func withPlugin(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "age-plugin-"+testPlugin)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func pluginTexts(data string) (recipient, identity string) {
	return plugin.EncodeRecipient(testPlugin, []byte(data)), plugin.EncodeIdentity(testPlugin, []byte(data))
}

func TestPlugin(t *testing.T) {
	withPlugin(t)
	refuse := errors.New("nobody")
	for _, c := range []struct {
		name, data string
		ui         PluginUI
		want       string // part of the error, "" for none
	}{
		{"silent", "silent", PluginUI{}, ""},
		{"PIN", "pin", PluginUI{Ask: func(name, prompt string, secret bool) (string, error) {
			if name != testPlugin || prompt != "PIN" || !secret {
				return "", refuse
			}
			return "1234", nil
		}}, ""},
		{"PIN is wrong", "pin", PluginUI{Ask: func(string, string, bool) (string, error) { return "4321", nil }}, "wrong one"},
		{"PIN is refused", "pin", PluginUI{Ask: func(string, string, bool) (string, error) { return "", refuse }}, "no PIN"},
		{"nobody to ask for the PIN", "pin", PluginUI{}, "no PIN"},
		{"confirmed", "confirm", PluginUI{Confirm: func(_, prompt, yes, no string) (bool, error) {
			return prompt == "use the key?" && yes == "yes" && no == "no", nil
		}}, ""},
		{"not confirmed", "confirm", PluginUI{Confirm: func(_, _, _, _ string) (bool, error) { return false, nil }}, "not confirmed"},
		{"nobody to confirm", "confirm", PluginUI{}, "not confirmed"},
		{"message", "message", PluginUI{Message: func(_, m string) error {
			if m != "touch the key" {
				return refuse
			}
			return nil
		}}, ""},
		{"nobody to read the message", "message", PluginUI{}, "nobody there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, identity := pluginTexts(c.data)
			ids, err := ReadIdentities(strings.NewReader(identity), IdentityOptions{UI: c.ui})
			if err != nil {
				t.Fatal(err)
			}
			got, err := openAll(ids, sealAll(t, recipients(t, to).WithUI(c.ui), []byte("x")))
			if c.want == "" && (err != nil || string(got) != "x") {
				t.Errorf("got %q and error %v, want what was sealed", got, err)
			}
			if c.want != "" && (!errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want ErrNoMatch with %q", err, c.want)
			}
		})
	}
}

func TestPluginThatIsMissing(t *testing.T) {
	to, identity := plugin.EncodeRecipient("mbgone", []byte("x")), plugin.EncodeIdentity("mbgone", []byte("secret"))
	_, err := recipients(t, to).Seal(io.Discard)
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "age-plugin-mbgone is not found in PATH") {
		t.Errorf("Seal: got error %v, want one that names the missing program", err)
	}
	classic, classicIDs := pair(t, false)
	sealed := sealAll(t, classic, []byte("x"))
	_, err = openAll(identities(t, identity), sealed)
	if !errors.Is(err, ErrNoMatch) || !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "age-plugin-mbgone") {
		t.Errorf("Open: got error %v, want ErrNoMatch that names the missing program", err)
	}
	if strings.Contains(err.Error(), identity) {
		t.Errorf("the error repeats the identity: %v", err)
	}
	wantOpens(t, identities(t, identity).With(classicIDs), sealed, []byte("x"))
}

func TestPluginThatDoesNotFit(t *testing.T) {
	withPlugin(t)
	to, _ := pluginTexts("one")
	_, identity := pluginTexts("another")
	_, err := openAll(identities(t, identity), sealAll(t, recipients(t, to), nil))
	if want := `no identity fits (the file is for: "mbtest")`; !errors.Is(err, ErrNoMatch) || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestPluginThatFails(t *testing.T) {
	withPlugin(t)
	to, _ := pluginTexts("error")
	_, err := recipients(t, to).Seal(io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the card is upside down") || errors.Is(err, ErrMixed) {
		t.Errorf("got error %v, want what the plugin says", err)
	}
}

// TestPluginsMix: what kind a plugin's recipient is, is known only when it is used.
func TestPluginsMix(t *testing.T) {
	withPlugin(t)
	strongPlugin, _ := pluginTexts("q")
	classicPlugin, _ := pluginTexts("s")
	_, strong, _ := Generate(true)
	_, classic, _ := Generate(false)
	for _, c := range []struct {
		name  string
		lines []string
		want  error
	}{
		{"post-quantum with post-quantum plugin", []string{strong, strongPlugin}, nil},
		{"classic with classic plugin", []string{classic, classicPlugin}, nil},
		{"post-quantum with classic plugin", []string{strong, classicPlugin}, ErrMixed},
		{"classic with post-quantum plugin", []string{classic, strongPlugin}, ErrMixed},
		{"two plugins", []string{classicPlugin, strongPlugin}, ErrMixed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			_, err := recipients(t, c.lines...).Seal(&out)
			if !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
			if err != nil && out.Len() > 0 {
				t.Errorf("got %d bytes before the error, want none", out.Len())
			}
		})
	}
}

// TestPluginWithAge: the same plugin under the real program.
func TestPluginWithAge(t *testing.T) {
	ageProgram := needAge(t)
	withPlugin(t)
	to, identity := pluginTexts("shared")
	dir := t.TempDir()
	keyFile := write(t, dir, "identity", []byte(identity+"\n"))
	ours := write(t, dir, "ours.age", sealAll(t, recipients(t, to), []byte("by us")))
	if got := run(t, nil, ageProgram, "-d", "-i", keyFile, ours); string(got) != "by us" {
		t.Errorf("age opened %q, want what we sealed", got)
	}
	wantOpens(t, identities(t, identity), run(t, []byte("by age"), ageProgram, "-r", to), []byte("by age"))
}
