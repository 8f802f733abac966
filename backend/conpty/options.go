package conpty

import "log/slog"

// Options configure a Driver. The zero value is ready for use.
type Options struct {
	// Helper is the command line, program first, of a program that calls
	// [RunHelper]: usually the host's own file with an argument that its main
	// function knows. One such process serves all terminals of the driver; it is
	// started at its first use and ends with the host. Empty: terminal modes,
	// waits for input and unread input are unknown, Ctrl-C is typed as a key,
	// which a program in raw mode may take for one, and backend.Spec.Remove is
	// not heeded.
	Helper []string

	// CtrlC types the key Ctrl-C into the console of a process. Nil writes the
	// byte 3 to the terminal, which is right on every Windows.
	CtrlC func(pid int) error

	// Logger receives what goes wrong where no caller is left to be told. Nil
	// means slog.Default.
	Logger *slog.Logger
}
