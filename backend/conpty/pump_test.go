//go:build windows || linux

package conpty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPumpGivesEverythingInOrder(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	p := newPump(nil)
	go p.run(bytes.NewReader(want).Read)
	var got []byte
	for buf := make([]byte, 1000); ; {
		n, ended := p.take(buf)
		got = append(got, buf[:n]...)
		if ended {
			break
		}
		if n == 0 {
			<-p.more
		}
	}
	assert.True(t, bytes.Equal(want, got))
	assert.Zero(t, p.pending())
}

// A pump reads a bounded part ahead, and goes on without a reader once it is
// loose.
func TestPumpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPump(nil)
		go p.run(strings.NewReader(strings.Repeat("x", 1<<20)).Read)
		synctest.Wait()
		assert.LessOrEqual(t, p.pending(), pumpLimit+pumpChunk)
		assert.False(t, p.finished(time.Second))
		p.loosen()
		assert.True(t, p.finished(time.Second))
		assert.LessOrEqual(t, p.pending(), pumpLimit+pumpChunk)
	})
}

func TestPumpFiltersAndFlushes(t *testing.T) {
	p := newPump(&paint{})
	go p.run(io.MultiReader(strings.NewReader("\x1b[2J\x1b]0;t"), strings.NewReader("\aab\x1b[")).Read)
	require.True(t, p.finished(time.Minute))
	buf := make([]byte, 10)
	n, ended := p.take(buf)
	assert.Equal(t, "ab\x1b[", string(buf[:n]))
	assert.Equal(t, n, p.pending(), "until it was processed")
	p.consumed()
	assert.Zero(t, p.pending())
	assert.False(t, ended)
	_, ended = p.take(buf)
	assert.True(t, ended)
}

// full takes so many bytes, then none until it is closed.
type full struct {
	room   int
	closed chan struct{}
}

func (f *full) Write(p []byte) (int, error) {
	if f.room >= len(p) {
		f.room -= len(p)
		return len(p), nil
	}
	<-f.closed
	return 0, os.ErrClosed
}

func (f *full) Close() error { close(f.closed); return nil }

func TestWriterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{room: 3 * writeChunk, closed: make(chan struct{})}
		w := newWriter(f)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, cause)
		defer cancel()
		n, err := w.write(ctx, make([]byte, 5*writeChunk))
		assert.Equal(t, 3*writeChunk, n)
		assert.ErrorIs(t, err, cause)
		// What was given up is in flight: nothing may overtake it.
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Second, cause)
		defer cancel()
		n, err = w.write(ctx, []byte("x"))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, cause)
		_ = f.Close()
	})
}

func TestChannelBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{closed: make(chan struct{})}
		c := newChannel(f, new(atomic.Int64))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		_, err := c.Write([]byte("before the bootstrap is through"))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		close(c.sent)
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Second)
			_ = c.SetWriteDeadline(time.Now())
		}()
		_, err = c.Write([]byte("nobody reads"))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		_, err = c.Write([]byte("x"))
		assert.ErrorIs(t, err, os.ErrClosed)
	})
}
