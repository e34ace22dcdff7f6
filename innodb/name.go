package innodb

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A kind is what a file of a stream is to the Checker.
type kind uint8

const (
	kindNone   kind = iota
	kindSpace       // a tablespace that begins with its page 0
	kindSystem      // a file of the system tablespace: only the first of them begins with page 0
	kindDelta       // the changed pages of a tablespace in an incremental backup
	kindMeta        // the few lines that say what a delta belongs to
)

// kindOf tells what the file at path is.
func kindOf(path string) kind {
	if strings.HasSuffix(path, ".meta") {
		return kindMeta
	}
	plain, delta := strings.CutSuffix(path, ".delta")
	k := kindNone
	switch {
	case strings.HasSuffix(plain, ".ibd"), strings.HasSuffix(plain, ".new"), strings.HasSuffix(plain, ".ibu"):
		k = kindSpace
	case strings.ContainsAny(plain, "/."):
	case strings.HasPrefix(plain, "ibdata"):
		k = kindSystem
	case strings.HasPrefix(plain, "undo"):
		k = kindSpace
	}
	if delta && k != kindNone {
		return kindDelta
	}
	return k
}

// IsTablespace tells whether the file at path of a stream holds pages of InnoDB, which a Checker judges.
func IsTablespace(path string) bool {
	k := kindOf(path)
	return k != kindNone && k != kindMeta
}

// TableName returns the table that the file at path of a stream belongs to, as "db.table" in readable characters, or ""
// if it belongs to none. It knows the files of every engine; those of a partition belong to the partitioned table. Names
// that the server makes for its own use, such as #sql-alter-1-2, stay as they are.
func TableName(path string) string {
	dir, base, found := cutLast(path, '/')
	if !found {
		return ""
	}
	if _, inner, nested := cutLast(dir, '/'); nested {
		dir = inner
	}
	name, ext, _ := strings.Cut(base, ".")
	if name == "" || dir == "" || dir[0] == '#' || ext == "" || ext == "opt" || ext == "TRN" {
		return ""
	}
	for _, mark := range [...]string{"#P#", "#p#"} {
		name, _, _ = strings.Cut(name, mark)
	}
	return decodeName(dir) + "." + decodeName(name)
}

// cutLast cuts s around its last sep.
func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return "", s, false
}

// decodeName undoes the server's encoding of names in the file system: '@' and two letters of its table, or '@' and the
// four hexadecimal digits of a character. What is neither stays as it is, as the server itself shows such names.
func decodeName(name string) string {
	name = strings.TrimSuffix(name, "@@@") // of names that other systems keep for devices, such as con
	if !strings.Contains(name, "@") {
		return strings.ToValidUTF8(name, "\uFFFD")
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		if name[i] == '@' {
			if r, n := decodeMark(name[i+1:]); n > 0 {
				b.WriteRune(r)
				i += 1 + n
				continue
			}
		}
		b.WriteByte(name[i])
		i++
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// decodeMark decodes what follows an '@' and tells how many bytes it took, 0 if it is no encoding.
func decodeMark(s string) (rune, int) {
	if len(s) < 2 || s[0] == ' ' {
		return 0, 0
	}
	for _, block := range letterBlocks() {
		for i := 0; i < len(block.pairs); i += 2 {
			if block.pairs[i:i+2] == s[:2] {
				return block.first + rune(i/2), 2
			}
		}
	}
	if len(s) < 4 {
		return 0, 0
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil || unicode.IsControl(rune(n)) || !utf8.ValidRune(rune(n)) {
		return 0, 0 // a line break or an escape would reach someone's terminal
	}
	return rune(n), 4
}
