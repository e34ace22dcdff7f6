package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb/internal/process"
)

// noSync spares the disk: what a throwaway server holds need not survive a power cut.
const noSync = "--loose-innodb-flush-method=nosync"

// defaultPool is the size of InnoDB's buffer pool in bytes.
const defaultPool = 32 << 20

// smallArgs keep the server small and quiet.
var smallArgs = []string{
	"--skip-networking", "--skip-name-resolve", "--skip-slave-start", "--event-scheduler=OFF", "--skip-log-bin",
	"--key-buffer-size=1M", "--aria-pagecache-buffer-size=8M", "--max-connections=50",
	"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", noSync,
}

// plugins are loaded for restored data, if they are installed: an engine whose tables are files of the data directory,
// and what page compression may need. Which ones the data's own server had is not looked at. A plugin that is not
// there costs a line in the log.
var plugins = []string{"ha_archive", "provider_bzip2", "provider_lz4", "provider_lzma", "provider_lzo", "provider_snappy"}

// arguments is the server's argument list. The last of an option wins: ours, then the caller's, then the guards.
func (s *Server) arguments(owner process.Account) []string {
	pool := s.BufferPool
	if pool == 0 {
		pool = defaultPool
	}
	args := []string{"--no-defaults", "--datadir=" + s.Dir, "--socket=" + s.Socket(),
		"--pid-file=" + filepath.Join(s.private, "pid"), "--tmpdir=" + s.private,
		"--innodb-buffer-pool-size=" + strconv.FormatInt(pool, 10)}
	args = append(args, smallArgs...)
	if s.SkipGrants {
		args = append(args, "--skip-grant-tables")
	}
	if s.Restored { // checks of large tables read everything once
		args = append(args, "--key-buffer-size=16M", "--aria-pagecache-buffer-size=16M")
		for _, name := range plugins {
			args = append(args, "--plugin-load-add="+name)
		}
	}
	args = append(append(args, owner.Args()...), s.Args...)
	if s.Restored {
		args = append(args, s.guards()...)
	}
	return args
}

// guards are the options that keep restored data from acting and from reaching out of their directory. What is not
// known to every version or build of the server has the prefix that lets it pass.
func (s *Server) guards() []string {
	private := func(name string) string { return filepath.Join(s.private, name) }
	return []string{
		// Where things are. The files of the system tablespace are relative to the home directory.
		"--datadir=" + s.Dir, "--innodb-data-home-dir=" + s.Dir, "--innodb-log-group-home-dir=" + s.Dir,
		"--innodb-undo-directory=" + s.Dir, "--aria-log-dir-path=" + s.Dir,
		"--socket=" + s.Socket(), "--pid-file=" + private("pid"), "--tmpdir=" + s.private, "--slave-load-tmpdir=" + s.private,
		"--skip-log-error", "--general-log=OFF", "--slow-query-log=OFF", "--log-output=NONE",
		"--general-log-file=" + private("general"), "--slow-query-log-file=" + private("slow"), "--lc-messages=en_US",

		// No network, no replication, no cluster, no report home. The files that would make a replica are looked for
		// where there are none.
		"--skip-networking", "--skip-slave-start", "--master-info-file=" + private("master.info"),
		"--relay-log-info-file=" + private("relay-log.info"), "--relay-log=" + private("relay"),
		"--relay-log-index=" + private("relay.index"), "--skip-log-bin",
		"--loose-wsrep-on=OFF", "--loose-wsrep-provider=none", "--loose-feedback=OFF",

		// Nothing of the data acts. Without the grant tables the server does not read those of plugins, functions from
		// libraries, events and foreign servers either.
		"--skip-grant-tables", "--event-scheduler=DISABLED", "--init-connect=", "--init-slave=", "--init-file=",
		"--loose-performance-schema=OFF",
		"--loose-log-ddl-recovery=" + private("ddl_recovery"), // it would rename and remove files

		// Nothing is written elsewhere, or by statements.
		"--skip-symbolic-links", "--secure-file-priv=" + private("files"), "--local-infile=OFF", "--read-only=ON",

		// Nothing is repaired or rewritten unasked: damage must be seen.
		"--loose-aria-recover-options=OFF", "--myisam-recover-options=OFF", "--loose-innodb-encryption-threads=0",
		"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
	}
}

// makeFiles makes what the guards name.
func (s *Server) makeFiles(owner process.Account) error {
	if !s.Restored {
		return nil
	}
	dir := filepath.Join(s.private, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return owner.Give(dir)
}

// environment drops what would make the server talk to somebody or take options from there: our own secrets, the
// service manager's sockets, the server's variables.
func environment(env []string) []string {
	return slices.DeleteFunc(process.WithoutSecrets(env), func(v string) bool {
		for _, prefix := range []string{"NOTIFY_SOCKET=", "LISTEN_", "WATCHDOG_", "MYSQL", "MARIADB", "WSREP"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// account decides whom the server runs as. For restored data we do not stay root where that can be helped: the data
// then go to the account that MariaDB's packages make.
func (s *Server) account() (process.Account, error) {
	owner, err := process.RunAs(s.Dir)
	if err != nil || !s.Restored || !owner.IsRoot() {
		return owner, err
	}
	other, ok := process.Unprivileged(s.Dir)
	if !ok {
		return owner, nil
	}
	if err := other.Own(s.Dir); err != nil {
		return owner, fmt.Errorf("give the restored data to the server's account: %w", err)
	}
	return other, nil
}
