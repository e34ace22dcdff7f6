package cli

import (
	"bytes"
	"context"
	"io"

	"github.com/mbwrap/mbwrap/encrypt"
)

// sealedHead is how many bytes tell an age file from others.
const sealedHead = 64

// unsealer reads a stream that may be an age file. It finds out with the first Read, as a pipe may be silent for a while
// and must stay interruptible.
type unsealer struct {
	ctx  context.Context
	env  *Env
	keys *keyFlags
	name string
	src  io.Reader

	plain io.Reader // nil before the first Read
	err   error
}

func (u *unsealer) Read(p []byte) (int, error) {
	if u.plain == nil && u.err == nil {
		u.plain, u.err = u.open()
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.plain.Read(p)
}

func (u *unsealer) open() (io.Reader, error) {
	head := make([]byte, sealedHead)
	n, err := io.ReadFull(u.src, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), u.src)
	if !encrypt.Sealed(head[:n]) {
		return whole, nil
	}
	ids, err := u.keys.identities(u.ctx, u.env)
	if err != nil {
		return nil, err
	}
	if ids == nil {
		return nil, &keyFileError{errorf("%s is encrypted with age: %w", u.name, encrypt.ErrNoMatch),
			"where is its key? give it with --identity FILE or --passphrase-file FILE"}
	}
	return ids.Open(whole)
}
