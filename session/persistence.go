package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Errors of a [Persistence]. Test them with errors.Is.
var (
	ErrNotFound = errors.New("there is no such session")
	ErrExists   = errors.New("the session exists already; resume or fork it")
	ErrInUse    = errors.New("the session is in use by another process or log; end that one, or fork the session")
	ErrCorrupt  = errors.New("the stored session is damaged or foreign")
)

// Kinds of [Location].
const (
	KindJSONL     = "jsonl"      // plain text, one JSON object a line
	KindJSONLZstd = "jsonl.zstd" // the same, compressed
)

// Location says where a session's log lies. It is a hint: the file may not exist
// yet, and whoever was told a path by a variable was told by whoever set that.
type Location struct {
	Kind string
	Path string // absolute
}

// JSONL returns the path of a log that can be read as plain text while it
// grows, and an empty string for every other one.
func JSONL(location Location, ok bool) string {
	if ok && location.Kind == KindJSONL {
		return location.Path
	}
	return ""
}

// Persistence keeps the logs of sessions. It is safe for concurrent use.
type Persistence interface {
	// Locate says where the log of h lies, or will. It does no I/O and creates
	// nothing. The answer for one header is always the same. False means that
	// the log is in no file of its own.
	Locate(h Header) (Location, bool)

	// Create returns the store of a new session. It does no I/O: the first
	// Append claims the session and fails with ErrExists or ErrInUse.
	Create(h Header) Store

	// Resume claims a stored session. It drops what a killed process left
	// unfinished at the end and says how much. It fails with ErrNotFound,
	// ErrInUse or ErrCorrupt.
	Resume(ctx context.Context, id string) (Resumed, error)

	// Events returns the events of a session, oldest first, in memory that does
	// not depend on their number. It needs no claim and may run while the
	// session is written: it ends at the last whole event. An error is yielded
	// in place of what could not be read; reading goes on after one that wraps
	// ErrCorrupt. A session that is not there yields ErrNotFound.
	Events(ctx context.Context, id string) iter.Seq2[Event, error]

	// List returns the headers of all stored sessions, in no particular order.
	// Errors are as of Events.
	List(ctx context.Context) iter.Seq2[Header, error]

	// Close frees what the persistence itself holds. Stores are closed before.
	Close() error
}

// Store is one session that is claimed for writing. A [Log] calls it from one
// goroutine at a time.
type Store interface {
	// Append stores e and hands it to the operating system. After an error
	// nothing of e is stored and a later Append may succeed.
	Append(e Event) error

	// Location is where the log really lies.
	Location() (Location, bool)

	// Close ends the claim.
	Close() error
}

// Resumed is a session that was claimed again.
type Resumed struct {
	Store   Store
	Header  Header
	LastSeq int64
	Dropped int64 // bytes of an unfinished event that were removed from the end
}

// Event is one stored event.
type Event struct {
	Type string
	Seq  int64
	Time time.Time
	JSON json.RawMessage // the whole event, one object without a line feed
}

// MaxEventBytes bounds the JSON of one event, so that neither a writer nor a
// reader needs memory without end. Results are far smaller unless they are
// configured to be huge.
const MaxEventBytes = 256 << 20

// ParseEvent reads one stored event. Its error wraps [ErrCorrupt]. The event
// keeps line, without the white space around it.
func ParseEvent(line []byte) (Event, error) {
	var head struct {
		Type *string    `json:"type"`
		Seq  *int64     `json:"seq"`
		Time *time.Time `json:"time"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if head.Type == nil || head.Seq == nil || head.Time == nil {
		return Event{}, fmt.Errorf("%w: an event has a type, a seq and a time", ErrCorrupt)
	}
	return Event{Type: *head.Type, Seq: *head.Seq, Time: *head.Time, JSON: line}, nil
}

// Start returns the payload of an event of the type session/start. Its error
// wraps [ErrCorrupt], also where a later version of the format has written it.
func (e Event) Start() (Start, error) {
	var start Start
	if e.Type != TypeStart {
		return start, fmt.Errorf("%w: the first event is %q, not %q", ErrCorrupt, e.Type, TypeStart)
	}
	if err := e.Decode(&start); err != nil {
		return start, err
	}
	if start.Version != Version {
		return start, fmt.Errorf("%w: it has version %d of the format, this program knows version %d", ErrCorrupt, start.Version, Version)
	}
	if start.ID == "" {
		return start, fmt.Errorf("%w: it has no id", ErrCorrupt)
	}
	return start, nil
}

// Decode reads the event's own fields into payload, a pointer to the type of
// this package that e.Type names. Its error wraps [ErrCorrupt].
func (e Event) Decode(payload any) error {
	if err := json.Unmarshal(e.JSON, payload); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// ForkStored returns the header of a new session whose past is the whole of the
// stored session id, which may be in use. It stores nothing.
func ForkStored(ctx context.Context, p Persistence, id string) (Header, error) {
	var start *Start
	var last int64
	for event, err := range p.Events(ctx, id) {
		if err != nil {
			if errors.Is(err, ErrCorrupt) && start != nil {
				continue // what can be read of the past is the past
			}
			return Header{}, err
		}
		if start == nil {
			first, err := event.Start()
			if err != nil {
				return Header{}, err
			}
			start = &first
		}
		last = event.Seq
	}
	if start == nil {
		return Header{}, fmt.Errorf("session %q: %w", id, ErrNotFound)
	}
	return start.Header.Fork(last), nil
}
