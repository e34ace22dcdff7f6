package mariadb

import (
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
)

// refused are the tool's options that must not be given, and why. The tool takes any unambiguous abbreviation, and "_"
// for "-"; so do we, in refusing.
var refused = []struct {
	names  []string
	reason string
	hint   string
}{
	{
		[]string{"compress", "compress-threads", "compress-chunk-size"},
		"compresses each file inside the stream; it loses renames made during the backup and crashes on DROP TABLE",
		"leave it out: the whole stream is compressed, see --codec and --level",
	},
	{
		[]string{"encrypt", "encrypt-key", "encrypt-key-file", "encrypt-threads", "encrypt-chunk-size"},
		"is not known to mariadb-backup, which has no encryption",
		"see --encrypt-to for the encryption of the backup",
	},
	{
		[]string{"prepare", "apply-log", "apply-log-only", "export", "copy-back", "move-back", "decompress", "remove-original",
			"print-param", "print-defaults", "version", "help", "mysqld"},
		"asks for something else than a backup",
		"leave it out",
	},
	{
		[]string{"incremental", "incremental-lsn", "incremental-basedir", "incremental-dir", "incremental-history-name",
			"incremental-history-uuid"},
		"chooses a parent that the catalogue would not know of",
		"use --type incr, and --parent if it is not to be the newest",
	},
	{
		[]string{"target-dir"},
		"has no meaning for a stream",
		"leave it out: no file is written on this side",
	},
	{
		[]string{"password"},
		"would show the password to everyone who lists the processes",
		"put it in an option file that only you can read, and name that with --defaults-file",
	},
	{
		[]string{"defaults-file", "defaults-extra-file", "defaults-group-suffix", "no-defaults"},
		"must be the tool's first option, where ours stands",
		"use mbwrap's own --defaults-file (it may hold !include lines; /dev/null means no defaults)",
	},
}

// shortWithValue are the tool's one-letter options that take a value; -p takes one only in the same word.
const shortWithValue = "uHPSht"

// userArgs is what a look at the user's own options has found.
type userArgs struct {
	parallel     bool
	copyInterval bool
	warnings     []string
}

// checkArgs refuses options that would break the stream or a promise.
func checkArgs(args []string) (userArgs, error) {
	var found userArgs
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return found, &UsageError{Option: arg, Reason: "would hide the options after it", Hint: "leave it out"}
		case strings.HasPrefix(arg, "--"):
			name, value, hasValue := strings.Cut(arg[2:], "=")
			if isStream(optionfile.Name(name)) && !hasValue && i+1 < len(args) {
				i++
				value = args[i]
			}
			if err := found.long(name, value); err != nil {
				return found, err
			}
		case strings.HasPrefix(arg, "-") && arg != "-":
			skip, err := checkShort(arg)
			if err != nil {
				return found, err
			}
			i += skip
		}
	}
	return found, nil
}

// long looks at one option that is written out.
func (f *userArgs) long(name, value string) error {
	plain := optionfile.Name(name)
	option := "--" + name
	switch {
	case strings.HasPrefix(plain, "skip-"), strings.HasPrefix(plain, "disable-"):
		return nil // what it turns off can do no harm
	case plain == "defaults-group":
		return nil // an option of its own, though a longer one begins so
	case isStream(plain):
		if value != "mbstream" && value != "xbstream" {
			return &UsageError{Option: option, Reason: "only mbstream can be read", Hint: "leave it out"}
		}
	case isAbbreviation(plain, "parallel", len("par")):
		f.parallel = true
	case isAbbreviation(plain, "log-copy-interval", len("log-c")):
		f.copyInterval = true
	case isAbbreviation(plain, "extra-lsndir", len("extr")):
		f.warnings = append(f.warnings, option+": its files are written before the stream is complete and prove nothing")
	}
	for _, r := range refused {
		for _, bad := range r.names {
			if plain != "" && strings.HasPrefix(bad, plain) {
				if plain != bad {
					return &UsageError{Option: option, Reason: "may stand for --" + bad + ", which " + r.reason, Hint: "write the option out; as for --" + bad + ", " + r.hint}
				}
				return &UsageError{Option: option, Reason: r.reason, Hint: r.hint}
			}
		}
	}
	return nil
}

func isStream(name string) bool { return isAbbreviation(name, "stream", len("st")) }

// isAbbreviation tells whether name is the start of whole, at least least bytes of it.
func isAbbreviation(name, whole string, least int) bool {
	return len(name) >= least && strings.HasPrefix(whole, name)
}

// checkShort looks at a word of one-letter options. It returns how many following words are values.
func checkShort(arg string) (skip int, err error) {
	for i, letter := range arg[1:] {
		switch {
		case letter == 'p':
			return 0, &UsageError{Option: "-p", Reason: refusedReason("password"), Hint: refusedHint("password")}
		case letter == 'v', letter == '?', letter == 'I':
			return 0, &UsageError{Option: "-" + string(letter), Reason: refusedReason("help"), Hint: refusedHint("help")}
		case strings.ContainsRune(shortWithValue, letter):
			if i == len(arg)-2 { // nothing behind it in this word
				return 1, nil
			}
			return 0, nil
		}
	}
	return 0, nil
}

func refusedReason(name string) string {
	for _, r := range refused {
		if slices.Contains(r.names, name) {
			return r.reason
		}
	}
	return ""
}

func refusedHint(name string) string {
	for _, r := range refused {
		if slices.Contains(r.names, name) {
			return r.hint
		}
	}
	return ""
}

// checkFileArgs looks at the options that come from option files. What is only useless there is passed over: a file
// may serve other runs, too.
func checkFileArgs(args []string) (userArgs, error) {
	var kept []string
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch optionfile.Name(name) {
		case "target-dir", "password", "prepare", "incremental-dir", "user":
		default:
			kept = append(kept, arg)
		}
	}
	found, err := checkArgs(kept)
	if usage, ok := err.(*UsageError); ok {
		usage.Reason = "in an option file, group [mariadb-backup] or an old name of it: " + usage.Reason
		usage.Hint = "take it out of there, or name another file with --defaults-file"
	}
	return found, err
}
