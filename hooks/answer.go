package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// answer is what a hook decided.
type answer struct {
	blocked bool
	reason  string
	input   json.RawMessage // replaces the call's; nil leaves it
	output  *output         // replaces the result's; nil leaves it
}

// output is a replaced result.
type output struct {
	text       string
	structured any
	content    json.RawMessage // several blocks
}

// reply is the JSON that a hook may print.
type reply struct {
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	Decision   string `json:"decision"`
	Reason     string `json:"reason"`
	Specific   struct {
		PermissionDecision       string          `json:"permissionDecision"`
		PermissionDecisionReason string          `json:"permissionDecisionReason"`
		UpdatedInput             json.RawMessage `json:"updatedInput"`
		UpdatedToolOutput        json.RawMessage `json:"updatedToolOutput"`
		UpdatedMCPToolOutput     json.RawMessage `json:"updatedMCPToolOutput"`
	} `json:"hookSpecificOutput"`
}

// noReason stands in where a hook gives none.
const noReason = "it gave no reason"

// parse reads what a hook that exited 0 has printed. Only an object is an
// answer.
func parse(event Event, stdout []byte) (answer, error) {
	stdout = bytes.TrimSpace(stdout)
	if len(stdout) == 0 || stdout[0] != '{' {
		return answer{}, nil
	}
	var r reply
	if err := json.Unmarshal(stdout, &r); err != nil {
		return answer{}, fmt.Errorf("its answer cannot be read: %w", err)
	}
	switch {
	case r.Continue != nil && !*r.Continue:
		return answer{blocked: true, reason: cmp.Or(r.StopReason, r.Reason, noReason)}, nil
	case r.Decision == "block":
		return answer{blocked: true, reason: cmp.Or(r.Reason, noReason)}, nil
	}
	if event == PreToolUse {
		switch r.Specific.PermissionDecision {
		case "deny", "ask":
			return answer{blocked: true, reason: cmp.Or(r.Specific.PermissionDecisionReason, r.Reason, noReason)}, nil
		}
		return answer{input: present(r.Specific.UpdatedInput)}, nil
	}
	raw := present(r.Specific.UpdatedToolOutput)
	if raw == nil {
		raw = present(r.Specific.UpdatedMCPToolOutput)
	}
	if raw == nil {
		return answer{}, nil
	}
	replaced, err := replacement(raw)
	return answer{output: replaced}, err
}

// present returns raw, or nil for a member that is absent or null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// replacement reads a replaced result: a text, a list of content blocks, the
// result of an MCP tool that holds such a list, or structured content.
func replacement(raw json.RawMessage) (*output, error) {
	switch raw[0] {
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return &output{text: text}, err
	case '[':
		return blocks(raw, nil)
	case '{':
		var object struct {
			Content    json.RawMessage `json:"content"`
			Structured json.RawMessage `json:"structuredContent"`
			Text       json.RawMessage `json:"text"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		if len(object.Content) > 0 && object.Content[0] == '[' {
			return blocks(object.Content, present(object.Structured))
		}
		out := &output{structured: raw}
		if json.Unmarshal(object.Text, &out.text) != nil { // it has no text of its own
			out.text = string(raw)
		}
		return out, nil
	}
	return nil, fmt.Errorf("its answer cannot be read: a replaced result is a text, an object or a list of content blocks")
}

// blocks reads a list of content blocks. One block of text is a text like every
// other; anything else passes as it is.
func blocks(raw, structured json.RawMessage) (*output, error) {
	var list []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: a content block: %w", err)
	}
	out := &output{}
	if structured != nil {
		out.structured = structured
	}
	if len(list) == 1 && list[0].Type == "text" {
		out.text = list[0].Text
		return out, nil
	}
	out.content = raw
	return out, nil
}
