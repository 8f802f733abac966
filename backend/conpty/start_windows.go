package conpty

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// maxCommandLine is the longest command line of Windows, its end included.
const maxCommandLine = 32767

// Start starts spec's program in a new pseudo console: by UserExistsError/conpty
// where it gets no other handle, else by the system's own calls. A size that no console
// can have is clamped to 1 to 32767. Modes are not set: a program finds those of
// a new console (lines, echo, signals).
//
// The channel's program end is an inherited handle (ChannelRef.Number). With
// Channel.Keep it carries the bootstrap alone: a program's children inherit it
// too. Commands come by a second one that they do not, whose number Bootstrap
// gets.
//
// A path or folder that cannot be used is a *terminals.Error with code
// InvalidArgument that names the setting.
func (d *Driver) Start(ctx context.Context, spec backend.Spec) (_ backend.Device, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := available(); err != nil {
		return nil, err
	}
	if err := checkDir(spec.Dir); err != nil {
		return nil, err
	}
	path, err := findProgram(spec.Path, spec.Env)
	if err == nil {
		path, err = followAlias(path)
	}
	if err != nil {
		return nil, err
	}

	dev := newDevice(d)
	defer func() {
		if err != nil {
			dev.abandon()
		}
	}()
	if dev.job, err = newJob(); err != nil {
		return nil, err
	}
	p := &program{path: path, dir: spec.Dir, env: completeEnv(spec.Env, os.LookupEnv), job: dev.job}
	var childs []windows.Handle // the program's ends; the host's copies are closed below
	defer func() { closeHandles(childs...) }()

	if spec.OutputPipe {
		read, write, err := newPipe()
		if err != nil {
			return nil, err
		}
		dev.output, p.stdout = &pipeEnd{handle: read}, write
		childs = append(childs, write)
	}
	var ref backend.ChannelRef
	var first *pipeEnd
	if spec.Channel != nil {
		read, write, err := newPipe()
		if err != nil {
			return nil, err
		}
		first, ref.Number = &pipeEnd{handle: write}, uintptr(read)
		p.inherited = append(p.inherited, read)
		childs = append(childs, read)
		defer func() {
			if err != nil {
				_ = first.Close()
			}
		}()
	}
	for _, h := range childs {
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return nil, fmt.Errorf("conpty: have a pipe inherited: %w", err)
		}
	}

	argv := []string{path}
	if spec.Args != nil {
		argv = append(argv, spec.Args(ref)...)
	}
	p.commandLine = windows.ComposeCommandLine(argv)
	if err := p.check(); err != nil {
		return nil, err
	}
	size := consoleSize(spec.Cols, spec.Rows)
	if spec.OutputPipe || spec.Channel != nil {
		if p.console, err = openConsole(size); err != nil {
			return nil, err
		}
		dev.console = p.console
		dev.process, dev.pid, err = p.start()
	} else {
		dev.console, dev.process, dev.pid, err = p.startTerminal(size)
	}
	if err != nil {
		return nil, startError(path, spec.Dir, err)
	}
	dev.begin(spec.Remove)
	if dev.output == nil {
		dev.useUTF8(ctx)
	}

	if spec.Channel != nil {
		if err = dev.openChannel(ctx, spec.Channel, ref, first); err != nil {
			return nil, err
		}
	}
	return dev, nil
}

// openChannel makes the pipe for commands, where there is to be one, and sends
// the bootstrap while the program reads.
func (d *device) openChannel(ctx context.Context, spec *backend.Channel, ref backend.ChannelRef, first *pipeEnd) error {
	if spec.Keep {
		read, write, err := newPipe()
		if err != nil {
			return err
		}
		defer closeHandles(read)
		var number windows.Handle
		err = windows.DuplicateHandle(windows.CurrentProcess(), read, d.process, &number, 0, false, windows.DUPLICATE_SAME_ACCESS)
		if err != nil {
			closeHandles(write)
			if d.hasExited() {
				return nil // it has nothing to read any more
			}
			return fmt.Errorf("conpty: hand the channel to the program: %w", err)
		}
		d.channel = newChannel(&pipeEnd{handle: write}, &d.wrote)
		ref.Number = uintptr(number)
	}
	var text []byte
	if spec.Bootstrap != nil {
		text = spec.Bootstrap(ref)
	}
	go func() {
		_, err := newWriter(first).write(ctx, text)
		_ = first.Close()
		if d.channel == nil {
			return
		}
		if err != nil { // a command would be taken for the part that is missing
			_ = d.channel.Close()
		}
		close(d.channel.sent)
	}()
	return nil
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
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
	case err != nil:
		return invalid("cwd: %s cannot be used: %v", dir, plain(err))
	case !info.IsDir():
		return invalid("cwd: %s is not a folder", dir)
	}
	return nil
}

// findProgram returns the file to run. A name alone is looked up in the PATH of
// env, with the endings of PATHEXT, of which only absolute folders count: the
// others would let the working directory decide what runs.
func findProgram(path string, env []string) (string, error) {
	switch {
	case path == "":
		return "", invalid("shellPath: no program is given")
	case strings.IndexByte(path, 0) >= 0:
		return "", invalid("shellPath: %q holds a NUL byte, which no path can", path)
	case strings.ContainsAny(path, `\/:`):
		if !filepath.IsAbs(path) {
			return "", invalid("shellPath: %s is relative; give an absolute path, or a name that is looked up in PATH", path)
		}
		for _, file := range candidates(path, env) {
			if checkProgram(file) == nil {
				return file, nil
			}
		}
		return "", checkProgram(path)
	}
	search := envValue(env, "PATH")
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, file := range candidates(filepath.Join(dir, path), env) {
			if checkProgram(file) == nil {
				return file, nil
			}
		}
	}
	return "", invalid("shellPath: %s is not in PATH (%s); install it or give its absolute path", path, search)
}

// candidates are the files that a path may mean.
func candidates(path string, env []string) []string {
	if filepath.Ext(path) != "" {
		return []string{path}
	}
	endings := envValue(env, "PATHEXT")
	if endings == "" {
		endings = ".COM;.EXE;.BAT;.CMD"
	}
	var files []string
	for _, ending := range filepath.SplitList(endings) {
		files = append(files, path+strings.ToLower(ending))
	}
	return files
}

// checkProgram does not follow a link: no file operation follows an application's
// alias.
func checkProgram(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return invalid("shellPath: %s does not exist", path)
	case err != nil:
		return invalid("shellPath: %s cannot be used: %v", path, plain(err))
	case info.IsDir():
		return invalid("shellPath: %s is a folder, not a program", path)
	}
	return nil
}

// followAlias returns the program that path stands for when it is the alias of an
// application from the Store: in a pseudo console the alias itself may not start.
func followAlias(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeIrregular == 0 {
		return path, nil
	}
	point, err := reparsePoint(path)
	if err != nil {
		return path, nil // the start says what is wrong with it
	}
	target, err := aliasTarget(point)
	switch {
	case err != nil:
		return "", invalid("shellPath: %s cannot be started: %v", path, err)
	case target == "":
		return path, nil
	}
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		return "", invalid("shellPath: %s is the alias of an application that is not installed; install it, or give the path of another program", path)
	}
	return target, nil
}

// reparsePoint reads what the file system keeps in a file's place.
func reparsePoint(path string) ([]byte, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, err
	}
	defer closeHandles(h)
	buf := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	var n uint32
	if err := windows.DeviceIoControl(h, windows.FSCTL_GET_REPARSE_POINT, nil, 0, &buf[0], uint32(len(buf)), &n, nil); err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func startError(path, dir string, err error) error {
	var typed *terminals.Error
	switch {
	case errors.As(err, &typed):
		return err
	case errors.Is(err, windows.ERROR_BAD_EXE_FORMAT), errors.Is(err, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH):
		return invalid("shellPath: %s is not a program that this system can run", path)
	case errors.Is(err, windows.ERROR_ACCESS_DENIED), errors.Is(err, windows.ERROR_ELEVATION_REQUIRED):
		return invalid("shellPath: %s may not be run here: %v", path, err)
	case errors.Is(err, windows.ERROR_DIRECTORY):
		return invalid("cwd: %s cannot be a program's working folder: %v", dir, err)
	case errors.Is(err, windows.ERROR_FILE_NOT_FOUND), errors.Is(err, windows.ERROR_PATH_NOT_FOUND), errors.Is(err, windows.ERROR_CANT_ACCESS_FILE):
		return invalid("shellPath: %s cannot be started: %v", path, err)
	}
	return fmt.Errorf("conpty: start %s: %w", path, err)
}

// plain drops the operation and path that the os package puts around an error.
func plain(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
