package cli

import (
	"os"
	"strings"
)

// maxSecret bounds what is read of a secret's file, in bytes.
const maxSecret = 64 << 10

// readSecretFile returns the first line of a file, which holds a password or a passphrase: what says which. A file that
// everybody can read keeps no secret and is refused.
func readSecretFile(what, name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", &usageError{err: errorf("read the %s: %w", what, err), hint: "does the file exist, and may you read it?"}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", errorf("read the %s: %w", what, err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return "", &usageError{err: errorf("%s file %q can be used by everybody (mode %04o)", what, name, info.Mode().Perm()),
			hint: "try: chmod 600 " + shellQuote(name)}
	}
	data := make([]byte, maxSecret)
	n, err := f.Read(data)
	if n == 0 && err != nil {
		return "", usagef("%s file %q is empty", what, name)
	}
	line, _, _ := strings.Cut(string(data[:n]), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}
