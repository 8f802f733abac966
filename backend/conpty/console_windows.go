package conpty

import (
	"fmt"
	"sync"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// maxSide is the longest side of a console: its size is kept in signed 16 bits.
const maxSide = 1<<15 - 1

// console is one pseudo console with the host's ends of its pipes.
type console struct {
	in, out pipeEnd
	handle  windows.Handle // for the start of a program
	setSize func(windows.Coord) error
	close   func()

	mu     sync.Mutex
	closed chan struct{} // nil until shut was called; closed when the console is gone
}

// available tells whether this Windows has pseudo consoles.
var available = sync.OnceValue(func() error {
	for _, name := range []string{"CreatePseudoConsole", "ResizePseudoConsole", "ClosePseudoConsole"} {
		if err := kernel32.NewProc(name).Find(); err != nil {
			v := windows.RtlGetVersion()
			return &terminals.Error{
				Code: terminals.Unsupported,
				Message: fmt.Sprintf("pseudo consoles need Windows 10 version 1809 or Windows Server 2019; this is Windows %d.%d build %d",
					v.MajorVersion, v.MinorVersion, v.BuildNumber),
				Err: backend.ErrUnsupported,
			}
		}
	}
	return nil
})

// openConsole makes a pseudo console. No flags: none means the same on every
// version.
func openConsole(size windows.Coord) (*console, error) {
	inRead, inWrite, err := newPipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := newPipe()
	if err != nil {
		closeHandles(inRead, inWrite)
		return nil, err
	}
	c := &console{in: pipeEnd{handle: inWrite}, out: pipeEnd{handle: outRead}}
	err = windows.CreatePseudoConsole(size, inRead, outWrite, 0, &c.handle)
	// The console has its own by now. While the host held the writing end its
	// reads would never see the console's end.
	closeHandles(inRead, outWrite)
	if err != nil {
		closeHandles(inWrite, outRead)
		return nil, fmt.Errorf("conpty: create a pseudo console of %d by %d: %w", size.X, size.Y, err)
	}
	c.setSize = func(size windows.Coord) error { return windows.ResizePseudoConsole(c.handle, size) }
	c.close = func() { windows.ClosePseudoConsole(c.handle) }
	return c, nil
}

// consoleSize clamps a size to what a console can have.
func consoleSize(cols, rows int) windows.Coord {
	return windows.Coord{X: int16(min(max(cols, 1), maxSide)), Y: int16(min(max(rows, 1), maxSide))}
}

func (c *console) resize(cols, rows int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return fmt.Errorf("conpty: resize: the console is closed")
	}
	if err := c.setSize(consoleSize(cols, rows)); err != nil {
		return fmt.Errorf("conpty: resize to %d by %d: %w", cols, rows, err)
	}
	return nil
}

// shut closes the pseudo console, once: its programs get a close event, and are
// killed when they do not end within some seconds. It returns at once; the
// channel is closed when the system call has returned, which before Windows 11
// 24H2 takes until the last output was read.
func (c *console) shut() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		closed := make(chan struct{})
		c.closed = closed
		go func() {
			c.close()
			close(closed)
		}()
	}
	return c.closed
}

// release gives the pipes back, after shut.
func (c *console) release() {
	_ = c.in.Close()
	_ = c.out.Close()
}
