package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// completeCommand is what the shell's script calls, with the words before the cursor and the word under it.
const completeCommand = "__complete"

// completionOptions are those of completion.
type completionOptions struct{ common }

func newCompletion(env *Env) *command {
	o := &completionOptions{}
	return &command{
		name: "completion", summary: "print a script that lets a shell complete mbwrap's words",
		args: "bash|zsh|fish", least: 1, most: 1, common: &o.common, plain: true, pager: true,
		examples: []string{
			"mbwrap completion bash > /etc/bash_completion.d/mbwrap",
			`mbwrap completion zsh > "${fpath[1]}/_mbwrap"`,
			"mbwrap completion fish > ~/.config/fish/completions/mbwrap.fish",
		},
		run: func(_ context.Context, in input) error { return runCompletion(in.arg(0), env) },
	}
}

func runCompletion(shell string, env *Env) error {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	script, ok := scripts[shell]
	if !ok {
		return &usageError{err: errorf("no completion for %q: want bash, zsh or fish", shell), cmd: "completion"}
	}
	_, err := io.WriteString(env.Stdout, script)
	return err
}

const bashScript = `# bash completion for mbwrap
_mbwrap() {
    local IFS=$'\n'
    COMPREPLY=($(mbwrap __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _mbwrap mbwrap
`

const zshScript = `#compdef mbwrap
_mbwrap() {
    local -a found
    found=("${(@f)$(mbwrap __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -- "${found[@]}"
    else
        _files
    fi
}
if [[ "${funcstack[1]}" = "_mbwrap" ]]; then
    _mbwrap "$@"
else
    compdef _mbwrap mbwrap
fi
`

const fishScript = `# fish completion for mbwrap
function __mbwrap_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (mbwrap __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mbwrap -f -a '(__mbwrap_complete)'
`

// complete prints what the last of words can be, one a line; nothing where a file name is wanted.
func complete(ctx context.Context, commands []*command, words []string, env *Env) error {
	words, split := joinEquals(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	for _, c := range candidates(ctx, commands, words[:last], words[last], env) {
		if split { // the shell replaces what stands after the "=" only
			_, c, _ = strings.Cut(c, "=")
		}
		if _, err := fmt.Fprintln(env.Stdout, c); err != nil {
			return err
		}
	}
	return nil
}

// joinEquals undoes what bash does to --name=value: it makes three words of it. split tells whether it did so to the
// last one.
func joinEquals(words []string) (joined []string, split bool) {
	for _, w := range words {
		n := len(joined)
		glue := n > 0 && (w == "=" && isFlag(joined[n-1]) || split && strings.HasSuffix(joined[n-1], "="))
		if glue {
			joined[n-1] += w
		} else {
			joined = append(joined, w)
		}
		split = glue
	}
	return joined, split
}

// candidates lists what word can be after before.
func candidates(ctx context.Context, commands []*command, before []string, word string, env *Env) []string {
	if slices.Contains(before, "--") {
		return nil
	}
	at := findCommand(commands, before)
	request := &request{}
	if at >= 0 {
		request.cmd = lookup(commands, before[at])
	}
	known := request.known(commands)
	if len(before) > 0 {
		if s, _ := find(known, strings.TrimLeft(before[len(before)-1], "-")); s != nil && s.arg != "" &&
			isFlag(before[len(before)-1]) && !strings.Contains(before[len(before)-1], "=") {
			return startingWith(word, s.choice)
		}
	}
	if name, value, ok := strings.Cut(word, "="); ok && isFlag(word) {
		s, _ := find(known, strings.TrimLeft(name, "-"))
		if s == nil {
			return nil
		}
		return prefixed(name+"=", startingWith(value, s.choice))
	}
	if strings.HasPrefix(word, "-") {
		return startingWith(word, forms(known))
	}
	return arguments(ctx, request.cmd, commands, input{args: []string{word}}, env)
}

// arguments lists what an argument of cmd can be, or the commands when there is none.
func arguments(ctx context.Context, cmd *command, commands []*command, in input, env *Env) []string {
	word := in.arg(0)
	switch {
	case cmd == nil || cmd.name == "help":
		var names []string
		for _, c := range commands {
			if !c.hidden || cmd == nil && c.name == "help" {
				names = append(names, c.name)
			}
		}
		return startingWith(word, names)
	case cmd.name == "completion":
		return startingWith(word, []string{"bash", "zsh", "fish"})
	case cmd.complete == nil || settle(cmd, commands, env) != nil:
		return nil
	}
	return startingWith(word, cmd.complete(ctx, word))
}

// forms are the flags as they are written.
func forms(settings []*setting) []string {
	all := []string{"--help"}
	for _, s := range settings {
		switch {
		case s.hidden || s.secret:
		case s.arg == "" && s.preset == "on":
			all = append(all, "--no-"+s.name)
		default:
			all = append(all, "--"+s.name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func startingWith(prefix string, words []string) []string {
	var found []string
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			found = append(found, w)
		}
	}
	return found
}

func prefixed(prefix string, words []string) []string {
	for i := range words {
		words[i] = prefix + words[i]
	}
	return words
}
