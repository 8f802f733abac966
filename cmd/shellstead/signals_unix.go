//go:build unix

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func signalName(sig syscall.Signal) string { return unix.SignalName(sig) }

// signalNumber returns the number of a signal's name, 0 when there is none.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }
