package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Confinement must start before anything else of the host's program runs, and
// an embedding program shall not have to call it: hence the use of init.
func init() {
	if len(os.Args) < 2 || os.Args[1] != sentinel {
		return
	}
	status, err := launch(os.Args[2:])
	fmt.Fprintf(status, "sandbox: %v\n", err)
	os.Exit(Failed)
}

// launch returns only when it fails, with the place for the error.
func launch(args []string) (io.Writer, error) {
	if len(args) < 2 {
		return os.Stderr, errors.New("the launcher got no task")
	}
	var task Task
	if err := json.Unmarshal([]byte(args[0]), &task); err != nil {
		return os.Stderr, fmt.Errorf("the launcher's task: %w", err)
	}
	status := io.Writer(os.Stderr)
	if task.Status > 0 {
		status = os.NewFile(uintptr(task.Status), "status")
	}
	if err := task.closeOthers(); err != nil {
		return status, fmt.Errorf("open files stay: %w", err)
	}
	// Everything below changes this one thread, and the exec ends the others.
	runtime.LockOSThread()
	if err := task.carryOut(); err != nil {
		return status, err
	}
	err := syscall.Exec(args[1], args[1:], append(os.Environ(), task.Env...))
	return status, fmt.Errorf("shellPath: %s cannot be started inside: %w", args[1], err)
}

// closeOthers has the exec close what the program shall not get.
func (t Task) closeOthers() error {
	first := 3
	if t.Channel {
		first = 4
	}
	err := unix.CloseRange(uint(first), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (t Task) carryOut() error {
	for name, outside := range t.Outside {
		inside, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return fmt.Errorf("the confinement cannot be seen: %w", err)
		}
		if inside == outside {
			return fmt.Errorf("nothing is confined: the %s namespace is the host's", name)
		}
	}
	if t.ReadOnlyRoot {
		var fs unix.Statfs_t
		if err := unix.Statfs("/", &fs); err != nil {
			return fmt.Errorf("the confinement cannot be seen: %w", err)
		}
		if fs.Flags&unix.ST_RDONLY == 0 {
			return errors.New("nothing is confined: the root folder can be written")
		}
	}
	if t.Session {
		if _, err := unix.Setsid(); err != nil {
			return fmt.Errorf("no session: %w", err)
		}
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("no controlling terminal: %w", err)
		}
	}
	if t.DropPrivileges {
		if err := dropPrivileges(); err != nil {
			return fmt.Errorf("privileges stay: %w", err)
		}
	}
	if t.Landlock == nil && !t.NoNetwork {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if t.Landlock != nil {
		if err := t.Landlock.restrict(); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if t.NoNetwork {
		if err := denySockets(); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return nil
}

// keptPrivileges are those of root that only reach what the confinement lets
// through: other users' files and other users' names. CAP_DAC_READ_SEARCH is
// not one of them, as it opens files by handle, past every mount.
const keptPrivileges = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

func dropPrivileges() error {
	// The bounding set first: dropping from it needs a privilege. Its end is the
	// first number that the kernel does not know.
	for privilege := uintptr(0); ; privilege++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, privilege, 0, 0, 0)
		if err != nil {
			break
		}
		if has == 0 || keptPrivileges&(1<<privilege) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, privilege, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return err // EPERM: no privilege to drop it, so none to use it either
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &= keptPrivileges
	data[0].Permitted &= keptPrivileges
	data[0].Inheritable = 0
	data[1] = unix.CapUserData{}
	return unix.Capset(&header, &data[0])
}
