package encrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
)

// Seal begins an age file in w, to the recipients. What is written to the result goes into w in pieces of at most
// 64 KiB and 16 bytes; Close writes the last piece, without which the file is not whole, and does not close w. The
// header is written by Seal itself. The result belongs to one goroutine; its first error sticks.
//
// An error matches ErrMixed when the recipients don't go together.
func (r *Recipients) Seal(w io.Writer) (io.WriteCloser, error) {
	all := r.all()
	if len(all) == 0 {
		return nil, errors.New("seal: no recipient is given")
	}
	witnesses := make([]*witness, len(all))
	keys := make([]age.Recipient, len(all))
	for i, one := range all {
		witnesses[i] = &witness{key: one.key}
		keys[i] = witnesses[i]
	}
	out := &sealed{out: &collector{w: w}}
	var err error
	if out.age, err = age.Encrypt(out.out, keys...); err != nil {
		return nil, sealError(all, witnesses, err)
	}
	if err := out.out.release(); err != nil {
		return nil, fmt.Errorf("seal: write header: %w", err)
	}
	return out, nil
}

// sealError explains why age could not make a header.
func sealError(all []recipient, witnesses []*witness, err error) error {
	for i, saw := range witnesses {
		switch {
		case saw.err != nil:
			if t, ok := errors.AsType[*trouble](troubled(saw.err)); ok {
				return fmt.Errorf("seal to %s: %w", abbreviate(all[i].text), t.err)
			}
			return fmt.Errorf("seal to %s: %w", abbreviate(all[i].text), saw.err)
		case saw.done && !slices.Equal(saw.labels, witnesses[0].labels):
			return &failure{kind: ErrMixed, text: fmt.Sprintf("%v: %s and %s don't go together in one age file; a "+
				"post-quantum recipient goes with its like only, a passphrase alone", ErrMixed, abbreviate(all[0].text), abbreviate(all[i].text))}
		}
	}
	return fmt.Errorf("seal: %w", err)
}

// witness is a recipient that remembers what it said: age tells its refusals apart by their text only.
type witness struct {
	key    age.Recipient
	done   bool
	labels []string
	err    error
}

func (s *witness) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, _, err := s.WrapWithLabels(fileKey)
	return stanzas, err
}

func (s *witness) WrapWithLabels(fileKey []byte) (stanzas []*age.Stanza, labels []string, err error) {
	if with, ok := s.key.(age.RecipientWithLabels); ok {
		stanzas, labels, err = with.WrapWithLabels(fileKey)
	} else {
		stanzas, err = s.key.Wrap(fileKey)
	}
	s.done, s.err = true, err
	s.labels = slices.Sorted(slices.Values(labels))
	return stanzas, labels, err
}

// collector keeps the header together, which age writes in many little pieces, until release.
type collector struct {
	w    io.Writer
	head bytes.Buffer
	open bool
}

func (c *collector) Write(p []byte) (int, error) {
	if !c.open {
		return c.head.Write(p)
	}
	n, err := c.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (c *collector) release() error {
	c.open = true
	_, err := c.Write(c.head.Bytes())
	c.head = bytes.Buffer{}
	return err
}

// sealed is one age file in the making.
type sealed struct {
	age    io.WriteCloser
	out    *collector
	closed bool
	err    error
}

var errClosed = errors.New("seal: written after Close")

func (s *sealed) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.closed {
		return 0, errClosed
	}
	n, err := s.age.Write(p)
	s.err = err
	return n, err
}

func (s *sealed) Close() error {
	if !s.closed && s.err == nil {
		s.err = s.age.Close()
	}
	s.closed = true
	return s.err
}
