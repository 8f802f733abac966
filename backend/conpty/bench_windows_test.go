package conpty_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	library "github.com/UserExistsError/conpty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/conpty/conptytest"
)

// What the driver adds is measured against a bare loop over the library.
type loop struct {
	io.Reader
	write func(p []byte) error
	seen  bytes.Buffer
}

func (l *loop) until(b *testing.B, token []byte) {
	buf := make([]byte, 16<<10)
	for !bytes.Contains(l.seen.Bytes(), token) {
		n, err := l.Read(buf)
		l.seen.Write(buf[:n])
		require.NoError(b, err, "%q", l.seen.Bytes())
		if extra := l.seen.Len() - 1024; extra > 0 {
			l.seen.Next(extra)
		}
	}
	l.seen.Reset()
}

func loops(b *testing.B, name string, args []string, run func(*testing.B, *loop)) {
	line := conptytest.Program(name, args...)
	b.Run("bare", func(b *testing.B) {
		c, err := library.Start(windows.ComposeCommandLine(line), library.ConPtyDimensions(120, 30), library.ConPtyEnv(os.Environ()))
		require.NoError(b, err)
		run(b, &loop{Reader: c, write: func(p []byte) error { _, err := c.Write(p); return err }})
		b.StopTimer()
		b.Cleanup(func() { c.Close() })
	})
	for _, spec := range []backend.Spec{specOf(line...), piped(specOf(line...))} {
		b.Run(fmt.Sprint("driver_piped=", spec.OutputPipe), func(b *testing.B) {
			dev, err := driver().Start(context.Background(), spec)
			require.NoError(b, err)
			run(b, &loop{Reader: dev, write: func(p []byte) error { _, err := dev.Write(context.Background(), p); return err }})
			b.StopTimer()
			b.Cleanup(func() { require.NoError(b, dev.Terminate(context.Background(), time.Second)) })
		})
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	loops(b, "count", nil, func(b *testing.B, l *loop) {
		l.until(b, []byte("ready."))
		for i := range b.N {
			require.NoError(b, l.write([]byte("x\r")))
			l.until(b, fmt.Appendf(nil, "<%d>", i))
		}
	})
}

func BenchmarkOutput(b *testing.B) {
	const size = 5 << 20
	loops(b, "blocks", []string{fmt.Sprint(size)}, func(b *testing.B, l *loop) {
		l.until(b, []byte("ready."))
		b.SetBytes(size)
		for i := range b.N {
			require.NoError(b, l.write([]byte("x\r")))
			l.until(b, fmt.Appendf(nil, "<%d>", i))
		}
	})
}
