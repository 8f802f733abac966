package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/conpty"
)

// consoleHelper is the command by which the program starts itself again: only a
// process of a console can be told what happens in it.
const consoleHelper = "console-helper"

// pressCtrlC is conpty.Options.CtrlC.
var pressCtrlC func(pid int) error

// newDriver makes this system's driver. The configuration allows no other.
func newDriver(log *slog.Logger) (backend.Driver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	return conpty.New(conpty.Options{Helper: []string{self, consoleHelper}, CtrlC: pressCtrlC, Logger: log})
}

// systemCommands are for the program itself.
func systemCommands(a *app) []*cobra.Command {
	return []*cobra.Command{{
		Use:    consoleHelper,
		Short:  "Answer questions of another shellstead about its consoles",
		Hidden: true,
		Args:   noArguments,
		RunE:   func(*cobra.Command, []string) error { return conpty.RunHelper(a.in, a.out) },
	}}
}
