package posix

import "syscall"

// ignoredSignals asks the kernel: the os/signal package knows only of some of
// the signals that were ignored when the process started.
func ignoredSignals() []syscall.Signal {
	var buf [4096]byte
	data, err := readProc("/proc/thread-self/status", buf[:])
	if err != nil {
		return nil
	}
	mask := parseIgnored(data)
	var ignored []syscall.Signal
	for _, sig := range inheritedSignals {
		if mask&(1<<(sig-1)) != 0 {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
