package restore

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// owner is whom the files are given to. The numbers are -1 where nothing is to be changed.
type owner struct {
	uid, gid int
	name     string // "user:group" for messages
}

// serverUser is the account that packages of the server make for it.
const serverUser = "mysql"

// keep changes nothing.
func keepOwner() owner { return owner{uid: -1, gid: -1} }

// isKeep tells whether nothing is to be changed.
func (o owner) isKeep() bool { return o.uid < 0 && o.gid < 0 }

// parseOwner reads USER, USER:GROUP, USER: or :GROUP, where both may be names or numbers. A user without a group brings
// its own.
func parseOwner(text string) (owner, error) {
	o := keepOwner()
	name, group, hasGroup := strings.Cut(text, ":")
	if name != "" {
		if err := o.setUser(name); err != nil {
			return owner{}, fmt.Errorf("owner %q: %w", text, err)
		}
	}
	if hasGroup && group != "" {
		gid, err := groupID(group)
		if err != nil {
			return owner{}, fmt.Errorf("owner %q: %w", text, err)
		}
		o.gid = gid
	}
	if o.isKeep() {
		return owner{}, fmt.Errorf("owner %q names nobody", text)
	}
	return o.named(), nil
}

// setUser fills in the user and its own group.
func (o *owner) setUser(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		uid, nerr := strconv.ParseUint(name, 10, 31)
		if nerr != nil {
			return err
		}
		o.uid = int(uid)
		if u, err = user.LookupId(name); err != nil {
			return nil // a number without an account is fine; its group stays unknown
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	o.uid, o.gid = uid, gid
	return nil
}

// groupID returns the number of a group that is given by name or number.
func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err == nil {
		return strconv.Atoi(g.Gid)
	}
	gid, nerr := strconv.ParseUint(name, 10, 31)
	if nerr != nil {
		return 0, err
	}
	return int(gid), nil
}

// named fills in the name.
func (o owner) named() owner {
	var name, group string
	if o.uid >= 0 {
		name = strconv.Itoa(o.uid)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
	}
	if o.gid >= 0 {
		group = strconv.Itoa(o.gid)
		if g, err := user.LookupGroupId(group); err == nil {
			group = g.Name
		}
	}
	o.name = name + ":" + group
	return o
}

// defaultOwner returns the owner of a directory that was there before, else the server's user if we are root and it
// exists, else nobody.
func defaultOwner(before fs.FileInfo) owner {
	if before != nil {
		s, ok := before.Sys().(*syscall.Stat_t)
		if !ok || int(s.Uid) == os.Geteuid() && int(s.Gid) == os.Getegid() || os.Geteuid() != 0 {
			return keepOwner()
		}
		return owner{uid: int(s.Uid), gid: int(s.Gid)}.named()
	}
	if os.Geteuid() != 0 {
		return keepOwner()
	}
	o, err := parseOwner(serverUser)
	if err != nil {
		return keepOwner()
	}
	return o
}

// mayGive tells whether we can give files to o, by giving it one of ours and taking it back.
func (o owner) mayGive(dir *os.Root, name string) error {
	if o.isKeep() {
		return nil
	}
	if err := dir.Lchown(name, o.uid, o.gid); err != nil {
		return fmt.Errorf("give files to %s: %w", o.name, err)
	}
	return dir.Lchown(name, os.Geteuid(), os.Getegid())
}

// own gives everything in root to o, and sets the modes to those that a server's files have.
func (o owner) own(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return o.ownOne(root, name, info)
	})
}

// ownOne gives one file or directory to o.
func (o owner) ownOne(root *os.Root, name string, info fs.FileInfo) error {
	if !o.isKeep() {
		if err := root.Lchown(name, o.uid, o.gid); err != nil {
			return fmt.Errorf("give %q to %s: %w", name, o.name, err)
		}
	}
	mode := fileMode
	if info.IsDir() {
		mode = dirMode
	}
	if info.Mode().Perm()&^mode == 0 {
		return nil // the umask may have taken some away, which is somebody's wish
	}
	return root.Chmod(name, info.Mode().Perm()&mode)
}
