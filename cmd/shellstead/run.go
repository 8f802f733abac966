package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/hooks"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

type runOptions struct {
	dialect string
	cwd     string
	text    bool
	json    bool
	jsonl   bool
	answers []string
	session sessionOptions
}

// runFlags are the flags of run that set one key of the tool's configuration.
var runFlags = []struct{ name, value, key, usage string }{
	{"timeout", "MS", "timeoutMs", "end a command that runs longer than `MS` milliseconds"},
	{"on-timeout", "ACTION", "onTimeout", "what a timeout does: `reset` the shell, or interrupt the program and keep the shell"},
	{"clip", "PART", "clip", "what of long output a result keeps: its `head`, or both ends with middle"},
	{"max-output", "CHARS", "maxOutputChars", "keep at most `CHARS` characters of output in a result"},
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] COMMAND...",
		Short: "Run commands one after another in one shell",
		Long: "Run each COMMAND in one shell that lives on between them, and exit with the last\n" +
			"one's exit code: 124 after a timeout, 125 when it was left waiting for input,\n" +
			"128+n when signal n ended it, 130 when shellstead was interrupted.\n\n" +
			"Output goes to stdout as it comes, what shellstead has to say to stderr. Put --\n" +
			"before a COMMAND that begins with a dash.\n\n" +
			"A program that waits for input gets the next --answer; started on a terminal,\n" +
			"run lets you type it. Otherwise the next COMMAND interrupts it.",
		Example: "  shellstead run 'cd /tmp && x=5' 'echo \"$x in $PWD\"'\n" +
			"  echo '{\"command\": \"make test\"}' | shellstead run --jsonl",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, commands []string) error {
			return a.run(cmd, o, commands)
		},
	}
	a.configFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.dialect, "dialect", platformTool(), "the shell's language: `bash` or pwsh")
	flags.StringVar(&o.cwd, "cwd", "", "start the shell in the folder `DIR`")
	for _, f := range runFlags {
		flags.String(f.name, "", f.usage)
	}
	flags.BoolVar(&o.text, "text", false, "print what the tool would return to a model")
	flags.BoolVar(&o.json, "json", false, "print one JSON object for each command")
	flags.BoolVar(&o.jsonl, "jsonl", false, `read commands from stdin, one {"command": "..."} a line, and answer each with a line`)
	o.session.flags(cmd)
	// An array, not a slice: an answer may hold commas.
	flags.StringArrayVar(&o.answers, "answer", nil, "type `TEXT` and Enter for a program that waits for input; may be repeated, in order")
	return cmd
}

func (a *app) run(cmd *cobra.Command, o runOptions, commands []string) error {
	if err := errors.Join(o.check(commands), o.session.check()); err != nil {
		return err
	}
	cfg, err := a.load(append(keyFlags(cmd.Flags(), "tools."+o.dialect), o.session.setting()...)...)
	if err != nil {
		return err
	}
	cwd, err := workingDir(o.cwd)
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	h, err := newHost(cfg, log, true)
	if err != nil {
		return err
	}
	var typing *person
	held := h.hooked(hooks.PostToolUse)
	if !o.text && !o.json && !o.jsonl && len(o.answers) == 0 && !held {
		if typing = newPerson(a.in); typing != nil {
			settings := cfg.Tools.Command(o.dialect)
			settings.WaitConfirm = min(settings.WaitConfirm, personConfirm)
		}
	}
	command, err := h.command(o.dialect)
	if err != nil {
		return err
	}
	ctx, stop := catchSignals(context.Background())
	defer stop()
	defer h.dispose()
	agent, err := h.newAgent(ctx, "run", cwd, o.session, false)
	if err != nil {
		return err
	}
	defer agent.close()
	r := &commandRun{app: a, tool: o.dialect, runner: command.runner, agent: agent, held: held}
	if len(o.answers) > 0 {
		r.answers = (*scripted)(&o.answers)
	}
	r.ctx, r.fail = context.WithCancelCause(ctx)
	defer r.fail(nil)
	switch {
	case o.jsonl:
		command.prestart(agent.owner, false, log)
		r.lines()
	case o.json:
		r.each(commands, r.answer)
	case o.text:
		r.each(commands, r.showText)
	default:
		if typing != nil {
			r.answers, r.person = typing, typing
		}
		r.each(commands, r.showPlain)
	}
	return r.end()
}

func (o runOptions) check(commands []string) error {
	modes := 0
	for _, mode := range []bool{o.text, o.json, o.jsonl} {
		if mode {
			modes++
		}
	}
	switch {
	case modes > 1:
		return usageError("--text, --json and --jsonl exclude each other; choose one")
	case o.jsonl && len(commands) > 0:
		return usageError("--jsonl reads its commands from stdin; remove %q", commands[0])
	case !o.jsonl && len(commands) == 0:
		return usageError("run needs a command, as in shellstead run 'echo hello'")
	}
	for _, command := range commands {
		switch {
		case strings.TrimSpace(command) == "":
			return usageError("a command is empty; give its text, or : to do nothing")
		case strings.ContainsRune(command, 0):
			return usageError("a command holds a NUL byte; remove it")
		}
	}
	if !slices.Contains(dialectNames(), o.dialect) {
		return usageError("--dialect: got %q, which is not available in this version; use %s", o.dialect, strings.Join(dialectNames(), " or "))
	}
	return nil
}

// keyFlags are the flags that were given, as settings of a tool's section.
func keyFlags(flags *pflag.FlagSet, section string) []config.Flag {
	var set []config.Flag
	for _, f := range runFlags {
		if flags.Changed(f.name) {
			set = append(set, config.Flag{Name: "--" + f.name, Path: section + "." + f.key, Value: flags.Lookup(f.name).Value.String()})
		}
	}
	return set
}

// workingDir is where shells start: --cwd, or the process's own directory.
func workingDir(flag string) (string, error) {
	if flag == "" {
		dir, err := os.Getwd()
		if err != nil {
			return "", usageError("the working directory is gone; change to another one or give --cwd")
		}
		return dir, nil
	}
	dir, err := filepath.Abs(flag)
	if err != nil {
		return "", usageError("--cwd: %w", err)
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return "", usageError("--cwd: %q does not exist; name an existing folder", flag)
	case err != nil:
		return "", usageError("--cwd: %q cannot be used: %w", flag, cause(err))
	case !info.IsDir():
		return "", usageError("--cwd: %q is not a folder; name an existing folder", flag)
	}
	return dir, nil
}

// cause is a file error without the path that the message names already.
func cause(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// commandRun is one invocation of run.
type commandRun struct {
	*app
	tool   string // the name of the tool whose commands these are
	runner *persistent.Runner
	agent  *agent
	held   bool // output is shown once hooks have seen all of it
	ctx    context.Context
	fail   context.CancelCauseFunc // ends the run: stdout cannot be written

	answers answerer // nil: a program that waits is left waiting
	person  *person  // answers, when it is somebody at a terminal

	code    int   // of the last command
	stopped error // why the run ended before its last command
}

// outputError is the cause of a run that cannot write its results.
type outputError struct{ err error }

func (e *outputError) Error() string { return "stdout cannot be written: " + cause(e.err).Error() }
func (e *outputError) Unwrap() error { return e.err }

// each runs commands until the last one, an interruption, or a shell that
// cannot be opened. A command that fails does not keep the next from running.
func (r *commandRun) each(commands []string, show func(persistent.Command) persistent.Result) {
	for _, command := range commands {
		res := show(persistent.Command{Text: command})
		if r.ctx.Err() != nil {
			return
		}
		r.code = exitCode(res)
		if r.stopped = openFailure(res); r.stopped != nil {
			return
		}
	}
}

// openFailure returns why there was no shell for a command, nil when there was
// one.
func openFailure(res persistent.Result) error {
	if res.Reason != persistent.Failed || res.TerminalID != "" {
		return nil
	}
	code := exitFailure
	// A shell path that is none, for instance.
	if errors.Is(res.Err(), terminals.InvalidArgument) || errors.Is(res.Err(), terminals.Unsupported) {
		code = exitUsage
	}
	return &exitError{code, res.Err()}
}

// end is what the run as a whole comes to.
func (r *commandRun) end() error {
	if r.ctx.Err() != nil {
		why := context.Cause(r.ctx)
		var signal interruption
		var output *outputError
		switch {
		case errors.As(why, &signal):
			return &exitError{code: signal.code()}
		case errors.Is(why, syscall.EPIPE):
			// Nobody reads any more. Others die of SIGPIPE here, as quietly.
			return &exitError{code: exitSignal + int(syscall.SIGPIPE)}
		case errors.As(why, &output):
			return &exitError{exitFailure, output}
		}
		return why
	}
	if r.stopped != nil {
		return r.stopped
	}
	if r.code != 0 {
		return &exitError{code: r.code}
	}
	return nil
}

// exitCode is the program's exit code when res is its last result.
func exitCode(res persistent.Result) int {
	switch res.Reason {
	case persistent.Completed, persistent.ShellExited:
		if res.Signal != nil {
			if n := signalNumber(*res.Signal); n > 0 {
				return exitSignal + n
			}
			return exitFailure
		}
		if res.ExitCode == nil { // what is not known is not success
			return exitFailure
		}
		code := *res.ExitCode & 0xff // what the system passes on
		if code == 0 && *res.ExitCode != 0 {
			return exitFailure
		}
		return code
	case persistent.TimedOut:
		return exitTimeout
	case persistent.WaitingInput:
		return exitWaiting
	default:
		return exitFailure
	}
}

// codeBlocked is the error code of a command that a hook has kept from running.
const codeBlocked terminals.Code = "BLOCKED"

// do runs a command.
func (r *commandRun) do(cmd persistent.Command) persistent.Result {
	if r.answers != nil {
		cmd.Answer = r.agent.answering(r.answers.answer)
	}
	if !r.agent.observed() {
		return r.runner.Run(r.ctx, r.agent.owner, cmd)
	}
	arguments, err := json.Marshal(map[string]string{"command": cmd.Text})
	if err != nil {
		return persistent.Refused(cmd.Text, err)
	}
	var res persistent.Result
	seen := r.agent.around(r.ctx, r.tool, arguments, func(input json.RawMessage) tool.Result {
		if !bytes.Equal(input, arguments) { // what no hook has touched is run byte for byte, which JSON may not hold
			cmd.Text, err = parseRequest(input)
		}
		if err != nil {
			res = persistent.Refused(cmd.Text, fmt.Errorf("a hook has replaced the arguments: %w", err))
		} else {
			res = r.runner.Run(r.ctx, r.agent.owner, cmd)
		}
		return tool.Result{Text: res.Text, Structured: res, IsError: res.Err() != nil}
	})
	left, untouched := seen.Structured.(persistent.Result)
	switch {
	case untouched:
		return left
	case seen.IsError:
		return persistent.Refused(cmd.Text, &terminals.Error{Code: codeBlocked, Message: seen.Text})
	case seen.Content != nil:
		return replaced(res, string(seen.Content))
	}
	return replaced(res, seen.Text)
}

// answer runs a command and prints its result as one line of JSON.
func (r *commandRun) answer(cmd persistent.Command) persistent.Result {
	res := r.do(cmd)
	r.print(res)
	return res
}

func (r *commandRun) print(res persistent.Result) {
	if err := writeJSON(r.out, res, ""); err != nil {
		r.fail(&outputError{err})
	}
}

// showText runs a command and prints what a model would read.
func (r *commandRun) showText(cmd persistent.Command) persistent.Result {
	res := r.do(cmd)
	if openFailure(res) != nil {
		return res // its one line goes to stderr
	}
	if _, err := io.WriteString(r.out, wholeLines(res.Text)); err != nil {
		r.fail(&outputError{err})
	}
	return res
}

// showPlain runs a command whose exact output goes to stdout as it comes.
func (r *commandRun) showPlain(cmd persistent.Command) persistent.Result {
	out := &liveOutput{out: r.out, fail: r.fail}
	if !r.held {
		cmd.Stream, cmd.Streamed = out.write, true
	}
	if r.person != nil {
		cmd.Stream = func(p []byte) { out.write(r.person.echo.filter(p)) }
	}
	res := r.do(cmd)
	if r.person != nil {
		out.write(r.person.echo.rest())
	}
	if r.held {
		out.write([]byte(res.Output))
	}
	if res.Notices == "" || openFailure(res) != nil || r.ctx.Err() != nil {
		return res
	}
	notices := wholeLines(res.Notices)
	if out.midLine() && isTerminal(r.err) {
		notices = "\n" + notices
	}
	// There is nobody to tell when stderr is closed.
	_, _ = io.WriteString(r.err, notices)
	return res
}

// liveOutput writes a command's output through. Its writer is blocked for as
// long as stdout is, and the command with it.
type liveOutput struct {
	out  io.Writer
	fail context.CancelCauseFunc

	mu   sync.Mutex // a write that is stalled when the run ends goes on
	last byte
	dead bool
}

func (o *liveOutput) write(p []byte) {
	if len(p) == 0 || o.failed() {
		return
	}
	_, err := o.out.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = p[len(p)-1]
	if err != nil {
		o.dead = true
		o.fail(&outputError{err})
	}
}

func (o *liveOutput) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dead
}

// midLine says that the output so far does not end a line.
func (o *liveOutput) midLine() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last != 0 && o.last != '\n'
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func wholeLines(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}
