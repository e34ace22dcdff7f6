package cli

import (
	"slices"
	"strings"
)

// request is a command line taken apart. Flags may stand anywhere before "--", also before the command: the module
// that parses them would take those after the first argument for arguments.
type request struct {
	cmd     *command // nil: none was named
	flags   []string // --name=value each
	in      input
	help    bool
	version bool
}

// arrange takes args apart, which are without the program's name.
func arrange(commands []*command, args []string) (*request, error) {
	at := findCommand(commands, args)
	r := &request{}
	if at >= 0 {
		r.cmd = lookup(commands, args[at])
		if r.cmd == nil {
			return nil, unknownCommand(commands, args[at])
		}
		args = slices.Delete(slices.Clone(args), at, at+1)
	}
	for len(args) > 0 {
		n, err := r.take(commands, args)
		if err != nil {
			return r, err
		}
		args = args[n:]
	}
	return r, nil
}

// take consumes the first word of args, and the next one too when it is the flag's value.
func (r *request) take(commands []*command, args []string) (int, error) {
	word := args[0]
	switch {
	case word == "--":
		r.restAfter(args[1:])
		return len(args), nil
	case word == "-h" || word == "--help" || word == "-help":
		r.help = true
		return 1, nil
	case r.cmd == nil && (word == "-V" || word == "--version" || word == "-version"):
		r.version = true
		return 1, nil
	case !isFlag(word):
		r.in.args = append(r.in.args, word)
		return 1, nil
	}
	return r.takeFlag(commands, args)
}

// restAfter files what follows "--".
func (r *request) restAfter(words []string) {
	if r.cmd != nil && r.cmd.rest != "" {
		r.in.rest = words
		return
	}
	r.in.args = append(r.in.args, words...)
}

// takeFlag consumes a flag with its value.
func (r *request) takeFlag(commands []*command, args []string) (int, error) {
	name, value, inline := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	s, negated := find(r.known(commands), name)
	switch {
	case s == nil:
		return 0, unknownFlag(r, commands, args[0])
	case s.secret:
		return 0, usagef("--%s: a secret on the command line can be read by every user of this machine: "+
			"set %s, or use the configuration file", s.name, variable("", s.name))
	case s.arg == "":
		if !inline {
			value = "true"
		}
		if negated {
			value = opposite(value)
		}
		r.flags = append(r.flags, "--"+s.name+"="+value)
		return 1, nil
	case inline:
		r.flags = append(r.flags, "--"+s.name+"="+value)
		return 1, nil
	case len(args) < 2 || strings.HasPrefix(args[1], "--"):
		return 0, usagef("--%s needs a value: %s", s.name, s.arg)
	}
	r.flags = append(r.flags, "--"+s.name+"="+args[1])
	return 2, nil
}

// known lists the settings that the request may name: those of its command, or of all while it has none.
func (r *request) known(commands []*command) []*setting {
	if r.cmd != nil {
		return r.cmd.all()
	}
	var all []*setting
	for _, c := range commands {
		all = append(all, c.all()...)
	}
	return all
}

// find returns the setting called name. A switch is also found, negated, under no-NAME.
func find(settings []*setting, name string) (s *setting, negated bool) {
	for _, s := range settings {
		if s.name == name || s.short != "" && s.short == name {
			return s, false
		}
	}
	positive, ok := strings.CutPrefix(name, "no-")
	if !ok {
		return nil, false
	}
	for _, s := range settings {
		if s.name == positive && s.arg == "" {
			return s, true
		}
	}
	return nil, false
}

// opposite turns the text of a switch round; what is not one is left for the switch to refuse.
func opposite(value string) string {
	on, err := parseBool(value)
	switch {
	case err != nil:
		return value
	case on:
		return "false"
	}
	return "true"
}

// findCommand returns the place of the command's name: the first word that is neither a flag nor a flag's value. It
// is -1 if there is none.
func findCommand(commands []*command, args []string) int {
	all := (&request{}).known(commands)
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return -1
		}
		if !isFlag(word) {
			return i
		}
		s, _ := find(all, strings.TrimLeft(word, "-"))
		if s != nil && s.arg != "" {
			i++ // its value
		}
	}
	return -1
}

// isFlag tells flags from arguments; a lone "-" is standard input or output.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

func lookup(commands []*command, name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
	}
	return nil
}

func unknownCommand(commands []*command, name string) error {
	var names []string
	for _, c := range commands {
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	err := &usageError{err: errorf("unknown command %q", name), hint: "what is there? try: mbwrap help"}
	if best := nearest(name, names); best != "" {
		err.hint = "did you mean: mbwrap " + best
	}
	return err
}

func unknownFlag(r *request, commands []*command, word string) error {
	name, _, _ := strings.Cut(word, "=")
	var names []string
	for _, s := range r.known(commands) {
		if !s.secret && !s.hidden {
			names = append(names, s.name)
		}
	}
	err := &usageError{err: errorf("unknown flag %s", name)}
	if r.cmd != nil {
		err.err = errorf("unknown flag %s of %s", name, r.cmd.name)
		err.cmd = r.cmd.name
	}
	if best := nearest(strings.TrimLeft(name, "-"), names); best != "" {
		err.hint = "did you mean --" + best + "?"
	}
	return err
}

// checkCount compares the number of arguments with what the command takes.
func (c *command) checkCount(args []string) error {
	var err error
	switch {
	case len(args) < c.least && len(args) == 0:
		err = errorf("%s needs %s", c.name, c.args)
	case len(args) < c.least:
		err = errorf("%s needs %s: got only %s", c.name, c.args, quoted(args))
	case c.most >= 0 && len(args) > c.most && c.most == 0:
		err = errorf("%s takes no arguments: got %s", c.name, quoted(args))
	case c.most >= 0 && len(args) > c.most:
		err = errorf("%s takes only %s: got %s", c.name, c.args, quoted(args))
	default:
		return nil
	}
	return &usageError{err: err, cmd: c.name}
}
