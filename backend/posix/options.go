package posix

import "log/slog"

// Options configure a Driver. The zero value is ready for use.
type Options struct {
	// Logger receives what goes wrong where no caller is left to be told, for
	// instance a supervisor that cannot be started. Nil means slog.Default.
	Logger *slog.Logger
}
