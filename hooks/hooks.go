package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/shellstead/shellstead/tool"
)

// OnFailure says what a hook that failed does to the call.
type OnFailure string

// The values of OnFailure.
const (
	Allow OnFailure = "allow" // the call goes on
	Block OnFailure = "block" // it does not: for a hook that is a guard
)

// Bounds of [Hook.Timeout].
const (
	DefaultTimeout = 60 * time.Second // what the scripts of others are written for
	MinTimeout     = time.Millisecond
	MaxTimeout     = time.Hour // the model waits for it
)

// Hook is one command.
type Hook struct {
	Event Event

	// Matcher is a regular expression that must match the whole name of the
	// tool. Empty and "*" match every tool.
	Matcher string

	// Command is the program and its arguments; no shell reads them. It runs in
	// the call's directory with this process's environment.
	Command []string

	Format    Format        // empty: ClaudeCode
	Timeout   time.Duration // 0: DefaultTimeout; the hook's whole process tree is killed after it
	OnFailure OnFailure     // empty: Allow
}

// Options are the hooks of a [Runner].
type Options struct {
	Hooks          []Hook // they run one after another in this order
	MaxResultBytes int    // of UTF-8, bounds the text of what a hook returns; 0: tool.DefaultResultBytes
	Logger         *slog.Logger
}

// Runner runs hooks. Its methods may be called from any goroutine.
type Runner struct {
	hooks []hook
	max   int
	log   *slog.Logger
}

// hook is a checked Hook.
type hook struct {
	Hook
	matcher *regexp.Regexp // nil matches every tool
}

// New checks the hooks. Its error names the hook and the field, hooks[0].matcher
// for instance.
func New(opts Options) (*Runner, error) {
	max, err := tool.ResultBytes(opts.MaxResultBytes)
	if err != nil {
		return nil, err
	}
	r := &Runner{max: max, log: opts.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for i, h := range opts.Hooks {
		checked, err := check(h)
		if err != nil {
			return nil, fmt.Errorf("hooks[%d].%w", i, err)
		}
		r.hooks = append(r.hooks, checked)
	}
	return r, nil
}

func check(h Hook) (hook, error) {
	checked := hook{Hook: h}
	if h.Event != PreToolUse && h.Event != PostToolUse {
		return hook{}, fmt.Errorf("event: %q is not one of %s, %s", h.Event, PreToolUse, PostToolUse)
	}
	if len(h.Command) == 0 || strings.TrimSpace(h.Command[0]) == "" {
		return hook{}, fmt.Errorf("command: it names no program")
	}
	if h.Matcher != "" && h.Matcher != "*" {
		var err error
		if checked.matcher, err = regexp.Compile(`^(?:` + h.Matcher + `)$`); err != nil {
			return hook{}, fmt.Errorf("matcher: %w", err)
		}
	}
	switch h.Format {
	case "":
		checked.Format = ClaudeCode
	case ClaudeCode, Codex:
	default:
		return hook{}, fmt.Errorf("format: %q is not one of %s, %s", h.Format, ClaudeCode, Codex)
	}
	switch h.OnFailure {
	case "":
		checked.OnFailure = Allow
	case Allow, Block:
	default:
		return hook{}, fmt.Errorf("onFailure: %q is not one of %s, %s", h.OnFailure, Allow, Block)
	}
	switch {
	case h.Timeout == 0:
		checked.Timeout = DefaultTimeout
	case h.Timeout < MinTimeout || h.Timeout > MaxTimeout:
		return hook{}, fmt.Errorf("timeoutMs: %d is not from %d to %d", h.Timeout.Milliseconds(), MinTimeout.Milliseconds(), MaxTimeout.Milliseconds())
	}
	return checked, nil
}

// Before runs the hooks that come before c. It returns the input that the tool
// is called with, which a hook may have replaced; or, when the call must not be
// made, the result that the model gets instead. When ctx ends the hook that runs
// is killed and the call is not made.
func (r *Runner) Before(ctx context.Context, c Call) (input json.RawMessage, blocked *tool.Result) {
	for _, h := range r.of(PreToolUse, c.ToolName) {
		a := r.ask(ctx, h, c, nil)
		if ctx.Err() != nil {
			return nil, &tool.Result{Text: context.Cause(ctx).Error(), IsError: true}
		}
		if a.blocked {
			return nil, r.blocked(a)
		}
		if a.input != nil {
			c.Input = a.input
		}
	}
	return c.Input, nil
}

// After runs the hooks that come after c and returns the result that the model
// gets: res, or what a hook made of it. When ctx ends the hook that runs is
// killed, which is a failure of it.
func (r *Runner) After(ctx context.Context, c Call, res tool.Result) tool.Result {
	for _, h := range r.of(PostToolUse, c.ToolName) {
		a := r.ask(ctx, h, c, &res)
		if a.blocked {
			blocked := r.blocked(a)
			blocked.Intent = res.Intent
			return *blocked
		}
		if a.output != nil {
			res.Text, res.Structured, res.Content = a.output.text, a.output.structured, a.output.content
			res.Text, _ = tool.BoundText(res.Text, r.max, tool.KeepHead, "")
		}
	}
	return res
}

// of returns the hooks of an event for a tool.
func (r *Runner) of(event Event, toolName string) []hook {
	var found []hook
	for _, h := range r.hooks {
		if h.Event == event && (h.matcher == nil || h.matcher.MatchString(toolName)) {
			found = append(found, h)
		}
	}
	return found
}

// blocked is what a model reads in place of a result.
func (r *Runner) blocked(a answer) *tool.Result {
	text, _ := tool.BoundText("blocked by a hook: "+a.reason, r.max, tool.KeepHead, "")
	return &tool.Result{Text: text, IsError: true}
}

// ask runs one hook and makes an answer of its failure too.
func (r *Runner) ask(ctx context.Context, h hook, c Call, res *tool.Result) answer {
	payload, err := Payload(h.Format, h.Event, c, res)
	var a answer
	if err == nil {
		a, err = h.run(ctx, payload, c.Cwd)
	}
	if err != nil {
		r.log.Warn("a hook failed", "hook", h.Command[0], "event", string(h.Event), "tool", c.ToolName, "onFailure", string(h.OnFailure), "error", err.Error())
		a = answer{blocked: h.OnFailure == Block, reason: fmt.Sprintf("the hook %s failed: %v", h.Command[0], err)}
	}
	return a
}
