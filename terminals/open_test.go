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

func TestOpenHandsOverTheSetup(t *testing.T) {
	f := newFixture(t, nil)

	info, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{
		Type: "shell",
		Name: new("build"),
		Cwd:  "/src",
		Mode: terminals.Command,
		Env:  func(id string) ([]string, error) { return []string{"DSH_PTY_SESSION_ID=" + id}, nil },
	})
	require.NoError(t, err)
	assert.Equal(t, terminals.Info{SessionID: "pty-1", Name: "build", Type: "shell", PID: 4711, Startup: "welcome"}, info)
	f.mustOpen(f.owner)

	assert.Equal(t, []terminals.Setup{
		{Owner: f.owner, ID: "pty-1", Name: "build", Cwd: "/src", Mode: terminals.Command, Env: []string{"DSH_PTY_SESSION_ID=pty-1"}},
		{Owner: f.owner, ID: "pty-2", Cwd: "/home/agent"},
	}, f.backend.calls())
}

// Every check is made with all later ones failing too, so the order shows.
//
// Case: reference 3.3 #3
func TestOpenChecksInOrder(t *testing.T) {
	f := newFixture(t, nil)
	_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell", Name: new("taken")})
	require.NoError(t, err)
	dead := f.newOwner("dead")
	require.NoError(t, f.DisposeOwner(t.Context(), dead))
	reason := errors.New("the user pressed escape")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(reason)

	_, err = f.Open(cancelled, dead, terminals.OpenRequest{Type: "none", Name: new("")})
	assert.Same(t, reason, err)
	_, err = f.Open(t.Context(), dead, terminals.OpenRequest{Type: "none", Name: new("")})
	assert.Equal(t, terminals.OwnerNotLive, terminals.CodeOf(err))
	_, err = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "none", Name: new("")})
	assert.Equal(t, terminals.NoBackend, terminals.CodeOf(err))
	assert.EqualError(t, err, `there is no terminal type "none"; registered types: shell`)
	_, err = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell", Name: new("")})
	assert.Equal(t, terminals.InvalidArgument, terminals.CodeOf(err))
	_, err = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell", Name: new("taken")})
	assert.Equal(t, terminals.DuplicateName, terminals.CodeOf(err))
	assert.EqualError(t, err, `the name "taken" belongs to terminal session pty-1; choose another one or close that session`)

	assert.Len(t, f.backend.calls(), 1, "a refused open never reaches the backend")
	assert.Equal(t, "pty-2", f.mustOpen(f.owner), "a refused open takes no id")

	require.NoError(t, f.Dispose(t.Context()))
	_, err = f.Open(cancelled, dead, terminals.OpenRequest{Type: "none", Name: new("")})
	assert.Equal(t, terminals.ServiceDisposing, terminals.CodeOf(err))
}

func TestOpenWithoutAnyBackend(t *testing.T) {
	s := terminals.NewService(terminals.Options{})
	o, err := s.NewOwner(terminals.OwnerOptions{})
	require.NoError(t, err)
	_, err = s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
	assert.EqualError(t, err, `there is no terminal type "shell"; no type is registered`)
}

func TestOpenNeedsAnOwnerOfThisService(t *testing.T) {
	f, elsewhere := newFixture(t, nil), newFixture(t, nil)
	for _, o := range []*terminals.Owner{nil, elsewhere.owner} {
		_, err := f.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
		assert.ErrorIs(t, err, terminals.OwnerNotLive)
	}
}

// Case: reference 3.3 #1
func TestNameIsReservedWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan error)
		f := newFixture(t, func(_ context.Context, setup terminals.Setup) (terminals.Session, error) {
			if setup.ID == "pty-1" {
				return nil, <-ready
			}
			return &fakeSession{}, nil
		})
		named := terminals.OpenRequest{Type: "shell", Name: new("build")}
		first := f.goOpen(t.Context(), named)
		synctest.Wait()

		_, err := f.Open(t.Context(), f.owner, named)
		require.ErrorIs(t, err, terminals.DuplicateName)
		_, err = f.Open(t.Context(), f.newOwner("other"), named)
		require.NoError(t, err, "names are per owner")

		broken := errors.New("no shell there")
		ready <- broken
		assert.Same(t, broken, (<-first).err, "the refused open did not disturb this one")
		assert.False(t, f.HasActivity(f.owner))

		info, err := f.Open(t.Context(), f.owner, named)
		require.NoError(t, err, "a failed open frees its name")
		assert.Equal(t, "pty-3", info.SessionID, "and burns its id")
		_, err = f.Close(t.Context(), f.owner, info.SessionID, "")
		require.NoError(t, err)
		_, err = f.Open(t.Context(), f.owner, named)
		assert.NoError(t, err, "a closed session frees its name")
	})
}

func TestFailedEnvironmentFailsTheOpen(t *testing.T) {
	f := newFixture(t, nil)
	broken := errors.New("contributor jira: DSH_TICKET is undeclared")
	_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{
		Type: "shell",
		Env:  func(string) ([]string, error) { return nil, broken },
	})
	assert.Same(t, broken, err)
	assert.Empty(t, f.backend.calls())
	assert.False(t, f.HasActivity(f.owner))
	assert.Equal(t, "pty-2", f.mustOpen(f.owner))
}

// Case: reference 3.3 #4
func TestCancelBeforeTheBackendRuns(t *testing.T) {
	f := newFixture(t, nil)
	reason := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := f.Open(ctx, f.owner, terminals.OpenRequest{
		Type: "shell",
		Env:  func(string) ([]string, error) { cancel(reason); return nil, nil },
	})
	assert.Same(t, reason, err)
	assert.Empty(t, f.backend.calls())
	assert.False(t, f.HasActivity(f.owner))
}

// Case: reference 3.3 #5
func TestCancelWhileABackendSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		session := &fakeSession{}
		var told error
		f := newFixture(t, func(ctx context.Context, _ terminals.Setup) (terminals.Session, error) {
			<-ctx.Done()
			told = context.Cause(ctx)
			<-ready
			return session, nil
		})
		reason := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		open := f.goOpen(ctx, terminals.OpenRequest{Type: "shell"})
		synctest.Wait()
		cancel(reason)
		synctest.Wait()
		require.True(t, pending(open), "the open waits for the backend")
		assert.True(t, f.HasActivity(f.owner))

		close(ready)

		assert.Same(t, reason, (<-open).err)
		assert.Same(t, reason, told, "the backend gets the caller's cause")
		assert.Equal(t, []string{"open rolled back"}, session.closes())
		assert.True(t, f.owner.Live())
		assert.False(t, f.HasActivity(f.owner))
		assert.Empty(t, f.List(f.owner))
		require.NoError(t, f.DisposeOwner(t.Context(), f.owner))
		assert.Len(t, session.closes(), 1)
	})
}

// The roll-back is not cut short by the cancellation that caused it.
func TestRollBackHasAContextOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		session := &fakeSession{close: func(ctx context.Context, n int) error {
			assert.NoError(t, ctx.Err())
			if n == 1 {
				assert.Equal(t, "trace", ctx.Value(key{}), "the values are the caller's")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
			cancel()
			return session, nil
		})
		_, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
		assert.Equal(t, context.Canceled, err)
		assert.True(t, f.HasActivity(f.owner))

		err = f.DisposeOwner(t.Context(), f.owner)
		assert.ErrorContains(t, err, "terminals: closing took longer than 30s")
	})
}

func TestCallersCauseWinsOverTheBackendsError(t *testing.T) {
	f := newFixture(t, nil)
	reason := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	f.backend.open = func(context.Context, terminals.Setup) (terminals.Session, error) {
		cancel(reason)
		return nil, errors.New("start-up was interrupted")
	}
	_, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
	assert.Same(t, reason, err)
}

// Case: reference 3.3 #6
func TestFailedRollBackIsReportedOnce(t *testing.T) {
	for name, dispose := range map[string]func(*fixture) error{
		"by the owner's disposal":   func(f *fixture) error { return f.DisposeOwner(f.t.Context(), f.owner) },
		"by the service's disposal": func(f *fixture) error { return f.Dispose(f.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				survived := errors.New("process 12 survived")
				session := &fakeSession{close: func(_ context.Context, n int) error {
					if n == 1 {
						return survived
					}
					return nil
				}}
				reason := errors.New("stop")
				ctx, cancel := context.WithCancelCause(t.Context())
				f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
					cancel(reason)
					return session, nil
				})
				_, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
				assert.Same(t, reason, err)
				assert.Empty(t, f.List(f.owner))
				require.True(t, f.HasActivity(f.owner))

				err = dispose(f)

				require.ErrorIs(t, err, survived)
				require.ErrorIs(t, err, terminals.CleanupFailed)
				assert.EqualError(t, err, "terminal session pty-1 was not cleaned up: process 12 survived")
				assert.False(t, f.HasActivity(f.owner))
				assert.Len(t, session.closes(), 2, "the disposal tries once more")
				if name == "by the owner's disposal" {
					assert.NoError(t, f.Dispose(t.Context()), "what was reported is not reported again")
				}
			})
		})
	}
}

func TestDisposalReportsARetryThatFailsToo(t *testing.T) {
	first, second := errors.New("12 survived"), errors.New("12 still there")
	session := &fakeSession{close: func(_ context.Context, n int) error {
		return []error{first, second}[n-1]
	}}
	ctx, cancel := context.WithCancel(t.Context())
	f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
		cancel()
		return session, nil
	})
	_, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
	require.Equal(t, context.Canceled, err)

	err = f.DisposeOwner(t.Context(), f.owner)
	assert.ErrorIs(t, err, first)
	assert.ErrorIs(t, err, second)
}

// Case: reference 3.3 #7
func TestDisposalDuringSetup(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dispose func(*fixture) <-chan error
		code    terminals.Code
	}{
		{"owner", (*fixture).goDisposeOwner, terminals.OwnerNotLive},
		{"service", (*fixture).goDispose, terminals.ServiceDisposing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ready := make(chan struct{})
				session := &fakeSession{}
				var told error
				f := newFixture(t, func(ctx context.Context, _ terminals.Setup) (terminals.Session, error) {
					<-ctx.Done()
					told = context.Cause(ctx)
					<-ready
					return session, nil
				})
				open := f.goOpen(t.Context(), terminals.OpenRequest{Type: "shell"})
				synctest.Wait()

				disposal := tc.dispose(f)
				synctest.Wait()
				require.True(t, pending(disposal), "the disposal waits for the backend")
				require.True(t, pending(open))
				assert.False(t, f.owner.Live())
				assert.Equal(t, tc.code, terminals.CodeOf(context.Cause(f.owner.Context())))

				close(ready)

				err := (<-open).err
				assert.Equal(t, tc.code, terminals.CodeOf(err))
				assert.Equal(t, tc.code, terminals.CodeOf(told))
				assert.NoError(t, <-disposal)
				assert.Equal(t, []string{"open rolled back"}, session.closes())
				assert.False(t, f.HasActivity(f.owner))
			})
		})
	}
}

// The backend that succeeds in the very moment of the disposal, before its
// context has ended, is rolled back as well.
func TestDisposalBeatsPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		session := &fakeSession{}
		f.backend.open = func(context.Context, terminals.Setup) (terminals.Session, error) {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			err := f.DisposeOwner(gone, f.owner) // begins, and does not wait
			assert.Equal(t, context.Canceled, err)
			return session, nil
		}
		_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell"})
		assert.Equal(t, terminals.OwnerNotLive, terminals.CodeOf(err))
		assert.Len(t, session.closes(), 1)
		require.NoError(t, f.DisposeOwner(t.Context(), f.owner))
	})
}

func TestOpenAndDisposalBothFailOnAFailedRollBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		survived := errors.New("process 12 survived")
		session := &fakeSession{close: func(context.Context, int) error { return survived }}
		f := newFixture(t, func(ctx context.Context, _ terminals.Setup) (terminals.Session, error) {
			<-ctx.Done()
			return session, nil
		})
		open := f.goOpen(t.Context(), terminals.OpenRequest{Type: "shell"})
		synctest.Wait()

		err := f.DisposeOwner(t.Context(), f.owner)

		require.ErrorIs(t, err, survived)
		assert.Equal(t, terminals.OwnerNotLive, terminals.CodeOf((<-open).err))
		assert.Len(t, session.closes(), 1, "the roll-back has only just failed")
		assert.False(t, f.HasActivity(f.owner))
	})
}

// A caller that cancelled first keeps its own cause, whatever comes after it.
func TestFirstCauseWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		survived := errors.New("process 12 survived")
		session := &fakeSession{close: func(context.Context, int) error { return survived }}
		f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
			<-ready
			return session, nil
		})
		reason := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		open := f.goOpen(ctx, terminals.OpenRequest{Type: "shell"})
		synctest.Wait()
		cancel(reason)
		disposal := f.goDisposeOwner()
		synctest.Wait()
		close(ready)

		assert.Same(t, reason, (<-open).err)
		assert.ErrorIs(t, <-disposal, survived)
	})
}

// And the ways in which a backend can say two things.
//
// Case: reference 3.3 #8
func TestCleanupErrorOfABackend(t *testing.T) {
	startup := errors.New("the shell exited")
	one := &terminals.Error{Code: terminals.CleanupFailed, Message: "process 12 survived"}
	two := &terminals.Error{Code: terminals.CleanupFailed, Message: "a folder is left"}
	for _, tc := range []struct {
		name     string
		err      error
		reported string
	}{
		{"alone", one, "process 12 survived"},
		{"joined", errors.Join(startup, one), "process 12 survived"},
		{"wrapped", &terminals.Error{Code: terminals.SessionExited, Message: "no start", Err: errors.Join(startup, one)}, "process 12 survived"},
		{"two of them", errors.Join(startup, one, two), "process 12 survived\na folder is left"},
		{"a bare code", errors.Join(startup, terminals.CleanupFailed), "CLEANUP_FAILED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(ctx context.Context, _ terminals.Setup) (terminals.Session, error) {
					<-ctx.Done()
					return nil, tc.err
				})
				open := f.goOpen(t.Context(), terminals.OpenRequest{Type: "shell"})
				synctest.Wait()

				err := f.Dispose(t.Context())

				assert.EqualError(t, err, "terminal session pty-1 was not cleaned up: "+tc.reported)
				assert.NotErrorIs(t, err, startup)
				assert.Equal(t, terminals.ServiceDisposing, terminals.CodeOf((<-open).err))
			})
		})
	}
}

func TestCleanupErrorWithoutCancellation(t *testing.T) {
	startup := errors.New("the shell exited")
	left := &terminals.Error{Code: terminals.CleanupFailed, Message: "process 12 survived"}
	f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) {
		return nil, errors.Join(startup, left)
	})
	_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell", Name: new("build")})
	assert.ErrorIs(t, err, startup)
	assert.ErrorIs(t, err, terminals.CleanupFailed)
	assert.True(t, f.HasActivity(f.owner))

	f.backend.open = nil
	_, err = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell", Name: new("build")})
	assert.NoError(t, err, "the name is free again")
	err = f.DisposeOwner(t.Context(), f.owner)
	assert.ErrorIs(t, err, left)
	assert.NotErrorIs(t, err, startup)
}

func TestBackendThatReturnsNothing(t *testing.T) {
	f := newFixture(t, always(nil))
	_, err := f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell"})
	assert.EqualError(t, err, `terminals: backend "shell" returned neither a session nor an error`)
	assert.False(t, f.HasActivity(f.owner))
}

// A backend's panic is its caller's to handle; the service stays usable.
func TestPanickingBackendSettles(t *testing.T) {
	f := newFixture(t, func(context.Context, terminals.Setup) (terminals.Session, error) { panic("broken backend") })
	assert.PanicsWithValue(t, "broken backend", func() {
		_, _ = f.Open(t.Context(), f.owner, terminals.OpenRequest{Type: "shell"})
	})
	assert.False(t, f.HasActivity(f.owner))
	assert.NoError(t, f.Dispose(t.Context()))
}

// The context of the set-up ends with it; a cancellation that comes later does
// not reach the session.
func TestCancelAfterPublicationChangesNothing(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	info, err := f.Open(ctx, f.owner, terminals.OpenRequest{Type: "shell"})
	require.NoError(t, err)
	cancel()
	_, err = f.Session(f.owner, info.SessionID)
	assert.NoError(t, err)
}
