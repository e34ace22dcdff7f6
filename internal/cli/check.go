package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/sinks"
)

type checkOptions struct {
	common
	serverFlags
	sealFlags
	rest []string
}

func newCheck(env *Env) *command {
	o := &checkOptions{}
	return &command{
		name: "check", summary: "can a backup succeed here? what is missing?", rest: "mariadb-backup options",
		about: "Looks, without changing anything, at all that a backup needs: the tool and its version, the server and " +
			"whether it is the one whose data lies on this machine, the user's privileges, limits, free space, the " +
			"repositories, and the recipients to encrypt to. Each finding is ok, warn or fail; the exit status is 9 if one of them is fail.",
		examples: []string{
			"mbwrap check --repo /backups",
			"mbwrap check --repo /backups --socket /run/mysqld/mysqld.sock --user backup --password-file /etc/mbwrap.pw",
		},
		exits:    []int{exitUnfit},
		settings: slices.Concat(o.serverFlags.settings(), o.sealFlags.settings()),
		common:   &o.common, places: true,
		run: func(ctx context.Context, in input) error {
			o.rest = in.rest
			return runCheck(ctx, o, env)
		},
	}
}

// findingJSON is one finding as --json shows it.
type findingJSON struct {
	Level  string `json:"level"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func runCheck(ctx context.Context, o *checkOptions, env *Env) error {
	connect, err := o.connect()
	if err != nil {
		return err
	}
	options := server.CheckOptions{ConnectOptions: connect, Tool: o.Tool, Args: o.rest}
	if len(o.Repos) == 1 && !strings.Contains(o.Repos[0], "://") {
		options.SpaceDir = o.Repos[0]
		options.SpaceNeed = spaceNeed(ctx, env, &o.common)
	}
	findings, err := server.Check(ctx, options)
	if err != nil {
		return err
	}
	for _, place := range o.Repos {
		findings = append(findings, checkPlace(ctx, place))
	}
	if f := checkRecipients(ctx, env, &o.sealFlags); f != nil {
		findings = append(findings, *f)
	}
	return tellFindings(env, &o.common, findings)
}

// tellFindings prints the report and decides the exit code.
func tellFindings(env *Env, c *common, findings []server.Finding) error {
	unfit := 0
	all := make([]findingJSON, len(findings))
	for i, f := range findings {
		all[i] = findingJSON{f.Level, f.What, f.Detail, f.Hint}
		if f.Level == server.LevelFail {
			unfit++
		}
		if c.JSON || c.Quiet && f.Level == server.LevelOK {
			continue
		}
		fmt.Fprintf(env.Stdout, "%-5s %s: %s\n", f.Level, printable(f.What), printable(f.Detail))
		if f.Hint != "" {
			fmt.Fprintf(env.Stdout, "      hint: %s\n", printable(f.Hint))
		}
	}
	if c.JSON {
		if err := writeJSON(env.Stdout, all); err != nil {
			return err
		}
	}
	if unfit == 0 {
		return nil
	}
	err := fmt.Errorf("%d of %d checks: %w: a backup can't succeed here", unfit, len(findings), errUnfit)
	if c.JSON {
		return reported(err)
	}
	return err
}

// checkRecipients encrypts a word to the recipients, which also runs their plugins. It is nil when nothing is to be
// encrypted.
func checkRecipients(ctx context.Context, env *Env, seal *sealFlags) *server.Finding {
	to, err := seal.recipients(ctx, env)
	if to == nil && err == nil {
		return nil
	}
	f := &server.Finding{Level: server.LevelFail, What: "encryption"}
	if err == nil {
		var w io.WriteCloser
		if w, err = to.Seal(io.Discard); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		_, f.Hint = judge(err)
		f.Detail = err.Error()
		return f
	}
	f.Level, f.Detail = server.LevelOK, "to "+listed(to.Strings())
	return f
}

// checkPlace looks whether a backup could be written to a repository, by writing and removing an object.
func checkPlace(ctx context.Context, place string) server.Finding {
	f := server.Finding{Level: server.LevelFail, What: "repository " + place}
	sink, err := openSink(place, false)
	if errors.Is(err, catalog.ErrNotRepository) {
		f.Level, f.Detail, f.Hint = server.LevelWarn, err.Error(), "is its disk mounted? the first backup creates it"
		return f
	}
	if err == nil {
		_, err = catalog.Open(ctx, sink, place)
		if errors.Is(err, catalog.ErrNotRepository) && checkEmpty(place, place) == nil {
			f.Level, f.Detail = server.LevelWarn, "an empty directory"
			f.Hint = "is its disk mounted? the first backup makes it a repository"
			return f
		}
	}
	if err == nil {
		err = probe(ctx, sink)
	}
	if err != nil {
		_, f.Hint = judge(err)
		f.Detail = err.Error()
		return f
	}
	f.Level, f.Detail = server.LevelOK, "it can be written"
	return f
}

// probe writes an object and removes it.
func probe(ctx context.Context, sink sinks.Sink) (err error) {
	name := "probe-" + rand.Text()
	w, err := sink.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte("can this be written?\n")); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return err
	}
	return sink.Remove(ctx, name)
}

// reserve is how much larger than the last backup the next one may be without being surprising.
const reserve = 1.2

// spaceNeed estimates the stored size of the next backup from the last one, 0 if there is none.
func spaceNeed(ctx context.Context, env *Env, c *common) int64 {
	b, err := findBackup(ctx, env, c, catalog.Latest)
	if err != nil || b.Manifest == nil {
		return 0
	}
	return int64(reserve * float64(b.Manifest.StoredBytes))
}
