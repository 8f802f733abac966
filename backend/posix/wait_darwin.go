package posix

import (
	"fmt"

	"github.com/shellstead/shellstead/backend"
)

// waitProbe is empty: macOS shows the system calls of other processes to
// nobody who has not the right to debug them.
type waitProbe struct{}

func (*waitProbe) begin(*device) {}
func (*waitProbe) close()        {}

func probeExactRead() error {
	return fmt.Errorf("posix: macOS does not show what other processes are blocked in, so a waiting program is only inferred from silence (inferred_idle): %w", backend.ErrUnsupported)
}

func (d *device) ShellWait() (backend.Wait, error) { return backend.Wait{}, probeExactRead() }
func (d *device) InputWait() (backend.Wait, error) { return backend.Wait{}, probeExactRead() }

func (*device) readerAmong([]process) int { return 0 }

// rests is never known here.
func (d *device) rests() bool { return false }
