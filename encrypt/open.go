package encrypt

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Open begins to read an age file, binary or armoured, from its front: it finds the identity that fits and returns the
// plaintext. Every 64 KiB are proven before they are handed out, but only io.EOF says that the file is whole: what was
// read before an error is genuine, and not all. r may be read beyond the header here.
//
// Errors: ErrNoMatch (it lists the kinds of recipients that the header shows), ErrNotSealed, ErrDamaged; a failure of
// r is returned as such. ids may be nil, which fits nothing.
func (ids *Identities) Open(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(source{r: r})
	if err := checkIntro(in); err != nil {
		return nil, err
	}
	var file io.Reader = in
	if first, _ := in.Peek(1); first[0] != intro[0] {
		file = armor.NewReader(in)
	}
	keys := ids.keys()
	if len(keys) == 0 {
		keys = append(keys, &probe{})
	}
	plain, err := age.Decrypt(file, keys...)
	if err != nil {
		return nil, ids.explain(err)
	}
	return &opened{r: plain}, nil
}

// explain is explain for the header of a file.
func (ids *Identities) explain(err error) error {
	err = explain(err, "its header does not parse or its MAC is wrong")
	if match, ok := err.(*noMatch); ok && ids.Empty() {
		match.tried = 0
	}
	return err
}

// checkIntro looks whether an age file begins here, without taking anything.
func checkIntro(in *bufio.Reader) error {
	head, err := in.Peek(1)
	if err == nil && head[0] == intro[0] {
		head, err = in.Peek(len(intro))
	} else if err == nil {
		head, err = in.Peek(leading + len(armor.Header))
	}
	if err != nil && err != io.EOF {
		return explain(err, "its first bytes")
	}
	return introError(head)
}

// introError tells what is wrong with the first bytes of an age file, nil when nothing is. It repeats none of them:
// they could be an identity.
func introError(head []byte) error {
	switch {
	case armoured(head), len(head) >= len(intro) && string(head[:len(intro)]) == intro:
		return nil
	case len(head) == 0:
		return &failure{kind: ErrNotSealed, text: "not an age file: it is empty"}
	case Sealed(head):
		return &failure{kind: ErrNotSealed, text: "not an age file of version 1, or damaged"}
	}
	return &failure{kind: ErrNotSealed}
}

// opened is the plaintext of one age file, read front to back.
type opened struct {
	r    io.Reader
	read int64 // bytes of plaintext handed out
	err  error
}

func (o *opened) Read(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.r.Read(p)
	o.read += int64(n)
	switch {
	case err == nil || err == io.EOF:
		o.err = err
	case errors.Is(err, io.ErrUnexpectedEOF):
		o.err = explain(err, "it is cut off behind byte %d of the plaintext", o.read)
	default:
		o.err = explain(err, "behind byte %d of the plaintext", o.read)
	}
	return n, o.err
}

// fileKey reads the header of the age file in at and finds the identity that fits. It returns the file's own key and
// how long the header is, in bytes. at gives marked errors.
func (ids *Identities) fileKey(at io.ReaderAt, size int64) (key []byte, header int64, err error) {
	head := make([]byte, min(size, leading+int64(len(armor.Header))))
	if err := readFullAt(at, head, 0); err != nil {
		return nil, 0, explain(err, "it is shorter than said")
	}
	if err := introError(head); err != nil {
		return nil, 0, err
	}
	if armoured(head) {
		return nil, 0, fmt.Errorf("read an armoured age file at random: %w", errors.ErrUnsupported)
	}
	parsed, err := age.ExtractHeader(io.NewSectionReader(at, 0, size))
	if err != nil {
		return nil, 0, explain(err, "its header does not parse")
	}
	keys := ids.keys()
	if len(keys) == 0 {
		keys = append(keys, &probe{})
	}
	key, err = age.DecryptHeader(parsed, keys...)
	if err != nil {
		return nil, 0, ids.explain(err)
	}
	return key, int64(len(parsed)), nil
}
