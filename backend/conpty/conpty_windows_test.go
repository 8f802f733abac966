package conpty_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/conpty"
	"github.com/shellstead/shellstead/backend/conpty/conptytest"
	"github.com/shellstead/shellstead/terminals"
)

// cmdExe is the shell that every Windows has.
var cmdExe = os.Getenv("ComSpec")

func sysProcAttr(kind string) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if kind == "detached" {
		a.CreationFlags = windows.DETACHED_PROCESS
	}
	return a
}

// A code is a number of 32 bits, and 259 one like all others.
//
// Case: K1, K12
func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		code string
		want int
	}{{"0", 0}, {"5", 5}, {"259", 259}, {"300", 300}, {"3221225786", -1073741510}, {"4294967295", -1}} {
		t.Run(tt.code, func(t *testing.T) {
			s := open(t, program("exit", tt.code))
			assert.Equal(t, tt.want, s.ends(t))
			s.reachesEOF(t)
		})
	}
}

// The console's pipe does not break when its program ends.
//
// Case: K2 (andfoy/pywinpty#565)
func TestOutputThenEOF(t *testing.T) {
	for _, spec := range []backend.Spec{program("lines", "3000"), piped(program("lines", "3000"))} {
		t.Run(fmt.Sprint("piped=", spec.OutputPipe), func(t *testing.T) {
			s := open(t, spec)
			s.reachesEOF(t)
			assert.Zero(t, s.ends(t))
			assert.Contains(t, s.output(), "line 2999")
			assert.Contains(t, s.output(), "END")
		})
	}
}

// Case: K6, K7 (microsoft/terminal#11220)
func TestPipeIsExact(t *testing.T) {
	s := open(t, piped(program("bytes")))
	s.reachesEOF(t)
	assert.Equal(t, "\x00\x01\xff\x80\r\n\t\x1b[31mz\n", s.output())
	s = open(t, piped(program("alternate")))
	s.reachesEOF(t)
	assert.Equal(t, strings.Repeat("o\ne\n", 5), s.output())
	s = open(t, piped(program("flood", "5000000")))
	s.reachesEOF(t)
	assert.Len(t, s.output(), 5000000)
}

// The standard input stays the console although the output is a pipe, and both
// although the host's own descriptors are redirected, as a test binary's are.
//
// Case: K5 (microsoft/terminal#11276)
func TestStandardHandles(t *testing.T) {
	s := open(t, program("stdin"))
	s.prints(t, "[2 true true]")
	s = open(t, piped(program("stdin")))
	s.prints(t, "[2 true false]")
}

func TestArgumentsRoundTrip(t *testing.T) {
	args := []string{"", "a b", `"`, `\`, `a\\"b`, `end\`, `\\server\share\`, "é漢🙂", "%PATH%", "^&|<>", "tab\tx", strings.Repeat("l", 300)}
	s := open(t, piped(program("args", args...)))
	s.reachesEOF(t)
	assert.Equal(t, fmt.Sprintf("%q", args), s.output())
}

func TestEnterHoweverItIsWritten(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		s := open(t, program("ask"))
		s.prints(t, "name?")
		s.types(t, "bob"+end)
		s.prints(t, `got "bob" <nil>`)
		assert.Zero(t, s.ends(t))
	}
}

func TestInputWait(t *testing.T) {
	wait := func(s *session, want backend.WaitState) (w backend.Wait) {
		require.Eventually(t, func() bool {
			var err error
			w, err = s.InputWait()
			require.NoError(t, err)
			if want == backend.WaitBusy {
				require.NotEqual(t, backend.WaitReading, w.State)
			}
			return w.State == want
		}, patience, tick)
		return w
	}
	s := open(t, piped(program("ask")))
	s.prints(t, "name?")
	wait(s, backend.WaitReading)
	n, err := s.PendingInput()
	require.NoError(t, err)
	assert.Zero(t, n)
	s.types(t, "bob\n")
	s.prints(t, `got "bob" <nil>`)

	s = open(t, program("sleep"))
	s.prints(t, "asleep")
	for range 5 {
		wait(s, backend.WaitBusy)
	}
	s.types(t, "abc")
	require.Eventually(t, func() bool {
		n, err := s.PendingInput()
		require.NoError(t, err)
		return n == 3
	}, patience, tick)
	require.NoError(t, s.FlushInput())
	n, err = s.PendingInput()
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestCodePage(t *testing.T) {
	s := open(t, program("codepage"))
	s.types(t, "\n")
	s.prints(t, "[65001 65001]")
}

// What a program asks is on the screen, where Read does not return it.
func TestPromptOnTheScreen(t *testing.T) {
	s := open(t, specOf(conptytest.Console(cmdExe, "/c", "set /p x=name? ")...))
	s.prints(t, "name?")
	require.Eventually(t, func() bool {
		w, err := s.InputWait()
		require.NoError(t, err)
		return w.State == backend.WaitReading && w.Prompt == "name? "
	}, patience, tick)
}

func TestInterrupt(t *testing.T) {
	for _, name := range []string{"sleep", "spin"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, program(name))
			s.prints(t, map[string]string{"sleep": "asleep", "spin": "spinning"}[name])
			pid, err := s.Interrupt(context.Background(), false)
			require.NoError(t, err)
			assert.Equal(t, s.PID(), pid)
			s.ends(t)
		})
	}
}

func TestTypedCtrlC(t *testing.T) {
	s := open(t, program("sleep"))
	s.prints(t, "asleep")
	s.types(t, "\x03")
	s.ends(t)
}

func TestModes(t *testing.T) {
	s := open(t, program("sleep"))
	s.prints(t, "asleep")
	m, err := s.Modes()
	require.NoError(t, err)
	assert.Equal(t, backend.Modes{Canonical: true, Echo: true, Signals: true, InputCR: true}, m)
	for _, want := range []backend.Modes{{Canonical: true, Signals: true, InputCR: true}, {InputCR: true}, m} {
		require.NoError(t, s.SetModes(want))
		got, err := s.Modes()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestResize(t *testing.T) {
	s := open(t, program("size"))
	s.prints(t, "[120 <nil>]")
	s = open(t, program("sleep"))
	s.prints(t, "asleep")
	for _, side := range []int{80, 0, -1, 40000, 120} {
		err := s.Resize(side, 30)
		if conptytest.Wine() {
			assert.Error(t, err, "if Wine can resize, this test can hold more")
			continue
		}
		assert.NoError(t, err, "%d", side)
	}
}

func TestSizeIsClamped(t *testing.T) {
	for _, cols := range []int{-1, 0, 4096} {
		spec := piped(program("exit", "7"))
		spec.Cols = cols
		s := open(t, spec)
		assert.Equal(t, 7, s.ends(t))
	}
}

func TestChannel(t *testing.T) {
	// Without conwrap.exe: the second handle is the started program's alone.
	spec := specOf(conptytest.Self("channel")...)
	var numbers [2]uintptr
	spec.Args = func(ref backend.ChannelRef) []string {
		numbers[0] = ref.Number
		return conptytest.Self("channel", strconv.FormatUint(uint64(ref.Number), 10))[1:]
	}
	spec.Channel = &backend.Channel{Keep: true, Bootstrap: func(ref backend.ChannelRef) []byte {
		numbers[1] = ref.Number
		return []byte(strconv.FormatUint(uint64(ref.Number), 10) + "\n")
	}}
	s := open(t, piped(spec))
	s.prints(t, "boot <nil>.")
	for _, n := range []int{1, 70000, 1 << 20} {
		_, err := s.Channel().Write([]byte(strings.Repeat("x", n-1) + "\n"))
		require.NoError(t, err)
		s.prints(t, fmt.Sprintf("<%d>", n))
	}
	require.NoError(t, s.Channel().Close())
	s.prints(t, "end 0 EOF.")
	assert.NotEqual(t, numbers[0], numbers[1])
}

// A program that does not read its channel holds up a write until the deadline.
func TestChannelDeadline(t *testing.T) {
	spec := program("sleep")
	spec.Channel = &backend.Channel{Keep: true}
	s := open(t, spec)
	s.prints(t, "asleep")
	ch := s.Channel().(interface {
		Write([]byte) (int, error)
		SetWriteDeadline(time.Time) error
	})
	require.NoError(t, ch.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := ch.Write(make([]byte, 10<<20))
	require.Error(t, err)
	assert.Less(t, n, 10<<20)
}

// Everything that the program started ends with it: what shares its console and
// what has none.
func TestTreeEnds(t *testing.T) {
	for _, kind := range []string{"attached", "detached"} {
		for _, leader := range []string{"wait", "leave"} {
			t.Run(kind+"_"+leader, func(t *testing.T) {
				s := open(t, piped(program("child", kind, leader)))
				s.prints(t, ".\n")
				var pid int
				_, err := fmt.Sscanf(s.output(), "child %d.", &pid)
				require.NoError(t, err, s.output())
				h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
				require.NoError(t, err)
				defer windows.CloseHandle(h)
				require.NoError(t, s.Terminate(context.Background(), 5*time.Second))
				state, err := windows.WaitForSingleObject(h, uint32(patience.Milliseconds()))
				require.NoError(t, err)
				assert.EqualValues(t, windows.WAIT_OBJECT_0, state)
				s.reachesEOF(t)
			})
		}
	}
}

// Case: K4
func TestTerminateIsRepeatable(t *testing.T) {
	s := open(t, program("sleep"))
	errs := make(chan error)
	for range 4 {
		go func() { errs <- s.Terminate(context.Background(), time.Second) }()
	}
	for range 4 {
		assert.NoError(t, <-errs)
	}
	assert.NoError(t, s.Terminate(context.Background(), time.Second))
	assert.Error(t, s.Resize(80, 24))
	_, err := s.Write(context.Background(), []byte("x"))
	assert.Error(t, err)
}

// Output that nobody reads holds up neither the console's end nor the pipe's.
//
// Case: K3 (microsoft/terminal#17489)
func TestTerminateWithUnreadOutput(t *testing.T) {
	for _, spec := range []backend.Spec{program("flood", "100000000"), piped(program("flood", "100000000"))} {
		dev, err := driver().Start(context.Background(), spec)
		require.NoError(t, err)
		require.Eventually(t, func() bool { n, err := dev.PendingOutput(); return err == nil && n > 0 }, patience, tick)
		began := time.Now()
		require.NoError(t, dev.Terminate(context.Background(), time.Second))
		assert.Less(t, time.Since(began), 15*time.Second)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, tt := range []struct {
		change func(*backend.Spec)
		says   string
	}{
		{func(s *backend.Spec) { s.Path = "" }, "no program is given"},
		{func(s *backend.Spec) { s.Path = "no-such-program" }, "not in PATH"},
		{func(s *backend.Spec) { s.Path = `C:\no\such.exe` }, "does not exist"},
		{func(s *backend.Spec) { s.Path = `C:\windows` }, "is a folder"},
		{func(s *backend.Spec) { s.Path = `sub\x.exe` }, "is relative"},
		{func(s *backend.Spec) { s.Dir = `C:\no\such` }, "does not exist"},
		{func(s *backend.Spec) { s.Dir = `sub` }, "not an absolute path"},
		{func(s *backend.Spec) { s.Env = append(s.Env, "X=a\x00b") }, "NUL byte"},
		{func(s *backend.Spec) {
			s.Args = func(backend.ChannelRef) []string { return []string{strings.Repeat("x", 40000)} }
		}, "Windows takes 32766"},
		{func(s *backend.Spec) { s.Args = func(backend.ChannelRef) []string { return []string{"a\x00b"} } }, "shellArgs"},
	} {
		spec := program("exit", "0")
		tt.change(&spec)
		_, err := driver().Start(context.Background(), spec)
		require.Error(t, err, tt.says)
		assert.ErrorContains(t, err, tt.says)
	}
}

func TestNotAProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.exe")
	require.NoError(t, os.WriteFile(file, []byte("no program"), 0o700))
	for _, spec := range []backend.Spec{specOf(file), piped(specOf(file))} {
		_, err := driver().Start(context.Background(), spec)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, "not a program that this system can run")
	}
}

// Programs fail in strange ways without the system's variables.
//
// Case: K16
func TestEmptyEnvironment(t *testing.T) {
	spec := piped(program("env", "SystemRoot"))
	spec.Env = []string{}
	s := open(t, spec)
	s.reachesEOF(t)
	assert.Contains(t, strings.ToLower(s.output()), `[c:\windows]`)
}

func TestCapabilities(t *testing.T) {
	c := newDriver(t).Capabilities()
	assert.Equal(t, "conpty", c.Driver)
	assert.True(t, c.Modes && c.Rewrites && c.HostDeath)
	assert.False(t, c.ExactRead || c.ForegroundGroup)
}

// Two hundred terminals leave no handle behind.
func TestHandlesAreGivenBack(t *testing.T) {
	count := func() (n uint32) {
		require.NoError(t, getProcessHandleCount(&n))
		return n
	}
	round := func() {
		dev, err := driver().Start(context.Background(), piped(program("exit", "0")))
		require.NoError(t, err)
		<-dev.Exited()
		require.NoError(t, dev.Terminate(context.Background(), time.Second))
	}
	for range 5 {
		round()
	}
	before, rounds := count(), 200
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		round()
	}
	require.Eventually(t, func() bool { return count() <= before+5 }, patience, tick)
}

func getProcessHandleCount(n *uint32) error {
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount")
	if ok, _, err := proc.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(n))); ok == 0 {
		return err
	}
	return nil
}

// A host that dies takes its programs with it, and its folders.
//
// Case: K11
func TestHostDeath(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "session")
	require.NoError(t, os.Mkdir(folder, 0o700))
	line := conptytest.Self("host", folder)
	host := exec.Command(line[0], line[1:]...)
	out, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	var pid uint32
	_, err = fmt.Fscanf(out, "program %d\n", &pid)
	require.NoError(t, err)
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	require.NoError(t, err)
	defer func() { _ = windows.CloseHandle(h) }()
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	state, err := windows.WaitForSingleObject(h, uint32(patience.Milliseconds()))
	require.NoError(t, err)
	assert.EqualValues(t, windows.WAIT_OBJECT_0, state)
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, fs.ErrNotExist)
	}, patience, tick, "what the host left is removed")
}

// Without a helper what cannot be known is unknown, and the rest works.
func TestWithoutHelper(t *testing.T) {
	d := newDriver(t, func(o *conpty.Options) { o.Helper = nil })
	assert.False(t, d.Capabilities().Modes)
	s := openWith(t, d, program("sleep"))
	s.prints(t, "asleep")
	_, err := s.InputWait()
	assert.ErrorIs(t, err, backend.ErrUnsupported)
	_, err = s.Modes()
	assert.ErrorIs(t, err, backend.ErrUnsupported)
	_, err = s.Foreground()
	assert.ErrorIs(t, err, backend.ErrUnsupported)
	assert.NoError(t, s.FlushInput())
	_, err = s.Signal(context.Background(), "SIGTERM")
	assert.ErrorIs(t, err, terminals.Unsupported)
	_, err = s.Signal(context.Background(), "SIGINT") // the key
	require.NoError(t, err)
	s.ends(t)
}

// A helper that is gone is started again.
func TestHelperIsReplaced(t *testing.T) {
	s := open(t, program("sleep"))
	s.prints(t, "asleep")
	_, err := s.Modes()
	require.NoError(t, err)
	conpty.StopHelper(driver())
	_, err = s.Modes()
	require.NoError(t, err)
}

// What a program leaves running holds up neither its end nor the end of its
// output.
func TestExitWithBackgroundProgram(t *testing.T) {
	s := open(t, piped(program("child", "detached", "leave")))
	assert.Zero(t, s.ends(t))
	began := time.Now()
	s.reachesEOF(t)
	assert.Less(t, time.Since(began), patience/2)
}

// The console's own first words are not the program's.
//
// Case: K13
func TestFirstPaint(t *testing.T) {
	s := open(t, program("print", "hello"))
	s.reachesEOF(t)
	assert.NotContains(t, s.output(), "\x1b[2J")
	assert.NotContains(t, s.output(), "\x1b]0;")
	assert.Contains(t, s.output(), "hello")
}
