//go:build linux || darwin

package posix

import (
	"testing"

	"github.com/shellstead/shellstead/backend"
)

// waits waits until InputWait reports the state, and returns the evidence.
func (s *screen) waits(t testing.TB, state backend.WaitState) backend.Wait {
	t.Helper()
	var w backend.Wait
	eventually(t, func() bool {
		var err error
		w, err = s.InputWait()
		return err == nil && w.State == state
	}, "state %d (last: %+v, output %q)", state, &w, s.output())
	return w
}
