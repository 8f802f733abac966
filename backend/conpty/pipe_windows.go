package conpty

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// pipeEnd is the host's end of an anonymous pipe. Its handle is closed when the
// last read or write of it has returned: Windows gives the number of a closed
// handle to the next one, and a call that is late would hit a stranger.
type pipeEnd struct {
	mu     sync.Mutex
	handle windows.Handle
	users  int
	closed bool
}

// pipeSize is what a pipe holds for a program that is slower than the host, and
// the other way round.
const pipeSize = 64 << 10

// newPipe makes a pipe whose ends are not inherited.
func newPipe() (read, write windows.Handle, err error) {
	if err := windows.CreatePipe(&read, &write, nil, pipeSize); err != nil {
		return 0, 0, fmt.Errorf("conpty: create a pipe: %w", err)
	}
	return read, write, nil
}

func (p *pipeEnd) use() (windows.Handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, os.ErrClosed
	}
	p.users++
	return p.handle, nil
}

func (p *pipeEnd) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.closed && p.users == 0 {
		_ = windows.CloseHandle(p.handle)
	}
}

// Read reads what is there, and waits for it. The end of the pipe is io.EOF.
func (p *pipeEnd) Read(b []byte) (int, error) {
	h, err := p.use()
	if err != nil {
		return 0, err
	}
	defer p.leave()
	var n uint32
	for n == 0 { // a write of no bytes ends a read
		if err := windows.ReadFile(h, b, &n, nil); err != nil {
			if err == windows.ERROR_BROKEN_PIPE {
				err = io.EOF
			}
			return int(n), err
		}
	}
	return int(n), nil
}

// Write waits until all of b is in the pipe.
func (p *pipeEnd) Write(b []byte) (int, error) {
	h, err := p.use()
	if err != nil {
		return 0, err
	}
	defer p.leave()
	var n uint32
	err = windows.WriteFile(h, b, &n, nil)
	return int(n), err
}

// Close ends a read or write in progress as well, where the system can.
func (p *pipeEnd) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.users == 0 {
		return windows.CloseHandle(p.handle)
	}
	_ = windows.CancelIoEx(p.handle, nil)
	return nil
}

// closeHandles closes those that are open.
func closeHandles(handles ...windows.Handle) {
	for _, h := range handles {
		if h != 0 {
			_ = windows.CloseHandle(h)
		}
	}
}
