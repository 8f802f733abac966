//go:build linux || darwin

package posix

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

const (
	// markPrefix begins the name of the variable by which stray children are
	// found again. Each terminal has one of its own, so a program that runs
	// inside of another's terminal carries both. It is an address, not a secret.
	markPrefix = "SHELLSTEAD_COOKIE_"

	// channelNumber is the program's end of the private channel: the first
	// descriptor after the standard ones.
	channelNumber = 3

	// maxSide is the longest side of a window (struct winsize holds 16 bits).
	maxSide = 1<<16 - 1
)

// Start starts spec's program as the leader of a session of its own whose
// controlling terminal is new. The program gets descriptors 0, 1 and 2 and,
// with a channel, 3; nothing else that the host has open. What the host ignores
// (SIGHUP under nohup) it does not ignore.
//
// A path or folder that cannot be used is a *terminals.Error with code
// InvalidArgument that names the setting.
func (d *Driver) Start(ctx context.Context, spec backend.Spec) (_ backend.Device, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	path, err := findProgram(spec.Path, spec.Env)
	if err != nil {
		return nil, err
	}

	descriptors := 1
	if spec.SeparateDescriptors {
		descriptors = 3
	}
	term, slaves, err := openTerminal(spec.Rows, spec.Cols, spec.Modes, descriptors)
	if err != nil {
		return nil, err
	}
	defer closeAll(slaves)
	defer func() {
		if err != nil {
			_ = term.master.Close()
		}
	}()

	var ref backend.ChannelRef
	var readEnd *os.File
	var chn *channel
	if spec.Channel != nil {
		ref = backend.ChannelRef{Path: fmt.Sprintf("/dev/fd/%d", channelNumber), Number: channelNumber}
		if chn, readEnd, err = openChannel(); err != nil {
			return nil, err
		}
		defer readEnd.Close()
		defer func() {
			if err != nil {
				chn.shut()
			}
		}()
	}

	var status *launchStatus
	if spec.Launched {
		if status, err = openLaunchStatus(); err != nil {
			return nil, err
		}
		defer status.close()
	}

	argv := []string{path}
	if spec.Args != nil {
		argv = append(argv, spec.Args(ref)...)
	}
	mark := newMark()
	env := make([]string, 0, len(spec.Env)+1)
	env = append(append(env, spec.Env...), mark+"=1")
	if err := checkStrings(argv, env); err != nil {
		return nil, err
	}

	attr := &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   env,
		Files: childFiles(slaves, readEnd, status.childEnd()),
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: !spec.Launched, Ctty: 0},
	}
	lease := d.supervisor().register(mark, spec.Remove)
	exit := newExitWatch(attr.Sys)
	proc, err := startUnignored(path, argv, attr)
	if err != nil {
		lease.release()
		return nil, startError(path, spec.Dir, err)
	}
	dev := newDevice(d, spec, term, chn, mark, lease)
	if spec.Launched {
		if err := dev.beginLaunched(ctx, proc, exit, status); err != nil {
			return nil, err
		}
	} else {
		dev.begin(proc, exit, proc.Pid)
	}

	if chn != nil {
		chn.begin(ctx, spec.Channel.Bootstrap, ref, spec.Channel.Keep)
	}
	return dev, nil
}

func newMark() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return markPrefix + hex.EncodeToString(random[:])
}

// childFiles lists the child's descriptors. A host may itself have inherited
// descriptors that are not close-on-exec (from make's job server, from a test
// runner); a nil entry closes such a number in the child.
func childFiles(slaves []*os.File, channel, status *os.File) []*os.File {
	files := []*os.File{slaves[0], slaves[0], slaves[0]}
	if len(slaves) == 3 {
		copy(files, slaves)
	}
	if channel != nil || status != nil {
		files = append(files, channel)
	}
	if status != nil {
		files = append(files, status)
	}
	for _, fd := range inheritable() {
		for fd >= len(files) {
			files = append(files, nil)
		}
	}
	return files
}

// maxInherited bounds the numbers that are looked at: what a parent passes on
// are low ones.
const maxInherited = 1024

// inheritable returns the host's descriptors that every child would get.
func inheritable() []int {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	var fds []int
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscan(name, &fd); err != nil || fd < 3 || fd >= maxInherited {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
}

func checkSpec(spec backend.Spec) error {
	if spec.Rows < 1 || spec.Rows > maxSide {
		return invalid("rows is %d; give 1 to %d", spec.Rows, maxSide)
	}
	if spec.Cols < 1 || spec.Cols > maxSide {
		return invalid("cols is %d; give 1 to %d", spec.Cols, maxSide)
	}
	for _, folder := range spec.Remove {
		if !filepath.IsAbs(folder) || filepath.Clean(folder) == "/" || strings.ContainsAny(folder, "\n\x00") {
			return invalid("%q cannot be removed after the host's death: give an absolute path of one line", folder)
		}
	}
	return checkDir(spec.Dir)
}

// checkDir accepts the empty path too: the host's own folder.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return invalid("cwd: %q is not an absolute path", dir)
	}
	if strings.IndexByte(dir, 0) >= 0 {
		return invalid("cwd: %q holds a NUL byte, which no path can", dir)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return invalid("cwd: the folder %s does not exist", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return invalid("cwd: a part of %s is not a folder", dir)
	case err != nil:
		return invalid("cwd: %s cannot be used: %v", dir, plain(err))
	case !info.IsDir():
		return invalid("cwd: %s is not a folder", dir)
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return invalid("cwd: the folder %s may not be entered: %v", dir, err)
	}
	return nil
}

// findProgram returns the file to run. A name without a slash is looked up in
// the PATH of env, of which only absolute folders count: the others would let
// the working directory decide what runs.
func findProgram(path string, env []string) (string, error) {
	if path == "" {
		return "", invalid("shellPath: no program is given")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return "", invalid("shellPath: %q holds a NUL byte, which no path can", path)
	}
	if strings.Contains(path, "/") {
		if !filepath.IsAbs(path) {
			return "", invalid("shellPath: %s is relative; give an absolute path, or a name that is looked up in PATH", path)
		}
		return path, checkProgram(path)
	}
	search := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if filepath.IsAbs(dir) {
			if file := filepath.Join(dir, path); checkProgram(file) == nil {
				return file, nil
			}
		}
	}
	return "", invalid("shellPath: %s is not in PATH (%s); install it or give its absolute path", path, search)
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return invalid("shellPath: %s does not exist", path)
	case err != nil:
		return invalid("shellPath: %s cannot be used: %v", path, plain(err))
	case info.IsDir():
		return invalid("shellPath: %s is a folder, not a program", path)
	case !info.Mode().IsRegular():
		return invalid("shellPath: %s is not a regular file", path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return invalid("shellPath: %s is not executable: %v", path, err)
	}
	return nil
}

func checkStrings(argv, env []string) error {
	for _, arg := range argv[1:] {
		if strings.IndexByte(arg, 0) >= 0 {
			return invalid("shellArgs: %q holds a NUL byte, which no argument can", arg)
		}
	}
	for _, entry := range env {
		if strings.IndexByte(entry, 0) >= 0 {
			name, _, _ := strings.Cut(entry, "=")
			return invalid("env: the value of %q holds a NUL byte, which no variable can", name)
		}
	}
	return nil
}

func startError(path, dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return invalid("shellPath: %s is not a program that this system can run", path)
	case errors.Is(err, syscall.ENOENT):
		// The file was there a moment ago: what lacks is its interpreter or
		// loader, unless the folder has just gone.
		if dirErr := checkDir(dir); dirErr != nil {
			return dirErr
		}
		return invalid("shellPath: %s cannot run: its interpreter or loader does not exist", path)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return invalid("shellPath: %s may not be run here: %v", path, plain(err))
	case errors.Is(err, syscall.E2BIG):
		return invalid("env: the environment and the arguments are longer than the system allows together")
	}
	return fmt.Errorf("posix: start %s: %w", path, plain(err))
}

// plain drops the operation and path that the os package puts around an error.
func plain(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
