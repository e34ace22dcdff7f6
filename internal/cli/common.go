package cli

import "fmt"

// common holds the flags that most commands share. A command's options embed it.
type common struct {
	Repos  []string // --repo, in the order given
	Server string   // --server; "" when not given, see serverName

	JSON     bool
	Progress string
	Verbose  bool
	Quiet    bool
	LogFile  string
	Config   string

	own []*setting // made once: settings remember who set them
	rep []*setting
}

// basics are the flags of every command.
func (c *common) basics() []*setting {
	if c.own == nil {
		c.Progress = "auto"
		c.own = []*setting{
			toggle(&c.JSON, "json", "print results, and the final error, as JSON on standard output"),
			text(&c.Progress, "progress", "MODE", "auto: a bar on a terminal, nothing otherwise; or bar, json, none").
				among("auto", "bar", "json", "none"),
			toggle(&c.Verbose, "verbose", "say more, and print the summary without a terminal too").letter("v"),
			toggle(&c.Quiet, "quiet", "print nothing but errors").letter("q"),
			text(&c.LogFile, "log-file", "FILE", "append everything that is said, with the time, to FILE"),
			text(&c.Config, "config", "FILE", "take flags from this YAML file (default /etc/mbwrap.yaml if it exists)"),
		}
	}
	return c.own
}

// places are the flags that say where backups are.
func (c *common) places() []*setting {
	if c.rep == nil {
		c.rep = []*setting{
			list(&c.Repos, "repo", "URL", "the directory where backups are kept; may repeat"),
			text(&c.Server, "server", "NAME", "the name that backups are filed under (default: the host's name)"),
		}
	}
	return c.rep
}

// serverName returns --server, or else the name of this host.
func (c *common) serverName(env *Env) (string, error) {
	if c.Server != "" {
		return c.Server, nil
	}
	name, err := env.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the name of this host: %w", err)
	}
	if name == "" {
		return "", usagef("this host has no name: give --server")
	}
	return name, nil
}

// needRepo refuses to go on without a repository.
func (c *common) needRepo() error {
	if len(c.Repos) > 0 {
		return nil
	}
	return &usageError{err: errNoRepo, hint: "where are the backups? give --repo DIR, set MBWRAP_REPO, " +
		"or write \"repo: DIR\" into /etc/mbwrap.yaml"}
}
