package conpty_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/conpty"
	"github.com/shellstead/shellstead/backend/conpty/conptytest"
)

const (
	// patience bounds every wait of a test: long, because the machine may be busy.
	patience = 10 * time.Second
	tick     = 5 * time.Millisecond
)

func TestMain(m *testing.M) { conptytest.Main(m, programs) }

// programs run in the pseudo console.
var programs = map[string]func(args []string){
	"exit": func(args []string) {
		code, _ := strconv.ParseUint(args[0], 10, 32)
		windows.ExitProcess(uint32(code))
	},
	"print": func(args []string) { fmt.Print(strings.Join(args, " ")) },
	"lines": func(args []string) { // COUNT, then END
		n, _ := strconv.Atoi(args[0])
		w := bufio.NewWriter(os.Stdout)
		for i := range n {
			fmt.Fprintf(w, "line %d\r\n", i)
		}
		fmt.Fprint(w, "END")
		w.Flush()
	},
	"args": func(args []string) { fmt.Printf("%q", args) },
	"env":  func(args []string) { fmt.Printf("[%s]", os.Getenv(args[0])) },
	"ask": func([]string) {
		fmt.Print("name? ")
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("got %q %v\n", strings.TrimRight(line, "\r\n"), err)
	},
	"secret": func([]string) {
		var mode uint32
		in := windows.Handle(os.Stdin.Fd())
		err := windows.GetConsoleMode(in, &mode)
		if err == nil {
			err = windows.SetConsoleMode(in, mode&^windows.ENABLE_ECHO_INPUT)
		}
		fmt.Printf("password (%v): ", err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		_ = windows.SetConsoleMode(in, mode)
	},
	"sleep": func([]string) { fmt.Println("asleep"); time.Sleep(time.Hour) },
	"spin": func([]string) {
		fmt.Println("spinning")
		for n := uint(1); n != 0; n |= 1 {
		}
	},
	"bytes": func([]string) { os.Stdout.Write([]byte("\x00\x01\xff\x80\r\n\t\x1b[31mz\n")) },
	"alternate": func([]string) {
		for range 5 {
			fmt.Fprint(os.Stdout, "o\n")
			fmt.Fprint(os.Stderr, "e\n")
		}
	},
	"flood": func(args []string) {
		n, _ := strconv.Atoi(args[0])
		block := bytes.Repeat([]byte{'x'}, 1<<16)
		for ; n > 0; n -= len(block) {
			os.Stdout.Write(block[:min(n, len(block))])
		}
	},
	"count":  func([]string) { answer(0) },
	"blocks": func(args []string) { n, _ := strconv.Atoi(args[0]); answer(n) },
	"child":  startChild,
	"host":   runHost,
	"size":   func([]string) { printSize() },
	"codepage": func([]string) {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		in, _ := windows.GetConsoleCP()
		out, _ := windows.GetConsoleOutputCP()
		fmt.Printf("[%d %d]", in, out)
	},
	"channel": readChannel,
	"stdin":   describeStdin,
}

// answer prints size bytes and a number for each line that it reads.
func answer(size int) {
	fmt.Print("ready.")
	lines := bufio.NewScanner(os.Stdin)
	block := append(bytes.Repeat([]byte{'x'}, 78), '\r', '\n')
	for i := 0; lines.Scan(); i++ {
		os.Stdout.Write(bytes.Repeat(block, size/len(block)))
		fmt.Printf("<%d>", i)
	}
}

// runHost starts a program that does not end by itself and waits to be killed.
func runHost(args []string) {
	spec := program("sleep")
	spec.Remove = args
	dev, err := driver().Start(context.Background(), spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("program %d\n", dev.PID())
	_, _ = io.Copy(io.Discard, dev)
}

func printSize() {
	var info windows.ConsoleScreenBufferInfo
	err := windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &info)
	fmt.Printf("[%d %v]", info.Size.X, err)
}

// startChild starts a program that nobody waits for and prints its number.
// "detached" gives it no console.
func startChild(args []string) {
	line := conptytest.Program("sleep")
	attr := &os.ProcAttr{Files: []*os.File{nil, nil, nil}, Sys: sysProcAttr(args[0])}
	p, err := os.StartProcess(line[0], line, attr)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("child %d.\n", p.Pid)
	if args[1] == "wait" {
		_, _ = p.Wait()
	}
}

// readChannel copies what it is given: first the handle's number from its
// arguments, by which the number of the second handle comes.
func readChannel(args []string) {
	open := func(number string) *os.File {
		n, _ := strconv.ParseUint(number, 10, 64)
		return os.NewFile(uintptr(n), "channel")
	}
	number, err := bufio.NewReader(open(args[0])).ReadString('\n')
	fmt.Printf("boot %v.", err)
	r := bufio.NewReader(open(strings.TrimSpace(number)))
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			fmt.Printf("end %d %v.", len(line), err)
			return
		}
		fmt.Printf("<%d>", len(line))
	}
}

func describeStdin([]string) {
	var mode uint32
	kind, _ := windows.GetFileType(windows.Handle(os.Stdin.Fd()))
	in := windows.GetConsoleMode(windows.Handle(os.Stdin.Fd()), &mode)
	out := windows.GetConsoleMode(windows.Handle(os.Stdout.Fd()), &mode)
	fmt.Printf("[%d %t %t]", kind, in == nil, out == nil)
}

func newDriver(t testing.TB, change ...func(*conpty.Options)) *conpty.Driver {
	t.Helper()
	o := conptytest.Options()
	for _, c := range change {
		c(&o)
	}
	d, err := conpty.New(o)
	require.NoError(t, err)
	return d
}

var driver = sync.OnceValue(func() *conpty.Driver {
	d, err := conpty.New(conptytest.Options())
	if err != nil {
		panic(err)
	}
	return d
})

func specOf(line ...string) backend.Spec {
	return backend.Spec{
		Path: line[0],
		Args: func(backend.ChannelRef) []string { return line[1:] },
		Env:  os.Environ(), Dir: os.TempDir(), Rows: 30, Cols: 120,
	}
}

func program(name string, args ...string) backend.Spec {
	return specOf(conptytest.Program(name, args...)...)
}

// piped has the program write to a pipe.
func piped(spec backend.Spec) backend.Spec {
	spec.OutputPipe = true
	return spec
}

// session is a device whose output is collected.
type session struct {
	backend.Device
	mu   sync.Mutex
	text bytes.Buffer
	eof  chan struct{}
}

func open(t *testing.T, spec backend.Spec) *session { return openWith(t, driver(), spec) }

func openWith(t *testing.T, d *conpty.Driver, spec backend.Spec) *session {
	t.Helper()
	dev, err := d.Start(context.Background(), spec)
	require.NoError(t, err)
	s := &session{Device: dev, eof: make(chan struct{})}
	go func() {
		defer close(s.eof)
		buf := make([]byte, 4096)
		for {
			n, err := dev.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, dev.Terminate(context.Background(), 5*time.Second))
		s.reachesEOF(t)
	})
	return s
}

func (s *session) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *session) prints(t *testing.T, token string) {
	t.Helper()
	ok := assert.Eventually(t, func() bool { return strings.Contains(s.output(), token) }, patience, tick)
	require.True(t, ok, "%q did not come, but %q", token, s.output())
}

func (s *session) reachesEOF(t *testing.T) {
	t.Helper()
	select {
	case <-s.eof:
	case <-time.After(patience):
		require.Fail(t, "no end of the output", "%q", s.output())
	}
}

// ends waits for the program's end and returns its exit code.
func (s *session) ends(t *testing.T) int {
	t.Helper()
	select {
	case <-s.Exited():
	case <-time.After(patience):
		require.Fail(t, "the program does not end", "%q", s.output())
	}
	require.NotNil(t, s.ExitStatus().Code)
	return *s.ExitStatus().Code
}

func (s *session) types(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := s.Write(ctx, []byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}
