//go:build linux || darwin

package posix

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"

	"github.com/shellstead/shellstead/backend"
)

// Driver starts programs on pseudo terminals.
type Driver struct {
	log          *slog.Logger
	capabilities func() backend.Capabilities
}

var _ backend.Driver = (*Driver)(nil)

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.Default()
	}
	return o.Logger
}

// New returns a driver. It starts nothing.
func New(options Options) (*Driver, error) {
	return &Driver{
		log:          options.logger(),
		capabilities: sync.OnceValue(probeCapabilities),
	}, nil
}

// Capabilities says what can be proved here. The first call starts a short
// lived child to find out; what it found is kept.
func (d *Driver) Capabilities() backend.Capabilities {
	c := d.capabilities()
	c.Signals = slices.Clone(c.Signals)
	return c
}

func probeCapabilities() backend.Capabilities {
	c := backend.Capabilities{
		Driver:          "posix",
		System:          runtime.GOOS + "/" + runtime.GOARCH,
		ForegroundGroup: true,
		Modes:           true,
		MaxLine:         maxLine,
		HostDeath:       hostDeathWhole && checkProgram(supervisorShell) == nil,
		WholeTreeWhy:    treeGap(),
		Signals:         slices.Clone(signalNames),
	}
	c.WholeTree = c.WholeTreeWhy == ""
	if err := probeExactRead(); err != nil {
		c.ExactReadWhy = err.Error()
	} else {
		c.ExactRead = true
	}
	return c
}
