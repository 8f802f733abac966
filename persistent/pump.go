package persistent

import (
	"sync"
	"time"
)

// stalledReader is how long the end of a call waits for a reader that is busy.
// One that writes to a file or a socket is done long before; one that waits for
// a person must not hold the call.
const stalledReader = 100 * time.Millisecond

// pump hands a command's output to its reader. While the command runs, the
// terminal waits for a reader that is busy; once the command is being ended, a
// reader that does not go on is left behind.
type pump struct {
	deliver   func([]byte)
	chunks    chan []byte
	delivered chan struct{}
	hurried   chan struct{} // the command is being ended
	stopped   chan struct{}
	ended     chan struct{} // nothing is delivered any more
	hurryOnce sync.Once
	stopOnce  sync.Once
	buf       []byte
}

// newPump returns nil, a pump that drops everything, when nobody reads.
func newPump(deliver func([]byte)) *pump {
	if deliver == nil {
		return nil
	}
	p := &pump{
		deliver:   deliver,
		chunks:    make(chan []byte),
		delivered: make(chan struct{}),
		hurried:   make(chan struct{}),
		stopped:   make(chan struct{}),
		ended:     make(chan struct{}),
	}
	go p.run()
	return p
}

func (p *pump) run() {
	defer close(p.ended)
	for {
		select {
		case chunk := <-p.chunks:
			p.deliver(chunk)
		case <-p.stopped:
			return
		}
		select {
		case p.delivered <- struct{}{}:
		case <-p.stopped:
			return
		}
	}
}

// send returns when the reader is done with data, or no longer matters. It is
// called by one goroutine at a time.
func (p *pump) send(data []byte) {
	if p == nil {
		return
	}
	select {
	case <-p.stopped:
		return
	default:
	}
	// A reader that is left behind goes on reading its own copy.
	p.buf = append(p.buf[:0], data...)
	select {
	case p.chunks <- p.buf: // the goroutine is always there to take it
	case <-p.stopped:
		return
	}
	select {
	case <-p.delivered:
		return
	case <-p.stopped:
		return
	case <-p.hurried:
	}
	timer := time.NewTimer(stalledReader)
	defer timer.Stop()
	select {
	case <-p.delivered:
	case <-p.stopped:
	case <-timer.C:
		p.stopOnce.Do(func() { close(p.stopped) })
	}
}

// hurry says that the command is being ended.
func (p *pump) hurry() {
	if p != nil {
		p.hurryOnce.Do(func() { close(p.hurried) })
	}
}

// stop ends the deliveries: none begins after it has returned, and the last one
// has ended unless the reader is stalled.
func (p *pump) stop() {
	if p == nil {
		return
	}
	p.stopOnce.Do(func() { close(p.stopped) })
	timer := time.NewTimer(stalledReader)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
}
