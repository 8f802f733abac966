package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/hooks"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
	"github.com/shellstead/shellstead/session/sqlite"
	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolpty"
)

// Values of --session that are no id.
const (
	newSession = "new"
	noSession  = "none"
)

// sessionOptions say which session an agent has.
type sessionOptions struct {
	session string // an id, newSession, noSession; empty: the subcommand decides
	fork    string // the id of the session that the new one begins from
	log     string // overrides session.persistence
	sandbox string // the mode of its shells; empty: the log's, else sandbox.mode
}

func (o *sessionOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.session, "session", "", "go on with the logged session `ID`, begin a new one (new), or have none (none)")
	cmd.Flags().StringVar(&o.fork, "fork", "", "begin a session whose past is that of the logged session `ID`")
	logFlag(cmd, &o.log)
	sandboxFlag(cmd, &o.sandbox)
}

func logFlag(cmd *cobra.Command, log *string) {
	cmd.Flags().StringVar(log, "log", "", "what keeps the session's log: `jsonl`, sqlite or none")
}

// setting is --log as a setting of the configuration.
func (o *sessionOptions) setting() []config.Flag { return logSetting(o.log) }

func logSetting(log string) []config.Flag {
	if log == "" {
		return nil
	}
	return []config.Flag{{Name: "--log", Path: "session.persistence", Value: log}}
}

// stored is the id of the logged session that the options begin from.
func (o *sessionOptions) stored() string {
	switch o.session {
	case "", newSession, noSession:
		return o.fork
	}
	return o.session
}

func (o *sessionOptions) check() error {
	switch {
	case o.fork != "" && o.session != "" && o.session != newSession:
		return usageError("--fork begins a new session and --session names another; leave one out")
	case o.session == noSession && o.log != "" && o.log != config.NoLog:
		return usageError("--session none has nothing for --log %s to keep; leave one out", o.log)
	case o.stored() != "" && o.log == config.NoLog:
		return usageError("session %q can only be found in a log; use --log jsonl or sqlite", o.stored())
	}
	return nil
}

// agent is one owner of shells, with the session that its calls belong to. The
// session and its log may be absent.
type agent struct {
	host  *host
	owner *terminals.Owner

	id          string              // of the session; empty without one
	log         *session.Log        // nil without one
	persistence session.Persistence // of log
	transcript  string              // where the log is, as hooks are told
	jsonl       string              // where the log is when it is plain text, as shells are told

	policy *sandbox.Policy // nil for an owner without an agent of its own

	mu   sync.Mutex
	last chan struct{} // closed when the call that came last has its place
}

// newAgent makes an owner and its session. byDefault says that it has a session,
// with a log, where neither the options nor the configuration say anything.
func (h *host) newAgent(ctx context.Context, name, cwd string, o sessionOptions, byDefault bool) (*agent, error) {
	a := &agent{host: h}
	if err := a.begin(ctx, cwd, o, byDefault); err != nil {
		return nil, err
	}
	var err error
	if a.owner, err = h.service.NewOwner(terminals.OwnerOptions{Name: name, Cwd: cwd}); err != nil {
		a.close()
		return nil, err
	}
	h.agents.Store(a.owner, a)
	if err := a.confine(ctx, o); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// begin begins the session, or goes on with a stored one.
func (a *agent) begin(ctx context.Context, cwd string, o sessionOptions, byDefault bool) error {
	h := a.host
	wanted := (byDefault || o.session != "" || o.fork != "") && o.session != noSession
	kind := config.NoLog
	switch configured := h.cfg.Session.Persistence; {
	case o.session == noSession:
	case configured != nil:
		kind = *configured
	case wanted:
		kind = config.JSONLLog
	}
	header := session.NewHeader(cwd)
	if kind == config.NoLog {
		switch {
		case o.stored() != "":
			return usageError("session %q can only be found in a log, and session.persistence is none; use --log jsonl or sqlite", o.stored())
		case wanted:
			a.id = header.ID
		}
		return nil
	}
	var err error
	if a.persistence, err = openLogs(h.cfg, kind); err != nil {
		return err
	}
	opts := session.Options{Logger: h.log}
	switch {
	case o.fork != "":
		if header, err = session.ForkStored(ctx, a.persistence, o.fork); err == nil {
			a.log, err = session.New(a.persistence, header, opts)
		}
	case o.stored() != "":
		a.log, err = session.Resume(ctx, a.persistence, o.stored(), opts)
	default:
		a.log, err = session.New(a.persistence, header, opts)
	}
	if err != nil {
		return errors.Join(storedError(err), a.persistence.Close())
	}
	a.id = a.log.Header().ID
	location, ok := a.log.Location()
	a.jsonl = session.JSONL(location, ok)
	a.transcript = location.Path
	return nil
}

// openLogs opens what keeps the logs of a kind.
func openLogs(cfg *config.Config, kind string) (session.Persistence, error) {
	if kind == config.SQLiteLog {
		return sqlite.New(cfg.Session.Root)
	}
	return jsonl.New(cfg.Session.Root, jsonl.Options{Compress: cfg.Session.Compress == config.ZstdLog})
}

// storedError is the error of a session that cannot be had: the request has to
// change.
func storedError(err error) error {
	for _, known := range []error{session.ErrNotFound, session.ErrInUse, session.ErrCorrupt} {
		if errors.Is(err, known) {
			return &exitError{exitUsage, err}
		}
	}
	return err
}

// close ends the session.
func (a *agent) close() {
	if a.log == nil {
		return
	}
	if err := errors.Join(a.log.Close(), a.persistence.Close()); err != nil {
		a.host.log.Warn("the session log could not be closed", "session", a.id, "error", err.Error())
	}
}

// observed says that calls are logged or that hooks are asked.
func (a *agent) observed() bool { return a.log != nil || len(a.host.cfg.Hooks) > 0 }

// hooked says that there are hooks for an event.
func (h *host) hooked(event hooks.Event) bool {
	for _, hook := range h.cfg.Hooks {
		if hook.Event == string(event) {
			return true
		}
	}
	return false
}

// call makes one call of a tool.
func (a *agent) call(ctx context.Context, t tool.Tool, call tool.Call) tool.Result {
	wait, leave := a.line(&call)
	defer leave()
	return a.around(ctx, t.Spec().Name, call.Arguments, func(input json.RawMessage) tool.Result {
		if err := wait(ctx); err != nil {
			return tool.ErrorResult(err, "")
		}
		call.Arguments = input
		return t.Call(ctx, a.owner, call)
	})
}

// line gives the call its place at once where hooks come before it: they may
// take long, and the connection is read on meanwhile. wait returns when the calls
// that came earlier have theirs with their tools, leave lets the later ones pass.
func (a *agent) line(call *tool.Call) (wait func(context.Context) error, leave func()) {
	if !a.host.hooked(hooks.PreToolUse) {
		return func(context.Context) error { return nil }, func() {}
	}
	mine := make(chan struct{})
	a.mu.Lock()
	before := a.last
	a.last = mine
	a.mu.Unlock()
	call.Place()
	pass := sync.OnceFunc(func() { close(mine) })
	call.Placed = pass // the tool has it only once wait has returned
	if before == nil {
		return func(context.Context) error { return nil }, pass
	}
	wait = func(ctx context.Context) error {
		select {
		case <-before:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return wait, func() {
		select {
		case <-before:
			pass()
		default: // it never got to its tool
			go func() {
				<-before
				pass()
			}()
		}
	}
}

// around makes a call with do, which gets its arguments: hooks come before and
// after it, and the log has both sides of it.
func (a *agent) around(ctx context.Context, name string, arguments json.RawMessage, do func(json.RawMessage) tool.Result) tool.Result {
	if !a.observed() {
		return do(arguments)
	}
	began := time.Now()
	id := "call-" + rand.Text()
	a.noteSecret(name, arguments)
	a.append(session.ToolCall{ID: id, Name: name, Arguments: arguments})

	c := hooks.Call{SessionID: a.id, Transcript: a.transcript, Cwd: a.owner.Cwd(), ToolName: name, ToolUseID: id, Input: arguments}
	input, blocked := a.host.hooks.Before(ctx, c)
	var res tool.Result
	if blocked != nil {
		res = *blocked
	} else {
		if !bytes.Equal(input, arguments) {
			a.noteSecret(name, input)
		}
		c.Input = input
		was := do(input)
		res = a.host.hooks.After(ctx, c, was)
		if res.Structured == nil && res.Content == nil && !res.IsError {
			res.Structured = withText(was.Structured, res.Text)
		}
	}
	text := res.Text
	if res.Content != nil {
		text = string(res.Content)
	}
	a.append(session.ToolResult{
		ID: id, Text: text, Structured: res.Structured, IsError: res.IsError, DurationMs: time.Since(began).Milliseconds(),
	})
	return res
}

// withText is the structured content of a result whose text a hook has replaced:
// what a program printed is not in it any more, and what the tool's schema wants
// is.
func withText(structured any, text string) any {
	switch r := structured.(type) {
	case persistent.Result:
		return replaced(r, text)
	case toolpty.OpenResult:
		r.Motd = text
		return r
	case toolpty.SendResult:
		r.Viewport = text
		return r
	case terminals.Page:
		r.Text = text
		return r
	case tasks.OutputResult:
		r.Output = text
		return r
	}
	return structured
}

// replaced is a command's result with another output.
func replaced(r persistent.Result, text string) persistent.Result {
	r.Output, r.Text, r.Notices = text, text, ""
	r.Unsolicited, r.OutputFile = "", ""
	return r
}

// append adds an event to the log. The log itself says when it cannot.
func (a *agent) append(event session.Payload) {
	if a.log != nil {
		_ = a.log.Append(event)
	}
}

// noteSecret keeps what is about to be typed for a secret out of the log.
func (a *agent) noteSecret(name string, arguments json.RawMessage) {
	if a.log == nil || name != toolpty.SendTool {
		return
	}
	var args struct {
		SessionID string `json:"sessionId"`
		Text      string `json:"text"`
	}
	if tool.Decode(arguments, &args) == nil && a.host.service.ReadsSecret(a.owner, args.SessionID) {
		a.log.Secret(args.Text)
	}
}

// answering returns answer with what it types for a secret kept out of the log.
func (a *agent) answering(answer answerFunc) answerFunc {
	if a.log == nil || answer == nil {
		return answer
	}
	return func(ctx context.Context, needs terminals.NeedsInput) (persistent.Answer, bool) {
		typed, ok := answer(ctx, needs)
		if ok && needs.Kind == terminals.SecretInput {
			a.log.Secret(typed.Text)
		}
		return typed, ok
	}
}

// answerFunc is the Answer of a persistent.Command.
type answerFunc = func(context.Context, terminals.NeedsInput) (persistent.Answer, bool)
