package encrypt_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/mbwrap/mbwrap/encrypt"
)

// A backup has a key of its own; the operators' recipients open only that.
func Example() {
	identity, recipient, err := encrypt.Generate(true) // the operator's, made once and kept elsewhere
	if err != nil {
		log.Fatal(err)
	}

	// The host that takes backups knows the recipient only.
	operators, err := encrypt.ParseRecipients(recipient)
	if err != nil {
		log.Fatal(err)
	}
	key, err := encrypt.NewKey(operators.PostQuantum())
	if err != nil {
		log.Fatal(err)
	}
	keyFile, err := key.SealTo(operators)
	if err != nil {
		log.Fatal(err)
	}
	var volume bytes.Buffer
	w, err := key.Seal(&volume)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(w, "many tables")
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	// Who restores has the identity.
	ids, err := encrypt.ReadIdentities(strings.NewReader(identity), encrypt.IdentityOptions{})
	if err != nil {
		log.Fatal(err)
	}
	opened, err := encrypt.OpenKey(keyFile, ids)
	if err != nil {
		log.Fatal(err)
	}
	plain, err := opened.OpenAt(bytes.NewReader(volume.Bytes()), int64(volume.Len()))
	if err != nil {
		log.Fatal(err)
	}
	part, err := io.ReadAll(io.NewSectionReader(plain, 5, 6))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes, some of them %q, under a %v\n", plain.Size(), part, opened)
	// Output: 11 bytes, some of them "tables", under a backup key
}
