package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

// Main runs the command line args, args[0] being the program's name, and returns the exit code. When ctx is cancelled
// with a *Signal as its cause, what runs is ended properly and the code is that of the signal. Main never ends the
// process.
func Main(ctx context.Context, args []string, env *Env) int {
	return runMain(ctx, args, env, commands)
}

// runMain is Main with the commands that offer returns.
func runMain(ctx context.Context, args []string, env *Env, offer func(*Env) []*command) int {
	own := *env
	out := &output{w: env.Stdout}
	own.Stdout = out
	r := &run{env: &own, out: out, json: wantsJSON(args, env)}
	r.commands = offer(&own)
	if len(args) > 0 {
		args = args[1:]
	}
	err := withCause(ctx, r.do(ctx, args))
	if u, ok := errors.AsType[*usageError](err); ok && u.cmd == "" && r.cmd != nil {
		u.cmd = r.cmd.name
	}
	if err == nil {
		err = out.err
	}
	return r.finish(err)
}

// run is one call of Main.
type run struct {
	env      *Env
	out      *output
	commands []*command
	cmd      *command // nil until it is known
	json     bool
}

// do takes the command line apart and runs the command.
func (r *run) do(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == completeCommand {
		return completer{r.commands, r.env}.complete(ctx, args[1:])
	}
	request, err := arrange(r.commands, args)
	if request != nil {
		r.cmd = request.cmd
	}
	switch {
	case err != nil:
		return err
	case request.help:
		return writeHelp(r.env.Stdout, r.commands, request.cmd)
	case request.version:
		r.cmd = lookup(r.commands, "version")
	case r.cmd == nil && len(request.in.args) > 0: // they follow "--"
		return unknownCommand(r.commands, request.in.args[0])
	case r.cmd == nil:
		return writeGuide(r.env.Stdout)
	}
	return r.dispatch(ctx, request)
}

// dispatch lets the module parse the flags, completes them and calls the command.
func (r *run) dispatch(ctx context.Context, request *request) error {
	var invalid error
	action := func(args []string) error {
		in := input{args: args, rest: request.in.rest}
		if err := r.prepare(in); err != nil {
			return err
		}
		return r.cmd.run(ctx, in)
	}
	app := &cli.App{
		Name: "mbwrap", HideHelp: true, HideVersion: true,
		Commands:       []*cli.Command{r.cmd.build(&invalid, action)},
		Writer:         io.Discard,
		ErrWriter:      io.Discard,
		ExitErrHandler: func(*cli.Context, error) {}, // the module would end the process
	}
	words := append([]string{"mbwrap", r.cmd.name}, request.flags...)
	return app.RunContext(ctx, slices.Concat(words, []string{"--"}, request.in.args))
}

// prepare completes the flags from the other sources and opens the console.
func (r *run) prepare(in input) error {
	if err := settle(r.cmd, r.commands, r.env); err != nil {
		return err
	}
	r.json = r.cmd.common.JSON
	if err := r.cmd.checkCount(in.args); err != nil {
		return err
	}
	var err error
	r.env.out, err = openConsole(r.env, r.cmd.common)
	return err
}

// finish tells the error and returns its code.
func (r *run) finish(err error) int {
	r.tell(err)
	if lost := r.env.out.close(); lost != nil && err == nil {
		err = lost
		r.tell(err)
	}
	code, _ := judge(err)
	return code
}

// tell writes the final error: to standard error, or as JSON to standard output unless that carries a stream, and in any
// case to the log file.
func (r *run) tell(err error) {
	if err == nil || as[*reportedError](err) || r.readerLeft(err) {
		return
	}
	code, hint := judge(err)
	message := "mbwrap: " + err.Error()
	if hint != "" {
		message += "\nhint: " + hint
	}
	r.env.console().say(!r.json, message)
	if !r.json {
		return
	}
	var report struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
			Exit    int    `json:"exit"`
			Hint    string `json:"hint"`
		} `json:"error"`
	}
	e := &report.Error
	e.Message, e.Code, e.Exit, e.Hint = err.Error(), exitName(code), code, hint
	out := r.env.Stdout
	if r.out.binary {
		out = r.env.Stderr
	}
	if werr := writeJSON(out, report); werr != nil {
		_, _ = fmt.Fprintln(r.env.Stderr, message)
	}
}

// readerLeft tells whether all that happened is that the reader of a report has seen enough, as head does.
func (r *run) readerLeft(err error) bool {
	return r.cmd != nil && r.cmd.pager && as[*outputError](err) && errors.Is(err, syscall.EPIPE)
}

// wantsJSON finds out, before flags can be parsed, whether mistakes in them are to be told as JSON.
func wantsJSON(args []string, env *Env) bool {
	on, err := parseBool(env.Getenv("MBWRAP_JSON"))
	wanted := err == nil && on
	for _, a := range args {
		switch {
		case a == "--":
			return wanted
		case a == "--json" || a == "-json":
			wanted = true
		case strings.HasPrefix(a, "--json=") || a == "--no-json":
			value, err := parseBool(strings.TrimPrefix(a, "--json="))
			wanted = err == nil && value
		}
	}
	return wanted
}
