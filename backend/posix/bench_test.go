//go:build linux

package posix

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

func BenchmarkShellWait(b *testing.B) {
	for _, shell := range []struct {
		name string
		spec backend.Spec
	}{
		{"read", shSpec("read x")},
		{"readline", bashSpec()},
	} {
		b.Run(shell.name, func(b *testing.B) {
			s := open(b, shell.spec)
			s.readsTerminal(b)
			for b.Loop() {
				if w, err := s.ShellWait(); err != nil || w.State != backend.WaitReading {
					b.Fatal(w, err)
				}
			}
		})
	}
}

func BenchmarkInputWait(b *testing.B) {
	s := open(b, bashSpec())
	s.readsTerminal(b)
	s.types(b, "sleep 1000\n")
	eventually(b, func() bool { w, err := s.InputWait(); return err == nil && w.State == backend.WaitBusy }, "sleep")
	for b.Loop() {
		if w, err := s.InputWait(); err != nil || w.State != backend.WaitBusy {
			b.Fatal(w, err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := open(b, bashSpec())
		for {
			if w, err := s.ShellWait(); err == nil && w.State == backend.WaitReading {
				break
			}
		}
		b.StopTimer()
		require.NoError(b, s.Terminate(context.Background(), time.Second))
		b.StartTimer()
	}
}

func BenchmarkTerminate(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := open(b, bashSpec())
		s.readsTerminal(b)
		b.StartTimer()
		require.NoError(b, s.Terminate(context.Background(), time.Second))
	}
}
