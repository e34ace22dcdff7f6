package encrypt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

// testPlugin is the name of the plugin that the test binary is when it is called age-plugin-mbtest.
const testPlugin = "mbtest"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "age-plugin-"+testPlugin {
		os.Exit(runPlugin())
	}
	os.Exit(m.Run())
}

// runPlugin is a plugin whose recipients and identities are both the same few bytes. The first of them says what it
// does on the way; what it does to a file key is no encryption.
func runPlugin() int {
	p, err := plugin.New(testPlugin)
	if err != nil {
		panic(err)
	}
	p.HandleRecipient(func(data []byte) (age.Recipient, error) { return &fake{p, data}, nil })
	p.HandleIdentity(func(data []byte) (age.Identity, error) { return &fake{p, data}, nil })
	return p.Main()
}

type fake struct {
	plugin *plugin.Plugin
	data   []byte
}

func (f *fake) mask(key []byte) []byte {
	sum := sha256.Sum256(f.data)
	out := make([]byte, len(key))
	for i := range key {
		out[i] = key[i] ^ sum[i]
	}
	return out
}

func (f *fake) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, _, err := f.WrapWithLabels(fileKey)
	return stanzas, err
}

func (f *fake) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	var labels []string
	switch f.data[0] {
	case 'e':
		return nil, nil, errors.New("the card is upside down")
	case 'q':
		labels = []string{"postquantum"}
	}
	return []*age.Stanza{{Type: testPlugin, Args: []string{fmt.Sprintf("%x", f.data)}, Body: f.mask(fileKey)}}, labels, nil
}

func (f *fake) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != testPlugin || len(s.Args) != 1 || s.Args[0] != fmt.Sprintf("%x", f.data) {
			continue
		}
		switch f.data[0] {
		case 'p':
			if pin, err := f.plugin.RequestValue("PIN", true); err != nil || pin != "1234" {
				return nil, errors.New("no PIN or a wrong one")
			}
		case 'c':
			if yes, err := f.plugin.Confirm("use the key?", "yes", "no"); err != nil || !yes {
				return nil, errors.New("not confirmed")
			}
		case 'm':
			if err := f.plugin.DisplayMessage("touch the key"); err != nil {
				return nil, errors.New("nobody there")
			}
		}
		return f.mask(s.Body), nil
	}
	return nil, age.ErrIncorrectIdentity
}
