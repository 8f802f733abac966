package posix

import (
	"os/signal"
	"syscall"
)

// ignoredSignals asks the os/signal package: it knows of SIGHUP and SIGINT that
// were ignored at the start and of whatever the program ignored since.
func ignoredSignals() []syscall.Signal {
	var ignored []syscall.Signal
	for _, sig := range inheritedSignals {
		if signal.Ignored(sig) {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
