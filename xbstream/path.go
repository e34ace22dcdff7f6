package xbstream

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

var (
	errPathLength   = fmt.Errorf("path is not 1 to %d bytes long", MaxPath)
	errPathNUL      = errors.New("path has a NUL byte")
	errPathAbsolute = errors.New("path is absolute")
	errPathElement  = errors.New("path has an empty, \".\" or \"..\" element")
	errPathLocal    = errors.New("path is not local on this system")
	errPathStar     = errors.New("path ends in '*', which only a remove may")
	errPathAll      = errors.New("remove of every path")
)

// CheckPath is the one rule for the path of a file in a stream, with or without an archive around it. A legal path is 1 to
// [MaxPath] bytes of any value but NUL, relative, of elements separated by '/' none of which is empty, "." or "..", is
// local in the sense of [filepath.IsLocal] (on Windows that refuses more), and doesn't end in '*'. Joined to a directory it
// names something below it, unless a link stands in the way: extract through an os.Root.
//
// The path of a remove may also be a legal path followed by '*', or a prefix of one.
func CheckPath(path string) error {
	if err := checkElements(path); err != nil {
		return err
	}
	if strings.HasSuffix(path, "*") {
		return errPathStar
	}
	return nil
}

// checkRemove is CheckPath for the path of a remove, which may end in '*'. A bare '*' names everything there is; nothing
// sends it and it is refused.
func checkRemove(path string) error {
	if path == "*" {
		return errPathAll
	}
	return checkElements(path)
}

func checkElements(path string) error {
	switch {
	case len(path) == 0 || len(path) > MaxPath:
		return errPathLength
	case strings.IndexByte(path, 0) >= 0:
		return errPathNUL
	case path[0] == '/':
		return errPathAbsolute
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." {
			return errPathElement
		}
	}
	if !filepath.IsLocal(path) {
		return errPathLocal
	}
	return nil
}
