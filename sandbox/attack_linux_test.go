package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackVariable names the attack that this test binary makes when it runs
// inside of a sandbox.
const attackVariable = "SHELLSTEAD_TEST_ATTACK"

// refused is the exit code of an attack that came to nothing.
const refused = 3

// attackMain makes one attack. Its exit code is 0 when it got what it wanted.
func attackMain(name string) {
	attack, ok := attacks[name]
	if !ok {
		fmt.Println("there is no attack", name)
		os.Exit(1)
	}
	if err := attack(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(refused)
	}
}

// attacks are what a confined program tries, with arguments that the test
// prepared. Each returns nil when it got out.
var attacks = map[string]func(args []string) error{
	"create":   func(args []string) error { return os.WriteFile(args[0], []byte("attack"), 0o644) },
	"append":   appendTo,
	"truncate": func(args []string) error { return unix.Truncate(args[0], 0) },
	"remove":   func(args []string) error { return os.Remove(args[0]) },
	"mkdir":    func(args []string) error { return os.Mkdir(args[0], 0o755) },
	"chmod":    func(args []string) error { return os.Chmod(args[0], 0o4755) },
	"utimes":   func(args []string) error { return os.Chtimes(args[0], time.Unix(1, 0), time.Unix(1, 0)) },
	"xattr":    func(args []string) error { return unix.Setxattr(args[0], "user.attack", []byte("x"), 0) },
	"read":     func(args []string) error { _, err := os.ReadFile(args[0]); return err },
	"list":     list,
	"rename":   func(args []string) error { return os.Rename(args[0], args[1]) },
	"symlink": func(args []string) error {
		return errors.Join(os.Symlink(args[0], args[1]), appendTo(args[1:]))
	},
	"hardlink": func(args []string) error {
		if err := os.Link(args[0], args[1]); err != nil {
			return err
		}
		return appendTo(args[1:])
	},
	"swap_folder": func(args []string) error { // folder, file in it
		if err := os.Rename(args[0], args[0]+".old"); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(args[1]), 0o755); err != nil {
			return err
		}
		return os.WriteFile(args[1], []byte("attack"), 0o755)
	},
	"leaked_descriptor": func(args []string) error {
		for dir := 3; dir < 20; dir++ {
			fd, err := unix.Openat(dir, args[0], unix.O_CREAT|unix.O_WRONLY, 0o644)
			if err == nil {
				return unix.Close(fd)
			}
		}
		return errors.New("no descriptor leads outside")
	},
	"proc_root": func(args []string) error { // pid, file
		return os.WriteFile("/proc/"+args[0]+"/root"+args[1], []byte("attack"), 0o644)
	},
	"proc_mem": func(args []string) error {
		file, err := os.OpenFile("/proc/"+args[0]+"/mem", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return file.Close()
	},
	"proc_environ": func(args []string) error {
		text, err := os.ReadFile("/proc/" + args[0] + "/environ")
		if err == nil && !bytes.Contains(text, []byte(victimMark)) {
			err = errors.New("another process has the number")
		}
		return err
	},
	"ptrace": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		runtime.LockOSThread()
		if err := unix.PtraceAttach(pid); err != nil {
			return err
		}
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	},
	"kill": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return unix.Kill(pid, unix.SIGKILL)
	},
	"mount":           mountAttack,
	"mount_inside":    mountInside,
	"socket":          func(args []string) error { return dial("unix", args[0]) },
	"abstract_socket": func(args []string) error { return dial("unix", "@"+args[0]) },
	"tcp":             func(args []string) error { return dial("tcp", args[0]) },
	"udp":             func(args []string) error { return dial("udp", args[0]) },
	"named_pipe": func(args []string) error {
		file, err := os.OpenFile(args[0], os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString("attack")
		return errors.Join(err, file.Close())
	},
	"other_terminal": appendTo,
	"type_into_terminal": func(args []string) error {
		if _, err := unix.Setsid(); err != nil {
			return err
		}
		terminal, err := os.OpenFile(args[0], os.O_RDWR, 0) // and it controls this session
		if err != nil {
			return err
		}
		letter := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, terminal.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&letter)))
		if errno != 0 {
			return errno
		}
		return terminal.Close()
	},
	"shared_memory": func(args []string) error {
		id, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		data, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		data[0] = 'x'
		return unix.SysvShmDetach(data)
	},
	"new_privileges": func([]string) error {
		if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set == 1 {
			return errors.Join(err, errors.New("set-user-id programs gain nothing"))
		}
		return nil
	},
	"privileges": func([]string) error {
		for _, privilege := range []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_DAC_READ_SEARCH, unix.CAP_MKNOD, unix.CAP_SYS_RAWIO} {
			if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, privilege, 0, 0, 0); err != nil || has == 1 {
				return err
			}
		}
		return errors.New("dropped")
	},
	"make_device": func(args []string) error {
		return unix.Mknod(args[0], unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))
	},
	"open_by_handle": func(args []string) error { // workspace, file outside
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[1], 0)
		if err != nil {
			return err
		}
		dir, err := unix.Open(args[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		fd, err := unix.OpenByHandleAt(dir, handle, unix.O_WRONLY|unix.O_APPEND)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte("attack"))
		return err
	},
}

func appendTo(args []string) error {
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("attack")
	return errors.Join(err, file.Close())
}

func list(args []string) error {
	entries, err := os.ReadDir(args[0])
	if err == nil && len(entries) == 0 {
		err = errors.New("it is empty")
	}
	return err
}

func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("attack")); err != nil || network != "udp" {
		return err
	}
	// Nobody says that a datagram did not arrive.
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// mountAttack makes a user namespace, in which it is root, and there a mount
// that can be written.
func mountAttack(args []string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{attackVariable + "=mount_inside"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func mountInside(args []string) error { // folder outside, its mount point, file
	var errs []error
	for _, try := range []func() error{
		func() error { return nil },
		func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		func() error { return unix.Mount(args[0], args[1], "", unix.MS_BIND, "") },
		func() error {
			return errors.Join(unix.Mount(args[0], args[1], "", unix.MS_BIND, ""),
				unix.Mount("", args[1], "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		},
		func() error { return unix.Unmount(args[0], unix.MNT_DETACH) },
	} {
		err := try()
		for _, dir := range args[:2] {
			path := filepath.Join(dir, args[2])
			if writeErr := os.WriteFile(path, []byte("attack"), 0o644); writeErr == nil && dir == args[0] {
				return nil
			} else if writeErr != nil {
				err = errors.Join(err, writeErr)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
