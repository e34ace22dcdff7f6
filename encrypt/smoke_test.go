package encrypt

import (
	"bytes"
	"io"
	"testing"
)

func TestKeyRoundTrip(t *testing.T) {
	for _, pq := range []bool{false, true} {
		secret, public, err := Generate(pq)
		if err != nil {
			t.Fatal(err)
		}
		to, err := ParseRecipients(public)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := ReadIdentities(bytes.NewReader([]byte(secret+"\n")), IdentityOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k, _ := NewKey(pq)
		s, err := k.SealTo(to)
		if err != nil {
			t.Fatal(err)
		}
		k2, err := OpenKey(s, ids)
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("0123456789"), 50000)
		var out bytes.Buffer
		w, _ := k.Seal(&out)
		w.Write(data)
		w.Close()
		p, err := k2.OpenAt(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(io.NewSectionReader(p, 0, p.Size()))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatal(err, len(got))
		}
		f, err := k2.OpenFrontAt(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || f.Size() != int64(len(data)) {
			t.Fatal(err)
		}
	}
}
