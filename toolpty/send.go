package toolpty

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// taskKind is the kind of a background send's task.
const taskKind = "pty-send"

// fullScreen is the line for a program that draws on the alternate screen, whose
// text is not made of lines.
const fullScreen = "[full-screen program]"

// End is how a send ended, in structured results.
type End struct {
	WaitReason    terminals.WaitReason  `json:"waitReason"`
	SessionStatus SessionStatus         `json:"sessionStatus"`
	FullScreen    bool                  `json:"fullScreen,omitempty"`
	NeedsInput    *terminals.NeedsInput `json:"needsInput,omitempty"`
	Command       *Command              `json:"command,omitempty"`
}

// Command is what the command of a command tool came to whose program a send
// answered.
type Command struct {
	ExitCode *int `json:"exitCode"` // null when unknown
}

// SendResult is the structured result of a foreground terminal_send.
type SendResult struct {
	Viewport  string `json:"viewport"` // as far as the text has it
	Truncated bool   `json:"truncated"`
	End
}

// BackgroundResult is the structured result of a background terminal_send.
type BackgroundResult struct {
	TaskID string `json:"taskId"`
}

func endOf(res terminals.SendResult) End {
	end := End{
		WaitReason:    res.WaitReason,
		SessionStatus: SessionStatus{res.Status},
		FullScreen:    res.FullScreen,
		NeedsInput:    res.NeedsInput,
	}
	if res.Command != nil {
		end.Command = &Command{ExitCode: res.Command.ExitCode}
	}
	return end
}

// notes are the lines for what only some ends have.
func (e End) notes() (lines []string) {
	if n := e.NeedsInput; n != nil {
		lines = append(lines, fmt.Sprintf("[waiting for input: %s (%s)]", tool.OneLine(n.Program), n.Kind))
	}
	if c := e.Command; c != nil {
		code := "unknown"
		if c.ExitCode != nil {
			code = fmt.Sprint(*c.ExitCode)
		}
		lines = append(lines, fmt.Sprintf("[command completed: exit code %s]", code))
	}
	if e.FullScreen {
		lines = append(lines, fullScreen)
	}
	return lines
}

// lines are those below the viewport, the ones that every send has first: they
// are the last to go when a bound leaves no room.
func (e End) lines() []string {
	return append([]string{
		fmt.Sprintf("[wait: %s]", e.WaitReason),
		fmt.Sprintf("[session: %s]", e.SessionStatus),
	}, e.notes()...)
}

func (s *set) send(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	var args struct {
		SessionID  *string `json:"sessionId"`
		Text       *string `json:"text"`
		Submit     *bool   `json:"submit"`
		Background bool    `json:"run_in_background"`
	}
	id, err := "", tool.Decode(call.Arguments, &args)
	intent := tool.IntentTerminal
	if args.Background {
		intent = tool.IntentExecute
	}
	if err == nil {
		id, err = sessionID(args.SessionID)
	}
	switch {
	case err != nil:
	case args.Text == nil:
		err = tool.Missing("text")
	case args.Background && !s.cfg.RunInBackground:
		err = refused("background sends are switched off (enableRunInBackground)")
	case args.Background && s.cfg.Tasks == nil:
		err = refused("there is nothing here that runs background tasks")
	}
	if err != nil {
		call.Place()
		return tool.ErrorResult(err, intent)
	}
	req := terminals.SendRequest{Text: *args.Text, Submit: args.Submit == nil || *args.Submit}
	var res tool.Result
	if args.Background {
		res, err = s.background(ctx, owner, id, req)
		call.Place()
	} else {
		res, err = s.foreground(ctx, owner, id, req, call)
	}
	if err != nil {
		return tool.ErrorResult(err, intent)
	}
	res.Intent = intent
	return res
}

func refused(why string) error {
	return &terminals.Error{
		Code:    terminals.Unsupported,
		Message: fmt.Sprintf(`"run_in_background" is not available: %s; leave it out`, why),
	}
}

// foreground sends req and waits for the end, which the session's own time limit
// and the cancellation of ctx bring about.
func (s *set) foreground(ctx context.Context, owner *terminals.Owner, id string, req terminals.SendRequest, call tool.Call) (tool.Result, error) {
	send, err := s.service.StartSend(ctx, owner, id, req)
	call.Place() // the session is reserved
	if err != nil {
		return tool.Result{}, err
	}
	if call.Progress != nil {
		report(send, call.Progress)
	}
	<-send.Done()
	sent, err := send.Result()
	if err != nil {
		return tool.Result{}, err
	}
	res := SendResult{Truncated: sent.Truncated, End: endOf(sent)}
	text, kept := s.renderSend(sent.Viewport, res)
	if res.Viewport = kept; kept != sent.Viewport {
		res.Truncated = true
	}
	return tool.Result{Text: text, Structured: res}, nil
}

// report shows a person what a send prints until it ends.
func report(send terminals.Send, show func(string)) {
	tick := time.NewTicker(tool.ProgressInterval)
	defer tick.Stop()
	for {
		select {
		case <-send.Done():
			return
		case <-tick.C:
			if text, _ := send.Output(); text != "" {
				show(tool.Cut(text, tool.ProgressBytes, tool.KeepTail))
			}
		}
	}
}

// renderSend returns the text of a foreground send and what of the viewport it
// has.
func (s *set) renderSend(viewport string, res SendResult) (text, kept string) {
	lines := res.lines()
	if res.Truncated {
		lines = append(lines, tool.Truncated)
	}
	return tool.BoundTextOr(viewport, "(no new output)", s.cfg.MaxResultBytes, tool.KeepTail, strings.Join(lines, "\n"))
}

// background sends req as a task. The call's ctx matters only until the send has
// begun.
func (s *set) background(ctx context.Context, owner *terminals.Owner, id string, req terminals.SendRequest) (tool.Result, error) {
	if err := context.Cause(ctx); err != nil {
		return tool.Result{}, err
	}
	label := req.Text
	if label == "" {
		label = "(input)"
	}
	task, err := s.cfg.Tasks.Start(owner, tasks.Request{
		Kind:  taskKind,
		Label: id + ": " + label,
		Begin: func(ctx context.Context) (tasks.Work, error) {
			send, err := s.service.StartSend(ctx, owner, id, req)
			if err != nil {
				return nil, err
			}
			return work{send}, nil
		},
	})
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: "started background task " + task, Structured: BackgroundResult{TaskID: task}}, nil
}

// work is a send as the work of a task.
type work struct{ terminals.Send }

// Outcome implements [tasks.Work].
func (w work) Outcome() tasks.Outcome {
	res, err := w.Result()
	end := endOf(res)
	out := tasks.Outcome{Err: err, Notes: end.notes(), Result: end}
	switch {
	case res.Status.Exited:
		out.Detail = "session exited: " + exit(res.Status)
	case err == nil || errors.Is(err, tasks.ErrKilled):
		out.Detail = "wait: " + string(res.WaitReason)
	}
	return out
}

func exit(status terminals.Status) string {
	switch {
	case status.Signal != "":
		return status.Signal
	case status.ExitCode != nil:
		return fmt.Sprint(*status.ExitCode)
	}
	return "unknown"
}
