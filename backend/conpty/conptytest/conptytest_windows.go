package conptytest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend/conpty"
)

// WineVariable names the folder of conwrap.exe and native.exe. It is set under
// Wine alone.
const WineVariable = "SHELLSTEAD_WINE"

// Wine tells whether the test runs under Wine.
func Wine() bool { return os.Getenv(WineVariable) != "" }

// Arguments by which the test binary is started again.
const (
	helperArgument  = "conptytest-helper"
	keyArgument     = "conptytest-ctrl-c"
	programArgument = "conptytest-program"
)

// Main is a test binary's TestMain. programs are what Program starts, by name.
func Main(m *testing.M, programs map[string]func(args []string)) {
	Serve(programs)
	os.Exit(m.Run())
}

// Serve runs what the test binary was started again for and ends the process.
// When it was started to test, Serve returns.
func Serve(programs map[string]func(args []string)) {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case helperArgument:
		err = conpty.RunHelper(os.Stdin, os.Stdout)
	case keyArgument:
		err = serveKeys()
	case programArgument:
		programs[os.Args[2]](os.Args[3:])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Options are a driver's, with this test binary as its helper.
func Options() conpty.Options {
	o := conpty.Options{Helper: []string{self(), helperArgument}}
	if Wine() {
		o.CtrlC = keys.pressCtrlC
	}
	return o
}

// Program is the command line, program first, of one of Main's programs in a
// pseudo console of its own.
func Program(name string, args ...string) []string {
	return Console(Self(name, args...)...)
}

// Self is the command line of one of Main's programs for a shell that runs in a
// pseudo console.
func Self(name string, args ...string) []string {
	return append([]string{self(), programArgument, name}, args...)
}

// Console is the command line that runs another in a pseudo console.
func Console(line ...string) []string {
	if !Wine() {
		return line
	}
	return append([]string{filepath.Join(os.Getenv(WineVariable), "conwrap.exe")}, line...)
}

func self() string {
	file, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return file
}

var (
	kernel32              = windows.NewLazySystemDLL("kernel32.dll")
	attachConsole         = kernel32.NewProc("AttachConsole")
	freeConsole           = kernel32.NewProc("FreeConsole")
	setConsoleCtrlHandler = kernel32.NewProc("SetConsoleCtrlHandler")
	writeConsoleInput     = kernel32.NewProc("WriteConsoleInputW")
)

// keyboard is another run of the test binary that presses Ctrl-C.
type keyboard struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

var keys keyboard

func (k *keyboard) pressCtrlC(pid int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.in == nil {
		cmd := exec.Command(self(), keyArgument)
		cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		k.in, k.out = in, bufio.NewReader(out)
	}
	if _, err := fmt.Fprintln(k.in, pid); err != nil {
		return err
	}
	reply, err := k.out.ReadString('\n')
	if err == nil && reply != "pressed\n" {
		err = fmt.Errorf("press Ctrl-C: %s", reply)
	}
	return err
}

// serveKeys is the other run: it presses Ctrl-C in the console of each process
// that it is told, until the test ends.
func serveKeys() error {
	_, _, _ = setConsoleCtrlHandler.Call(0, 1) // the key is not for this process
	_, _, _ = freeConsole.Call()
	for {
		var pid int
		if _, err := fmt.Scanln(&pid); err != nil {
			return nil
		}
		if err := pressCtrlC(pid); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("pressed")
	}
}

// pressCtrlC puts the key going down into the console's input: Wine raises the
// event for each record, so one for the key going up would raise it twice.
func pressCtrlC(pid int) error {
	if ok, _, err := attachConsole.Call(uintptr(pid)); ok == 0 {
		return fmt.Errorf("join the console of %d: %w", pid, err)
	}
	defer func() { _, _, _ = freeConsole.Call() }()
	h, err := windows.CreateFile(windows.StringToUTF16Ptr("CONIN$"), windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	record := struct {
		kind, _                 uint16
		down                    int32
		repeat, key, scan, char uint16
		control                 uint32
	}{kind: 1, down: 1, repeat: 1, key: 'C', scan: 0x2e, char: 3, control: 8}
	var written uint32
	if ok, _, err := writeConsoleInput.Call(uintptr(h), uintptr(unsafe.Pointer(&record)), 1, uintptr(unsafe.Pointer(&written))); ok == 0 {
		return fmt.Errorf("write the key: %w", err)
	}
	return nil
}
