package cli

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/internal/config"
)

// settle gives every setting of cmd that the command line left alone its value from the environment, else from the
// configuration file.
func settle(cmd *command, commands []*command, env *Env) error {
	if cmd.plain {
		return nil
	}
	for _, s := range cmd.all() {
		if err := fromEnvironment(cmd, s, env); err != nil {
			return err
		}
	}
	file, err := openConfig(cmd.common, env)
	if file == nil || err != nil {
		return err
	}
	if err := checkConfig(file, commands); err != nil {
		return err
	}
	for _, s := range cmd.all() {
		if err := fromFile(cmd, s, file); err != nil {
			return err
		}
	}
	return nil
}

// variable is the name of the environment's variable for a flag: of all commands, or of one alone.
func variable(command, flag string) string {
	name := "MBWRAP_"
	if command != "" {
		name += command + "_"
	}
	return strings.ToUpper(strings.ReplaceAll(name+flag, "-", "_"))
}

// fromEnvironment looks for the command's own variable first: MBWRAP_BACKUP_LEVEL beats MBWRAP_LEVEL. An empty
// variable is the same as none.
func fromEnvironment(cmd *command, s *setting, env *Env) error {
	for _, name := range []string{variable(cmd.name, s.name), variable("", s.name)} {
		value := env.Getenv(name)
		if s.source != "" || value == "" {
			continue
		}
		if !s.many {
			return s.store(name, value)
		}
		return s.store(name, splitList(value)...)
	}
	return nil
}

// splitList cuts a list from the environment at its commas, or, if it has line ends, at these alone.
func splitList(value string) []string {
	sep := ","
	if strings.Contains(value, "\n") {
		sep = "\n"
	}
	var items []string
	for item := range strings.SplitSeq(value, sep) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// openConfig reads the file that was asked for, or the usual one if it is there; nil if there is none.
func openConfig(c *common, env *Env) (*config.File, error) {
	path := c.Config
	if path == "" {
		path = env.ConfigFile
	}
	if path == "" {
		return nil, nil
	}
	file, err := config.Load(path)
	if c.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

// checkConfig refuses names that no command knows, and secrets that everyone can read: also those that this command
// has no use for, because a mistake should be found by the first run, not by the one at night.
func checkConfig(file *config.File, commands []*command) error {
	for _, e := range file.Entries() {
		known, err := settingsFor(file, e, commands)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(known, func(s *setting) bool { return s.secret }) {
			if err := file.CheckSecret(e); err != nil {
				return err
			}
		}
		if e.List && !slices.ContainsFunc(known, func(s *setting) bool { return s.many }) {
			return file.Errorf(e.Line, "%s: a list, but it takes one value", e.Key)
		}
	}
	return nil
}

// settingsFor returns the settings of all commands that e speaks of.
func settingsFor(file *config.File, e config.Entry, commands []*command) ([]*setting, error) {
	var known []*setting
	var names []string
	section := e.Section == ""
	for _, c := range commands {
		if c.plain || e.Section != "" && e.Section != c.name {
			continue
		}
		section = true
		for _, s := range c.all() {
			names = append(names, s.name)
			if s.name == e.Key && s.name != "config" {
				known = append(known, s)
			}
		}
	}
	switch {
	case !section:
		return nil, file.Errorf(e.Line, "unknown section %s: no command is called so", e.Section)
	case len(known) > 0:
		return known, nil
	}
	if best := nearest(e.Key, names); best != "" {
		return nil, file.Errorf(e.Line, "unknown setting %s: did you mean %s?", e.Key, best)
	}
	return nil, file.Errorf(e.Line, "unknown setting %s", e.Key)
}

// fromFile looks into the command's own section first.
func fromFile(cmd *command, s *setting, file *config.File) error {
	if s.source != "" {
		return nil
	}
	e, ok := file.Lookup(cmd.name, s.name)
	if !ok {
		e, ok = file.Lookup("", s.name)
	}
	if !ok {
		return nil
	}
	source := file.Path() + ", " + s.name
	if err := s.store(source, e.Items...); err != nil {
		return file.Errorf(e.Line, "%w", err)
	}
	return nil
}
