//go:build linux || darwin

package posix

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

const (
	// patience bounds every wait of a test: long, because both cores may be busy.
	patience = time.Minute
	tick     = 2 * time.Millisecond

	// lastGrace is how long the programs of a finished test may take to end. A
	// set-uid one that the host may not signal lets seconds pass after a refusal.
	lastGrace = 5 * time.Second

	roleVariable = "POSIX_TEST_ROLE"
)

// roles are what this test binary does when a test starts it again.
var roles = map[string]func(){}

// inParallel is how many tests run at once: most of them wait for programs.
const inParallel = "8"

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleVariable)]; ok {
		role()
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", inParallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// rerun prepares another run of this test binary in a role. What a role prints
// goes to the returned buffers' owner.
func rerun(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

var cooked = backend.Modes{Canonical: true, Echo: true, Signals: true, OutputProc: true, InputCR: true, FlowCtl: true}

// commandModes are those of a shell that is given whole commands.
var commandModes = backend.Modes{Canonical: true, Signals: true, InputCR: true, NoFlush: true}

func specOf(path string, args ...string) backend.Spec {
	return backend.Spec{
		Path:  path,
		Args:  func(backend.ChannelRef) []string { return args },
		Env:   append(os.Environ(), "PS1=$ ", "TERM=dumb", "HISTFILE="),
		Dir:   os.TempDir(),
		Rows:  24,
		Cols:  80,
		Modes: cooked,
	}
}

func bashSpec() backend.Spec { return specOf("bash", "--noprofile", "--norc", "-i") }

func shSpec(script string, args ...string) backend.Spec {
	return specOf("sh", append([]string{"-c", script, "sh"}, args...)...)
}

// withChannel gives the program a channel by which a test tells it to go on.
func withChannel(spec backend.Spec) backend.Spec {
	spec.Channel = &backend.Channel{Keep: true}
	return spec
}

// screen is a device whose output is collected.
type screen struct {
	*device
	mu   sync.Mutex
	text bytes.Buffer
	eof  chan struct{}
	err  error
}

func newDriver(t testing.TB) *Driver {
	t.Helper()
	d, err := New(Options{})
	require.NoError(t, err)
	return d
}

// open starts a program, collects its output and ends it with the test.
func open(t testing.TB, spec backend.Spec) *screen {
	t.Helper()
	dev, err := newDriver(t).Start(context.Background(), spec)
	require.NoError(t, err)
	s := &screen{device: dev.(*device), eof: make(chan struct{})}
	go s.collect()
	t.Cleanup(func() {
		require.NoError(t, s.Terminate(context.Background(), lastGrace))
		<-s.eof
		require.ErrorIs(t, s.err, io.EOF)
	})
	return s
}

func (s *screen) collect() {
	defer close(s.eof)
	buf := make([]byte, 32<<10)
	for {
		n, err := s.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.err = err
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) shows(t testing.TB, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(s.output(), text) }, "output to show %q", text)
}

func (s *screen) types(t testing.TB, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := s.Write(ctx, []byte(text))
	require.NoError(t, err)
	require.Len(t, text, n)
}

func (s *screen) ends(t testing.TB) backend.ExitStatus {
	t.Helper()
	select {
	case <-s.Exited():
	case <-time.After(patience):
		require.FailNow(t, "the program does not end", "output: %s", s.output())
	}
	return s.ExitStatus()
}

// eventually waits for a condition. Each test waits for one state in one
// goroutine, so a failing condition may look at anything.
func eventually(t testing.TB, condition func() bool, what string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain for "+fmt.Sprintf(what, args...))
		}
		time.Sleep(tick)
	}
}

// samples is how often a test looks: the whole proof with SHELLSTEAD_SOAK=1
// (ci/soak), otherwise a fortieth of it.
func samples(whole int) int {
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		return whole
	}
	return whole / 40
}

// requires skips a test that is about programs which this machine does not
// have. Continuous integration installs all of them.
func requires(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			require.FailNow(t, "the test is about "+program+", which ci/packages installs")
		}
		t.Skipf("the test is about %s, which is not installed", program)
	}
}

// readsTerminal waits until the program itself is blocked reading its terminal.
func (s *screen) readsTerminal(t testing.TB) backend.Wait {
	t.Helper()
	var w backend.Wait
	eventually(t, func() bool {
		var err error
		w, err = s.ShellWait()
		require.NoError(t, err)
		return w.State == backend.WaitReading
	}, "the program to read")
	return w
}
