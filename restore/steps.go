package restore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mbwrap/mbwrap/mariadb"
)

// selinuxEnforce is the kernel's file that says "1" when SELinux is enforced.
const selinuxEnforce = "/sys/fs/selinux/enforce"

// packagedDir is where the server's packages have their data directory.
const packagedDir = "/var/lib/mysql"

// nextSteps tells the operator what is left to do.
func (r *runner) nextSteps() []string {
	if r.extractOnly {
		return nil
	}
	dir := r.target.path
	if r.result.Aside != "" {
		return []string{"read " + quote(filepath.Join(r.result.Aside, readmeName)) + " before anything else is done with the files beside it"}
	}
	var steps []string
	if !r.result.Prepared {
		steps = append(steps, fmt.Sprintf("prepare it before any server is started on it: mariadb-backup --prepare --target-dir=%s", quote(dir)))
	}
	if enforced() {
		steps = append(steps, "set the SELinux labels: restorecon -Rv "+quote(dir))
	}
	if r.result.Owner == "" && os.Geteuid() == 0 {
		steps = append(steps, fmt.Sprintf("give the files to the server's account: chown -R mysql:mysql %s", quote(dir)))
	}
	p := r.result.Position
	if settings := fixedSettings(p); settings != "" {
		steps = append(steps, "see that the server's configuration says the same as the backup: "+settings)
	}
	steps = append(steps, startStep(dir, r.result.Owner))
	steps = append(steps, r.work.state.Steps...)
	return append(steps, replicationSteps(p)...)
}

// enforced tells whether SELinux is enforced here.
func enforced() bool {
	text, err := os.ReadFile(selinuxEnforce)
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// fixedSettings lists the settings that a server must share with the backup, those that are not the default.
func fixedSettings(p *mariadb.Position) string {
	if p == nil {
		return ""
	}
	var list []string
	for _, s := range []struct{ key, usual string }{
		{"innodb_page_size", "16384"},
		{"innodb_data_file_path", "ibdata1:12M:autoextend"},
		{"innodb_undo_tablespaces", "0"},
	} {
		if value := p.Config[s.key]; value != "" && value != s.usual {
			list = append(list, s.key+"="+value)
		}
	}
	return strings.Join(list, ", ")
}

// startStep tells how to start a server on dir.
func startStep(dir, owner string) string {
	if dir == packagedDir {
		return "start the server: systemctl start mariadb"
	}
	user, _, _ := strings.Cut(owner, ":")
	if user != "" {
		user = " --user=" + quote(user)
	}
	return fmt.Sprintf("start a server on it: mariadbd --datadir=%s%s", quote(dir), user)
}

// replicationSteps tells where a replica or a point-in-time recovery goes on.
func replicationSteps(p *mariadb.Position) []string {
	if p == nil {
		return nil
	}
	var steps []string
	switch {
	case p.Binlog.GTID != "":
		steps = append(steps, fmt.Sprintf("to make a replica of the server that was backed up: SET GLOBAL gtid_slave_pos='%s'; "+
			"CHANGE MASTER TO …, MASTER_USE_GTID=slave_pos (binary log %s, position %d)", p.Binlog.GTID, p.Binlog.File, p.Binlog.Pos))
	case p.Binlog.File != "":
		steps = append(steps, fmt.Sprintf("to make a replica of the server that was backed up: CHANGE MASTER TO …, MASTER_LOG_FILE='%s', "+
			"MASTER_LOG_POS=%d", p.Binlog.File, p.Binlog.Pos))
	}
	if p.Replica != "" {
		steps = append(steps, "to make another replica of the same primary: "+p.Replica)
	}
	return steps
}

// quote makes one word of a shell command of s.
func quote(s string) string {
	plain := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:=+,@%", r))
	}
	if s != "" && !strings.ContainsFunc(s, plain) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
