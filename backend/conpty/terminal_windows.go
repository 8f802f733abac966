package conpty

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	library "github.com/UserExistsError/conpty"
	"golang.org/x/sys/windows"
)

// startTerminal starts a program that gets no handle but the console's, by
// UserExistsError/conpty. The library's Close gives its pipes' handles back while
// a read of them may be about to begin, so the host reads and writes by copies.
func (p *program) startTerminal(size windows.Coord) (c *console, process windows.Handle, pid uint32, err error) {
	resetCtrlC()
	terminal, err := library.Start(p.commandLine,
		library.ConPtyDimensions(int(size.X), int(size.Y)), library.ConPtyWorkDir(p.dir), library.ConPtyEnv(p.env))
	if err != nil {
		return nil, 0, 0, systemError(err)
	}
	defer func() {
		if err != nil {
			terminal.Close()
		}
	}()
	pid = uint32(terminal.Pid())
	// The library holds the process, so its number is not another's yet.
	process, err = windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_ALL_ACCESS, false, pid)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("conpty: open the started program: %w", err)
	}
	defer func() {
		if err != nil {
			closeHandles(process)
		}
	}()
	if err := p.job.adopt(process, pid); err != nil {
		return nil, 0, 0, err
	}
	in, err := copyPipe(terminal, "cmdIn")
	if err != nil {
		return nil, 0, 0, err
	}
	out, err := copyPipe(terminal, "cmdOut")
	if err != nil {
		closeHandles(in)
		return nil, 0, 0, err
	}
	return &console{
		in: pipeEnd{handle: in}, out: pipeEnd{handle: out},
		setSize: func(size windows.Coord) error { return terminal.Resize(int(size.X), int(size.Y)) },
		close:   func() { terminal.Close() },
	}, process, pid, nil
}

// systemError is the system's error that the library reports by its text alone.
func systemError(err error) error {
	for _, known := range []windows.Errno{
		windows.ERROR_ACCESS_DENIED, windows.ERROR_BAD_EXE_FORMAT, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH,
		windows.ERROR_ELEVATION_REQUIRED, windows.ERROR_DIRECTORY, windows.ERROR_FILE_NOT_FOUND,
		windows.ERROR_PATH_NOT_FOUND, windows.ERROR_CANT_ACCESS_FILE,
	} {
		if strings.HasSuffix(err.Error(), ": "+known.Error()) {
			return known
		}
	}
	return err
}

// copyPipe returns a handle of its own for one of the library's pipes.
func copyPipe(terminal *library.ConPty, field string) (windows.Handle, error) {
	pipe := reflect.ValueOf(terminal).Elem().FieldByName(field)
	if pipe.Kind() != reflect.Pointer || !pipe.Elem().FieldByName("handle").IsValid() {
		return 0, fmt.Errorf("conpty: this version of UserExistsError/conpty has no pipe %s", field)
	}
	own := windows.CurrentProcess()
	var handle windows.Handle
	err := windows.DuplicateHandle(own, windows.Handle(pipe.Elem().FieldByName("handle").Uint()), own, &handle, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return 0, fmt.Errorf("conpty: copy the pipe %s: %w", field, err)
	}
	return handle, nil
}

// adopt takes a process into the job that has just been started, and what it may
// have started itself since then.
func (j *job) adopt(process windows.Handle, pid uint32) error {
	if err := windows.AssignProcessToJobObject(j.handle, process); err != nil {
		if state, _ := windows.WaitForSingleObject(process, 0); state == windows.WAIT_OBJECT_0 {
			return nil // it has ended already
		}
		return fmt.Errorf("conpty: put the program into its job object: %w", err)
	}
	born, ok := started(pid)
	if !ok {
		return nil
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, child := range children {
		h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, child)
		if err != nil {
			continue // it has ended
		}
		// An older one is an earlier process's of the same number.
		if at, ok := started(child); ok && at >= born {
			_ = windows.AssignProcessToJobObject(j.handle, h)
		}
		closeHandles(h)
	}
	return nil
}

// childrenOf lists the processes whose parent had this number.
func childrenOf(parent uint32) (pids []uint32, err error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("conpty: list processes: %w", err)
	}
	defer closeHandles(snapshot)
	entry := windows.ProcessEntry32{}
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		if entry.ParentProcessID == parent {
			pids = append(pids, entry.ProcessID)
		}
	}
	return pids, nil
}
