// Package optionfile asks MariaDB's own program what option files say. It is the only package that reads them.
package optionfile

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// Defaults asks for the option files that MariaDB's programs read when none is named, and returns those that are
// there. nil means that it is not known.
func Defaults(ctx context.Context) []string {
	out, err := ask(ctx, "--help")
	if err != nil {
		return nil
	}
	_, rest, ok := strings.Cut(out, "Default options are read from the following files")
	_, rest, more := strings.Cut(rest, "\n")
	if !ok || !more {
		return nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	files := []string{}
	for name := range strings.FieldsSeq(line) {
		if below, ok := strings.CutPrefix(name, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				continue
			}
			name = filepath.Join(home, below)
		}
		if _, err := os.Stat(name); err == nil {
			files = append(files, name)
		}
	}
	return files
}

// ask runs the program that prints what option files say.
func ask(ctx context.Context, args ...string) (string, error) {
	program, err := process.Find("my_print_defaults")
	if err != nil {
		return "", err
	}
	return process.Ask(ctx, program, args...)
}

// Options returns the options that the option files of c hold in the given groups, each as "--name=value", in the
// order in which the tool would see them: the last wins. It is empty when the files can't be asked.
func Options(ctx context.Context, file string, groups ...string) []string {
	var args []string
	if file != "" {
		args = append(args, "--defaults-file="+file)
	}
	out, err := ask(ctx, append(args, groups...)...)
	if err != nil {
		return nil
	}
	var options []string
	for line := range strings.Lines(out) {
		if line = strings.TrimRight(line, "\n"); strings.HasPrefix(line, "--") {
			options = append(options, line)
		}
	}
	return options
}

// Name brings an option's name to the form of our tables: dashes, and without the prefixes that change nothing.
func Name(name string) string {
	name = strings.ReplaceAll(name, "_", "-")
	for {
		short := name
		for _, prefix := range []string{"loose-", "enable-", "maximum-", "autoset-"} {
			short = strings.TrimPrefix(short, prefix)
		}
		if short == name {
			return name
		}
		name = short
	}
}
