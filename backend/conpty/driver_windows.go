package conpty

import (
	"log/slog"
	"runtime"

	"github.com/shellstead/shellstead/backend"
)

// Driver starts programs in pseudo consoles.
type Driver struct {
	log    *slog.Logger
	ctrlC  func(pid int) error
	helper *helper
}

var _ backend.Driver = (*Driver)(nil)

// New returns a driver. It starts nothing. A Windows without pseudo consoles is
// refused at the first start, with the version that has them.
func New(options Options) (*Driver, error) {
	log := options.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Driver{log: log, ctrlC: options.CtrlC, helper: &helper{command: options.Helper, guarded: make(map[string]bool)}}, nil
}

// TempDir implements [backend.Driver]: Windows keeps no folder in memory.
func (*Driver) TempDir() string { return "" }

// Capabilities says what can be proved here.
func (d *Driver) Capabilities() backend.Capabilities {
	helped := len(d.helper.command) > 0
	c := backend.Capabilities{
		Driver:       "conpty",
		System:       runtime.GOOS + "/" + runtime.GOARCH,
		ExactReadWhy: "Windows does not tell that a program is blocked reading a pipe; a wait for console input is proved by a record that the program takes",
		Modes:        helped,
		Rewrites:     true,
		WholeTreeWhy: "what a program has a service, the task scheduler, WMI or a COM server start is not in its job object",
		HostDeath:    true,
		Signals:      []string{sigint},
	}
	if !helped {
		c.ExactReadWhy = "no helper process is configured that could look into the console"
	}
	return c
}
