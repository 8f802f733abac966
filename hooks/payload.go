package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"

	"github.com/shellstead/shellstead/tool"
)

// Event is the moment at which a hook runs.
type Event string

// The events.
const (
	PreToolUse  Event = "PreToolUse"  // before the call; it can still be stopped
	PostToolUse Event = "PostToolUse" // after it, before the model gets the result
)

// Format is the payload that a hook reads.
type Format string

// The formats.
const (
	ClaudeCode Format = "claude-code"
	Codex      Format = "codex"
)

// Call is the tool call that hooks are told of.
type Call struct {
	SessionID  string
	Transcript string // absolute path of the session's log; empty where it has none
	Cwd        string // empty: the process's own
	ToolName   string
	ToolUseID  string          // the call's id, the same before and after
	Input      json.RawMessage // what the model sent

	// What Codex's payload tells besides. A host that knows no model and no
	// turns leaves them empty; PermissionMode is then "default".
	Model          string
	TurnID         string
	PermissionMode string
}

// common are the members of both formats.
type common struct {
	SessionID string          `json:"session_id"`
	Cwd       string          `json:"cwd"`
	Event     Event           `json:"hook_event_name"`
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
	// ToolResponse is there after the call only.
	ToolResponse any `json:"tool_response,omitempty"`
}

type claudeCodePayload struct {
	common
	TranscriptPath string `json:"transcript_path"` // empty for none
}

type codexPayload struct {
	common
	TranscriptPath *string `json:"transcript_path"` // null for none
	Model          string  `json:"model"`
	TurnID         string  `json:"turn_id"`
	PermissionMode string  `json:"permission_mode"`
}

// Payload returns what a hook of the format reads at event. response is the
// result of the call, nil before it: its structured content where it has any,
// otherwise its text. Payload touches no file; that a transcript is named does
// not mean that it exists yet.
func Payload(format Format, event Event, c Call, response *tool.Result) ([]byte, error) {
	members := common{
		SessionID: c.SessionID, Cwd: c.Cwd, Event: event,
		ToolName: c.ToolName, ToolUseID: c.ToolUseID, ToolInput: input(c.Input),
	}
	if members.Cwd == "" {
		members.Cwd, _ = os.Getwd() // a removed directory has no path to tell
	}
	if response != nil {
		if members.ToolResponse = response.Structured; members.ToolResponse == nil {
			members.ToolResponse = response.Text
		}
	}
	var payload any = claudeCodePayload{common: members, TranscriptPath: c.Transcript}
	if format == Codex {
		codex := codexPayload{
			common: members, Model: c.Model, TurnID: c.TurnID,
			PermissionMode: cmp.Or(c.PermissionMode, "default"),
		}
		if c.Transcript != "" {
			codex.TranscriptPath = &c.Transcript
		}
		payload = codex
	}
	text, err := json.Marshal(payload)
	return bytes.ToValidUTF8(text, []byte("\uFFFD")), err
}

// input returns what the model sent as JSON, whatever that was.
func input(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case !json.Valid(raw):
		text, _ := json.Marshal(string(raw)) // a string always has a JSON form
		return text
	}
	return raw
}
