//go:build linux || darwin

package posix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

func code(n int) *int { return &n }

// The status is the system's own.
//
// Case: T6, T35
func TestExitStatus(t *testing.T) {
	tests := []struct {
		script string
		want   backend.ExitStatus
	}{
		{"exit 0", backend.ExitStatus{Code: code(0)}},
		{"exit 9", backend.ExitStatus{Code: code(9)}},
		{"exit 259", backend.ExitStatus{Code: code(3)}},
		{"kill -9 $$", backend.ExitStatus{Signal: "SIGKILL"}},
		{"kill -TERM $$", backend.ExitStatus{Signal: "SIGTERM"}},
		{"ulimit -c 0; kill -SEGV $$", backend.ExitStatus{Signal: "SIGSEGV"}},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			assert.Equal(t, tt.want, open(t, shSpec(tt.script)).ends(t))
		})
	}
}

// Everything that was written before the exit is read, every time.
//
// Case: F60 (microsoft/node-pty#72, #85, #140, #674, #726), A27
func TestOutputIsDrainedSoak(t *testing.T) {
	t.Parallel()
	const size = 200000
	spec := shSpec(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf END", size))
	for range samples(1000) {
		s := open(t, spec)
		<-s.eof
		require.Len(t, s.output(), size+len("END"))
		require.True(t, strings.HasSuffix(s.output(), "xEND"))
	}
}

// A reader that comes late still finds what the terminal holds.
func TestLateReader(t *testing.T) {
	dev, err := newDriver(t).Start(context.Background(), shSpec("printf 'hello world'"))
	require.NoError(t, err)
	<-dev.Exited()
	got, err := io.ReadAll(dev)
	require.NoError(t, err)
	assert.Equal(t, "hello world", string(got))
	require.NoError(t, dev.Terminate(context.Background(), time.Second))
}

// A background job that keeps the terminal open holds up neither the exit nor
// the end of the output.
//
// Case: T42
func TestExitWithBackgroundJob(t *testing.T) {
	t.Parallel()
	spec := bashSpec()
	s := open(t, spec)
	s.readsShell(t)
	s.types(t, "sleep 300 & exit 4\n")
	assert.Equal(t, backend.ExitStatus{Code: code(4)}, s.ends(t))
	began := time.Now()
	<-s.eof
	assert.Less(t, time.Since(began), 10*time.Second, "bounded by the drain, not by the job")
}

// The drain is bounded while a background process writes without end.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"flood":   `trap '' HUP; (while :; do echo flood; done) & exit 3`,
		"trickle": `trap '' HUP; (while :; do echo drop; sleep 0.01; done) & exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, specOf("bash", "-m", "-c", script))
			assert.Equal(t, code(3), s.ends(t).Code)
			select {
			case <-s.eof:
			case <-time.After(patience):
				require.FailNow(t, "the output does not end")
			}
		})
	}
}

// A shell that closes every descriptor of its terminal has not ended, and may
// open the terminal again.
func TestTerminalIsReopened(t *testing.T) {
	t.Parallel()
	s := open(t, withChannel(shSpec(`exec </dev/null >/dev/null 2>&1; read go <&3; exec </dev/tty >/dev/tty; echo two; read x; echo "x=$x"`)))
	eventually(t, func() bool {
		s.reading.mu.Lock()
		defer s.reading.mu.Unlock()
		return s.reading.hold > 0
	}, "the host to hold the terminal open")
	_, err := s.Channel().Write([]byte("go\n"))
	require.NoError(t, err)
	s.shows(t, "two")
	s.types(t, "typed\n")
	s.shows(t, "x=typed")
	s.ends(t)
	select {
	case <-s.eof:
	case <-time.After(patience):
		require.FailNow(t, "the output does not end")
	}
}

// With nobody reading, a write ends with its context and tells what was
// accepted; the interrupt still works.
//
// Case: P15, A16
func TestWriteIsBounded(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	s := open(t, shSpec("echo ready; exec sleep 300"))
	s.shows(t, "ready")
	ctx, cancel := context.WithCancelCause(context.Background())
	var n int
	var err error
	written := make(chan struct{})
	go func() {
		defer close(written)
		n, err = s.Write(ctx, []byte(strings.Repeat("0123456789abcde\n", 300000/16)))
	}()
	eventually(t, func() bool {
		pending, err := s.PendingInput()
		return err == nil && pending > 1000
	}, "the queue to fill")
	cancel(cause)
	<-written
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, fmt.Sprintf("accepted %d of 300000", n))
	assert.Greater(t, n, 1000)
	assert.Less(t, n, 100000)

	ctx, cancelTime := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancelTime()
	_, err = s.Write(ctx, []byte(strings.Repeat("x\n", 50000)))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = s.Signal(context.Background(), "SIGINT")
	require.NoError(t, err)
	assert.Equal(t, "SIGINT", s.ends(t).Signal, "platform A17: the key would be stuck behind the input")
}

func TestWriteAfterCancel(t *testing.T) {
	s := open(t, shSpec("stty -echo; echo ready; read x; echo got $x"))
	s.shows(t, "ready")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n, err := s.Write(ctx, []byte("lost\n"))
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, n)
	s.types(t, "kept\n")
	s.shows(t, "got kept")
}

// A slow reader gets every line, across a full queue.
func TestWriteToSlowReader(t *testing.T) {
	t.Parallel()
	s := open(t, shSpec("stty -echo; echo ready; sleep 0.1; head -c 1000000 | cksum; echo done"))
	s.shows(t, "ready")
	s.types(t, strings.Repeat(strings.Repeat("x", 99)+"\n", 10000))
	s.ends(t)
	s.shows(t, "done")
	reference := open(t, shSpec("yes "+strings.Repeat("x", 99)+" | head -c 1000000 | cksum; echo done"))
	reference.ends(t)
	reference.shows(t, "done")
	assert.Contains(t, s.output(), strings.TrimSuffix(reference.output(), "done\r\n"))
}

func TestConcurrentWritesDoNotMix(t *testing.T) {
	t.Parallel()
	s := open(t, shSpec("stty -echo; echo ready; cat"))
	s.shows(t, "ready")
	done := make(chan error)
	const writers, lines = 4, 25
	for w := range writers {
		go func() {
			line := strings.Repeat(string(rune('a'+w)), 200) + "\n"
			var err error
			for range lines {
				_, writeErr := s.Write(context.Background(), []byte(line))
				err = errors.Join(err, writeErr)
			}
			done <- err
		}()
	}
	for range writers {
		require.NoError(t, <-done)
	}
	eventually(t, func() bool { return strings.Count(s.output(), "\n") == 1+writers*lines }, "all lines")
	for _, line := range strings.Fields(s.output())[1:] {
		assert.Equal(t, strings.Repeat(line[:1], 200), line)
	}
}

// A blocked Read ends with the terminal.
//
// Case: P20, P21 (creack/pty#162)
func TestTerminateWakesRead(t *testing.T) {
	dev, err := newDriver(t).Start(context.Background(), specOf("sleep", "300"))
	require.NoError(t, err)
	read := make(chan error)
	go func() {
		_, err := dev.Read(make([]byte, 10))
		read <- err
	}()
	require.NoError(t, dev.Terminate(context.Background(), time.Second))
	require.ErrorIs(t, <-read, io.EOF)
	assert.Equal(t, "SIGHUP", dev.ExitStatus().Signal)
	_, err = dev.Read(make([]byte, 10))
	require.ErrorIs(t, err, io.EOF)
	_, err = dev.Write(context.Background(), []byte("x"))
	require.Error(t, err)
}

func TestEmptyRead(t *testing.T) {
	s := open(t, specOf("cat"))
	n, err := s.Read(nil)
	assert.NoError(t, err)
	assert.Zero(t, n)
}
