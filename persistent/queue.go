package persistent

import (
	"context"
	"slices"
	"sync"
)

// queue lets one caller in at a time, in the order in which they came.
type queue struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan struct{}
}

// enter returns nil once it is the caller's turn. When ctx ends first the caller
// leaves the queue at once and gets the cause.
func (q *queue) enter(ctx context.Context) error {
	return q.line(ctx, func() {})
}

// line is enter for a caller that has to know when it has its place.
func (q *queue) line(ctx context.Context, placed func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		placed()
		return nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	placed()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 {
		q.leave() // the turn came at the same moment: hand it on
	}
	return context.Cause(ctx)
}

// leave gives the turn to the next caller.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.busy = false
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}
