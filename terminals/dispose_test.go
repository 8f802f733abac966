package terminals_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

func TestOwner(t *testing.T) {
	f := newFixture(t, nil)
	assert.Equal(t, "agent", f.owner.Name())
	assert.Equal(t, "/home/agent", f.owner.Cwd())
	assert.True(t, f.owner.Live())
	assert.NoError(t, f.owner.Context().Err())

	require.NoError(t, f.DisposeOwner(t.Context(), f.owner))

	assert.False(t, f.owner.Live())
	assert.ErrorIs(t, context.Cause(f.owner.Context()), terminals.OwnerNotLive)
	_, err := f.owner.OnDispose(func(context.Context) error { return nil })
	assert.ErrorIs(t, err, terminals.OwnerNotLive)
}

func TestDisposeOwnerClosesItsSessionsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := make(chan struct{})
		var sessions []*fakeSession
		f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
			s := &fakeSession{close: func(context.Context, int) error { <-quiet; return nil }}
			sessions = append(sessions, s)
			return s, nil
		})
		one, two := f.mustOpen(f.owner), f.mustOpen(f.owner)
		other := f.newOwner("other")
		f.mustOpen(other)

		disposal := f.goDisposeOwner()
		synctest.Wait()

		require.True(t, pending(disposal))
		_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell"})
		assert.ErrorIs(t, err, terminals.OwnerNotLive)
		_, err = f.Session(f.owner, one)
		assert.ErrorIs(t, err, terminals.SessionClosing)
		assert.Len(t, sessions[1].closes(), 1, "sessions are closed side by side")
		assert.True(t, f.HasActivity(f.owner))

		close(quiet)

		require.NoError(t, <-disposal)
		_, err = f.Session(f.owner, two)
		assert.ErrorIs(t, err, terminals.NoSession)
		assert.False(t, f.HasActivity(f.owner))
		assert.True(t, other.Live())
		assert.Empty(t, sessions[2].closes())
	})
}

func TestDisposeOwnerTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		session := &fakeSession{close: func(context.Context, int) error { return <-step }}
		f := newFixture(t, always(session))
		f.mustOpen(f.owner)
		first, second := f.goDisposeOwner(), f.goDisposeOwner()
		synctest.Wait()
		require.True(t, pending(first))
		require.True(t, pending(second))

		survived := errors.New("process 12 survived")
		step <- survived

		err := <-first
		assert.ErrorIs(t, err, survived)
		assert.Same(t, err, <-second)
		assert.Same(t, err, f.DisposeOwner(t.Context(), f.owner))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Same(t, err, f.DisposeOwner(gone, f.owner), "a known result needs no waiting")
		assert.Len(t, session.closes(), 1)
	})
}

func TestDisposeOwnerRefusesStrangers(t *testing.T) {
	f, elsewhere := newFixture(t, nil), newFixture(t, nil)
	assert.ErrorIs(t, f.DisposeOwner(t.Context(), nil), terminals.OwnerNotLive)
	assert.ErrorIs(t, f.DisposeOwner(t.Context(), elsewhere.owner), terminals.OwnerNotLive)
	assert.True(t, elsewhere.owner.Live())
}

func TestDisposalOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := make(chan struct{})
		session := &fakeSession{close: func(context.Context, int) error { <-quiet; return nil }}
		f := newFixture(t, always(session))
		f.mustOpen(f.owner)
		impatient := errors.New("exiting")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(impatient)

		assert.Same(t, impatient, f.DisposeOwner(ctx, f.owner))
		assert.False(t, f.owner.Live())
		assert.Same(t, impatient, f.Dispose(ctx))

		close(quiet)
		assert.NoError(t, f.DisposeOwner(t.Context(), f.owner))
		assert.NoError(t, f.Dispose(t.Context()))
		assert.Len(t, session.closes(), 1)
	})
}

// A disposal joins the close that runs and shares its result.
func TestDisposalJoinsARunningClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		session := &fakeSession{close: func(context.Context, int) error { return <-step }}
		f := newFixture(t, always(session))
		id := f.mustOpen(f.owner)
		byHand := f.goClose(t.Context(), id)
		synctest.Wait()
		disposal := f.goDisposeOwner()
		synctest.Wait()
		step <- nil
		assert.Equal(t, closed{outcome: terminals.Closed}, <-byHand)
		assert.NoError(t, <-disposal)
		assert.Equal(t, []string{"test"}, session.closes())
	})
}

func TestFailedDisposalLeavesTheSessionToALaterClose(t *testing.T) {
	survived := errors.New("process 12 survived")
	session := &fakeSession{close: func(_ context.Context, n int) error {
		if n == 1 {
			return survived
		}
		return nil
	}}
	f := newFixture(t, always(session))
	id := f.mustOpen(f.owner)

	err := f.DisposeOwner(t.Context(), f.owner)
	assert.EqualError(t, err, "terminal session pty-1 was not cleaned up: process 12 survived")
	assert.True(t, f.HasActivity(f.owner))

	outcome, err := f.Close(t.Context(), f.owner, id, "again")
	require.NoError(t, err)
	assert.Equal(t, terminals.Closed, outcome)
	assert.False(t, f.HasActivity(f.owner))
	assert.NoError(t, f.Dispose(t.Context()))
	assert.Equal(t, []string{"owner disposed", "again"}, session.closes())
}

func TestServiceDisposalRetriesWhatAnOwnersCouldNotClose(t *testing.T) {
	first, second := errors.New("12 survived"), errors.New("12 still there")
	session := &fakeSession{close: func(_ context.Context, n int) error {
		return []error{first, second}[n-1]
	}}
	f := newFixture(t, always(session))
	f.mustOpen(f.owner)
	require.ErrorIs(t, f.DisposeOwner(t.Context(), f.owner), first)

	err := f.Dispose(t.Context())
	assert.ErrorIs(t, err, second)
	assert.NotErrorIs(t, err, first)
	assert.Equal(t, []string{"owner disposed", "service disposed"}, session.closes())
	assert.False(t, f.HasActivity(f.owner))
}

func TestOnDispose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{close: func(context.Context, int) error { return errors.New("process 12 survived") }}
		f := newFixture(t, always(session))
		f.mustOpen(f.owner)
		var order []string
		add := func(name string, err error) (cancel func()) {
			cancel, regErr := f.owner.OnDispose(func(ctx context.Context) error {
				assert.NoError(t, ctx.Err(), "a hook's context is not the disposer's")
				assert.Len(t, session.closes(), 1, "hooks run after the sessions were closed")
				order = append(order, name)
				return err
			})
			require.NoError(t, regErr)
			return cancel
		}
		noFolder, noState := errors.New("spill folder is busy"), errors.New("state is odd")
		add("folder", noFolder)
		takenBack := add("taken back", nil)
		late := add("state", noState)
		takenBack()
		takenBack()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = f.DisposeOwner(ctx, f.owner) // may or may not wait, but begins it
		err := f.DisposeOwner(t.Context(), f.owner)

		assert.Equal(t, []string{"state", "folder"}, order)
		assert.EqualError(t, err, "terminal session pty-1 was not cleaned up: process 12 survived\nstate is odd\nspill folder is busy")
		assert.ErrorIs(t, err, noFolder)
		assert.ErrorIs(t, err, noState)
		late() // too late, and harmless
	})
}

// A hook may use the service: no lock is held while it runs.
func TestHookMayCallTheService(t *testing.T) {
	f := newFixture(t, nil)
	var opened error
	_, err := f.owner.OnDispose(func(ctx context.Context) error {
		_, opened = f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
		f.List(f.owner)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, f.DisposeOwner(t.Context(), f.owner))
	assert.ErrorIs(t, opened, terminals.OwnerNotLive)
}

func TestDisposeClosesEverything(t *testing.T) {
	one, two := errors.New("12 survived"), errors.New("34 survived")
	var sessions []*fakeSession
	f := newFixture(t, nil)
	f.backend.open = func(_ context.Context, setup terminals.Setup) (terminals.Session, error) {
		s := &fakeSession{close: func(context.Context, int) error {
			return map[string]error{"pty-1": one, "pty-3": two}[setup.ID]
		}}
		sessions = append(sessions, s)
		return s, nil
	}
	other := f.newOwner("other")
	f.mustOpen(f.owner)
	f.mustOpen(f.owner)
	f.mustOpen(other)
	hooked := false
	_, err := other.OnDispose(func(context.Context) error { hooked = true; return nil })
	require.NoError(t, err)

	err = f.Dispose(t.Context())

	assert.ErrorIs(t, err, one)
	assert.ErrorIs(t, err, two)
	assert.True(t, hooked)
	for _, s := range sessions {
		assert.Equal(t, []string{"service disposed"}, s.closes())
	}
	assert.ErrorIs(t, context.Cause(other.Context()), terminals.ServiceDisposing)
	assert.Same(t, err, f.Dispose(t.Context()), "a later call gets the same result")

	// The registries are empty although closes have failed.
	assert.Empty(t, f.Backends())
	assert.Empty(t, f.List(f.owner))
	assert.False(t, f.HasActivity(f.owner))
	assert.Len(t, sessions[0].closes(), 1)

	_, err = f.NewOwner(terminals.OwnerOptions{})
	assert.ErrorIs(t, err, terminals.ServiceDisposing)
	_, err = f.Register("another", f.backend)
	assert.ErrorIs(t, err, terminals.ServiceDisposing)
	_, err = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell"})
	assert.ErrorIs(t, err, terminals.ServiceDisposing)
	_, err = f.Session(f.owner, "pty-1")
	assert.ErrorIs(t, err, terminals.ServiceDisposing)
	_, err = f.Close(t.Context(), f.owner, "pty-1", "")
	assert.ErrorIs(t, err, terminals.ServiceDisposing)
}

func TestServiceDisposalJoinsAnOwnersDisposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		session := &fakeSession{close: func(context.Context, int) error { return <-step }}
		f := newFixture(t, always(session))
		f.mustOpen(f.owner)
		ofOwner := f.goDisposeOwner()
		synctest.Wait()
		ofService := f.goDispose()
		synctest.Wait()
		require.True(t, pending(ofService))

		survived := errors.New("process 12 survived")
		step <- survived

		assert.ErrorIs(t, <-ofOwner, survived)
		assert.ErrorIs(t, <-ofService, survived)
		assert.Equal(t, []string{"owner disposed"}, session.closes())
		assert.ErrorIs(t, context.Cause(f.owner.Context()), terminals.OwnerNotLive)
	})
}

// Opens, closes and disposals from all sides: every session that a backend
// handed out is closed, and nothing deadlocks.
func TestEverySessionIsClosedUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		handedOut := make(chan *fakeSession, 1000)
		f.backend.open = func(context.Context, terminals.Setup) (terminals.Session, error) {
			s := &fakeSession{}
			handedOut <- s
			return s, nil
		}
		done := make(chan struct{})
		const openers = 16
		for i := range openers {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%2 == 0 {
						go cancel()
					}
					info, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
					cancel()
					if err == nil && i%3 == 0 {
						_, _ = f.Close(t.Context(), f.owner, info.SessionID, "")
					}
				}
			}()
		}
		for range openers / 2 {
			<-done
		}
		err := f.Dispose(t.Context())
		for range openers / 2 {
			<-done
		}
		require.NoError(t, err)
		close(handedOut)
		require.NotEmpty(t, handedOut)
		for s := range handedOut {
			assert.Len(t, s.closes(), 1)
		}
	})
}
