package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LeastABI is the oldest version of Landlock that is good enough: before
// Linux 6.2 it lets every file be emptied by truncate(2).
const LeastABI = 3

// Versions of Landlock that added what is used here.
const (
	abiIoctlDev    = 5 // Linux 6.10
	abiScopes      = 6 // Linux 6.12
	abiResolveUnix = 9
)

// ABI is the version of Landlock that this kernel has, 0 when it has none.
func ABI() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// Scopes tells whether this kernel keeps signals and abstract sockets inside.
func Scopes() bool { return ABI() >= abiScopes }

// Sockets tells whether this kernel keeps connections to sockets in files inside.
func Sockets() bool { return ABI() >= abiResolveUnix }

const (
	fileRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	read      = fileRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileWrite = fileRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	// Making devices is in no rule: root would make itself the disk.
	write = read | fileWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// IOCTL_DEV on a terminal is what lets a program turn the echo off for a
	// password.
	device    = read | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	onFile    = fileWrite | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	allRights = write | device | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// handled are the rights that version abi knows.
func handled(abi int) uint64 {
	rights := uint64(allRights)
	if abi < abiIoctlDev {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi < abiResolveUnix {
		rights &^= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	return rights
}

// ruleset is a set of rules in the making.
type ruleset struct {
	fd     int
	rights uint64
}

// restrict confines the calling thread, and what it starts.
func (l *Landlock) restrict() error {
	abi := ABI()
	if abi < LeastABI {
		return fmt.Errorf("version %d is needed, this kernel has %d", LeastABI, abi)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(abi)}
	if abi >= abiScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	set := &ruleset{fd: int(fd), rights: attr.Handled_access_fs}
	defer unix.Close(set.fd)
	if err := set.reading(l.Hidden); err != nil {
		return err
	}
	for _, path := range l.Write {
		if err := set.allow(path, write); err != nil {
			return err
		}
	}
	for _, path := range l.Devices {
		if err := set.allow(path, device); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set.fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// allow adds one rule. Below a folder it holds for everything, now and later.
func (s *ruleset) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= onFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & s.rights, Parent_fd: int32(fd)}
	if attr.Allowed_access == 0 {
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
	return nil
}

// reading allows to read everything but what is hidden. Rules can only allow,
// so the folders above a hidden path are named entry by entry. Their own rule
// goes no further than listing, which then shows hidden names as well.
func (s *ruleset) reading(hidden []string) error {
	if len(hidden) == 0 {
		return s.allow("/", read)
	}
	if err := s.allow("/", unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	return s.around("/", hidden)
}

func (s *ruleset) around(dir string, hidden []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // what cannot be listed here cannot be read inside either
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue // the rule of its target counts
		}
		path := filepath.Join(dir, entry.Name())
		switch above(path, hidden) {
		case apart:
			if err := s.allow(path, read); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		case over:
			if err := s.around(path, hidden); err != nil {
				return err
			}
		}
	}
	return nil
}

// relation is how a path lies to the hidden ones.
type relation int

const (
	apart relation = iota // beside them
	over                  // above one
	same                  // it is one
)

func above(path string, hidden []string) relation {
	found := apart
	for _, h := range hidden {
		if h == path {
			return same
		}
		if strings.HasPrefix(h, path+"/") {
			found = over
		}
	}
	return found
}
