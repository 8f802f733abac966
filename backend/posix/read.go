//go:build linux || darwin

package posix

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainQuiet is the silence after which an exited program's output counts as
	// complete: the kernel hands written bytes on in the background, within a
	// few milliseconds even on a busy machine.
	drainQuiet = 50 * time.Millisecond

	// drainTotal bounds the drain while background processes go on writing.
	drainTotal = time.Second

	// drainBytes is more than a terminal holds of unread output. A reader that
	// was itself slow still gets that much after drainTotal.
	drainBytes = 128 << 10

	// drainReady takes what lies ready and waits for nothing; a deadline that has
	// passed would not even do that.
	drainReady = time.Millisecond

	// exitSettle is how long a hang-up is taken for the beginning of an exit: a
	// program's descriptors are closed just before its end is reported.
	exitSettle = 50 * time.Millisecond
)

// drain is the state of the reading side.
type drain struct {
	mu    sync.Mutex
	ended bool      // the program has exited
	since time.Time // of the first read that noticed it
	late  int       // bytes read after drainTotal
	eof   bool      // nothing more comes
	hold  int       // a descriptor of the program's end + 1, see hangUp
}

// programEnded wakes a blocked Read, which from now on drains. The deadline is
// set with the lock held, as next does: it can only meet a read that began when
// the program still lived.
func (r *drain) programEnded(master *os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.hold > 0 {
		_ = unix.Close(r.hold - 1)
		r.hold = 0
	}
	_ = master.SetReadDeadline(past)
}

// hand takes output from the terminal. It says so before the bytes leave the
// kernel, so that at no moment they are neither there nor in hand.
type hand struct {
	holds atomic.Int64 // bytes; while a read is under way as many as it may take

	// The reader's own, kept so that a read allocates nothing.
	conn syscall.RawConn
	take func(fd uintptr) bool
	p    []byte
	n    int
	err  error
}

func (h *hand) read(master *os.File, p []byte) (int, error) {
	if h.conn == nil {
		var err error
		if h.conn, err = master.SyscallConn(); err != nil {
			return 0, err
		}
		h.take = h.try
	}
	h.p = p
	h.holds.Store(0)
	if err := h.conn.Read(h.take); err != nil {
		return 0, err
	}
	if h.n == 0 && h.err == nil {
		return 0, io.EOF
	}
	return h.n, h.err
}

// try reads once without blocking. False means that there is nothing yet.
func (h *hand) try(fd uintptr) bool {
	h.holds.Store(int64(len(h.p)))
	for {
		h.n, h.err = unix.Read(int(fd), h.p)
		if h.err != unix.EINTR {
			break
		}
	}
	h.n = max(h.n, 0)
	h.holds.Store(int64(h.n))
	if h.n > 0 {
		return true
	}
	return h.err != unix.EAGAIN
}

// Read returns the output of the terminal. See backend.Device.
func (d *device) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		draining, eof := d.reading.next(d.term.master)
		if eof {
			return 0, io.EOF
		}
		n, err := d.hand.read(d.term.master, p)
		if n > 0 {
			d.reading.took(n)
			return n, nil
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if draining {
				return 0, d.reading.finish() // quiet
			}
			// The program has just ended; go on draining.
		case errors.Is(err, syscall.EIO), errors.Is(err, io.EOF):
			if !d.hangUp() {
				return 0, d.reading.finish()
			}
		default: // closed by Terminate
			return 0, d.reading.finish()
		}
	}
}

// next prepares one read: it blocks while the program lives, and is bounded
// once it has ended.
func (r *drain) next(master *os.File) (draining, eof bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.eof {
		return false, true
	}
	if !r.ended {
		return false, false
	}
	now := time.Now()
	if r.since.IsZero() {
		r.since = now
	}
	wait := drainQuiet
	if now.Sub(r.since) >= drainTotal {
		if r.late >= drainBytes {
			r.eof = true
			return false, true
		}
		wait = drainReady
	}
	if err := master.SetReadDeadline(now.Add(wait)); err != nil {
		r.eof = true // closed by Terminate
	}
	return true, r.eof
}

func (r *drain) took(n int) {
	r.mu.Lock()
	if !r.since.IsZero() && time.Since(r.since) >= drainTotal {
		r.late += n
	}
	r.mu.Unlock()
}

func (r *drain) finish() error {
	r.mu.Lock()
	r.eof = true
	r.mu.Unlock()
	return io.EOF
}

// hangUp handles that nobody has the program's end open. That is the end of the
// output when the program has ended. A program that lives on has redirected all
// of its descriptors and may open the terminal again (exec >/dev/tty), so the
// host holds the end open in its place and true is returned.
func (d *device) hangUp() bool {
	settle := time.NewTimer(exitSettle)
	defer settle.Stop()
	select {
	case <-d.exited:
		return false
	case <-d.isClosed:
		return false
	case <-settle.C:
	}
	r := &d.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.hold > 0 {
		return false
	}
	fd, err := d.term.openSlave(unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	r.hold = fd + 1
	return true
}
