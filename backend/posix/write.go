//go:build linux || darwin

package posix

import (
	"context"
	"fmt"
)

// Write types p. See backend.Device. Concurrent writes do not mix.
func (d *device) Write(ctx context.Context, p []byte) (n int, err error) {
	if ctx.Err() != nil {
		return 0, writeEnded(ctx, 0, len(p))
	}
	select {
	case d.writing <- struct{}{}:
		defer func() { <-d.writing }()
	case <-ctx.Done():
		return 0, writeEnded(ctx, 0, len(p))
	}

	master := d.term.master
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = master.SetWriteDeadline(past)
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // else its deadline could hit the next write
			_ = master.SetWriteDeadline(noDeadline)
		}
	}()

	for n < len(p) {
		chunk := p[n:min(len(p), n+writeChunk)]
		written, err := master.Write(chunk)
		n += max(written, 0)
		if err != nil {
			if ctx.Err() != nil {
				return n, writeEnded(ctx, n, len(p))
			}
			return n, fmt.Errorf("posix: write to the terminal: %w", plain(err))
		}
	}
	return n, nil
}

func writeEnded(ctx context.Context, n, total int) error {
	return fmt.Errorf("posix: the terminal accepted %d of %d bytes: %w", n, total, context.Cause(ctx))
}
