package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
)

// headLen is how much of an input is looked at to find out what it is, in bytes: the mark of a tar archive lies deepest.
const headLen = 512

// plainReader decodes an input. It finds out by its content how it is compressed, with the first Read: a blocked source
// then blocks the reader's goroutine only. An empty input is an empty stream.
type plainReader struct {
	name  string
	src   io.Reader
	plain io.ReadCloser // nil before the first Read
	err   error
}

// Read returns decoded bytes. The error for an input that is no stream is a *FormatError.
func (r *plainReader) Read(p []byte) (int, error) {
	if r.err == nil && r.plain == nil {
		r.err = r.open()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.plain.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read %q: %w", r.name, err)
	}
	return n, err
}

func (r *plainReader) open() error {
	head := make([]byte, headLen)
	n, err := io.ReadFull(r.src, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("read %q: %w", r.name, err)
	}
	head = head[:n]
	whole := io.MultiReader(bytes.NewReader(head), r.src)
	if n == 0 {
		r.plain = io.NopCloser(whole)
		return nil
	}
	c, known := codec.Detect(head)
	if !known {
		return unknownFormat(r.name, head)
	}
	r.plain, err = c.NewReader(whole)
	return err
}

// Close frees the decoder and leaves the source alone.
func (r *plainReader) Close() error {
	if r.plain == nil {
		return nil
	}
	return r.plain.Close()
}

// foreign lists what users may have in hand instead of a stream, by what it begins with.
func foreign() []struct {
	at     int
	mark   string
	what   string
	sealed bool
} {
	return []struct {
		at     int
		mark   string
		what   string
		sealed bool
	}{
		{0, "age-encryption.org/v1", "an age file, and no identity was given to open it", true},
		{0, "-----BEGIN AGE ENCRYPTED FILE", "an armoured age file, and no identity was given to open it", true},
		{0, "Salted__", "a file of openssl enc: it must be decrypted first", true},
		{0, "XBCRYP", "a file of xbcrypt: it must be decrypted first", true},
		{0, "-----BEGIN PGP MESSAGE", "an OpenPGP file: it must be decrypted first", true},
		{0, "qpress", "a qpress archive", false},
		{0, "BZh", "a bzip2 file", false},
		{0, "\xfd7zXZ\x00", "an xz file", false},
		{0, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive", false},
		{0, "PK\x03\x04", "a zip archive", false},
		{257, "ustar", "a tar archive", false},
		{0, "-- MariaDB dump", "an SQL dump: the mariadb client reads it", false},
		{0, "-- MySQL dump", "an SQL dump: the mariadb client reads it", false},
		{0, "/*M!999999", "an SQL dump: the mariadb client reads it", false},
	}
}

// unknownFormat names what an input seems to be.
func unknownFormat(name string, head []byte) error {
	for _, f := range foreign() {
		if f.at < len(head) && bytes.HasPrefix(head[f.at:], []byte(f.mark)) {
			return &FormatError{Name: name, What: f.what, Sealed: f.sealed}
		}
	}
	return &FormatError{Name: name}
}

// sequential returns the stream of a backup whose index can't be used: its volumes one after the other.
func sequential(ctx context.Context, b *catalog.Backup) (*Stream, func() error, error) {
	var parts []io.Reader
	var opened []io.Closer
	closeAll := func() error {
		var all []error
		for _, o := range opened {
			all = append(all, o.Close())
		}
		return errors.Join(all...)
	}
	for i := range b.Manifest.Volumes {
		volume, err := b.OpenVolume(ctx, i+1)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		opened = append(opened, volume)
		parts = append(parts, io.NewSectionReader(volume, 0, volume.Size()))
	}
	name := b.Server + "/" + b.ID
	return &Stream{Reader: io.MultiReader(parts...), Name: name}, closeAll, nil
}
