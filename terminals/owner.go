package terminals

import (
	"context"
	"slices"
)

// OwnerOptions describe an owner. Neither field identifies it.
type OwnerOptions struct {
	Name string // for people and logs; may be empty, need not be unique
	Cwd  string // where its sessions start unless a request says otherwise
}

// Owner is somebody that sessions belong to, usually one agent. It is made by
// [Service.NewOwner], lives until [Service.DisposeOwner] or [Service.Dispose]
// begins, and is compared by identity. Its methods may be called from any
// goroutine.
type Owner struct {
	service *Service
	name    string
	cwd     string
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// Guarded by service.mu.
	openings  []*opening // passed the checks, not settled
	sessions  []*record  // in order of publication
	leftovers []leftover // failed clean-ups that nobody was told of
	hooks     []*hook    // in order of registration
	disposal  *disposal  // nil while the owner is live
}

// hook is one registered function; its address identifies it.
type hook struct{ run func(context.Context) error }

// NewOwner returns a live owner. It fails with [ServiceDisposing].
func (s *Service) NewOwner(opts OwnerOptions) (*Owner, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	o := &Owner{service: s, name: opts.Name, cwd: opts.Cwd, ctx: ctx, cancel: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disposal != nil {
		return nil, errServiceDisposing()
	}
	s.owners = append(s.owners, o)
	return o, nil
}

// Name returns the owner's display name.
func (o *Owner) Name() string { return o.name }

// Cwd returns the directory in which the owner's sessions start by default.
func (o *Owner) Cwd() string { return o.cwd }

// Live reports whether the owner may open sessions. It turns false once, when
// the owner's or the service's disposal begins.
func (o *Owner) Live() bool {
	o.service.mu.Lock()
	defer o.service.mu.Unlock()
	return o.disposal == nil
}

// Context ends when the owner's disposal begins. Its cause is an [*Error] with
// the code [OwnerNotLive] or [ServiceDisposing].
func (o *Owner) Context() context.Context { return o.ctx }

// OnDispose registers fn to run in the owner's disposal, after every session of
// the owner was closed (or its close has failed) and before the disposal
// settles. Functions run one after another, the last registered first. Their
// errors become part of the disposal's error. The context that fn gets is
// bounded by [Options.CloseTimeout] and is not the disposer's.
//
// cancel takes fn back; it does nothing once the disposal has begun. OnDispose
// fails with [ServiceDisposing] and [OwnerNotLive].
func (o *Owner) OnDispose(fn func(context.Context) error) (cancel func(), err error) {
	s := o.service
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.disposal != nil:
		return nil, errServiceDisposing()
	case o.disposal != nil:
		return nil, errOwnerNotLive()
	}
	h := &hook{run: fn}
	o.hooks = append(o.hooks, h)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o.hooks = slices.DeleteFunc(o.hooks, func(other *hook) bool { return other == h })
	}, nil
}

// HasActivity reports whether the owner has a session that is open, opening or
// closing, or a failed clean-up that no disposal has reported yet. An exited
// session counts until it is closed.
func (s *Service) HasActivity(o *Owner) bool {
	if o == nil || o.service != s {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(o.openings)+len(o.sessions)+len(o.leftovers) > 0
}
