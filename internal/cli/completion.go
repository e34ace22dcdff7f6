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

// completer finds out what a word can be.
type completer struct {
	commands []*command
	env      *Env
}

// complete prints what the last of words can be, one a line; nothing where a file name is wanted.
func (c completer) complete(ctx context.Context, words []string) error {
	words, split := joinEquals(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	for _, found := range c.candidates(ctx, words[:last], words[last]) {
		if split { // the shell replaces what stands after the "=" only
			_, found, _ = strings.Cut(found, "=")
		}
		if _, err := fmt.Fprintln(c.env.Stdout, found); err != nil {
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
func (c completer) candidates(ctx context.Context, before []string, word string) []string {
	if slices.Contains(before, "--") {
		return nil
	}
	request := &request{}
	if at := findCommand(c.commands, before); at >= 0 {
		request.cmd = lookup(c.commands, before[at])
	}
	known := request.known(c.commands)
	if s := awaiting(known, before); s != nil {
		return startingWith(word, s.choice)
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
	return startingWith(word, c.arguments(ctx, request.cmd, word))
}

// awaiting returns the setting whose value is to follow words, or nil.
func awaiting(known []*setting, words []string) *setting {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	s, _ := find(known, strings.TrimLeft(last, "-"))
	if s == nil || s.arg == "" || !isFlag(last) {
		return nil
	}
	return s
}

// arguments lists what an argument of cmd can be, or the commands when there is none.
func (c completer) arguments(ctx context.Context, cmd *command, word string) []string {
	switch {
	case cmd == nil || cmd.name == "help":
		var names []string
		for _, other := range c.commands {
			if !other.hidden || cmd == nil {
				names = append(names, other.name)
			}
		}
		return names
	case cmd.name == "completion":
		return []string{"bash", "zsh", "fish"}
	case cmd.complete == nil || settle(cmd, c.commands, c.env) != nil:
		return nil
	}
	return cmd.complete(ctx, word)
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
