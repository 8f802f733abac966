package terminals

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// CloseOutcome says who closed a session.
type CloseOutcome string

// The outcomes.
const (
	Closed         CloseOutcome = "closed"          // this call did
	AlreadyClosing CloseOutcome = "already-closing" // another call was at it; this one waited
)

// attempt is one run of a close or of a disposal that any number of callers
// wait for. err is written before done is closed.
type attempt struct {
	done chan struct{}
	err  error
}

func newAttempt() *attempt { return &attempt{done: make(chan struct{})} }

// finish settles the attempt; it is called once.
func (a *attempt) finish(err error) {
	a.err = err
	close(a.done)
}

// wait returns the attempt's error, or ctx's cause when ctx ends first.
func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	default:
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeContext returns the context of a close: the values of ctx, and a bound
// of its own instead of ctx's end.
func (s *Service) closeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), s.closeTimeout,
		fmt.Errorf("terminals: closing took longer than %v", s.closeTimeout))
}

// Close closes owner's session and returns when its process tree is quiet. The
// first caller gets [Closed], one that comes while a close runs waits for it and
// gets [AlreadyClosing]; the outcome is empty when there is an error. Only a
// successful close removes the session: after a failure, which every waiting
// caller gets, it is open as before and the next Close tries again.
//
// ctx bounds how long this caller waits; the close goes on, bounded by
// [Options.CloseTimeout]. It is started even if ctx has ended already.
//
// Close fails with [NoSession], [ForeignSession], [ServiceDisposing] and with
// the session's error.
func (s *Service) Close(ctx context.Context, o *Owner, id, reason string) (CloseOutcome, error) {
	s.mu.Lock()
	r, err := s.lookup(o, id)
	if err != nil {
		s.mu.Unlock()
		return "", err
	}
	outcome := Closed
	if r.closing != nil {
		outcome = AlreadyClosing
	}
	a := s.startClose(ctx, r, reason)
	s.mu.Unlock()
	if err := a.wait(ctx); err != nil {
		return "", err
	}
	return outcome, nil
}

// startClose returns the close of r that runs, and starts one when none does;
// s.mu is held.
func (s *Service) startClose(ctx context.Context, r *record, reason string) *attempt {
	if r.closing != nil {
		return r.closing
	}
	a := newAttempt()
	r.closing = a
	go func() {
		ctx, cancel := s.closeContext(ctx)
		defer cancel()
		err := r.session.Close(ctx, reason)
		s.mu.Lock()
		// In one step with the removal, and before anybody learns of the end: a
		// retry finds either no session or one that it may close.
		r.closing = nil
		if err == nil {
			s.forget(r)
		}
		s.mu.Unlock()
		a.finish(err)
	}()
	return a
}

// forget removes a closed session; s.mu is held.
func (s *Service) forget(r *record) {
	delete(s.sessions, r.id)
	r.owner.sessions = slices.DeleteFunc(r.owner.sessions, func(other *record) bool { return other == r })
	s.forgetOwner(r.owner)
}

// forgetOwner removes an owner that is disposed and left nothing; s.mu is held.
func (s *Service) forgetOwner(o *Owner) {
	if o.disposal != nil && o.disposal.reported && len(o.sessions) == 0 {
		s.owners = slices.DeleteFunc(s.owners, func(other *Owner) bool { return other == o })
	}
}

// disposal is the end of one owner.
type disposal struct {
	*attempt
	cause    *Error // for what it cancels
	reported bool   // it has settled; guarded by Service.mu
}

// The reasons that sessions are told.
const (
	ownerDisposedReason   = "owner disposed"
	serviceDisposedReason = "service disposed"
)

// DisposeOwner ends owner: it refuses new opens, cancels those under way, closes
// all sessions, waits for all of it and runs the functions of
// [Owner.OnDispose]. The error joins everything that could not be cleaned up,
// earlier roll-backs included. Later and concurrent calls wait for the same
// disposal and return the same error. A session whose close has failed stays
// with its owner: Close and [Service.Dispose] try it again.
//
// ctx bounds how long this caller waits; the disposal goes on. It is started
// even if ctx has ended already.
//
// An owner of another service is refused with [OwnerNotLive].
func (s *Service) DisposeOwner(ctx context.Context, o *Owner) error {
	if o == nil || o.service != s {
		return errOwnerNotLive()
	}
	s.mu.Lock()
	d := s.startDisposal(ctx, o, errOwnerNotLive(), ownerDisposedReason)
	s.mu.Unlock()
	return d.wait(ctx)
}

// startDisposal returns the disposal of o, and starts it when it has not begun;
// s.mu is held. From then on nothing new appears: the openings and sessions that
// o has now are all there is to wait for.
func (s *Service) startDisposal(ctx context.Context, o *Owner, cause *Error, reason string) *disposal {
	if o.disposal != nil {
		return o.disposal
	}
	d := &disposal{attempt: newAttempt(), cause: cause}
	o.disposal = d
	var (
		openings  = slices.Clone(o.openings)
		leftovers = slices.Clone(o.leftovers)
		hooks     = o.hooks
		closes    = s.startCloses(ctx, o, reason)
	)
	o.hooks = nil
	go func() {
		o.cancel(cause)
		for _, p := range openings {
			p.cancel(cause)
		}
		errs := s.retry(ctx, leftovers, reason)
		errs = append(errs, closes.wait()...)
		for _, p := range openings {
			<-p.settled
		}
		errs = append(errs, s.runHooks(ctx, hooks)...)

		s.mu.Lock()
		for _, l := range o.leftovers {
			errs = append(errs, l.err)
		}
		o.leftovers = nil
		d.reported = true
		s.forgetOwner(o)
		s.mu.Unlock()
		d.finish(errors.Join(errs...))
	}()
	return d
}

// closes are running closes, each with its session's id.
type closes []struct {
	id string
	*attempt
}

// startCloses closes all sessions of an owner; s.mu is held.
func (s *Service) startCloses(ctx context.Context, o *Owner, reason string) closes {
	cs := make(closes, len(o.sessions))
	for i, r := range o.sessions {
		cs[i].id = r.id
		cs[i].attempt = s.startClose(ctx, r, reason)
	}
	return cs
}

// wait waits for all and returns the errors.
func (cs closes) wait() (errs []error) {
	for _, c := range cs {
		<-c.done
		if c.err != nil {
			errs = append(errs, errNotCleanedUp(c.id, c.err))
		}
	}
	return errs
}

// retry closes again what an earlier roll-back left. That roll-back's own
// failure is reported in any case.
func (s *Service) retry(ctx context.Context, leftovers []leftover, reason string) (errs []error) {
	for _, l := range leftovers {
		if l.session == nil {
			continue
		}
		ctx, cancel := s.closeContext(ctx)
		if err := l.session.Close(ctx, reason); err != nil {
			errs = append(errs, errNotCleanedUp(l.id, err))
		}
		cancel()
	}
	return errs
}

// runHooks runs the functions of OnDispose, the last registered first.
func (s *Service) runHooks(ctx context.Context, hooks []*hook) (errs []error) {
	ctx, cancel := s.closeContext(ctx)
	defer cancel()
	for _, h := range slices.Backward(hooks) {
		if err := h.run(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Dispose ends the service: it refuses everything new, disposes all owners as
// [Service.DisposeOwner] does, closes once more what earlier disposals could
// not, and forgets backends, owners and sessions whatever fails. The error joins
// all failures. Later and concurrent calls wait for the same disposal and
// return the same error; all other calls fail with [ServiceDisposing] from then
// on, or answer as if there were nothing.
//
// ctx bounds how long this caller waits; the disposal goes on. It is started
// even if ctx has ended already.
func (s *Service) Dispose(ctx context.Context) error {
	s.mu.Lock()
	if s.disposal != nil {
		a := s.disposal
		s.mu.Unlock()
		return a.wait(ctx)
	}
	a := newAttempt()
	s.disposal = a
	var (
		disposals []*disposal
		again     closes
	)
	for _, o := range s.owners {
		if o.disposal != nil && o.disposal.reported {
			again = append(again, s.startCloses(ctx, o, serviceDisposedReason)...)
			continue
		}
		disposals = append(disposals, s.startDisposal(ctx, o, errServiceDisposing(), serviceDisposedReason))
	}
	s.mu.Unlock()
	go func() {
		var errs []error
		for _, d := range disposals {
			<-d.done
			errs = append(errs, d.err)
		}
		errs = append(errs, again.wait()...)
		s.clear()
		a.finish(errors.Join(errs...))
	}()
	return a.wait(ctx)
}

// clear forgets everything, so that a disposed service keeps nothing alive.
func (s *Service) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owners {
		o.sessions = nil
	}
	s.backends, s.owners = nil, nil
	clear(s.sessions)
}

// errNotCleanedUp names the session of a clean-up's failure.
func errNotCleanedUp(id string, err error) error {
	return &Error{Code: CleanupFailed, Message: fmt.Sprintf("terminal session %s was not cleaned up", id), Err: err}
}
