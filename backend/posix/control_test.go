//go:build linux || darwin

package posix

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// readsShell waits for an interactive shell's first prompt.
func (s *screen) readsShell(t testing.TB) {
	t.Helper()
	eventually(t, func() bool { return strings.HasSuffix(s.output(), "$ ") }, "a prompt")
}

func TestForeground(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	fg, err := s.Foreground()
	require.NoError(t, err)
	assert.Equal(t, backend.Foreground{PGID: s.PID(), Shell: true}, fg)

	s.types(t, "sleep 300\n")
	eventually(t, func() bool {
		fg, err = s.Foreground()
		return err == nil && !fg.Shell
	}, "sleep in the foreground")
	assert.NotEqual(t, s.PID(), fg.PGID)

	pgid, err := s.Signal(context.Background(), "SIGTERM")
	require.NoError(t, err)
	assert.Equal(t, fg.PGID, pgid)
	eventually(t, func() bool {
		fg, err := s.Foreground()
		return err == nil && fg.Shell
	}, "the shell in the foreground")
	s.shows(t, "Terminated")
}

// A terminal whose session has ended has no foreground group.
//
// Case: A13
func TestForegroundOfClosingTerminal(t *testing.T) {
	s := open(t, shSpec("exit"))
	s.ends(t)
	_, err := s.Foreground()
	require.Error(t, err)
	_, err = s.Signal(context.Background(), "SIGTERM")
	require.Error(t, err, "never a guess")
}

// The interrupt reaches a program that switched the key off.
//
// Case: A17, T37
func TestInterruptInRawMode(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	s.types(t, "stty raw -echo; echo in''side; sleep 300\n")
	s.shows(t, "inside")
	eventually(t, func() bool { fg, err := s.Foreground(); return err == nil && !fg.Shell }, "sleep in the foreground")
	m, err := s.Modes()
	require.NoError(t, err)
	require.False(t, m.Signals)
	// The group exists before its program is sleep; the signal may come early.
	eventually(t, func() bool {
		if fg, err := s.Foreground(); err != nil || fg.Shell {
			return true
		}
		_, _ = s.Signal(context.Background(), "SIGINT")
		return false
	}, "the interrupt")
}

func TestSignals(t *testing.T) {
	for _, name := range signalNames {
		t.Run(name, func(t *testing.T) {
			s := open(t, bashSpec())
			s.readsShell(t)
			s.types(t, "sleep 300\n")
			eventually(t, func() bool { fg, err := s.Foreground(); return err == nil && !fg.Shell }, "sleep in the foreground")
			eventually(t, func() bool {
				if fg, err := s.Foreground(); err != nil || fg.Shell {
					return true
				}
				_, _ = s.Signal(context.Background(), name)
				return false
			}, "the signal's effect")
		})
	}
}

func TestSignalRefusals(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	_, err := s.Signal(context.Background(), "SIGKILL")
	require.ErrorIs(t, err, terminals.InvalidArgument)
	require.ErrorContains(t, err, "close")

	_, err = s.Signal(context.Background(), "SIGWINCH")
	require.ErrorIs(t, err, terminals.Unsupported)
	require.ErrorIs(t, err, backend.ErrUnsupported)
	require.ErrorContains(t, err, "SIGINT SIGTERM SIGKILL SIGTSTP SIGHUP")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.Signal(ctx, "SIGINT")
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, s.hasExited())
}

// The program keeps its own interrupt until its foreground job, which gets one
// too, has ended.
func TestInterruptOfTheProgramToo(t *testing.T) {
	s := open(t, specOf("bash", "-m", "-c", `trap 'echo trapped' INT; sh -c 'trap "exit 7" INT; echo rea""dy; while :; do sleep 0.01; done'; echo "child=$?"; read x`))
	s.shows(t, "ready")
	pgid, err := s.Interrupt(context.Background(), true)
	require.NoError(t, err)
	assert.NotEqual(t, s.PID(), pgid)
	s.shows(t, "trapped")
	s.shows(t, "child=7")
}

func TestModes(t *testing.T) {
	s := open(t, specOf("cat"))
	m, err := s.Modes()
	require.NoError(t, err)
	assert.Equal(t, cooked, m)
	for _, want := range []backend.Modes{commandModes, {}, cooked, {Echo: true, FlowCtl: true}} {
		require.NoError(t, s.SetModes(want))
		m, err := s.Modes()
		require.NoError(t, err)
		assert.Equal(t, want, m)
	}
}

// What programs set beside the modes that the host knows is put back.
func TestOtherModes(t *testing.T) {
	s := open(t, withChannel(shSpec("stty inlcr intr ^X min 0 -icanon; echo rea''dy; read go <&3; stty -a; echo en''d")))
	s.shows(t, "ready")
	m, err := s.Modes()
	require.NoError(t, err)
	assert.True(t, m.Other)
	require.NoError(t, s.SetModes(m))
	again, err := s.Modes()
	require.NoError(t, err)
	assert.Equal(t, m, again)
	require.NoError(t, s.SetModes(cooked))
	again, err = s.Modes()
	require.NoError(t, err)
	assert.Equal(t, cooked, again)
	_, err = s.Channel().Write([]byte("go\n"))
	require.NoError(t, err)
	s.shows(t, "end")
	assert.Contains(t, s.output(), "intr = ^C")
	assert.Contains(t, s.output(), " -inlcr")
}

// Typed input that nobody has read yet can be dropped.
//
// Case: P22, A19
func TestPendingAndFlush(t *testing.T) {
	s := open(t, withChannel(shSpec("stty -echo; echo ready; read go <&3; read x; echo got=$x")))
	s.shows(t, "ready")
	n, err := s.PendingInput()
	require.NoError(t, err)
	assert.Zero(t, n)
	s.types(t, "stale\nunfinished")
	eventually(t, func() bool { n, err = s.PendingInput(); return err != nil || n == len("stale\n") }, "the whole line alone to count")
	require.NoError(t, err)
	require.NoError(t, s.FlushInput())
	n, err = s.PendingInput()
	require.NoError(t, err)
	assert.Zero(t, n)
	_, err = s.Channel().Write([]byte("go\n"))
	require.NoError(t, err)
	s.types(t, "fresh\n")
	s.shows(t, "got=fresh")
	s.ends(t)
	require.NoError(t, s.FlushInput(), "nobody is left to read it")
	n, err = s.PendingInput()
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestResize(t *testing.T) {
	s := open(t, shSpec("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done"))
	s.shows(t, "ready")
	require.NoError(t, s.Resize(123, 45))
	s.shows(t, "45 123")
	for _, size := range [][2]int{{0, 10}, {10, 0}, {70000, 10}, {10, -1}} {
		require.ErrorIs(t, s.Resize(size[0], size[1]), terminals.InvalidArgument)
	}
}

func TestCwd(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	inner := filepath.Join(dir, "inner")
	require.NoError(t, os.Mkdir(inner, 0o700))
	s := open(t, shSpec(`cd "$1"; echo ready; read x`, inner))
	s.shows(t, "ready")
	got, err := s.Cwd()
	if err != nil {
		require.ErrorIs(t, err, backend.ErrUnsupported)
		return
	}
	assert.Equal(t, inner, got)
	require.NoError(t, os.Remove(inner))
	_, err = s.Cwd()
	require.ErrorContains(t, err, "removed")
}

func TestCapabilities(t *testing.T) {
	d := newDriver(t)
	c := d.Capabilities()
	assert.Equal(t, "posix", c.Driver)
	assert.True(t, c.ForegroundGroup)
	assert.True(t, c.Modes)
	assert.NotEqual(t, c.ExactRead, c.ExactReadWhy != "", "a reason stands exactly where the ability lacks")
	assert.NotEqual(t, c.WholeTree, c.WholeTreeWhy != "")
	c.Signals[0] = "changed"
	assert.Equal(t, signalNames, d.Capabilities().Signals)
}
