package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who runs the server: somebody else if we are root, since
// PostgreSQL refuses to run as root.
type account struct {
	other    bool
	uid, gid int
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("%w: root runs it as the user postgres, which its package makes: %w; %s, or do not run this as root", ErrNotInstalled, err, howToInstall)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("uid of the user postgres: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return account{}, fmt.Errorf("gid of the user postgres: %w", err)
	}
	return account{other: true, uid: uid, gid: gid}, nil
}

// directory makes a fresh directory that the account owns and can reach. It is
// right below a temporary directory that all can reach: a path with parents
// closed to anybody but the caller is of no use to the account, and a long one
// can be too long for a Unix socket.
func (a account) directory() (string, error) {
	var tried []string
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if !a.reaches(parent) {
			tried = append(tried, parent)
			continue
		}
		dir, err := os.MkdirTemp(parent, "leasesvc-pg-")
		if err != nil {
			return "", fmt.Errorf("make the server's directory: %w", err)
		}
		if err := a.own(dir); err != nil {
			return "", errors.Join(err, os.Remove(dir))
		}
		return dir, nil
	}
	return "", fmt.Errorf("no temporary directory that the user postgres can reach: tried %v; set TMPDIR to one whose parents are all o+x", tried)
}

func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to the user postgres: %w", path, err)
	}
	return nil
}

// reaches tells whether the account may walk down to dir: each directory on
// the way must be open to all.
func (a account) reaches(dir string) bool {
	if !a.other {
		return true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		fi, err := os.Stat(dir)
		if err != nil || fi.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// attributes makes a process run as the account.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a.other {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}
