package posix

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// A shell without job control keeps its programs in its own group: what ends the
// one that reads the terminal, and a script between, leaves the shell alone.
func TestSignalOfAProgramInTheShellsGroup(t *testing.T) {
	for _, sig := range []string{"SIGHUP", "SIGTERM"} {
		s := open(t, specOf("bash", "-c", `sh -c 'trap "" INT; echo rea""dy; cat; echo no'; echo "child=$?"; read x`))
		s.shows(t, "ready")
		require.Equal(t, "cat", s.waits(t, backend.WaitReading).Program)
		pgid, err := s.Signal(context.Background(), sig)
		require.NoError(t, err)
		assert.Equal(t, s.PID(), pgid)
		s.shows(t, "child=1") // 129 or 143
		assert.NotContains(t, s.output(), "no\n")
		assert.False(t, s.hasExited())
	}
}

// A shell without job control shares its group with its programs.
func TestSignalOfTheProgramAlone(t *testing.T) {
	s := open(t, specOf("sh", "-c", `sh -c 'cat; echo on'; echo "ended $?"; sleep 300`))
	eventually(t, func() bool { w, err := s.InputWait(); return err == nil && w.Program == "cat" }, "cat, reading")
	pgid, err := s.device.SignalProgram(context.Background(), "SIGKILL")
	require.NoError(t, err)
	assert.Equal(t, s.PID(), pgid)
	s.shows(t, "ended 137")
	for _, name := range []string{"SIGHUP", "SIGTERM", "SIGKILL", "SIGINT"} {
		_, err = s.device.SignalProgram(context.Background(), name)
		require.ErrorIs(t, err, terminals.InvalidArgument, "sleep reads nothing")
	}
	assert.False(t, s.hasExited())
	assert.NotContains(t, s.output(), "on\n")
}

// A shell that acts on an interrupt late gets it first: else it would go on once
// its program has ended of one.
func TestInterruptLead(t *testing.T) {
	spec := specOf("bash", "-c", `trap 'echo trapped' INT; sh -c 'trap "exit 7" INT; echo rea""dy; while :; do sleep 0.01; done'; echo "child=$?"; read x`)
	spec.InterruptLead = time.Hour
	s := open(t, spec)
	s.shows(t, "ready")
	ctx, cancel := context.WithTimeout(context.Background(), tick)
	defer cancel()
	_, err := s.Interrupt(ctx, false)
	require.ErrorIs(t, err, context.DeadlineExceeded, "its program has its time still")
	assert.NotContains(t, s.output(), "child=")

	s.lead = tick
	pgid, err := s.Signal(context.Background(), "SIGINT")
	require.NoError(t, err)
	assert.Equal(t, s.PID(), pgid)
	s.shows(t, "trapped")
	s.shows(t, "child=7")

	s.lead = time.Hour
	pgid, err = s.Interrupt(context.Background(), false)
	require.NoError(t, err, "nobody is left to wait for")
	assert.Equal(t, s.PID(), pgid)
}
