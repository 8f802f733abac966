//go:build !windows

package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/posix"
)

// newDriver makes this system's driver, which refuses a system that it does not
// know by name. The configuration allows no other.
func newDriver(log *slog.Logger) (backend.Driver, error) {
	return posix.New(posix.Options{Logger: log})
}

// systemCommands are none here.
func systemCommands(*app) []*cobra.Command { return nil }
