package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// The tools' names.
const (
	OutputTool = "task_output"
	KillTool   = "task_kill"
	ListTool   = "task_list"
)

const (
	// defaultWait is how long task_output waits when it is told to wait and not
	// how long: as long as a send takes by default.
	defaultWait = 30 * time.Second
	// maxWait bounds a wait: a call that is silent for longer looks dead.
	maxWait = 10 * time.Minute
)

// What a model reads. The texts are stable, so that a client's cache of the tool
// list stays valid.
const (
	outputDescription = "Read what a background task has printed since the last time, and whether it still runs. " +
		"wait waits for its end, at most timeout_ms. " +
		"The status says why a finished one ended: inferred_idle and timeout do not mean that its program has."
	killDescription = "Interrupt the program of a background task, as Ctrl-C would. " +
		"The terminal session stays; task_output tells when the task has ended."
	listDescription = "List your background tasks: those that run and the last ones that have ended."
)

const outputSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "task_id": {
      "type": "string",
      "minLength": 1,
      "description": "The task's id, as the call that started it returned it."
    },
    "wait": {
      "type": "boolean",
      "default": false,
      "description": "Wait for the task to end."
    },
    "timeout_ms": {
      "type": "integer",
      "minimum": 0,
      "maximum": 600000,
      "default": 30000,
      "description": "The longest wait in milliseconds."
    }
  },
  "required": ["task_id"]
}`

const killSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "task_id": {
      "type": "string",
      "minLength": 1,
      "description": "The task's id."
    }
  },
  "required": ["task_id"]
}`

const listSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {}
}`

const outputResultSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "taskId": { "type": "string" },
    "output": {
      "type": "string",
      "description": "What came since the last call."
    },
    "status": { "enum": ["running", "stopping", "completed", "killed", "failed"] },
    "detail": {
      "type": "string",
      "description": "Why the task ended."
    },
    "truncated": {
      "type": "boolean",
      "description": "Whether the beginning of the output was dropped."
    },
    "result": {
      "type": "object",
      "description": "What the work of a finished task came to."
    }
  },
  "required": ["taskId", "output", "status", "truncated"]
}`

const killResultSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "taskId": { "type": "string" },
    "requested": {
      "type": "boolean",
      "description": "False when the task had ended already."
    },
    "status": { "enum": ["stopping", "completed", "killed", "failed"] },
    "detail": { "type": "string" }
  },
  "required": ["taskId", "requested", "status"]
}`

const listResultSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "tasks": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "taskId": { "type": "string" },
          "kind": { "type": "string" },
          "label": { "type": "string" },
          "status": { "enum": ["running", "stopping", "completed", "killed", "failed"] },
          "detail": { "type": "string" }
        },
        "required": ["taskId", "kind", "label", "status"]
      }
    }
  },
  "required": ["tasks"]
}`

// The structured results.
type (
	// OutputResult is that of task_output.
	OutputResult struct {
		TaskID    string `json:"taskId"`
		Output    string `json:"output"` // as far as the text has it
		Status    Status `json:"status"`
		Detail    string `json:"detail,omitempty"`
		Truncated bool   `json:"truncated"`
		Result    any    `json:"result,omitempty"`
	}
	// KillResult is that of task_kill.
	KillResult struct {
		TaskID    string `json:"taskId"`
		Requested bool   `json:"requested"`
		Status    Status `json:"status"`
		Detail    string `json:"detail,omitempty"`
	}
	// ListResult is that of task_list.
	ListResult struct {
		Tasks []Info `json:"tasks"`
	}
)

// Tools returns task_output, task_kill and task_list.
func (r *Runtime) Tools() []tool.Tool {
	return []tool.Tool{
		tool.Bounded(tool.Spec{
			Name: OutputTool, Title: "Read a background task", Description: outputDescription,
			InputSchema: json.RawMessage(outputSchema), OutputSchema: json.RawMessage(outputResultSchema),
			ReadOnly: true,
		}, r.max, r.callOutput),
		tool.Bounded(tool.Spec{
			Name: KillTool, Title: "Interrupt a background task", Description: killDescription,
			InputSchema: json.RawMessage(killSchema), OutputSchema: json.RawMessage(killResultSchema),
			Destructive: true,
		}, r.max, r.callKill),
		tool.Bounded(tool.Spec{
			Name: ListTool, Title: "List background tasks", Description: listDescription,
			InputSchema: json.RawMessage(listSchema), OutputSchema: json.RawMessage(listResultSchema),
			ReadOnly: true,
		}, r.max, r.callList),
	}
}

func (r *Runtime) callOutput(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place() // it answers at once, or waits for what only other calls may bring about
	var args struct {
		TaskID    *string `json:"task_id"`
		Wait      bool    `json:"wait"`
		TimeoutMs *int64  `json:"timeout_ms"`
	}
	err := tool.Decode(call.Arguments, &args)
	var wait time.Duration
	switch {
	case err != nil:
	case args.TaskID == nil:
		err = tool.Missing("task_id")
	case args.TimeoutMs != nil && (*args.TimeoutMs < 0 || *args.TimeoutMs > maxWait.Milliseconds()):
		err = &terminals.Error{
			Code:    terminals.InvalidArgument,
			Message: fmt.Sprintf(`"timeout_ms" must be from 0 to %d, not %d`, maxWait.Milliseconds(), *args.TimeoutMs),
		}
	case args.Wait && args.TimeoutMs == nil:
		wait = defaultWait
	case args.Wait:
		wait = time.Duration(*args.TimeoutMs) * time.Millisecond
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	out, err := r.Output(ctx, owner, *args.TaskID, wait)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	text, kept := out.render(r.max)
	return tool.Result{Text: text, Intent: tool.IntentRead, Structured: OutputResult{
		TaskID: out.TaskID, Output: kept, Status: out.Status, Detail: out.Detail, Truncated: out.Truncated || kept != out.Text, Result: out.Result,
	}}
}

// render returns the text of o, at most max bytes, and what of the output it
// has. Its last line is the status in any case.
func (o Output) render(max int) (text, kept string) {
	bound := func(meta string) (text, kept string) {
		return tool.BoundTextOr(o.Text, "(no new output)", max, tool.KeepTail, meta)
	}
	last := o.statusLine(max - len(tool.Truncated) - 1)
	if !o.Truncated {
		text, kept = bound(lines(o.Notes, last))
		if strings.HasSuffix(text, last) { // else it ends with the mark of a cut
			return text, kept
		}
	}
	meta := lines(o.Notes, tool.Truncated, last)
	if len(meta) > max { // the structured result has what the notes say
		meta = lines(nil, tool.Truncated, last)
	}
	return bound(meta)
}

func lines(notes []string, more ...string) string {
	return strings.Join(slices.Concat(notes, more), "\n")
}

// statusLine is the line for the status, at most max bytes.
func (i Info) statusLine(max int) string {
	const frame = len("[status: ]")
	return fmt.Sprintf("[status: %s]", tool.Cut(i.status(), max-frame, tool.KeepHead))
}

func (r *Runtime) callKill(_ context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	var args struct {
		TaskID *string `json:"task_id"`
	}
	err := tool.Decode(call.Arguments, &args)
	if err == nil && args.TaskID == nil {
		err = tool.Missing("task_id")
	}
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	info, requested, err := r.Kill(owner, *args.TaskID)
	if err != nil {
		return tool.ErrorResult(err, tool.IntentExecute)
	}
	text := "requested cancellation of task " + info.TaskID
	if !requested {
		text = fmt.Sprintf("task %s had already finished [status: %s]", info.TaskID, info.status())
	}
	return tool.Result{Text: text, Intent: tool.IntentExecute, Structured: KillResult{
		TaskID: info.TaskID, Requested: requested, Status: info.Status, Detail: info.Detail,
	}}
}

func (r *Runtime) callList(_ context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	call.Place()
	if err := tool.Decode(call.Arguments, &struct{}{}); err != nil {
		return tool.ErrorResult(err, tool.IntentRead)
	}
	infos := r.List(owner)
	text := "(no background tasks)"
	if len(infos) > 0 {
		lines := make([]string, len(infos))
		for i, info := range infos {
			lines[i] = fmt.Sprintf("%s [%s] %s — %s", info.TaskID, info.Kind, info.status(), info.Label)
		}
		text = strings.Join(lines, "\n")
	}
	return tool.Result{Text: text, Intent: tool.IntentRead, Structured: ListResult{Tasks: infos}}
}
