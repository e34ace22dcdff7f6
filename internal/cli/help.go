package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// helpOptions are those of help.
type helpOptions struct{ common }

// newHelp makes the command that explains the others, which it finds in all when it runs.
func newHelp(env *Env, all *[]*command) *command {
	o := &helpOptions{}
	return &command{
		name: "help", summary: "explain a command", args: "[COMMAND]", most: 1,
		common: &o.common, plain: true, hidden: true, pager: true,
		run: func(_ context.Context, in input) error {
			if len(in.args) == 0 {
				return writeHelp(env.Stdout, *all, nil)
			}
			cmd := lookup(*all, in.args[0])
			if cmd == nil {
				return unknownCommand(*all, in.args[0])
			}
			return writeHelp(env.Stdout, *all, cmd)
		},
	}
}

// writeGuide shows the way to somebody who has only typed the name.
func writeGuide(w io.Writer) error {
	_, err := io.WriteString(w, `mbwrap takes backups of MariaDB that restore: it wraps mariadb-backup.

  mbwrap check                                    can a backup succeed here?
  mbwrap backup --repo /backups                   take one
  mbwrap list --repo /backups                     what is there?
  mbwrap verify --repo /backups latest            is it good?
  mbwrap restore --repo /backups latest --target-dir /var/lib/mysql
                                                  make a data directory out of it

Set MBWRAP_REPO=/backups, or write "repo: /backups" into /etc/mbwrap.yaml, and leave out --repo.
All commands: mbwrap help. One of them: mbwrap help backup.
`)
	return err
}

// writeHelp explains cmd, or lists all commands if it is nil.
func writeHelp(w io.Writer, commands []*command, cmd *command) error {
	text := overview(commands)
	if cmd != nil {
		text = cmd.manual()
	}
	_, err := io.WriteString(w, text)
	return err
}

// overview lists the commands.
func overview(commands []*command) string {
	var b strings.Builder
	b.WriteString("mbwrap takes backups of MariaDB that restore: it wraps mariadb-backup.\n\n" +
		"usage: mbwrap COMMAND [flags] [arguments]\n\ncommands:\n")
	for _, c := range commands {
		if !c.hidden {
			fmt.Fprintf(&b, "  %-12s%s\n", c.name, c.summary)
		}
	}
	b.WriteString("\nmbwrap help COMMAND, or mbwrap COMMAND --help, explains a command, its flags and its exit codes.\n")
	b.WriteString(sources)
	return b.String()
}

const sources = `Every flag may also come from the environment (--target-dir as MBWRAP_TARGET_DIR) and from the YAML file named by
--config, else /etc/mbwrap.yaml (target-dir: DIR, for one command alone in a section with its name). A flag beats the
environment, and the environment the file.
`

// manual is the help text of one command.
func (c *command) manual() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mbwrap %s: %s\n\nusage: %s\n", c.name, c.summary, c.usage())
	if c.about != "" {
		b.WriteString("\n" + paragraphs(c.about) + "\n")
	}
	if len(c.examples) > 0 {
		b.WriteString("\nexamples:\n")
		writeExamples(&b, c.examples)
	}
	writeSettings(&b, "flags", c.settings)
	writeSettings(&b, "shared flags", c.shared())
	c.writeExits(&b)
	if !c.plain {
		b.WriteString("\n" + sources)
	}
	return b.String()
}

// helpWidth is the width of help in columns.
const helpWidth = 110

// paragraphs wraps text, whose paragraphs are apart by an empty line.
func paragraphs(text string) string {
	var all []string
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		all = append(all, wrap(p, helpWidth, ""))
	}
	return strings.Join(all, "\n\n")
}

// wrap fills lines of width columns with the words of text; indent stands before all but the first.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// writeExamples lists the examples with their explanations in one column, unless that would be too far out.
func writeExamples(b *strings.Builder, examples []string) {
	width := 0
	for _, e := range examples {
		if line, _, ok := strings.Cut(e, " # "); ok && len(line) < helpWidth*2/3 {
			width = max(width, len(line))
		}
	}
	for _, e := range examples {
		if line, why, ok := strings.Cut(e, " # "); ok {
			e = fmt.Sprintf("%-*s  # %s", width, line, why)
		}
		b.WriteString("  " + e + "\n")
	}
}

// usage is the usage line.
func (c *command) usage() string {
	line := "mbwrap " + c.name + " [flags]"
	if c.args != "" {
		line += " " + c.args
	}
	if c.rest != "" {
		line += " [-- " + c.rest + "]"
	}
	return line
}

// writeSettings lists flags, each explanation in its own column or, beside a long flag, on its own line.
func writeSettings(b *strings.Builder, title string, settings []*setting) {
	const column = 28
	var rows []string
	for _, s := range settings {
		if s.hidden {
			continue
		}
		left := "  " + s.form()
		if len(left) > column-2 {
			left += "\n" + strings.Repeat(" ", column)
		} else {
			left += strings.Repeat(" ", column-len(left))
		}
		rows = append(rows, left+wrap(s.explained(), helpWidth-column, strings.Repeat(" ", column))+"\n")
	}
	if len(rows) > 0 {
		b.WriteString("\n" + title + ":\n" + strings.Join(rows, ""))
	}
}

// form is how the setting is written.
func (s *setting) form() string {
	switch {
	case s.secret:
		return variable("", s.name)
	case s.arg == "" && s.short != "":
		return "-" + s.short + ", --" + s.name
	case s.arg == "" && s.preset == "on":
		return "--[no-]" + s.name
	case s.arg == "":
		return "--" + s.name
	}
	return "--" + s.name + " " + s.arg
}

// explained is the setting's help with its default.
func (s *setting) explained() string {
	switch {
	case s.secret:
		return s.help + " (environment, or " + s.name + " in the file)"
	case s.preset != "" && !strings.Contains(s.help, s.preset+":"):
		return s.help + " (default " + s.preset + ")"
	}
	return s.help
}

// writeExits lists the exit codes the command may return.
func (c *command) writeExits(b *strings.Builder) {
	b.WriteString("\nexit codes:\n")
	every := []int{exitDone, exitOther, exitUsage}
	for _, e := range exitCodes {
		if e.code > exitSignal || slices.Contains(every, e.code) || slices.Contains(c.exits, e.code) {
			fmt.Fprintf(b, "  %3d  %s\n", e.code, e.meaning)
		}
	}
}
