package posix

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

// A job that the program waits for gets the interrupt though it was never given
// the terminal; a program that reads has missed none.
func TestInterruptMissedByAStrandedJob(t *testing.T) {
	t.Parallel()
	s := open(t, specOf("bash", "-m", "-c", `sleep 300 & echo rea""dy; wait $!; echo "child=$?"; read x`))
	s.shows(t, "ready")
	eventually(t, func() bool {
		found, err := s.InterruptMissed(context.Background())
		require.NoError(t, err)
		return found
	}, "the job of a program that waits")
	s.shows(t, "child=130")
	s.waits(t, backend.WaitReading)
	found, err := s.InterruptMissed(context.Background())
	require.NoError(t, err)
	assert.False(t, found)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.InterruptMissed(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// Once a program has started, whether it missed an interrupt is told by what it
// does with one.
func TestInterruptMissedByTheForeground(t *testing.T) {
	t.Parallel()
	for script, missed := range map[string]bool{
		"sleep 300": true,
		`sh -c 'trap "echo no" INT; echo rea""dy; while :; do sleep 0.01; done'`: false,
		`sh -c 'trap "" INT; echo rea""dy; while :; do sleep 0.01; done'`:        false,
	} {
		s := open(t, specOf("bash", "-m", "-c", "true; "+script+`; echo "child=$?"; read x`))
		if !missed {
			s.shows(t, "ready")
		}
		eventually(t, func() bool {
			fg, err := s.Foreground()
			require.NoError(t, err)
			leader, err := s.family.table.lookup(fg.PGID)
			return err == nil && !fg.Shell && !leader.isYoung()
		}, "a program in the foreground")
		found, err := s.InterruptMissed(context.Background())
		require.NoError(t, err)
		assert.Equal(t, missed, found, script)
		if missed {
			eventually(t, func() bool { fg, err := s.Foreground(); return err != nil || fg.Shell }, "the end of the program")
		}
		assert.NotContains(t, s.output(), "no\n")
	}
}

func TestInterruptIn(t *testing.T) {
	status := []byte("SigQ:\t0/1\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000002\nSigBlk:\tx\nSigCgt:\t0000000000010005\n")
	assert.True(t, interruptIn(status, "SigPnd", "ShdPnd"))
	assert.False(t, interruptIn(status, "SigPnd", "SigBlk", "SigCgt"))
}
