package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
	"github.com/shellstead/shellstead/terminals/screen"
)

func newSessions(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "sessions",
		Short: "Show the logged sessions",
		Args:  noArguments,
	}
	subcommand := func(use, short string, arguments cobra.PositionalArgs, run func(logs, []string) error) {
		l := logs{app: a}
		var log string
		cmd := &cobra.Command{Use: use, Short: short, Args: arguments, RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.open(log); err != nil {
				return err
			}
			ctx, stop := catchSignals(context.Background())
			defer stop()
			l.ctx = ctx
			err := run(l, args)
			var signal interruption
			if errors.As(context.Cause(ctx), &signal) {
				err = &exitError{code: signal.code()}
			}
			return errors.Join(err, l.Close())
		}}
		a.configFlags(cmd)
		logFlag(cmd, &log)
		cmd.Flags().BoolVar(&l.json, "json", false, "print JSON, one object a line")
		if root.RunE == nil { // the first one is meant where none is named
			root.RunE = cmd.RunE
			root.Flags().AddFlagSet(cmd.Flags())
		}
		root.AddCommand(cmd)
	}
	subcommand("list", "List the logged sessions, the oldest first", noArguments, func(l logs, _ []string) error { return l.list() })
	subcommand("show ID", "Print the log of a session", oneID, func(l logs, args []string) error { return l.show(args[0]) })
	subcommand("path ID", "Print where the log of a session lies", oneID, func(l logs, args []string) error { return l.path(args[0]) })
	return root
}

func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("%s takes the id of one session; shellstead sessions list has them", cmd.CommandPath())
	}
	return nil
}

// logs are the stored sessions.
type logs struct {
	*app
	session.Persistence
	cfg  *config.Config
	ctx  context.Context
	json bool
}

func (l *logs) open(log string) error {
	var err error
	if l.cfg, err = l.load(logSetting(log)...); err != nil {
		return err
	}
	kind := config.JSONLLog
	if configured := l.cfg.Session.Persistence; configured != nil {
		kind = *configured
	}
	if kind == config.NoLog {
		return usageError("sessions are not logged (session.persistence is none); use --log jsonl or sqlite to see stored ones")
	}
	l.Persistence, err = openLogs(l.cfg, kind)
	return err
}

// unreadable says on stderr what could not be read, and goes on.
func (l *logs) unreadable(err error) {
	fmt.Fprintln(l.err, "shellstead: "+strings.Join(strings.Fields(err.Error()), " "))
}

// partial ends a subcommand that has said what it could not read.
func partial(whole bool) error {
	if whole {
		return nil
	}
	return &exitError{code: exitFailure}
}

func (l *logs) list() error {
	whole := true
	var headers []session.Header
	for h, err := range l.List(l.ctx) {
		if err != nil {
			l.unreadable(err)
			whole = false
			continue
		}
		headers = append(headers, h)
	}
	slices.SortFunc(headers, func(a, b session.Header) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	table := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	for _, h := range headers {
		if l.json {
			if err := writeJSON(l.out, h, ""); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s%s\n", plainText(h.ID), h.Created.Format(time.RFC3339), plainText(h.Cwd), origin(h))
	}
	return errors.Join(table.Flush(), partial(whole))
}

// origin says what a session was forked from.
func origin(h session.Header) string {
	if h.Parent == "" {
		return ""
	}
	return fmt.Sprintf("\tfrom %s, event %d", plainText(h.Parent), h.ParentSeq)
}

func (l *logs) show(id string) error {
	whole, found := true, false
	for event, err := range l.Events(l.ctx, id) {
		switch {
		case err != nil && !found && !errors.Is(err, session.ErrCorrupt):
			return storedError(err)
		case err != nil:
			l.unreadable(err)
			whole = false
			continue
		}
		found = true
		text := append(bytes.Clone(event.JSON), '\n')
		if !l.json {
			if text, err = readable(event); err != nil {
				l.unreadable(err)
				whole = false
				continue
			}
		}
		if _, err := l.out.Write(text); err != nil {
			return &outputError{err}
		}
	}
	return partial(whole)
}

// readable is an event for a person.
func readable(event session.Event) ([]byte, error) {
	var b bytes.Buffer
	title := func(format string, args ...any) {
		fmt.Fprintf(&b, "── %s %s\n", event.Time.Local().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
	switch event.Type {
	case session.TypeStart:
		start, err := event.Start()
		if err != nil {
			return nil, err
		}
		title("session %s of %s in %s%s", plainText(start.ID), start.Created.Local().Format(time.DateOnly), plainText(start.Cwd),
			strings.ReplaceAll(origin(start.Header), "\t", ", "))
	case session.TypeToolCall:
		var call session.ToolCall
		if err := event.Decode(&call); err != nil {
			return nil, err
		}
		title("%s", plainText(call.Name))
		arguments := string(call.Arguments)
		var command struct {
			Command string `json:"command"`
		}
		if json.Unmarshal(call.Arguments, &command) == nil && command.Command != "" {
			arguments = command.Command
		}
		b.WriteString(wholeLines(screen.Text([]byte(arguments))))
	case session.TypeToolResult:
		var res session.ToolResult
		if err := event.Decode(&res); err != nil {
			return nil, err
		}
		kind := "result"
		if res.IsError {
			kind = "error"
		}
		title("%s after %d ms", kind, res.DurationMs)
		b.WriteString(wholeLines(screen.Text([]byte(res.Text))))
	case session.TypeSandboxMode:
		var mode session.SandboxMode
		if err := event.Decode(&mode); err != nil {
			return nil, err
		}
		title("sandbox mode %s", plainText(mode.Mode))
	case session.TypeEnd:
		title("end of the session")
	default:
		title("%s", plainText(event.Type))
	}
	return b.Bytes(), nil
}

// plainText is text on one line, without what only a terminal understands.
func plainText(text string) string {
	return strings.Join(strings.Fields(screen.Text([]byte(text))), " ")
}

func (l *logs) path(id string) error {
	next, stop := iter.Pull2(l.Events(l.ctx, id))
	defer stop()
	event, err, _ := next()
	if err != nil {
		return storedError(err)
	}
	start, err := event.Start()
	if err != nil {
		return storedError(err)
	}
	for _, compress := range []bool{false, true} { // a stored log keeps the form that it has
		files, err := jsonl.New(l.cfg.Session.Root, jsonl.Options{Compress: compress})
		if err != nil {
			return err
		}
		location, ok := files.Locate(start.Header)
		if _, isFile := l.Locate(start.Header); !ok || !isFile {
			break
		}
		if _, err := os.Stat(location.Path); err != nil {
			continue
		}
		if l.json {
			return writeJSON(l.out, struct {
				Kind string `json:"kind"`
				Path string `json:"path"`
			}{location.Kind, location.Path}, "")
		}
		_, err = io.WriteString(l.out, location.Path+"\n")
		return err
	}
	return usageError("session %q has no file of its own; shellstead sessions show prints it", id)
}
