package session

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Version is the version of the stored form. It grows when a reader of the old
// form would misread the new one; new fields and new types do not change it.
const Version = 1

// The types of events.
const (
	TypeStart       = "session/start"
	TypeToolCall    = "tool/call"
	TypeToolResult  = "tool/result"
	TypeSandboxMode = "sandbox/mode"
	TypeEnd         = "session/end"
)

//go:embed event.schema.json
var eventSchema []byte

// EventSchema returns the JSON schema (draft 2020-12) of a stored event.
func EventSchema() json.RawMessage { return bytes.Clone(eventSchema) }

// Payload is what one type of event holds: [ToolCall], [ToolResult] or
// [SandboxMode]. [Start] and [End] are written by the log itself.
type Payload interface {
	eventType() string
	write(o *object, r redactor) // the fields
}

// Start is the first event of a log.
type Start struct {
	Version int `json:"version"`
	Header
}

// ToolCall is what the model sent.
type ToolCall struct {
	ID        string          `json:"id"` // the call's, unique in its log; its result has the same
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a JSON string with the text where that is no JSON
}

// ToolResult is what the model got.
type ToolResult struct {
	ID         string `json:"id"`
	Text       string `json:"text"`
	Structured any    `json:"structured"` // what marshals to JSON; nil for none
	IsError    bool   `json:"isError"`
	DurationMs int64  `json:"durationMs"` // of the whole call
}

// SandboxMode is a change of what the session's shells may do.
type SandboxMode struct {
	Mode string `json:"mode"`
}

// End says that the session ended in good order. A resumed session has events
// after it.
type End struct{}

func (Start) eventType() string       { return TypeStart }
func (ToolCall) eventType() string    { return TypeToolCall }
func (ToolResult) eventType() string  { return TypeToolResult }
func (SandboxMode) eventType() string { return TypeSandboxMode }
func (End) eventType() string         { return TypeEnd }

func (s Start) write(o *object, _ redactor) {
	o.value("version", s.Version)
	o.value("id", s.ID)
	if s.Parent != "" {
		o.value("parent", s.Parent)
		o.value("parentSeq", s.ParentSeq)
	}
	if s.Cwd != "" {
		o.value("cwd", s.Cwd)
	}
	o.value("created", s.Created.UTC())
}

func (c ToolCall) write(o *object, r redactor) {
	o.value("id", c.ID)
	o.value("name", c.Name)
	o.raw("arguments", r.json(received(c.Arguments)))
}

func (t ToolResult) write(o *object, r redactor) {
	o.value("id", t.ID)
	o.value("text", r.text(t.Text))
	if structured, err := r.value(t.Structured); err != nil {
		o.err = fmt.Errorf("structured: %w", err)
	} else {
		o.value("structured", structured)
	}
	o.value("isError", t.IsError)
	o.value("durationMs", t.DurationMs)
}

func (m SandboxMode) write(o *object, _ redactor) { o.value("mode", m.Mode) }

func (End) write(*object, redactor) {}

// received returns what came from outside as compact JSON: null for nothing, a
// string with the text for what is no JSON.
func received(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		text, _ := json.Marshal(string(raw)) // a string always has a JSON form
		return text
	}
	return compact.Bytes()
}

// encode returns the event of payload. What is no valid UTF-8 in it becomes
// U+FFFD, as JSON knows nothing else.
func encode(payload Payload, seq int64, at time.Time, r redactor) (Event, error) {
	o := newObject()
	o.value("type", payload.eventType())
	o.value("seq", seq)
	o.value("time", at.UTC())
	payload.write(o, r)
	if o.err != nil {
		return Event{}, o.err
	}
	o.buf.WriteByte('}')
	line := o.buf.Bytes()
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if len(line) > MaxEventBytes { // also by what a byte that is no UTF-8 became
		return Event{}, errTooLarge
	}
	return Event{Type: payload.eventType(), Seq: seq, Time: at, JSON: line}, nil
}

var errTooLarge = fmt.Errorf("the event is larger than %d bytes", MaxEventBytes)

// object is a JSON object that is being written.
type object struct {
	buf bytes.Buffer
	enc *json.Encoder
	err error // the first one
}

func newObject() *object {
	o := new(object)
	o.enc = json.NewEncoder(o)
	o.enc.SetEscapeHTML(false) // so that a log can be searched for what was typed
	return o
}

// Write adds encoded JSON. What is too large is refused before it is copied.
func (o *object) Write(p []byte) (int, error) {
	if o.buf.Len()+len(p) > MaxEventBytes {
		return 0, errTooLarge
	}
	return o.buf.Write(p)
}

func (o *object) name(name string) {
	separator := byte(',')
	if o.buf.Len() == 0 {
		separator = '{'
	}
	o.buf.Write([]byte{separator, '"'})
	o.buf.WriteString(name)
	o.buf.WriteString(`":`)
}

// value adds a member.
func (o *object) value(name string, value any) {
	o.name(name)
	if err := o.enc.Encode(value); err != nil {
		o.err = cmp.Or(o.err, fmt.Errorf("%s: %w", name, err))
		return
	}
	o.buf.Truncate(o.buf.Len() - 1) // the encoder's line feed
}

// raw adds a member whose value is encoded.
func (o *object) raw(name string, value json.RawMessage) {
	o.name(name)
	if _, err := o.Write(value); err != nil {
		o.err = cmp.Or(o.err, fmt.Errorf("%s: %w", name, err))
	}
}
