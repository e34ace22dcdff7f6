package catalog

import (
	"bytes"
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

// sumOf returns the SHA-256 of data in hex.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var errSeal = errors.New("its content and its checksum differ")

// seal encodes v, which must encode as a JSON object with at least one member, and seals it.
func seal(v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	body, found := bytes.CutSuffix(body, []byte("\n}"))
	if !found {
		return nil, fmt.Errorf("%T does not encode as an object", v)
	}
	end := sealHead + sumOf(body) + sealTail
	return append(body, end...), nil
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
