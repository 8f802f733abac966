// Package toolpty has the six tools with which a model drives interactive
// programs on live terminals: terminal_open, terminal_send, terminal_read,
// terminal_signal, terminal_close and terminal_list.
package toolpty

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// The tools' names.
const (
	OpenTool   = "terminal_open"
	SendTool   = "terminal_send"
	ReadTool   = "terminal_read"
	SignalTool = "terminal_signal"
	CloseTool  = "terminal_close"
	ListTool   = "terminal_list"
)

// defaultCount is how many lines terminal_read returns when it is not told.
const defaultCount = 500

// closeReason is what a session is told.
const closeReason = CloseTool

// Config adapts the tools.
type Config struct {
	// RunInBackground offers background sends. Without it terminal_send has no
	// run_in_background, and refuses it.
	RunInBackground bool

	// Tasks runs the background sends. Nil: they are refused.
	Tasks *tasks.Runtime

	// MaxResultBytes bounds the text of each result; 64 or more. Zero: 262144.
	MaxResultBytes int

	// Env returns the managed environment, KEY=VALUE, of owner's session with
	// this id. It is called once for each terminal_open that passed its checks,
	// and an error of it fails the call. Nil: none.
	Env func(owner *terminals.Owner, id string) ([]string, error)
}

// DefaultConfig returns the defaults. Tasks is for the caller to add.
func DefaultConfig() Config {
	return Config{RunInBackground: true, MaxResultBytes: tool.DefaultResultBytes}
}

// set is what the six tools share.
type set struct {
	service *terminals.Service
	cfg     Config
}

// New returns the six tools over service, in the order of the package comment.
// It fails with [terminals.InvalidArgument].
func New(service *terminals.Service, cfg Config) ([]tool.Tool, error) {
	var err error
	if cfg.MaxResultBytes, err = tool.ResultBytes(cfg.MaxResultBytes); err != nil {
		return nil, err
	}
	s := &set{service: service, cfg: cfg}
	calls := map[string]func(context.Context, *terminals.Owner, tool.Call) tool.Result{
		OpenTool: s.open, SendTool: s.send, ReadTool: s.read, SignalTool: s.signal, CloseTool: s.close, ListTool: s.list,
	}
	var tools []tool.Tool
	for _, spec := range specs(cfg.RunInBackground) {
		tools = append(tools, tool.Bounded(spec, cfg.MaxResultBytes, calls[spec.Name]))
	}
	return tools, nil
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// sessionID checks the argument that most tools have.
func sessionID(id *string) (string, error) {
	switch {
	case id == nil:
		return "", tool.Missing("sessionId")
	case *id == "":
		return "", invalid(`"sessionId" is empty; %s shows your sessions`, ListTool)
	}
	return *id, nil
}

// SessionStatus is the state of a session in structured results.
type SessionStatus struct {
	terminals.Status
}

// kind is how a status is called.
func (s SessionStatus) kind() string {
	if s.Exited {
		return "exited"
	}
	return "running"
}

// MarshalJSON renders {"kind": "running"} or {"kind": "exited", "exitCode": 1,
// "signal": null}.
func (s SessionStatus) MarshalJSON() ([]byte, error) {
	if !s.Exited {
		return json.Marshal(struct {
			Kind string `json:"kind"`
		}{s.kind()})
	}
	return json.Marshal(struct {
		Kind     string  `json:"kind"`
		ExitCode *int    `json:"exitCode"`
		Signal   *string `json:"signal"`
	}{s.kind(), s.ExitCode, orNil(s.Signal)})
}

// String is the status in texts.
func (s SessionStatus) String() string {
	if !s.Exited {
		return s.kind()
	}
	code, signal := "null", "null"
	if s.ExitCode != nil {
		code = fmt.Sprint(*s.ExitCode)
	}
	if s.Signal != "" {
		signal = s.Signal
	}
	return fmt.Sprintf("%s code=%s signal=%s", s.kind(), code, signal)
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Session describes a session in structured results.
type Session struct {
	SessionID string        `json:"sessionId"`
	Name      string        `json:"name,omitempty"`
	Type      string        `json:"type"`
	PID       int           `json:"pid,omitempty"`
	Status    SessionStatus `json:"status"`
}

func describe(info terminals.Info) Session {
	return Session{info.SessionID, info.Name, info.Type, info.PID, SessionStatus{info.Status}}
}

// heading is a session's id and name in texts.
func (s Session) heading() string {
	if s.Name == "" {
		return s.SessionID
	}
	return fmt.Sprintf("%s (%s)", s.SessionID, tool.OneLine(s.Name))
}

// OpenResult is the structured result of terminal_open.
type OpenResult struct {
	Session
	Motd string `json:"motd"` // as far as the text has it
}

func (s *set) open(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place() // until it returns nobody knows the session
	var args struct {
		Type *string `json:"type"`
		Name *string `json:"name"`
		Cwd  string  `json:"cwd"`
	}
	err := tool.Decode(call.Arguments, &args)
	switch {
	case err != nil:
	case args.Type == nil:
		err = tool.Missing("type")
	case *args.Type == "":
		err = invalid(`"type" is empty; registered types: %s`, strings.Join(s.service.Backends(), ", "))
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	req := terminals.OpenRequest{Type: *args.Type, Name: args.Name, Cwd: args.Cwd}
	if owner != nil && args.Cwd != "" && !filepath.IsAbs(args.Cwd) {
		req.Cwd = filepath.Join(owner.Cwd(), args.Cwd)
	}
	if s.cfg.Env != nil {
		req.Env = func(id string) ([]string, error) { return s.cfg.Env(owner, id) }
	}
	info, err := s.service.Open(ctx, owner, req)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	res := OpenResult{Session: describe(info)}
	title := fmt.Sprintf("started terminal session %s [type: %s]\n", res.heading(), info.Type)
	motd := info.Startup
	if motd == "" {
		motd = "(no startup output)"
	}
	text, kept := tool.BoundText(title+motd, s.cfg.MaxResultBytes, tool.KeepHead, "")
	if info.Startup != "" {
		res.Motd = kept[min(len(title), len(kept)):]
	}
	return tool.Result{Text: text, Structured: res, Intent: tool.IntentExecute}
}

func (s *set) read(_ context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	var args struct {
		SessionID *string `json:"sessionId"`
		Offset    int     `json:"offset"`
		Count     *int    `json:"count"`
	}
	id, err := "", tool.Decode(call.Arguments, &args)
	if err == nil {
		id, err = sessionID(args.SessionID)
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	count := defaultCount
	if args.Count != nil {
		count = *args.Count
	}
	page, err := s.service.Read(owner, id, args.Offset, count)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	text := s.renderPage(&page)
	return tool.Result{Text: text, Structured: page, Intent: tool.IntentRead}
}

// renderPage returns the text of page, and cuts page to what the text has: whole
// lines, so that a next page from lineEnd on has those that were left out.
func (s *set) renderPage(page *terminals.Page) string {
	text, kept := s.boundPage(*page)
	if cut := len(page.Text) - len(kept); cut > 0 {
		if at := strings.IndexByte(kept, '\n'); at >= 0 && page.Text[cut-1] != '\n' {
			kept = kept[at+1:]
		}
		page.Text, page.Truncated = kept, true
		page.LineEnd = page.LineBegin + strings.Count(kept, "\n") + 1
		text, _ = s.boundPage(*page)
	}
	return text
}

func (s *set) boundPage(page terminals.Page) (text, kept string) {
	meta := fmt.Sprintf("[lines: %d-%d of %d]", page.LineBegin, page.LineEnd, page.TotalLines)
	if page.Truncated {
		meta += "\n" + tool.Truncated
	}
	return tool.BoundTextOr(page.Text, "(no retained output)", s.cfg.MaxResultBytes, tool.KeepTail, meta)
}

// SignalResult is the structured result of terminal_signal.
type SignalResult struct {
	Delivered  bool `json:"delivered"`
	TargetPGID int  `json:"targetPgid"`
}

// signals are those that terminal_signal takes, in the order of its schema.
var signals = []terminals.Signal{terminals.SIGINT, terminals.SIGTERM, terminals.SIGKILL, terminals.SIGTSTP, terminals.SIGHUP}

func signalList() string {
	names := make([]string, len(signals))
	for i, sig := range signals {
		names[i] = string(sig)
	}
	return strings.Join(names, ", ")
}

func (s *set) signal(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	var args struct {
		SessionID *string           `json:"sessionId"`
		Signal    *terminals.Signal `json:"signal"`
	}
	id, err := "", tool.Decode(call.Arguments, &args)
	if err == nil {
		id, err = sessionID(args.SessionID)
	}
	switch {
	case err != nil:
	case args.Signal == nil:
		err = tool.Missing("signal")
	case !slices.Contains(signals, *args.Signal):
		err = invalid(`"signal" must be one of %s, not %.20q`, signalList(), *args.Signal)
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	pgid, err := s.service.Signal(ctx, owner, id, *args.Signal)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	return tool.Result{
		Text:       fmt.Sprintf("delivered %s to foreground process group %d", *args.Signal, pgid),
		Structured: SignalResult{Delivered: true, TargetPGID: pgid},
		Intent:     tool.IntentExecute,
	}
}

// CloseResult is the structured result of terminal_close.
type CloseResult struct {
	SessionID string                 `json:"sessionId"`
	Outcome   terminals.CloseOutcome `json:"outcome"`
	Killed    bool                   `json:"killed"` // this call ended it
}

func (s *set) close(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	var args struct {
		SessionID *string `json:"sessionId"`
	}
	id, err := "", tool.Decode(call.Arguments, &args)
	if err == nil {
		id, err = sessionID(args.SessionID)
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentDelete)
	}
	outcome, err := s.service.Close(ctx, owner, id, closeReason)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentDelete)
	}
	res := CloseResult{SessionID: id, Outcome: outcome, Killed: outcome == terminals.Closed}
	text := "closed terminal session " + id
	if !res.Killed {
		text = fmt.Sprintf("terminal session %s was already closing", id)
	}
	return tool.Result{Text: text, Structured: res, Intent: tool.IntentDelete}
}

// ListResult is the structured result of terminal_list.
type ListResult struct {
	Sessions []Session `json:"sessions"`
}

func (s *set) list(_ context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	if err := tool.Decode(call.Arguments, &struct{}{}); err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	res := ListResult{Sessions: []Session{}}
	var lines []string
	for _, info := range s.service.List(owner) {
		session := describe(info)
		line := fmt.Sprintf("%s [%s] %s", session.heading(), session.Type, session.Status)
		if session.PID != 0 {
			line += fmt.Sprintf(" pid=%d", session.PID)
		}
		res.Sessions, lines = append(res.Sessions, session), append(lines, line)
	}
	if len(lines) == 0 {
		lines = []string{"(no terminal sessions)"}
	}
	return tool.Result{Text: strings.Join(lines, "\n"), Structured: res, Intent: tool.IntentRead}
}
