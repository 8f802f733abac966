//go:build windows || linux

package conpty

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pumpChunk is one read of a pipe.
	pumpChunk = 16 << 10

	// pumpLimit is how far a pump reads ahead of its reader. Beyond it the writer
	// waits, as at a full pipe.
	pumpLimit = 64 << 10
)

// pump reads a pipe ahead of its reader, because a read of an anonymous pipe can
// be neither bounded nor looked into while it waits.
type pump struct {
	paint   *paint       // nil: the bytes are passed on as they are
	printed atomic.Int64 // when something last came, in Unix nanoseconds

	mu    sync.Mutex
	data  []byte        // not read yet
	taken int           // of what was read, not processed yet
	ended bool          // nothing more comes
	loose bool          // what does not fit is dropped: nobody may wait for the reader any more
	more  chan struct{} // a token when data or ended changed
	room  chan struct{} // a token when data shrank
	done  chan struct{} // closed when run has returned
}

func newPump(p *paint) *pump {
	return &pump{paint: p, more: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
}

// run reads until read reports an error.
func (p *pump) run(read func([]byte) (int, error)) {
	defer close(p.done)
	buf := make([]byte, pumpChunk)
	var painted []byte
	for {
		n, err := read(buf)
		p.printed.Store(time.Now().UnixNano())
		chunk := buf[:n]
		if p.paint != nil {
			painted = p.paint.filter(painted[:0], chunk)
			if err != nil {
				painted = p.paint.flush(painted)
			}
			chunk = painted
		}
		p.put(chunk)
		if err != nil {
			p.end()
			return
		}
	}
}

func (p *pump) put(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	for {
		p.mu.Lock()
		if p.ended || p.loose && len(p.data) >= pumpLimit {
			p.mu.Unlock()
			return
		}
		if len(p.data) < pumpLimit {
			p.data = append(p.data, chunk...)
			p.mu.Unlock()
			token(p.more)
			return
		}
		p.mu.Unlock()
		<-p.room
	}
}

// end reports the end of the data: what has come is still given out.
func (p *pump) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	token(p.more)
	token(p.room)
}

// loosen lets the writer go on although nobody reads.
func (p *pump) loosen() {
	p.mu.Lock()
	p.loose = true
	p.mu.Unlock()
	token(p.room)
}

// take gives out what is there.
func (p *pump) take(dst []byte) (n int, ended bool) {
	p.mu.Lock()
	n = copy(dst, p.data)
	p.taken = n
	if n == len(p.data) {
		p.data = p.data[:0]
	} else {
		p.data = p.data[:copy(p.data, p.data[n:])]
	}
	ended = p.ended && len(p.data) == 0 && n == 0
	p.mu.Unlock()
	if n > 0 {
		token(p.room)
	}
	return n, ended
}

func (p *pump) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.data) + p.taken
}

// consumed says that what was taken has been processed.
func (p *pump) consumed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = 0
}

// finished waits until run has returned.
func (p *pump) finished(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
