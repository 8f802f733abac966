package terminals

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultCloseTimeout bounds one close. A teardown escalates in steps of a few
// seconds each; whatever takes longer is stuck in the kernel and is better
// reported than waited for.
const DefaultCloseTimeout = 30 * time.Second

// Options configure a [Service]. The zero value is usable.
type Options struct {
	// Logger gets what nobody is told of at once, such as a failed roll-back.
	// Nil discards it.
	Logger *slog.Logger

	// CloseTimeout bounds the context of every close, roll-back and function of
	// [Owner.OnDispose] that the service runs. Zero: [DefaultCloseTimeout].
	CloseTimeout time.Duration
}

// Service holds the backends, the owners and their sessions. Its methods may be
// called from any goroutine.
type Service struct {
	log          *slog.Logger
	closeTimeout time.Duration

	mu       sync.Mutex
	lastID   int
	backends []*registration    // in order of registration
	owners   []*Owner           // live, or with something left to clean up
	sessions map[string]*record // published and not closed
	disposal *attempt           // nil until Dispose
}

// registration is one registered backend; its address identifies it.
type registration struct {
	typ     string
	backend Backend
}

// record is one published session.
type record struct {
	id      string
	name    string
	typ     string
	owner   *Owner
	session Session
	closing *attempt // the close that runs now; guarded by Service.mu
}

// Info describes one session.
type Info struct {
	SessionID string
	Name      string // empty: it has none
	Type      string
	PID       int // 0: the backend has none
	Status    Status
	Startup   string // the text printed before it became ready; set by Open only
}

func (r *record) info() Info {
	return Info{
		SessionID: r.id,
		Name:      r.name,
		Type:      r.typ,
		PID:       r.session.PID(),
		Status:    r.session.Status(),
	}
}

// NewService returns a service without backends and owners.
func NewService(opts Options) *Service {
	s := &Service{
		log:          opts.Logger,
		closeTimeout: opts.CloseTimeout,
		sessions:     make(map[string]*record),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.closeTimeout <= 0 {
		s.closeTimeout = DefaultCloseTimeout
	}
	return s
}

// Register adds a backend under a type that no other backend has. The returned
// function removes this registration and no later one of the same type; it may
// be called more than once. Sessions of a removed backend live on.
//
// Register fails with [ServiceDisposing], [InvalidArgument] and
// [DuplicateBackend].
func (s *Service) Register(typ string, b Backend) (remove func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.disposal != nil:
		return nil, errServiceDisposing()
	case typ == "":
		return nil, &Error{Code: InvalidArgument, Message: "the type of a terminal backend is empty; give it a name"}
	case b == nil:
		return nil, &Error{Code: InvalidArgument, Message: fmt.Sprintf("the backend of terminal type %q is nil", typ)}
	case s.backend(typ) != nil:
		return nil, &Error{Code: DuplicateBackend, Message: fmt.Sprintf("terminal type %q is registered already; choose another type", typ)}
	}
	r := &registration{typ: typ, backend: b}
	s.backends = append(s.backends, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.backends = slices.DeleteFunc(s.backends, func(other *registration) bool { return other == r })
	}, nil
}

// Backends returns the registered types in order of registration.
func (s *Service) Backends() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types()
}

// types lists the registered types; s.mu is held.
func (s *Service) types() []string {
	types := make([]string, len(s.backends))
	for i, r := range s.backends {
		types[i] = r.typ
	}
	return types
}

// backend returns the backend of a type or nil; s.mu is held.
func (s *Service) backend(typ string) Backend {
	for _, r := range s.backends {
		if r.typ == typ {
			return r.backend
		}
	}
	return nil
}

// mint returns the next id; s.mu is held.
func (s *Service) mint() string {
	s.lastID++
	return "pty-" + strconv.Itoa(s.lastID)
}

// Session returns owner's session. It fails with [NoSession],
// [ForeignSession], with [SessionClosing] while a close runs, and with
// [ServiceDisposing] once the service has forgotten its sessions.
func (s *Service) Session(o *Owner, id string) (Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.lookup(o, id)
	if err != nil {
		return nil, err
	}
	if r.closing != nil {
		return nil, &Error{Code: SessionClosing, Message: fmt.Sprintf("terminal session %s is closing; open another one", id)}
	}
	return r.session, nil
}

// lookup checks that id is a session of o; s.mu is held.
func (s *Service) lookup(o *Owner, id string) (*record, error) {
	r := s.sessions[id]
	switch {
	case r == nil && s.disposal != nil:
		return nil, errServiceDisposing()
	case r == nil:
		return nil, &Error{Code: NoSession, Message: fmt.Sprintf("there is no terminal session %q; use the id of an open one", id)}
	case r.owner != o:
		return nil, &Error{Code: ForeignSession, Message: fmt.Sprintf("terminal session %s belongs to another owner; use one that you opened", id)}
	}
	return r, nil
}

// StartSend types req into owner's session, which it reserves before it
// returns. It fails like [Service.Session] and like [Session.StartSend].
func (s *Service) StartSend(ctx context.Context, o *Owner, id string, req SendRequest) (Send, error) {
	session, err := s.Session(o, id)
	if err != nil {
		return nil, err
	}
	return session.StartSend(ctx, req)
}

// secretReader is a session that can tell that what is typed into it now would
// not be shown.
type secretReader interface{ ReadsSecret() bool }

// ReadsSecret reports whether a program of owner's session reads without showing
// what is typed, a password for instance, as far as the system can tell at this
// moment. It is false for every session that [Service.Session] refuses.
func (s *Service) ReadsSecret(o *Owner, id string) bool {
	session, err := s.Session(o, id)
	reader, ok := session.(secretReader)
	return err == nil && ok && reader.ReadsSecret()
}

// Read returns a page of the scrollback of owner's session, also while it is
// closing. It fails like [Service.Session] otherwise and like [Session.Read].
func (s *Service) Read(o *Owner, id string, offset, count int) (Page, error) {
	s.mu.Lock()
	r, err := s.lookup(o, id)
	s.mu.Unlock()
	if err != nil {
		return Page{}, err
	}
	return r.session.Read(offset, count)
}

// Signal delivers sig to the foreground process group of owner's session and
// returns the group. It fails like [Service.Session] and like [Session.Signal].
func (s *Service) Signal(ctx context.Context, o *Owner, id string, sig Signal) (pgid int, err error) {
	session, err := s.Session(o, id)
	if err != nil {
		return 0, err
	}
	return session.Signal(ctx, sig)
}

// List returns owner's sessions in order of publication, closing ones too, each
// with its state of this moment.
func (s *Service) List(o *Owner) []Info {
	if o == nil || o.service != s {
		return nil
	}
	s.mu.Lock()
	records := slices.Clone(o.sessions)
	s.mu.Unlock()
	infos := make([]Info, len(records))
	for i, r := range records {
		infos[i] = r.info()
	}
	return infos
}

func errServiceDisposing() *Error {
	return &Error{Code: ServiceDisposing, Message: "the terminal service is shutting down: its calls end, and nothing can be opened any more"}
}

func errOwnerNotLive() *Error {
	return &Error{Code: OwnerNotLive, Message: "the owner of the terminal is not live; open terminals for a live one"}
}

func errNoBackend(typ string, types []string) *Error {
	known := "no type is registered"
	if len(types) > 0 {
		known = "registered types: " + strings.Join(types, ", ")
	}
	return &Error{Code: NoBackend, Message: fmt.Sprintf("there is no terminal type %q; %s", typ, known)}
}
