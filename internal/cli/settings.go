package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is a flag of a command, and at the same time a variable of the environment and a key of the configuration
// file. Its value goes straight into a field of the command's options; what the field holds when the setting is made
// is the default.
type setting struct {
	name   string
	short  string // one letter, or ""
	arg    string // what help calls the value; "" for a switch
	help   string
	choice []string // the only values allowed; empty: any
	many   bool     // may repeat
	secret bool     // from the environment and the file only
	hidden bool     // not in help

	set    func(text string) error // stores one value
	clear  func()                  // forgets the default of a list before the first value
	preset string                  // the default as help shows it

	source string // who set it: "--jobs", "MBWRAP_JOBS", "/etc/mbwrap.yaml:3"; "" while it has its default
}

// bind makes a setting that keeps parse's result in *dst.
func bind[T any](dst *T, name string, parse func(string) (T, error)) *setting {
	return &setting{name: name, set: func(text string) error {
		v, err := parse(text)
		if err == nil {
			*dst = v
		}
		return err
	}}
}

// described adds the words for help.
func (s *setting) described(arg, preset, help string) *setting {
	s.arg, s.preset, s.help = arg, preset, help
	return s
}

// text is a setting with any value.
func text(dst *string, name, arg, help string) *setting {
	s := bind(dst, name, func(v string) (string, error) { return v, nil })
	return s.described(arg, *dst, help)
}

// toggle is a switch; --no-NAME turns it off.
func toggle(dst *bool, name, help string) *setting {
	s := bind(dst, name, parseBool)
	preset := ""
	if *dst {
		preset = "on"
	}
	return s.described("", preset, help)
}

// number is a whole number, 0 or more.
func number(dst *int, name, arg, help string) *setting {
	s := bind(dst, name, func(v string) (int, error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return 0, errors.New("want a whole number, 0 or more")
		}
		return n, nil
	})
	preset := ""
	if *dst != 0 {
		preset = strconv.Itoa(*dst)
	}
	return s.described(arg, preset, help)
}

// bytesize is a number of bytes with an optional unit: 64GiB, 500MB, 1.5T.
func bytesize(dst *int64, name, arg, help string) *setting {
	preset := ""
	if *dst != 0 {
		preset = formatBytes(*dst)
	}
	return bind(dst, name, parseBytes).described(arg, preset, help)
}

// span is a duration: 90s, 26h, 2d.
func span(dst *time.Duration, name, arg, help string) *setting {
	preset := ""
	if *dst != 0 {
		preset = formatSpan(*dst)
	}
	return bind(dst, name, parseSpan).described(arg, preset, help)
}

// fraction is a part of a whole: 10%, 0.1.
func fraction(dst *float64, name, arg, help string) *setting {
	return bind(dst, name, parseFraction).described(arg, "", help)
}

// list is a setting that may repeat; the values of one source replace those of a weaker one.
func list(dst *[]string, name, arg, help string) *setting {
	s := &setting{name: name, many: true, preset: strings.Join(*dst, ", ")}
	s.clear = func() { *dst = nil }
	s.set = func(v string) error {
		*dst = append(*dst, v)
		return nil
	}
	return s.described(arg, s.preset, help)
}

// secret is a value that is taken from the environment and the configuration file, never from the command line, where
// every user of the machine could read it.
func secret(dst *string, name, help string) *setting {
	s := bind(dst, name, func(v string) (string, error) { return v, nil })
	s.secret = true
	return s.described("VALUE", "", help)
}

// among limits the values.
func (s *setting) among(choice ...string) *setting {
	s.choice = choice
	return s
}

// letter gives the setting a short form.
func (s *setting) letter(short string) *setting {
	s.short = short
	return s
}

// store gives the setting the values of one source. An error says where the value came from; that of a secret does not
// say the value.
func (s *setting) store(source string, values ...string) error {
	if s.many && s.source != source {
		s.clear()
	}
	s.source = source
	for _, v := range values {
		err := s.check(v)
		if err == nil {
			err = s.set(v)
		}
		if err == nil {
			continue
		}
		if s.secret {
			return usagef("%s: %w", source, err)
		}
		return usagef("%s: %q: %w", source, v, err)
	}
	return nil
}

// check compares v with the choices.
func (s *setting) check(v string) error {
	if len(s.choice) == 0 || slices.Contains(s.choice, v) {
		return nil
	}
	err := fmt.Errorf("want %s", oneOf(s.choice))
	if best := nearest(v, s.choice); best != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, best)
	}
	return err
}

// oneOf writes "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("want true or false")
}
