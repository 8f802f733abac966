//go:build linux || darwin

package posix

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// channel is the host's end of a program's private pipe.
type channel struct {
	file *os.File
	id   fileID        // of the pipe
	once bool          // nothing comes after the bootstrap
	sent chan struct{} // closed when the bootstrap is in the pipe, or never will be

	mu       sync.Mutex
	deadline time.Time
	started  bool // the bootstrap is through; deadlines go to the file
}

func openChannel() (_ *channel, readEnd *os.File, err error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("posix: open the private channel: %w", err)
	}
	c := &channel{file: writeEnd, sent: make(chan struct{})}
	conn, err := writeEnd.SyscallConn()
	if err == nil {
		var idErr error
		err = conn.Control(func(fd uintptr) { c.id, idErr = statFD(int(fd)) })
		if err == nil {
			err = idErr
		}
	}
	if err != nil {
		_ = readEnd.Close()
		_ = writeEnd.Close()
		return nil, nil, fmt.Errorf("posix: open the private channel: %w", err)
	}
	return c, readEnd, nil
}

// begin puts the bootstrap into the pipe. What the pipe does not take at once
// is written while the program reads, until ctx ends. When ctx ends first the
// pipe stays open: at its end the program would run half a bootstrap.
func (c *channel) begin(ctx context.Context, bootstrap func(backend.ChannelRef) []byte, ref backend.ChannelRef, keep bool) {
	c.once = !keep
	var rest []byte
	if bootstrap != nil {
		rest = bootstrap(ref)
	}
	if len(rest) > 0 {
		rest = rest[c.writeNow(rest):]
	}
	if len(rest) == 0 {
		c.ready(true)
		return
	}
	go func() {
		stop := context.AfterFunc(ctx, func() { _ = c.file.SetWriteDeadline(past) })
		_, err := c.file.Write(rest)
		stop()
		c.ready(err == nil)
	}()
}

// writeNow writes what fits, without waiting.
func (c *channel) writeNow(p []byte) (n int) {
	conn, err := c.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Write(func(fd uintptr) bool {
		for {
			written, err := unix.Write(int(fd), p)
			if err == unix.EINTR {
				continue
			}
			if err == nil {
				n = written
			}
			return true
		}
	})
	return n
}

func (c *channel) ready(whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !whole: // a later write would be taken for the lost part
	case c.once:
		_ = c.file.Close()
	default:
		c.started = true
		_ = c.file.SetWriteDeadline(c.deadline)
	}
	close(c.sent)
}

func (c *channel) oneShot() bool { return c.once }

// Write sends p after the bootstrap. It waits for a program that does not read,
// until the deadline.
func (c *channel) Write(p []byte) (int, error) {
	select {
	case <-c.sent:
	default:
		if err := c.awaitSent(); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	open := c.started
	c.mu.Unlock()
	if !open {
		return 0, fmt.Errorf("posix: the private channel is closed: %w", os.ErrClosed)
	}
	return c.file.Write(p)
}

func (c *channel) awaitSent() error {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-c.sent:
		return nil
	case <-expired:
		return os.ErrDeadlineExceeded
	}
}

// SetWriteDeadline bounds later writes; the zero time removes the bound.
func (c *channel) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	if !c.started {
		return nil
	}
	return c.file.SetWriteDeadline(deadline)
}

// Close ends the channel: the program reads end-of-file.
func (c *channel) Close() error {
	return c.file.Close()
}

// shut closes the pipe whatever state it is in.
func (c *channel) shut() { _ = c.file.Close() }
