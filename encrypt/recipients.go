package encrypt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/plugin"
)

// Limits of what is read of recipients.
const (
	maxRecipientsFile = 1 << 20 // bytes of a recipients file
	maxRecipientLine  = 8 << 10 // bytes of one recipient; a post-quantum one has about 2,000
	maxRecipients     = 1000    // age reads no header with more than 1,024
)

// Recipients are whom a file is sealed to. They hold nothing secret but for a passphrase, never change, and may be
// used by several goroutines at once.
type Recipients struct{ list func() []recipient } // a function, because no fmt verb looks for a passphrase in one

type recipient struct {
	text   string // public
	key    age.Recipient
	plugin bool // key is made anew with the caller's PluginUI
	kind   recipientKind
}

// recipientKind is what decides whether recipients go together.
type recipientKind int

const (
	classic     recipientKind = iota
	postQuantum               // age lets it stand beside its like only
	byPassphrase
	unknown // a plugin's: it says so while sealing
)

// ParseRecipients makes recipients of their public texts: age1…, age1pq1… (post-quantum), ssh-ed25519 and ssh-rsa
// public keys, and age1NAME1… of the plugin age-plugin-NAME. A recipient that is given twice counts once. Post-quantum
// recipients and others together are an error that matches ErrMixed: age refuses it, because the file would be as weak
// as its weakest recipient. Of a plugin's recipient that is known only when it is used, by Seal.
//
// Errors say which of the lines is wrong, counted from 1, and never repeat one that could be a secret.
func ParseRecipients(lines ...string) (*Recipients, error) {
	if len(lines) == 0 {
		return nil, errors.New("no recipient is given")
	}
	var list []recipient
	for i, line := range lines {
		r, err := parseRecipient(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("recipient %d: %w", i+1, err)
		}
		if slices.ContainsFunc(list, func(other recipient) bool { return other.text == r.text }) {
			continue
		}
		list = append(list, r)
	}
	if len(list) > maxRecipients {
		return nil, fmt.Errorf("%d recipients are more than one file can have (%d)", len(list), maxRecipients)
	}
	if err := checkMix(list); err != nil {
		return nil, err
	}
	return newRecipients(list), nil
}

func newRecipients(list []recipient) *Recipients {
	return &Recipients{func() []recipient { return list }}
}

// checkMix refuses post-quantum recipients beside classic ones.
func checkMix(list []recipient) error {
	var strong, weak string
	for _, r := range list {
		switch r.kind {
		case postQuantum:
			strong = abbreviate(r.text)
		case classic:
			weak = abbreviate(r.text)
		}
	}
	if strong == "" || weak == "" {
		return nil
	}
	return &failure{kind: ErrMixed, text: fmt.Sprintf("%v: %s is post-quantum and %s is not, the file would be as weak "+
		"as the latter; give only post-quantum recipients or only others", ErrMixed, strong, weak)}
}

// abbreviate shortens a recipient to what a reader recognizes.
func abbreviate(text string) string {
	if len(text) <= 30 {
		return text
	}
	return text[:20] + "…" + text[len(text)-6:]
}

// parseRecipient understands one recipient.
func parseRecipient(text string) (recipient, error) {
	if err := checkLine(text); err != nil {
		return recipient{}, err
	}
	r := recipient{text: text}
	var err error
	switch {
	case strings.HasPrefix(text, "age1pq1"):
		r.kind = postQuantum
		r.key, err = age.ParseHybridRecipient(text)
	case strings.HasPrefix(text, "age1") && strings.Count(text, "1") > 1:
		r.plugin, r.kind = true, pluginKind(text)
		r.key, err = pluginRecipient(text, PluginUI{})
	case strings.HasPrefix(text, "age1"):
		r.key, err = age.ParseX25519Recipient(text)
	case strings.HasPrefix(text, "ssh-"):
		r.key, err = agessh.ParseRecipient(text)
	default:
		return r, errors.New("unknown kind of recipient: expected age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …")
	}
	if err != nil && strings.HasPrefix(text, "ssh-") {
		return r, fmt.Errorf("%q is malformed or of a kind that age does not know (it knows ssh-ed25519, and ssh-rsa from 2048 bits)",
			abbreviate(text))
	}
	if err != nil {
		return r, fmt.Errorf("%q is malformed", abbreviate(text))
	}
	return r, nil
}

// pluginKind tells the kinds of the plugins that age itself gave a meaning.
func pluginKind(text string) recipientKind {
	switch {
	case strings.HasPrefix(text, "age1tagpq1"):
		return postQuantum
	case strings.HasPrefix(text, "age1tag1"):
		return classic
	}
	return unknown
}

// checkLine refuses what no recipient can be. Its errors repeat nothing of a text that may be a secret.
func checkLine(text string) error {
	switch {
	case text == "":
		return errors.New("is empty")
	case len(text) > maxRecipientLine:
		return fmt.Errorf("is longer than %d bytes", maxRecipientLine)
	case strings.HasPrefix(strings.ToUpper(text), "AGE-SECRET-KEY-"), strings.HasPrefix(strings.ToUpper(text), "AGE-PLUGIN-"),
		strings.HasPrefix(text, "-----BEGIN"):
		return errors.New("looks like an identity, which is secret: give its recipient, the public half")
	case !utf8.ValidString(text), strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("is not a line of text")
	}
	return nil
}

// pluginRecipient makes a plugin's recipient that talks through ui.
func pluginRecipient(text string, ui PluginUI) (age.Recipient, error) {
	return plugin.NewRecipient(text, ui.client())
}

// client returns the functions as age wants them.
func (ui PluginUI) client() *plugin.ClientUI {
	return &plugin.ClientUI{DisplayMessage: ui.Message, RequestValue: ui.Ask, Confirm: ui.Confirm, WaitTimer: ui.Wait}
}

// ReadRecipients returns the recipients of a file that has one in each line; empty lines and lines that begin with #
// are dropped. Every line is checked; an error names it by its number. A file without recipients is an error.
func ReadRecipients(r io.Reader) ([]string, error) {
	limited := &io.LimitedReader{R: r, N: maxRecipientsFile + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxRecipientsFile+2)
	var texts []string
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if _, err := parseRecipient(text); err != nil {
			return nil, fmt.Errorf("recipients file, line %d: %w", n, err)
		}
		texts = append(texts, text)
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("read recipients file: %w", lines.Err())
	case limited.N == 0:
		return nil, fmt.Errorf("recipients file is longer than %d bytes", maxRecipientsFile)
	case len(texts) == 0:
		return nil, errors.New("recipients file has no recipient")
	}
	return texts, nil
}

// Passphrase makes the recipient that is whoever knows the passphrase, taken as it is: a line feed at its end is part
// of it. It stands alone: age has no files for a passphrase and somebody else. Each Seal, and each opening, costs about
// a second and 256 MiB of memory on purpose.
func Passphrase(passphrase string) (*Recipients, error) {
	key, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, errors.New("the passphrase is empty")
	}
	return newRecipients([]recipient{{text: "passphrase", key: key, kind: byPassphrase}}), nil
}

// maxWorkFactor is the highest work factor of a passphrase that is accepted when opening: 2 to this power rounds of
// scrypt, about four seconds and a GiB of memory. age writes 18. Without a limit a hostile file could keep us busy.
const maxWorkFactor = 20

// WithWorkFactor returns the recipients with another cost of the passphrase, if there is one: 2 to the power logN
// rounds of scrypt. Less than age's 18 makes guessing cheaper and is for tests; more than 20 is not opened here.
func (r *Recipients) WithWorkFactor(logN int) (*Recipients, error) {
	if logN < 1 || logN > maxWorkFactor {
		return nil, fmt.Errorf("work factor %d is not between 1 and %d", logN, maxWorkFactor)
	}
	return r.changed(func(one recipient) recipient {
		if key, ok := one.key.(*age.ScryptRecipient); ok {
			mine := *key
			mine.SetWorkFactor(logN)
			one.key = &mine
		}
		return one
	}), nil
}

// WithUI returns the recipients with ui for the talk of plugins.
func (r *Recipients) WithUI(ui PluginUI) *Recipients {
	return r.changed(func(one recipient) recipient {
		if one.plugin {
			if key, err := pluginRecipient(one.text, ui); err == nil { // parsed before
				one.key = key
			}
		}
		return one
	})
}

// changed returns a copy with change made to each.
func (r *Recipients) changed(change func(recipient) recipient) *Recipients {
	list := slices.Clone(r.all())
	for i := range list {
		list[i] = change(list[i])
	}
	return newRecipients(list)
}

// all returns the recipients; r may be nil or the zero value.
func (r *Recipients) all() []recipient {
	if r == nil || r.list == nil {
		return nil
	}
	return r.list()
}

// Strings returns the public texts, as they were given; "passphrase" stands for a passphrase.
func (r *Recipients) Strings() []string {
	texts := make([]string, 0, len(r.all()))
	for _, one := range r.all() {
		texts = append(texts, one.text)
	}
	return texts
}

// PostQuantum tells whether files to these recipients withstand a quantum computer, as far as is known before they are
// used: a plugin's own recipients count as not.
func (r *Recipients) PostQuantum() bool {
	return slices.ContainsFunc(r.all(), func(one recipient) bool { return one.kind == postQuantum })
}

// String returns the public texts, shortened.
func (r *Recipients) String() string {
	texts := r.Strings()
	for i := range texts {
		texts[i] = abbreviate(texts[i])
	}
	return strings.Join(texts, ", ")
}

// Format prints what String returns, whatever the verb.
func (r *Recipients) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }
