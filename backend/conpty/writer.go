//go:build windows || linux

package conpty

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// writeChunk is how much is written at a time: what is in flight when a write is
// given up is not counted as accepted, although it may still arrive.
const writeChunk = 4 << 10

// writer bounds the writes to a pipe, which themselves wait for the reader
// without end. Concurrent writes do not mix.
type writer struct {
	to   io.Writer
	lock chan struct{} // held while a write is in flight, even one that was given up
}

func newWriter(to io.Writer) *writer {
	return &writer{to: to, lock: make(chan struct{}, 1)}
}

type written struct {
	n   int
	err error
}

// write returns how many bytes of p the pipe accepted before ctx ended.
func (w *writer) write(ctx context.Context, p []byte) (n int, err error) {
	select {
	case w.lock <- struct{}{}:
	case <-ctx.Done():
		return 0, writeEnded(ctx, 0, len(p))
	}
	p = append([]byte(nil), p...) // a write that is given up still reads it
	for n < len(p) {
		if ctx.Err() != nil {
			<-w.lock
			return n, writeEnded(ctx, n, len(p))
		}
		chunk := p[n:min(len(p), n+writeChunk)]
		result := make(chan written, 1)
		go func() {
			n, err := w.to.Write(chunk)
			result <- written{n, err}
		}()
		select {
		case r := <-result:
			n += max(r.n, 0)
			if r.err != nil {
				<-w.lock
				return n, fmt.Errorf("conpty: write to the terminal: %w", r.err)
			}
		case <-ctx.Done():
			go func() {
				<-result
				<-w.lock
			}()
			return n, writeEnded(ctx, n, len(p))
		}
	}
	<-w.lock
	return n, nil
}

func writeEnded(ctx context.Context, n, total int) error {
	return fmt.Errorf("conpty: the terminal accepted %d of %d bytes: %w", n, total, context.Cause(ctx))
}

// channel is the host's end of a program's private pipe.
type channel struct {
	out  *writer
	pipe io.Closer
	used *atomic.Int64 // when it was last written to, in Unix nanoseconds

	mu       sync.Mutex
	deadline time.Time
	cancel   context.CancelCauseFunc // of the write in progress
	closed   bool
	sent     chan struct{} // closed when the bootstrap is through
}

func newChannel(pipe io.WriteCloser, used *atomic.Int64) *channel {
	return &channel{out: newWriter(pipe), pipe: pipe, used: used, sent: make(chan struct{})}
}

// Write sends p after the bootstrap. It waits for a program that does not read,
// until the deadline.
func (c *channel) Write(p []byte) (int, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, fmt.Errorf("conpty: the private channel is closed: %w", os.ErrClosed)
	}
	c.cancel = cancel
	timer := c.arm(cancel)
	c.mu.Unlock()
	defer timer.Stop()
	select {
	case <-c.sent:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	c.used.Store(time.Now().UnixNano())
	return c.out.write(ctx, p)
}

// arm has cancel called at the deadline. The caller holds mu.
func (c *channel) arm(cancel context.CancelCauseFunc) *time.Timer {
	wait := time.Until(c.deadline)
	if c.deadline.IsZero() {
		wait = 1<<63 - 1
	}
	return time.AfterFunc(wait, func() { cancel(os.ErrDeadlineExceeded) })
}

// SetWriteDeadline bounds the write in progress and later ones; the zero time
// removes the bound of later ones.
func (c *channel) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	if c.cancel != nil && !deadline.IsZero() {
		c.arm(c.cancel)
	}
	return nil
}

// Close ends the channel: the program reads end-of-file.
func (c *channel) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.pipe.Close()
}
