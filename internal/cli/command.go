package cli

import (
	"context"

	"github.com/urfave/cli/v2"
)

// command is one subcommand.
type command struct {
	name    string
	summary string // one line, no period
	args    string // the arguments in the usage line: "[BACKUP]"
	least   int    // arguments needed
	most    int    // arguments allowed; any number if negative
	rest    string // what may follow "--" in the usage line; "": then "--" merely ends the flags
	about   string // paragraphs of help, apart by an empty line; help wraps them
	// examples are command lines; each may have an explanation after " # ", which help aligns.
	examples []string
	exits    []int // codes it may return besides those that every command may

	settings []*setting
	common   *common // the shared flags' values, inside the command's options
	places   bool    // has --repo and --server
	plain    bool    // takes nothing from the environment and the configuration file
	hidden   bool    // not in help
	pager    bool    // the reader of its output may go away at any time without that being worth a word

	// complete returns what an argument that starts with prefix can be. nil: file names.
	complete func(ctx context.Context, prefix string) []string
	run      func(ctx context.Context, in input) error
}

// input is what stands on the command line besides flags.
type input struct {
	args []string
	rest []string // after "--", if the command has a use for it
}

// arg returns argument i, "" if there are not so many.
func (in input) arg(i int) string {
	if i < len(in.args) {
		return in.args[i]
	}
	return ""
}

// all returns every setting of the command, its own first.
func (c *command) all() []*setting {
	all := append([]*setting(nil), c.settings...)
	return append(all, c.shared()...)
}

// shared returns the settings that other commands have too.
func (c *command) shared() []*setting {
	if c.places {
		return append(c.common.places(), c.common.basics()...)
	}
	return c.common.basics()
}

// build makes the module's form of the command. invalid receives the first refused value: the module keeps only its
// text. run is called with the arguments.
func (c *command) build(invalid *error, run func(args []string) error) *cli.Command {
	flags := make([]cli.Flag, 0, len(c.settings)+8)
	for _, s := range c.all() {
		flags = append(flags, &cli.GenericFlag{Name: s.name, Value: &flagValue{s, invalid}})
	}
	return &cli.Command{
		Name: c.name, Flags: flags, HideHelp: true, HideHelpCommand: true,
		Action: func(x *cli.Context) error { return run(x.Args().Slice()) },
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			if *invalid != nil {
				return *invalid
			}
			return &usageError{err: err}
		},
	}
}

// flagValue lets the module's parser fill a setting.
type flagValue struct {
	s       *setting
	invalid *error
}

func (v *flagValue) Set(text string) error {
	err := v.s.store("--"+v.s.name, text)
	if err != nil && *v.invalid == nil {
		*v.invalid = err
	}
	return err
}

func (v *flagValue) String() string { return "" }
