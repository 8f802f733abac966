package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Options are how a log behaves. The zero value is usable.
type Options struct {
	Logger *slog.Logger     // is told once when the log cannot be written, and when it can again; nil drops it
	Now    func() time.Time // nil: time.Now
}

// Log is the log of one session in the hand of its one writer. Its methods may
// be called from any goroutine.
type Log struct {
	header Header
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	store    Store
	next     int64 // seq of the next event
	started  bool  // session/start is stored
	closed   bool
	redactor redactor
	lost     int64 // events since the log could last be written
	stored   int   // events in a row since the last of these
}

// recovered is how many events in a row are stored before a log counts as
// written again: a call and its result. On a full disk small events still fit
// now and then, which is no news.
const recovered = 2

var errClosed = errors.New("session: the log is closed")

// New returns the log of the new session h. It fails only when the header is not
// valid; nothing is stored before the first event.
func New(p Persistence, h Header, opts Options) (*Log, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	return newLog(p.Create(h), h, opts), nil
}

// Resume returns the log of the stored session id, which goes on after its last
// event. What a killed process left unfinished is removed from the end and
// reported to the logger. Errors are those of [Persistence.Resume].
func Resume(ctx context.Context, p Persistence, id string, opts Options) (*Log, error) {
	resumed, err := p.Resume(ctx, id)
	if err != nil {
		return nil, err
	}
	l := newLog(resumed.Store, resumed.Header, opts)
	l.next, l.started = resumed.LastSeq+1, true
	if resumed.Dropped > 0 {
		l.log.Warn("the session log ended in an unfinished event, which was removed", "session", id, "bytes", resumed.Dropped)
	}
	return l, nil
}

func newLog(store Store, h Header, opts Options) *Log {
	l := &Log{header: h, store: store, log: opts.Logger, now: opts.Now}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l
}

// Header returns the session's header.
func (l *Log) Header() Header { return l.header }

// Location says where the log lies, without I/O.
func (l *Log) Location() (Location, bool) { return l.store.Location() }

// Secret has every later event store [Redacted] in place of value: as a text of
// its own, and when it has four bytes or more also inside longer texts. Line
// endings at its end do not count. It is called before the event that holds what
// was typed to a prompt for a secret.
func (l *Log) Secret(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.redactor = l.redactor.with(value)
}

// Append stores one event. It returns once the event is in the operating
// system's hands, or why it is not stored; callers go on either way, as the
// logger was told.
func (l *Log) Append(payload Payload) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return l.append(payload)
}

func (l *Log) append(payload Payload) error {
	err := l.start()
	if err == nil {
		err = l.put(payload)
	}
	switch {
	case err != nil:
		if l.lost == 0 {
			l.log.Error("the session log cannot be written; the session goes on without it", "session", l.header.ID, "error", err.Error())
		}
		l.lost++
		l.stored = 0
	case l.lost > 0:
		if l.stored++; l.stored < recovered {
			break
		}
		l.log.Warn("the session log can be written again", "session", l.header.ID, "lostEvents", l.lost)
		l.lost = 0
	}
	return err
}

// start stores the first event unless it is stored.
func (l *Log) start() error {
	if l.started {
		return nil
	}
	if err := l.put(Start{Version: Version, Header: l.header}); err != nil {
		return err
	}
	l.started = true
	return nil
}

// put stores one event. An event that is lost keeps its seq, so the gap can be
// seen; the first one cannot be missing.
func (l *Log) put(payload Payload) error {
	event, err := encode(payload, l.next, l.now(), l.redactor)
	if err == nil {
		err = l.store.Append(event)
	}
	if err == nil || l.started {
		l.next++
	}
	if err != nil {
		return fmt.Errorf("session %q: %w", l.header.ID, err)
	}
	return nil
}

// Fork returns the header of a new session whose past is this one's up to now.
func (l *Log) Fork() Header {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.header.Fork(max(l.next-1, 0))
}

// Close stores session/end, unless nothing was stored before, and gives the
// session free. Closing again does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	if l.started {
		err = l.append(End{})
	}
	return errors.Join(err, l.store.Close())
}
