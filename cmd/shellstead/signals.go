package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruption is the cause of a context that a signal ended.
type interruption struct{ sig syscall.Signal }

func (i interruption) Error() string { return "interrupted by " + signalName(i.sig) }

// code is the exit code that the signal leads to.
func (i interruption) code() int { return exitSignal + int(i.sig) }

// catchSignals returns a context that ends with an interruption at the first
// SIGINT, SIGTERM or SIGHUP. A second one ends the process at once; what it
// leaves open is cleaned up as after a crash.
//
// A write to a closed pipe becomes an error instead of the program's death, so
// that the shells are closed in that case too.
func catchSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup means what it says
		caught = append(caught, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, caught...)
	// Caught, not ignored: what is ignored would be ignored by the shells too.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)

	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case sig := <-signals:
				why := interruption{sig.(syscall.Signal)}
				if !first {
					os.Exit(why.code())
				}
				cancel(why)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		cancel(nil)
	}
}
