package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/mbwrap/mbwrap/encrypt"
)

// errNoPassphrase says that nobody could be asked.
var errNoPassphrase = errors.New("it is protected by a passphrase, and there is no terminal to ask for it: give --passphrase-file")

// askPassphrase returns the passphrase of an identity: the one that was given, or else what someone types.
func askPassphrase(ctx context.Context, env *Env, name, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	text, err := ask(ctx, env, question{fmt.Sprintf("Passphrase of %s: ", printable(name)), true})
	if errors.Is(err, errNoTerminal) {
		return "", errNoPassphrase
	}
	return text, err
}

var errNoTerminal = errors.New("there is no terminal to ask on")

// question is what someone at the terminal is asked.
type question struct {
	prompt string
	hide   bool // don't show the answer
}

// ask reads a line from the terminal, which standard input and output need not be. Nobody is asked unless standard error
// is a terminal: cron must never wait for an answer. The end of ctx ends the waiting, and the terminal shows again what
// is typed.
func ask(ctx context.Context, env *Env, q question) (string, error) {
	if !env.StderrTTY {
		return "", errNoTerminal
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", errNoTerminal
	}
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", errors.Join(err, tty.Close())
	}
	fmt.Fprint(tty, q.prompt)
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // a read of a terminal can't be broken off: it may outlive this function, to the end of the process
		defer tty.Close()
		var a answer
		if q.hide {
			var text []byte
			text, a.err = term.ReadPassword(fd)
			a.text = string(text)
		} else {
			a.text, a.err = readLine(tty)
		}
		got <- a
	}()
	select {
	case a := <-got:
		if q.hide {
			fmt.Fprintln(env.Stderr)
		}
		return a.text, a.err
	case <-ctx.Done():
		fmt.Fprintln(env.Stderr)
		return "", errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}

// readLine reads up to the end of a line, byte by byte: nothing behind it may be taken.
func readLine(r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxSecret {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	return strings.TrimSuffix(string(line), "\r"), nil
}

// pluginUI lets age's plugins, often those of hardware keys, talk to whoever sits at the terminal.
func pluginUI(ctx context.Context, env *Env) encrypt.PluginUI {
	ui := encrypt.PluginUI{
		Message: func(plugin, message string) error {
			env.notef("%s: %s", plugin, printable(message))
			return nil
		},
		Wait: func(plugin string) { env.notef("waiting for %s: does the key want to be touched?", plugin) },
	}
	if !env.StderrTTY {
		return ui // without anybody to ask the plugin is told so and goes without, or gives up
	}
	ui.Ask = func(plugin, prompt string, secret bool) (string, error) {
		return ask(ctx, env, question{fmt.Sprintf("%s: %s ", plugin, printable(prompt)), secret})
	}
	ui.Confirm = func(plugin, prompt, yes, no string) (bool, error) {
		choice := fmt.Sprintf("[y: %s, n: %s]", printable(yes), printable(no))
		if no == "" {
			choice = fmt.Sprintf("[return: %s]", printable(yes))
		}
		answer, err := ask(ctx, env, question{prompt: fmt.Sprintf("%s: %s %s ", plugin, printable(prompt), choice)})
		return err == nil && (no == "" || strings.HasPrefix(strings.ToLower(answer), "y")), err
	}
	return ui
}
