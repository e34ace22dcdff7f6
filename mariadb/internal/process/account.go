package process

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// sunPathMax is the longest socket path Linux takes, its terminating zero left out.
const sunPathMax = 107

// Account is the user a server runs as. The zero Account is whoever we are, which needs no option.
type Account struct {
	name     string
	uid, gid int
}

// Args returns the server options that make it run as this user.
func (a Account) Args() []string {
	if a.name == "" {
		return nil
	}
	return []string{"--user=" + a.name}
}

// RunAs decides whom a server on dir runs as. Only root has a choice, and a server refuses to run as root unless told
// to: it becomes the directory's owner, or stays root where that owner has no name or can't get there.
func RunAs(dir string) (Account, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return Account{}, err
	}
	if os.Geteuid() != 0 {
		return Account{}, nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || !reachable(filepath.Dir(dir)) {
		return Account{name: "root"}, nil
	}
	owner, err := user.LookupId(strconv.Itoa(int(stat.Uid)))
	if err != nil {
		return Account{name: "root"}, nil
	}
	return Account{name: owner.Username, uid: int(stat.Uid), gid: int(stat.Gid)}, nil
}

// reachable tells whether everyone may pass through dir and all above it.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// Unprivileged returns the account that MariaDB's packages make for the server, for a server on dir that would run as
// root otherwise. ok is false where there is no such account, where it can't get to dir, or where we are not root.
func Unprivileged(dir string) (a Account, ok bool) {
	if os.Geteuid() != 0 || !reachable(filepath.Dir(dir)) {
		return Account{}, false
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return Account{}, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return Account{name: u.Username, uid: uid, gid: gid}, errors.Join(err1, err2) == nil && uid != 0
}

// IsRoot tells whether a server would run with root's rights.
func (a Account) IsRoot() bool { return a.name == "root" }

// Own gives a directory and all in it to the account. Links are not followed.
func (a Account) Own(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return a.Give(path)
	})
}

// Give gives one file to the account; the zero Account and root change nothing.
func (a Account) Give(path string) error {
	if a.uid == 0 {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// PrivateDir makes a directory that only owner may enter, with a path short enough for a socket of the name "s" in it.
func PrivateDir(owner Account) (string, error) {
	base := os.TempDir()
	if len(base) > sunPathMax-len("/mbwrap-0123456789/s") || owner.uid != 0 && !reachable(base) {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "mbwrap-")
	if err != nil {
		return "", err
	}
	if err := owner.Give(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}
