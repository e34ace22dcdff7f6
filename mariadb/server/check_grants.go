package server

import (
	"context"
	"slices"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/optionfile"
	"github.com/mbwrap/mbwrap/mariadb/version"
)

// privilege is one that the tool needs, under the names it has had.
type privilege struct {
	names  []string
	why    string
	needed func(c *checker) bool
}

func always(*checker) bool { return true }

// privileges are what the tool asks for or fails without. Names: MariaDB 10.5 split REPLICATION CLIENT.
var privileges = []privilege{
	{[]string{"RELOAD"}, "to take the backup locks", always},
	{[]string{"PROCESS"}, "to see InnoDB's state", always},
	{[]string{"BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"}, "to read the binary log position", func(c *checker) bool { return c.facts.LogBin }},
	{[]string{"SLAVE MONITOR", "REPLICA MONITOR", "REPLICATION CLIENT", "SUPER"}, "to read the replica's position (--slave-info)",
		func(c *checker) bool { return c.asksFor("slave-info") || c.asksFor("safe-slave-backup") }},
	{[]string{"REPLICATION SLAVE ADMIN", "SUPER"}, "to stop and start replication (--safe-slave-backup)",
		func(c *checker) bool { return c.asksFor("safe-slave-backup") }},
	{[]string{"CONNECTION ADMIN", "SUPER"}, "to end long queries (--kill-long-queries-timeout)",
		func(c *checker) bool { return c.asksFor("kill-long-queries-timeout") }},
}

// asksFor tells whether the options for the tool hold one of that name.
func (c *checker) asksFor(name string) bool {
	return slices.ContainsFunc(c.o.Args, func(arg string) bool {
		given, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		return optionfile.Name(given) == name
	})
}

// checkPrivileges compares what this user may do with what the tool needs.
func (c *checker) checkPrivileges(ctx context.Context) {
	const what = "privileges"
	granted, err := c.server.grants(ctx)
	if err != nil {
		c.warn(what, "could not be asked for: "+err.Error(), "")
		return
	}
	var missing, hints []string
	for _, p := range privileges {
		if !p.needed(c) || granted["ALL PRIVILEGES"] || slices.ContainsFunc(p.names, func(n string) bool { return granted[n] }) {
			continue
		}
		name := p.names[0]
		if c.facts.Version.Compare(version.Parse("10.5.0")) < 0 && slices.Contains(p.names, "REPLICATION CLIENT") {
			name = "REPLICATION CLIENT"
		}
		missing, hints = append(missing, name+" "+p.why), append(hints, name)
	}
	if len(missing) > 0 {
		c.fail(what, "missing: "+strings.Join(missing, ", "), "GRANT "+strings.Join(hints, ", ")+" ON *.* TO the backup's user")
		return
	}
	c.ok(what, "all that are needed")
}

// grants returns the privileges this user has on everything, its roles' included, in upper case.
func (s *Conn) grants(ctx context.Context) (map[string]bool, error) {
	rows, err := s.records(ctx, "SHOW GRANTS")
	if err != nil {
		return nil, err
	}
	granted := make(map[string]bool)
	for _, row := range rows {
		for _, text := range row {
			list, ok := strings.CutPrefix(text, "GRANT ")
			list, _, global := strings.Cut(list, " ON *.* TO ")
			if !ok || !global {
				continue
			}
			for name := range strings.SplitSeq(list, ",") {
				granted[strings.ToUpper(strings.TrimSpace(name))] = true
			}
		}
	}
	return granted, nil
}
