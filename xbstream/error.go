package xbstream

import (
	"errors"
	"fmt"
	"io"
)

// A Kind is the class of an [Error].
type Kind uint8

// Kinds of errors, each with the sentinel that errors.Is finds.
const (
	KindMagic     Kind = iota + 1 // ErrMagic
	KindFlags                     // ErrFlags
	KindType                      // ErrType
	KindPath                      // ErrPath
	KindLimit                     // ErrLimit
	KindSparse                    // ErrSparse
	KindChecksum                  // ErrChecksum
	KindOrder                     // ErrOrder
	KindRepeated                  // ErrRepeated
	KindOpen                      // ErrOpen
	KindTruncated                 // io.ErrUnexpectedEOF
	KindEmpty                     // ErrEmpty
	KindUnended                   // ErrUnended
	KindMetadata                  // ErrMetadata
	KindHandler                   // the Handler's own error
)

// Sentinels for errors.Is, one for each kind. A stream that is cut inside a chunk is io.ErrUnexpectedEOF. ErrUsage is for
// calls that don't fit, such as a write after Close.
var (
	ErrMagic    = errors.New("unexpected magic")
	ErrFlags    = errors.New("unknown flags")
	ErrType     = errors.New("unknown chunk type")
	ErrPath     = errors.New("illegal path")
	ErrLimit    = errors.New("length or position out of bounds")
	ErrSparse   = errors.New("sparse map does not fit the payload")
	ErrChecksum = errors.New("wrong payload checksum")
	ErrOrder    = errors.New("payload out of order")
	ErrRepeated = errors.New("repeated path")
	ErrOpen     = errors.New("file has not ended")
	ErrEmpty    = errors.New("empty stream")
	ErrUnended  = errors.New("files without an end")
	ErrMetadata = errors.New("closing metadata files missing")
	ErrUsage    = errors.New("xbstream: misuse")
)

// sentinel returns what errors.Is finds for the kind, nil if the kind has none of its own.
func (k Kind) sentinel() error {
	sentinels := [...]error{
		KindMagic: ErrMagic, KindFlags: ErrFlags, KindType: ErrType, KindPath: ErrPath, KindLimit: ErrLimit,
		KindSparse: ErrSparse, KindChecksum: ErrChecksum, KindOrder: ErrOrder, KindRepeated: ErrRepeated, KindOpen: ErrOpen,
		KindTruncated: io.ErrUnexpectedEOF, KindEmpty: ErrEmpty, KindUnended: ErrUnended, KindMetadata: ErrMetadata,
	}
	if int(k) < len(sentinels) {
		return sentinels[k]
	}
	return nil
}

// String returns a short name of the kind, such as "checksum".
func (k Kind) String() string {
	names := [...]string{
		KindMagic: "magic", KindFlags: "flags", KindType: "type", KindPath: "path", KindLimit: "limit",
		KindSparse: "sparse", KindChecksum: "checksum", KindOrder: "order", KindRepeated: "repeated", KindOpen: "open",
		KindTruncated: "truncated", KindEmpty: "empty", KindUnended: "unended", KindMetadata: "metadata",
		KindHandler: "handler",
	}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// An Error is what is wrong with a stream and where.
type Error struct {
	Kind Kind
	// Offset is the stream offset of the chunk at fault (of its magic), or of the end of the stream when the fault is that
	// it ended.
	Offset int64
	Path   string // of the chunk at fault, as found; empty if it is not known or the fault has none
	Err    error  // the detail
}

// Error gives place, name and detail in one line.
func (e *Error) Error() string {
	return e.place() + ": " + e.Err.Error()
}

func (e *Error) place() string {
	switch e.Kind {
	case KindEmpty, KindUnended, KindMetadata:
		return fmt.Sprintf("end of stream at offset %d", e.Offset)
	case KindChecksum:
		return fmt.Sprintf("payload of %q at offset %d", e.Path, e.Offset)
	}
	if e.Path == "" {
		return fmt.Sprintf("read chunk head at offset %d", e.Offset)
	}
	return fmt.Sprintf("chunk of %q at offset %d", e.Path, e.Offset)
}

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of the error's kind.
func (e *Error) Is(target error) bool {
	s := e.Kind.sentinel()
	return s != nil && s == target
}

// fault makes an Error whose place is filled in by the caller who knows it.
func fault(kind Kind, path string, format string, args ...any) *Error {
	return &Error{Kind: kind, Path: path, Err: fmt.Errorf(format, args...)}
}
