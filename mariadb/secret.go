package mariadb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
)

// secretFD is the number under which a child finds the option file with the password: the first after its three
// standard ones.
const secretFD = "/dev/fd/3"

// optionFile tells a program which option files to read. Its argument must be the program's first; file, if not nil,
// must be passed on as descriptor 3 and closed afterwards.
type optionFile struct {
	arg  string // "" for the default files
	file *os.File
}

// newOptionFile arranges for the option files of c to be read, with the password, if there is one, put on top of them.
// The password goes through a file without a name, in memory where the kernel can do that: nothing to see in the
// process list, nothing left on a disk.
func newOptionFile(ctx context.Context, c ConnectOptions) (optionFile, error) {
	base := c.DefaultsFile
	if base != "" {
		var err error
		if base, err = filepath.Abs(base); err != nil {
			return optionFile{}, err
		}
		if _, err := os.Stat(base); err != nil {
			return optionFile{}, &UsageError{Option: "--defaults-file", Reason: err.Error(), Hint: "does the file exist, and may you read it?", Err: err}
		}
	}
	if c.Password == "" {
		if base == "" {
			return optionFile{}, nil
		}
		return optionFile{arg: "--defaults-file=" + base}, nil
	}
	// The file given with --defaults-extra-file comes before ~/.my.cnf, whose password would win. So ours includes all
	// the others and stands alone.
	include := []string{base}
	option := "--defaults-file="
	if base == "" {
		include = optionfile.Defaults(ctx)
		if include == nil {
			option = "--defaults-extra-file="
		}
	}
	f, err := secretFile(optionText(include, c.Password))
	if err != nil {
		return optionFile{}, err
	}
	return optionFile{arg: option + secretFD, file: f}, nil
}

// optionText is an option file that includes others and then sets the password.
func optionText(include []string, password string) string {
	var b strings.Builder
	for _, name := range include {
		fmt.Fprintf(&b, "!include %s\n", name)
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(password)
	for _, group := range []string{"client", "mariadb-backup"} {
		fmt.Fprintf(&b, "[%s]\npassword=\"%s\"\n", group, quoted)
	}
	return b.String()
}

// secretFile returns an open file without a name that holds text and that only this user may open.
func secretFile(text string) (*os.File, error) {
	f, err := namelessFile()
	if err != nil {
		return nil, fmt.Errorf("hand over the password: %w", err)
	}
	// The tool ignores option files that everybody may write, and a memory file begins as one.
	err = f.Chmod(0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("hand over the password: %w", err)
	}
	return f, nil
}

// namelessFile is a memory file, or a temporary one without a name on kernels that have none.
func namelessFile() (*os.File, error) {
	if fd, err := unix.MemfdCreate("mbwrap", unix.MFD_CLOEXEC); err == nil {
		return os.NewFile(uintptr(fd), "mbwrap"), nil
	}
	f, err := os.CreateTemp("", "mbwrap-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
