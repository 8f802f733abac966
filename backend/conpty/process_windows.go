package conpty

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// attributeJobList is PROC_THREAD_ATTRIBUTE_JOB_LIST: the new process is in the
// job before its first instruction.
const attributeJobList = 0x0002000d

// program is a process that is about to be started.
type program struct {
	path, commandLine, dir string
	env                    []string
	console                *console
	job                    *job
	stdout                 windows.Handle   // and standard error; 0: the console
	inherited              []windows.Handle // further handles that it gets
}

// check refuses what no process can be given.
func (p *program) check() error {
	if strings.IndexByte(p.commandLine, 0) >= 0 {
		return invalid("shellArgs: an argument holds a NUL byte, which none can")
	}
	if line, err := windows.UTF16FromString(p.commandLine); err != nil {
		return invalid("shellArgs: %v", err)
	} else if len(line) > maxCommandLine {
		return invalid("shellArgs: the command line has %d characters; Windows takes %d", len(line)-1, maxCommandLine-1)
	}
	for _, entry := range p.env {
		if strings.IndexByte(entry, 0) >= 0 {
			return invalid("env: the value of %q holds a NUL byte, which no variable can", envName(entry))
		}
	}
	return nil
}

// start starts the program. It gets the handles that are listed and no other of
// the host's, and the console's where no other is given: a null handle with
// STARTF_USESTDHANDLES means that, while without the flag the host's own
// redirected descriptors would be used.
func (p *program) start() (process windows.Handle, pid uint32, err error) {
	path, err := windows.UTF16PtrFromString(p.path)
	if err != nil {
		return 0, 0, fmt.Errorf("conpty: the program's path: %w", err)
	}
	line, err := windows.UTF16PtrFromString(p.commandLine)
	if err != nil {
		return 0, 0, fmt.Errorf("conpty: the command line: %w", err)
	}
	var dir *uint16
	if p.dir != "" {
		if dir, err = windows.UTF16PtrFromString(p.dir); err != nil {
			return 0, 0, fmt.Errorf("conpty: the working folder: %w", err)
		}
	}
	env, err := environmentBlock(p.env)
	if err != nil {
		return 0, 0, err
	}

	handles := p.inherited
	if p.stdout != 0 {
		handles = append(handles[:len(handles):len(handles)], p.stdout)
	}
	attributes, err := windows.NewProcThreadAttributeList(3)
	if err != nil {
		return 0, 0, fmt.Errorf("conpty: process attributes: %w", err)
	}
	defer attributes.Delete()
	// The console's attribute is its handle itself, the others point to a list.
	console := p.console.handle
	err = attributes.Update(windows.PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, *(*unsafe.Pointer)(unsafe.Pointer(&console)), unsafe.Sizeof(console))
	if err == nil {
		err = attributes.Update(attributeJobList, unsafe.Pointer(&p.job.handle), unsafe.Sizeof(p.job.handle))
	}
	if err == nil && len(handles) > 0 {
		err = attributes.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&handles[0]), uintptr(len(handles))*unsafe.Sizeof(handles[0]))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("conpty: process attributes: %w", err)
	}

	startup := windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	startup.Cb = uint32(unsafe.Sizeof(startup))
	startup.Flags = windows.STARTF_USESTDHANDLES
	startup.StdOutput, startup.StdErr = p.stdout, p.stdout
	resetCtrlC()
	var info windows.ProcessInformation
	err = windows.CreateProcess(path, line, nil, nil, len(handles) > 0,
		windows.EXTENDED_STARTUPINFO_PRESENT|windows.CREATE_UNICODE_ENVIRONMENT, env, dir, &startup.StartupInfo, &info)
	runtime.KeepAlive(handles)
	if err != nil {
		return 0, 0, err
	}
	closeHandles(info.Thread)
	return info.Process, info.ProcessId, nil
}

// resetCtrlC has the host not ignore Ctrl-C: it would hand that on to what it
// starts, and then nobody in the terminal could be interrupted.
// CREATE_NEW_PROCESS_GROUP would do the same.
func resetCtrlC() { _, _, _ = setConsoleCtrlHandler.Call(0, 0) }

// environmentBlock is env as CreateProcess takes it: entries that end in NUL,
// then another NUL.
func environmentBlock(env []string) (*uint16, error) {
	var block []uint16
	for _, entry := range env {
		text, err := syscall.UTF16FromString(entry)
		if err != nil {
			return nil, fmt.Errorf("conpty: the environment: %w", err)
		}
		block = append(block, text...)
	}
	if len(block) == 0 {
		block = append(block, 0)
	}
	return &append(block, 0)[0], nil
}
