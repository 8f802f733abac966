package posix

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
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
