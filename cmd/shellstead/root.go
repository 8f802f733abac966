package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/config"
)

// Exit codes besides those of the commands that are run.
const (
	exitFailure = 1   // something went wrong that is nobody's request
	exitUsage   = 2   // the command line or the configuration has to change
	exitTimeout = 124 // as timeout(1)
	exitWaiting = 125 // the command was left waiting for input
	exitSignal  = 128 // plus the signal's number
)

// exitError ends the program with a code. Without err nothing more is said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// streams are the program's standard streams.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// Main runs the program and returns its exit code.
func Main(args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	var exit *exitError
	var refused *config.Error
	switch {
	case errors.As(err, &exit):
	case errors.As(err, &refused):
		exit = &exitError{exitUsage, err}
	default:
		exit = &exitError{exitFailure, err}
	}
	if exit.err != nil {
		// One line, whatever a cause may hold.
		fmt.Fprintln(std.err, "shellstead: "+strings.Join(strings.Fields(exit.err.Error()), " "))
	}
	return exit.code
}

// app is what all subcommands share.
type app struct {
	streams
	level string // of the log

	// The configuration's sources.
	file string
	set  []string
}

func newRoot(std streams) *cobra.Command {
	a := &app{streams: std}
	root := &cobra.Command{
		Use:   "shellstead",
		Short: "Run commands in a live shell",
		Long: "shellstead runs commands in a shell that lives on between them: for people on the\n" +
			"command line, for programs by JSON lines, for models as an MCP server.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("name a command: %s; shellstead help explains them", strings.Join(commandNames(cmd), ", "))
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return usageError("unknown command %q; did you mean %s?", args[0], near[0])
			}
			return usageError("unknown command %q; use one of %s", args[0], strings.Join(commandNames(cmd), ", "))
		},
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%s; see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.level, "log-level", "warn", "what is logged on stderr: debug, info, warn or error")
	root.AddCommand(newRun(a), newMCP(a), newTools(a), newSessions(a), newDoctor(a), newConfig(a), newVersion(a))
	root.AddCommand(systemCommands(a)...)
	return root
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			names = append(names, cmd.Name())
		}
	}
	return names
}

// noArguments refuses positional arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("%s takes no arguments, got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// configFlags adds the flags that say where the configuration comes from.
func (a *app) configFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.file, "config", "", "read the configuration from the YAML `FILE`")
	// An array, not a slice: a value may hold commas.
	cmd.Flags().StringArrayVar(&a.set, "set", nil, "set one key, as in --set tools.bash.clip=middle; may be repeated (`PATH=VALUE`)")
}

// load loads the configuration. A flag that was given on the command line is a
// setting of its own.
func (a *app) load(flags ...config.Flag) (*config.Config, error) {
	return config.Load(config.Options{
		File:     a.file,
		Environ:  os.Environ(),
		Set:      a.set,
		Flags:    flags,
		Dialects: append(dialectNames(), plain.Name()),
		Found:    found,
	})
}

// logger logs to stderr: stdout is for results alone.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	switch a.level {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(a.level)); err != nil {
			return nil, err
		}
	default:
		return nil, usageError("--log-level: got %q, want debug, info, warn or error", a.level)
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})), nil
}
