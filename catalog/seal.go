package catalog

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// A sealed document is a JSON object whose last member, "sha256", is the SHA-256 of all bytes before that member. Every
// bit of it is thus covered: those before by the sum, the rest by their fixed form.
const (
	sealHead = ",\n  \"sha256\": \""
	sealTail = "\"\n}\n"
	sealSize = len(sealHead) + 2*sha256.Size + len(sealTail)
)

// A document of an encrypted backup has a member "mac" directly before the seal, in a form as fixed: an HMAC-SHA256 of all
// bytes before that member, under a key that only the backup's own identity yields.
const (
	macHead = ",\n  \"mac\": \""
	macTail = "\""
	macSize = len(macHead) + 2*sha256.Size + len(macTail)
)

// macFunc returns the authentication code of data.
type macFunc func(data []byte) []byte

// sumOf returns the SHA-256 of data in hex.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var errSeal = errors.New("its content and its checksum differ")

// seal encodes v, which must encode as a JSON object with at least one member, and seals it.
func seal(v any) ([]byte, error) { return sealMAC(v, nil) }

// sealMAC is seal with the code that mac makes; without one if it is nil.
func sealMAC(v any, mac macFunc) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	body, found := bytes.CutSuffix(body, []byte("\n}"))
	if !found {
		return nil, fmt.Errorf("%T does not encode as an object", v)
	}
	if mac != nil {
		body = append(body, macMember(body, mac)...)
	}
	end := sealHead + sumOf(body) + sealTail
	return append(body, end...), nil
}

// macMember returns the member that belongs behind body.
func macMember(body []byte, mac macFunc) string {
	return macHead + hex.EncodeToString(mac(body)) + macTail
}

// cutMAC takes a sealed document apart: what its code is of, and the member with the code. ok is false if it has none in
// the form that it must have.
func cutMAC(data []byte) (body, member []byte, ok bool) {
	end := len(data) - sealSize
	if end < macSize {
		return nil, nil, false
	}
	body, member = data[:end-macSize], data[end-macSize:end]
	digits, head := bytes.CutPrefix(member, []byte(macHead))
	digits, tail := bytes.CutSuffix(digits, []byte(macTail))
	return body, member, head && tail && sha256Hex.Match(digits)
}

// checkMAC tells whether a document has the code that mac makes.
func checkMAC(data []byte, mac macFunc) bool {
	body, member, ok := cutMAC(data)
	return ok && hmac.Equal(member, []byte(macMember(body, mac)))
}

// unseal verifies a sealed document and decodes it into v. Members that v does not know are ignored.
func unseal(data []byte, v any) error {
	if len(data) < sealSize {
		return errSeal
	}
	body, end := data[:len(data)-sealSize], data[len(data)-sealSize:]
	if string(end) != sealHead+sumOf(body)+sealTail {
		return errSeal
	}
	return json.Unmarshal(data, v)
}
