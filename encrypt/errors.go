package encrypt

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
)

// maxCause bounds, in bytes, what an error repeats of a cause: headers and plugins can be long-winded.
const maxCause = 300

// failure is an error of one of the kinds above: what happened, and why as far as known.
type failure struct {
	kind  error
	text  string // "" for the kind's own
	cause error  // or nil
}

func (f *failure) Error() string {
	text := f.text
	if text == "" {
		text = f.kind.Error()
	}
	if f.cause == nil {
		return text
	}
	return text + ": " + shorten(f.cause.Error())
}

func (f *failure) Is(target error) bool {
	return target == f.kind || f.kind == ErrNotSealed && target == ErrDamaged
}

func (f *failure) Unwrap() error { return f.cause }

// shorten keeps one short line of printable text.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxCause {
		s = s[:maxCause] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// damaged makes an error of kind ErrDamaged.
func damaged(cause error, format string, args ...any) error {
	return &failure{ErrDamaged, ErrDamaged.Error() + ": " + fmt.Sprintf(format, args...), cause}
}

// noMatch says that no identity opens a file: what the file's header tells about its recipients, and why identities
// could not even be tried.
type noMatch struct {
	stanzas  []string // types of the header's stanzas
	tried    int      // identities, 0 when none was given
	troubles []error
}

func (e *noMatch) Error() string {
	text := ErrNoMatch.Error()
	switch kinds := kindsOf(e.stanzas); {
	case e.tried == 0:
		text = "no identity is given"
	case len(e.troubles) > 0:
		text = ErrNoMatch.Error() + ": " + shorten(errors.Join(e.troubles...).Error())
	case len(kinds) == 1 && kinds[0] == kindPassphrase:
		text += ": the file needs a passphrase, and another one"
	}
	if kinds := kindsOf(e.stanzas); len(kinds) > 0 {
		text += " (the file is for: " + strings.Join(kinds, ", ") + ")"
	}
	return text
}

func (e *noMatch) Is(target error) bool { return target == ErrNoMatch }

func (e *noMatch) Unwrap() []error { return e.troubles }

const kindPassphrase = "a passphrase"

// maxKinds bounds how many kinds of recipients an error lists: a hostile header can hold a thousand.
const maxKinds = 6

// kindsOf names the kinds of recipients behind the stanza types of a header, each once with its count.
func kindsOf(stanzas []string) []string {
	names := map[string]string{
		"X25519": "age1… (X25519)", "mlkem768x25519": "age1pq1… (post-quantum)", "scrypt": kindPassphrase,
		"ssh-ed25519": "ssh-ed25519", "ssh-rsa": "ssh-rsa", "p256tag": "age1tag1…", "mlkem768p256tag": "age1tagpq1…",
		"piv-p256": "age1yubikey1…",
	}
	var order []string
	count := map[string]int{}
	for _, s := range stanzas {
		if strings.HasSuffix(s, "-grease") { // noise that programs put in on purpose
			continue
		}
		name, known := names[s]
		if !known {
			name = fmt.Sprintf("%q", shorten(s[:min(len(s), 32)]))
		}
		if count[name]++; count[name] == 1 {
			order = append(order, name)
		}
	}
	for i, name := range order {
		if n := count[name]; n > 1 {
			order[i] = fmt.Sprintf("%d × %s", n, name)
		}
	}
	if len(order) > maxKinds {
		order = append(slices.Clip(order[:maxKinds]), "…")
	}
	return order
}

// trouble is why an identity could not be tried: no passphrase, no plugin. It lets age go on to the next identity.
type trouble struct{ err error }

func (t *trouble) Error() string        { return t.err.Error() }
func (t *trouble) Is(target error) bool { return target == age.ErrIncorrectIdentity }
func (t *trouble) Unwrap() error        { return t.err }

// troubled returns err of an identity as a trouble, or as it is when it only says that the identity does not fit.
func troubled(err error) error {
	if err == nil || err == age.ErrIncorrectIdentity {
		return err
	}
	if _, known := errors.AsType[*trouble](err); known {
		return err
	}
	if gone, ok := errors.AsType[*plugin.NotFoundError](err); ok {
		err = fmt.Errorf("age-plugin-%s is not found in PATH: %w", gone.Name, gone.Err)
	} else if errors.Is(err, age.ErrIncorrectIdentity) {
		return age.ErrIncorrectIdentity
	}
	return &trouble{err}
}

// source marks the errors of what is read, so that they are not taken for damage of the data.
type source struct {
	r  io.Reader
	at io.ReaderAt
}

type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func (s source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	return n, marked(err)
}

func (s source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.at.ReadAt(p, off)
	return n, marked(err)
}

func marked(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &sourceError{err}
}

// explain turns an error of age, met while doing what, into one of ours.
func explain(err error, format string, args ...any) error {
	if e, ok := errors.AsType[*sourceError](err); ok {
		return fmt.Errorf("read encrypted data: %w", e.err)
	}
	if e, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		match := &noMatch{stanzas: e.StanzaTypes, tried: len(e.Errors)}
		for _, err := range e.Errors {
			if t, ok := errors.AsType[*trouble](err); ok {
				match.troubles = append(match.troubles, t.err)
			}
		}
		return match
	}
	if e, ok := errors.AsType[*failure](err); ok {
		return e
	}
	if broken, ok := errors.AsType[*armor.Error](err); ok { // it repeats what it found
		if err = errArmour; errors.Is(broken, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	return damaged(err, format, args...)
}

var errArmour = errors.New("the armour is broken")
