package conpty

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
)

// A console can be asked and told things by its own processes alone, and a
// process has one console. So a helper process, which has none, joins the
// console of a terminal for the moment of each request. Requests and replies are
// JSON, one a line.

// Operations of the helper.
const (
	opLook      = "look"      // reply: keys, mode, pids
	opProbe     = "probe"     // the same, and whether a program reads, and the text before the cursor
	opFlush     = "flush"     // drop the unread input; reply: the text before the cursor
	opInterrupt = "interrupt" // raise Ctrl-C in every process of the console
	opMode      = "mode"      // change the input mode: the bits of Mask become those of Mode
	opUTF8      = "utf8"      // set both code pages to UTF-8
	opGuard     = "guard"     // remove the folders when the host dies
	opUnguard   = "unguard"   // do not
)

type helperRequest struct {
	Op   string `json:"op"`
	PID  uint32 `json:"pid"` // a process of the console
	Mode uint32 `json:"mode,omitempty"`
	Mask uint32 `json:"mask,omitempty"`

	Folders []string `json:"folders,omitempty"`
}

type helperReply struct {
	Error string   `json:"error,omitempty"`
	Keys  int      `json:"keys"` // key presses that nobody has read
	Read  bool     `json:"read"` // a program took the probe's record
	Mode  uint32   `json:"mode"` // of the console's input
	PIDs  []uint32 `json:"pids"` // the console's processes
	Row   int      `json:"row"`  // of the cursor
	Line  string   `json:"line"` // the cursor's line up to the cursor
}

const (
	// helperLimit bounds one request. A console answers within milliseconds; one
	// that does not has hung.
	helperLimit = 2 * time.Second

	// consumeWithin is how long a program that is blocked in a read of the
	// console gets to take a record out of it.
	consumeWithin = 10 * time.Millisecond

	utf8CodePage = 65001
)

// helper is the host's side. It is started at the first request.
type helper struct {
	command []string
	mu      sync.Mutex
	process *os.Process
	in      io.WriteCloser
	out     *json.Decoder
	guarded map[string]bool
}

var errNoHelper = fmt.Errorf("conpty: no helper process is configured: %w", backend.ErrUnsupported)

func (h *helper) ask(req helperRequest) (helperReply, error) {
	if len(h.command) == 0 {
		return helperReply{}, errNoHelper
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.process == nil {
		if err := h.start(); err != nil {
			return helperReply{}, err
		}
		if len(h.guarded) > 0 {
			if _, err := h.exchange(helperRequest{Op: opGuard, Folders: slices.Collect(maps.Keys(h.guarded))}); err != nil {
				return helperReply{}, err
			}
		}
	}
	return h.exchange(req)
}

// guard has the helper, and each that replaces it, remove folders when the host
// dies, or no longer.
func (h *helper) guard(op string, folders []string) error {
	h.mu.Lock()
	track(h.guarded, op, folders)
	h.mu.Unlock()
	_, err := h.ask(helperRequest{Op: op, Folders: folders})
	return err
}

// track keeps the set of guarded folders.
func track(guarded map[string]bool, op string, folders []string) {
	for _, folder := range folders {
		if op == opGuard {
			guarded[folder] = true
		} else {
			delete(guarded, folder)
		}
	}
}

// exchange sends one request and reads its reply. The caller holds mu.
func (h *helper) exchange(req helperRequest) (helperReply, error) {
	var reply helperReply
	done := make(chan error, 1)
	in, out := h.in, h.out
	go func() {
		err := json.NewEncoder(in).Encode(req)
		if err == nil {
			err = out.Decode(&reply)
		}
		done <- err
	}()
	timer := time.NewTimer(helperLimit)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			h.stop()
			return helperReply{}, fmt.Errorf("conpty: the console's helper: %w", err)
		}
	case <-timer.C:
		h.stop() // its end ends the read, too
		<-done
		return helperReply{}, fmt.Errorf("conpty: the console's helper did not answer within %v", helperLimit)
	}
	if reply.Error != "" {
		return reply, fmt.Errorf("conpty: %s", reply.Error)
	}
	return reply, nil
}

// start starts the helper without a console. It ends with its input, and so with
// the host.
func (h *helper) start() error {
	cmd := exec.Command(h.command[0], h.command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("conpty: start the console's helper: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("conpty: start the console's helper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("conpty: start the console's helper: %w", err)
	}
	h.process, h.in, h.out = cmd.Process, in, json.NewDecoder(out)
	go func() { _ = cmd.Wait() }()
	return nil
}

// stop ends the helper; the next request starts another.
func (h *helper) stop() {
	_ = h.process.Kill()
	_ = h.in.Close()
	h.process = nil
}

// RunHelper serves the requests of a driver in the process that
// [Options.Helper] names, until in ends. It gives up the process's console.
func RunHelper(in io.Reader, out io.Writer) error {
	// A Ctrl-C that it raises is not for itself.
	_, _, _ = setConsoleCtrlHandler.Call(0, 1)
	_, _, _ = freeConsole.Call()
	requests, replies := json.NewDecoder(in), json.NewEncoder(out)
	guarded := make(map[string]bool)
	defer func() { removeAll(guarded) }()
	for {
		var req helperRequest
		if err := requests.Decode(&req); err != nil {
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("conpty: read a request: %w", err)
		}
		var reply helperReply
		var err error
		switch req.Op {
		case opGuard, opUnguard:
			track(guarded, req.Op, req.Folders)
		default:
			reply, err = serve(req)
		}
		if err != nil {
			reply.Error = err.Error()
		}
		if err := replies.Encode(reply); err != nil {
			return fmt.Errorf("conpty: reply: %w", err)
		}
	}
}

// removeWithin bounds how long the programs of a dead host may hold a folder.
const removeWithin = 5 * time.Second

// removeAll removes folders as soon as nobody holds them any more.
func removeAll(folders map[string]bool) {
	deadline := time.Now().Add(removeWithin)
	for pause := firstLook; ; pause *= 2 {
		for folder := range folders {
			if os.RemoveAll(folder) == nil {
				delete(folders, folder)
			}
		}
		if len(folders) == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

var (
	kernel32              = windows.NewLazySystemDLL("kernel32.dll")
	attachConsole         = kernel32.NewProc("AttachConsole")
	freeConsole           = kernel32.NewProc("FreeConsole")
	writeConsoleInput     = kernel32.NewProc("WriteConsoleInputW")
	peekConsoleInput      = kernel32.NewProc("PeekConsoleInputW")
	readConsoleOutput     = kernel32.NewProc("ReadConsoleOutputCharacterW")
	consoleProcessList    = kernel32.NewProc("GetConsoleProcessList")
	setConsoleCP          = kernel32.NewProc("SetConsoleCP")
	setConsoleCtrlHandler = kernel32.NewProc("SetConsoleCtrlHandler")
	setConsoleOutputCP    = kernel32.NewProc("SetConsoleOutputCP")
	consoleInput          = windows.StringToUTF16Ptr("CONIN$")
	consoleOutput         = windows.StringToUTF16Ptr("CONOUT$")
)

// inputRecord is INPUT_RECORD.
type inputRecord struct {
	kind  uint16
	_     uint16
	event [16]byte
}

// Kinds of input record.
const (
	keyEvent   = 1
	focusEvent = 16
)

// isPress tells whether the record is a key going down.
func (r *inputRecord) isPress() bool { return r.kind == keyEvent && r.event[0] != 0 }

func openConsoleFile(name *uint16) (windows.Handle, error) {
	return windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
}

func call(proc *windows.LazyProc, args ...uintptr) error {
	if ok, _, err := proc.Call(args...); ok == 0 {
		return fmt.Errorf("the console refused %s: %w", proc.Name, err)
	}
	return nil
}

// serve joins the console, does one thing and leaves it.
func serve(req helperRequest) (reply helperReply, err error) {
	if err := call(attachConsole, uintptr(req.PID)); err != nil {
		return reply, err
	}
	defer func() { _, _, _ = freeConsole.Call() }()
	input, err := openConsoleFile(consoleInput)
	if err != nil {
		return reply, fmt.Errorf("open the console's input: %w", err)
	}
	defer closeHandles(input)
	switch req.Op {
	case opFlush:
		reply.Row, reply.Line = cursorLine()
		return reply, windows.FlushConsoleInputBuffer(input)
	case opInterrupt:
		return reply, windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0)
	case opMode:
		var mode uint32
		if err := windows.GetConsoleMode(input, &mode); err != nil {
			return reply, err
		}
		return reply, windows.SetConsoleMode(input, mode&^req.Mask|req.Mode&req.Mask)
	case opUTF8:
		if err := call(setConsoleCP, utf8CodePage); err != nil {
			return reply, err
		}
		return reply, call(setConsoleOutputCP, utf8CodePage)
	case opLook, opProbe:
		return look(input, req.Op == opProbe)
	}
	return reply, fmt.Errorf("unknown request %q", req.Op)
}

// look reports the console's state. With probe it finds out, too, whether a
// program is blocked reading it: it puts in a record that means nothing, which
// stays where nobody reads. Where input lies unread already nobody reads.
func look(input windows.Handle, probe bool) (reply helperReply, err error) {
	if err := windows.GetConsoleMode(input, &reply.Mode); err != nil {
		return reply, fmt.Errorf("read the console's mode: %w", err)
	}
	var pids [256]uint32
	if n, _, _ := consoleProcessList.Call(uintptr(unsafe.Pointer(&pids[0])), uintptr(len(pids))); n > 0 {
		self := uint32(os.Getpid())
		for _, pid := range pids[:min(int(n), len(pids))] {
			if pid != self {
				reply.PIDs = append(reply.PIDs, pid)
			}
		}
	}
	var unread uint32
	if err := windows.GetNumberOfConsoleInputEvents(input, &unread); err != nil {
		return reply, fmt.Errorf("count the console's input: %w", err)
	}
	if unread > 0 {
		reply.Keys, err = presses(input, unread)
		return reply, err
	}
	if !probe {
		return reply, nil
	}
	for range probes {
		if reply.Read, err = consumed(input); !reply.Read || err != nil {
			return reply, err
		}
	}
	reply.Row, reply.Line = cursorLine()
	return reply, nil
}

// probes is how many records in a row must be taken: the first may have gone by
// a program that dropped what lay unread.
const probes = 2

// consumed tells whether a record is taken out of the console's input.
func consumed(input windows.Handle) (bool, error) {
	record := inputRecord{kind: focusEvent}
	record.event[0] = 1
	var n uint32
	if err := call(writeConsoleInput, uintptr(input), uintptr(unsafe.Pointer(&record)), 1, uintptr(unsafe.Pointer(&n))); err != nil {
		return false, err
	}
	time.Sleep(consumeWithin)
	if err := windows.GetNumberOfConsoleInputEvents(input, &n); err != nil {
		return false, fmt.Errorf("count the console's input: %w", err)
	}
	return n == 0, nil
}

// presses counts the key presses among the unread records.
func presses(input windows.Handle, unread uint32) (n int, err error) {
	records := make([]inputRecord, min(unread, 4096))
	var got uint32
	err = call(peekConsoleInput, uintptr(input), uintptr(unsafe.Pointer(&records[0])), uintptr(len(records)), uintptr(unsafe.Pointer(&got)))
	for _, r := range records[:got] {
		if r.isPress() {
			n++
		}
	}
	return n, err
}

// cursorLine returns where the cursor is and the text of the cursor's line up to the cursor: what a
// program that waits there has asked.
func cursorLine() (row int, line string) {
	output, err := openConsoleFile(consoleOutput)
	if err != nil {
		return 0, ""
	}
	defer closeHandles(output)
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(output, &info); err != nil || info.CursorPosition.X <= 0 {
		return int(info.CursorPosition.Y), ""
	}
	text := make([]uint16, info.CursorPosition.X)
	row = int(info.CursorPosition.Y)
	var n uint32
	if call(readConsoleOutput, uintptr(output), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), uintptr(uint32(row)<<16), uintptr(unsafe.Pointer(&n))) != nil {
		return row, ""
	}
	return row, strings.ReplaceAll(syscall.UTF16ToString(text[:n]), "\x00", "")
}
