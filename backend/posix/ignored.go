//go:build linux || darwin

package posix

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// inheritedSignals are the signals whose being ignored would change what a
// program on a terminal does: ^C, ^Z and hang-ups would not reach it, and
// "yes | head" would print an error.
var inheritedSignals = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE,
	syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGTERM,
}

// unignoring serializes the starts that change signal dispositions.
var unignoring sync.Mutex

// startUnignored starts a program with the default action for every signal of
// inheritedSignals. A signal that the host ignores (under nohup, in the
// background of a plain sh, below Python) stays ignored through fork and exec,
// and the program cannot change that for its children; one that the host
// catches is reset by exec. So the host catches, and drops, the signals that it
// ignores for the moment of the fork.
func startUnignored(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if len(ignoredSignals()) == 0 {
		return os.StartProcess(path, argv, attr)
	}
	unignoring.Lock()
	defer unignoring.Unlock()
	ignored := ignoredSignals()
	dropped := make(chan os.Signal, len(ignored)) // nobody reads it
	for _, sig := range ignored {
		signal.Notify(dropped, sig)
	}
	defer func() {
		signal.Stop(dropped)
		for _, sig := range ignored {
			signal.Ignore(sig)
		}
	}()
	return os.StartProcess(path, argv, attr)
}
