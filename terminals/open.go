package terminals

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// OpenRequest describes a session to open.
type OpenRequest struct {
	Type string  // of the backend
	Name *string // display text, not empty, unique among the owner's sessions; nil: none
	Cwd  string  // empty: the owner's
	Mode Mode

	// Env returns the managed environment of the session with this id,
	// KEY=VALUE. It is called once, before the backend runs. Nil: none.
	Env func(id string) ([]string, error)
}

// opening is an open that passed its checks and has not settled.
type opening struct {
	id      string
	name    string
	typ     string
	owner   *Owner
	cancel  context.CancelCauseFunc
	settled chan struct{}
}

// leftover is a clean-up that failed while nobody could be told. The session is
// nil when the backend kept it to itself.
type leftover struct {
	id      string
	err     error
	session Session
}

// rollBackReason is what a session is told that nobody will get to see.
const rollBackReason = "open rolled back"

// Open starts a session for owner and returns when it is ready for input.
//
// It checks, in this order: the service ([ServiceDisposing]), ctx (its cause),
// the owner ([OwnerNotLive]), the type ([NoBackend]), the name
// ([InvalidArgument]) and that the name is free ([DuplicateName]). Nothing has
// run when one of them fails, and no id was used.
//
// When ctx ends, or the owner's or the service's disposal begins, before the
// session is published, the backend is told so, Open waits until it has settled
// and everything is rolled back, and returns the cause of what came first:
// exactly the caller's own, or an [*Error] with the disposal's code. A roll-back
// that fails is reported by the disposal of the owner or the service.
//
// An error of the backend is returned as it is. One that matches
// [CleanupFailed] is reported by the disposal as well.
func (s *Service) Open(ctx context.Context, owner *Owner, req OpenRequest) (Info, error) {
	setupCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o, backend, err := s.reserve(context.Cause(ctx), owner, req, cancel)
	if err != nil {
		return Info{}, err
	}
	// Deferred so that a panicking backend cannot leave a disposal waiting.
	defer s.settle(o)

	session, err := start(setupCtx, o, backend, req)
	if err != nil {
		if errors.Is(err, CleanupFailed) {
			s.keep(o, leftover{err: cleanupPart(err)})
		}
		if cause := s.refusal(setupCtx, o); cause != nil {
			return Info{}, cause
		}
		return Info{}, err
	}
	r := &record{id: o.id, name: o.name, typ: o.typ, owner: owner, session: session}
	if cause := s.publish(setupCtx, o, r); cause != nil {
		closeCtx, cancel := s.closeContext(ctx)
		defer cancel()
		if err := session.Close(closeCtx, rollBackReason); err != nil {
			s.keep(o, leftover{err: err, session: session})
		}
		return Info{}, cause
	}
	info := r.info()
	info.Startup = session.Startup()
	return info, nil
}

// reserve makes the checks of Open and takes an id and the name. cancelled is
// the caller's cause, nil while it wants the session.
func (s *Service) reserve(cancelled error, owner *Owner, req OpenRequest, cancel context.CancelCauseFunc) (*opening, Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disposal != nil {
		return nil, nil, errServiceDisposing()
	}
	if cancelled != nil {
		return nil, nil, cancelled
	}
	if owner == nil || owner.service != s || owner.disposal != nil {
		return nil, nil, errOwnerNotLive()
	}
	backend := s.backend(req.Type)
	if backend == nil {
		return nil, nil, errNoBackend(req.Type, s.types())
	}
	var name string
	if req.Name != nil {
		name = *req.Name
		if name == "" {
			return nil, nil, &Error{Code: InvalidArgument, Message: "the name of a terminal session is empty; leave it out or give one"}
		}
		if id := owner.holder(name); id != "" {
			return nil, nil, &Error{Code: DuplicateName, Message: fmt.Sprintf("the name %q belongs to terminal session %s; choose another one or close that session", name, id)}
		}
	}
	o := &opening{
		id:      s.mint(),
		name:    name,
		typ:     req.Type,
		owner:   owner,
		cancel:  cancel,
		settled: make(chan struct{}),
	}
	owner.openings = append(owner.openings, o)
	return o, backend, nil
}

// holder returns the id of the owner's session with this name, "" when the name
// is free; service.mu is held.
func (o *Owner) holder(name string) string {
	for _, r := range o.sessions {
		if r.name == name {
			return r.id
		}
	}
	for _, p := range o.openings {
		if p.name == name {
			return p.id
		}
	}
	return ""
}

// start runs the backend.
func start(ctx context.Context, o *opening, backend Backend, req OpenRequest) (Session, error) {
	setup := Setup{Owner: o.owner, ID: o.id, Name: o.name, Cwd: req.Cwd, Mode: req.Mode}
	if setup.Cwd == "" {
		setup.Cwd = o.owner.cwd
	}
	if req.Env != nil {
		env, err := req.Env(o.id)
		if err != nil {
			return nil, err
		}
		setup.Env = env
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	session, err := backend.Open(ctx, setup)
	if err == nil && session == nil {
		err = fmt.Errorf("terminals: backend %q returned neither a session nor an error", o.typ)
	}
	return session, err
}

// refusal returns why an opening may not be published, nil when it may.
func (s *Service) refusal(ctx context.Context, o *opening) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return refusalLocked(ctx, o)
}

func refusalLocked(ctx context.Context, o *opening) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	// A disposal marks its owner first and cancels ctx a moment later.
	if d := o.owner.disposal; d != nil {
		return d.cause
	}
	return nil
}

// publish makes r visible unless somebody has lost interest.
func (s *Service) publish(ctx context.Context, o *opening, r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause := refusalLocked(ctx, o); cause != nil {
		return cause
	}
	s.sessions[r.id] = r
	r.owner.sessions = append(r.owner.sessions, r)
	return nil
}

// settle ends an opening and frees its name.
func (s *Service) settle(o *opening) {
	s.mu.Lock()
	o.owner.openings = slices.DeleteFunc(o.owner.openings, func(other *opening) bool { return other == o })
	s.mu.Unlock()
	close(o.settled)
}

// keep remembers a failed clean-up until a disposal reports it.
func (s *Service) keep(o *opening, l leftover) {
	s.log.Warn("terminal session was not rolled back", "session", o.id, "type", o.typ, "error", l.err)
	l.id, l.err = o.id, errNotCleanedUp(o.id, l.err)
	s.mu.Lock()
	defer s.mu.Unlock()
	o.owner.leftovers = append(o.owner.leftovers, l)
}

// cleanupPart returns what of a backend's error says that something was left
// behind, without the failure that led to it where the two can be told apart.
func cleanupPart(err error) error {
	if e, ok := err.(*Error); ok && e.Code == CleanupFailed {
		return e
	}
	var causes []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		causes = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = e.Unwrap()
	}
	var parts []error
	for _, cause := range causes {
		if errors.Is(cause, CleanupFailed) {
			parts = append(parts, cleanupPart(cause))
		}
	}
	switch len(parts) {
	case 0:
		return err
	case 1:
		return parts[0]
	}
	return errors.Join(parts...)
}
