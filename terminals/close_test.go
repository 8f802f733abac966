package terminals_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

// Case: reference 3.3 #9
func TestConcurrentCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := make(chan struct{})
		session := &fakeSession{close: func(context.Context, int) error { <-quiet; return nil }}
		f := newFixture(t, always(session))
		id := f.mustOpen(f.owner)

		first := f.goClose(t.Context(), id)
		synctest.Wait()
		second := f.goClose(t.Context(), id)
		synctest.Wait()
		require.True(t, pending(first))
		require.True(t, pending(second))

		_, err := f.StartSend(t.Context(), f.owner, id, terminals.SendRequest{})
		assert.ErrorIs(t, err, terminals.SessionClosing)
		_, err = f.Signal(t.Context(), f.owner, id, terminals.SIGINT)
		assert.ErrorIs(t, err, terminals.SessionClosing)
		_, err = f.Session(f.owner, id)
		assert.ErrorIs(t, err, terminals.SessionClosing)
		_, err = f.Read(f.owner, id, 0, 1)
		assert.NoError(t, err, "the scrollback is readable to the end")
		assert.Equal(t, []string{id}, ids(f.List(f.owner)))
		assert.True(t, f.HasActivity(f.owner))

		close(quiet)

		assert.Equal(t, closed{outcome: terminals.Closed}, <-first)
		assert.Equal(t, closed{outcome: terminals.AlreadyClosing}, <-second)
		_, err = f.Read(f.owner, id, 0, 1)
		assert.ErrorIs(t, err, terminals.NoSession)
		_, err = f.Close(t.Context(), f.owner, id, "")
		assert.ErrorIs(t, err, terminals.NoSession)
		assert.Equal(t, []string{"test"}, session.closes())
		assert.False(t, f.HasActivity(f.owner))
	})
}

// Case: reference 3.3 #10
func TestFailedCloseCanBeRetried(t *testing.T) {
	survived := errors.New("process 12 survived")
	session := &fakeSession{close: func(_ context.Context, n int) error {
		if n == 1 {
			return survived
		}
		return nil
	}}
	f := newFixture(t, always(session))
	id := f.mustOpen(f.owner)

	outcome, err := f.Close(t.Context(), f.owner, id, "")
	assert.Same(t, survived, err)
	assert.Empty(t, outcome)
	assert.Equal(t, []string{id}, ids(f.List(f.owner)))
	_, err = f.Session(f.owner, id)
	assert.NoError(t, err, "a session that could not be closed is usable")

	outcome, err = f.Close(t.Context(), f.owner, id, "")
	require.NoError(t, err)
	assert.Equal(t, terminals.Closed, outcome)
	assert.Empty(t, f.List(f.owner))
}

// Case: reference 3.3 #11
func TestConcurrentClosesShareAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		survived := errors.New("process 12 survived")
		step := make(chan error)
		session := &fakeSession{close: func(context.Context, int) error { return <-step }}
		f := newFixture(t, always(session))
		id := f.mustOpen(f.owner)
		first, second := f.goClose(t.Context(), id), f.goClose(t.Context(), id)
		synctest.Wait()

		step <- survived

		assert.Equal(t, closed{err: survived}, <-first)
		assert.Equal(t, closed{err: survived}, <-second)
		third := f.goClose(t.Context(), id)
		synctest.Wait()
		step <- nil
		assert.Equal(t, closed{outcome: terminals.Closed}, <-third)
		assert.Len(t, session.closes(), 2)
	})
}

// A failure that nobody waited for is not handed to a later close, and does not
// open the fence of the attempt that runs by then.
func TestFailureOfAnAbandonedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		session := &fakeSession{close: func(context.Context, int) error { return <-step }}
		f := newFixture(t, always(session))
		id := f.mustOpen(f.owner)
		ctx, cancel := context.WithCancel(t.Context())
		abandoned := f.goClose(ctx, id)
		synctest.Wait()
		cancel()
		require.Equal(t, closed{err: context.Canceled}, <-abandoned)
		step <- errors.New("process 12 survived")
		synctest.Wait()

		retry := f.goClose(t.Context(), id)
		synctest.Wait()

		require.True(t, pending(retry))
		_, err := f.Session(f.owner, id)
		assert.ErrorIs(t, err, terminals.SessionClosing)
		step <- nil
		assert.Equal(t, closed{outcome: terminals.Closed}, <-retry)
		assert.Len(t, session.closes(), 2)
	})
}

func TestCloseOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := make(chan struct{})
		session := &fakeSession{close: func(ctx context.Context, _ int) error {
			<-quiet
			return ctx.Err()
		}}
		f := newFixture(t, always(session))
		id := f.mustOpen(f.owner)
		impatient := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(impatient)

		outcome, err := f.Close(ctx, f.owner, id, "bye")

		assert.Same(t, impatient, err)
		assert.Empty(t, outcome)
		later := f.goClose(t.Context(), id)
		synctest.Wait()
		close(quiet)
		assert.Equal(t, closed{outcome: terminals.AlreadyClosing}, <-later)
		assert.Equal(t, []string{"bye"}, session.closes())
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{close: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		s := terminals.NewService(terminals.Options{CloseTimeout: 7 * time.Second})
		_, err := s.Register("shell", &fakeBackend{open: always(session)})
		require.NoError(t, err)
		o, err := s.NewOwner(terminals.OwnerOptions{})
		require.NoError(t, err)
		info, err := s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
		require.NoError(t, err)
		began := time.Now()

		_, err = s.Close(t.Context(), o, info.SessionID, "")

		assert.EqualError(t, err, "terminals: closing took longer than 7s")
		assert.Equal(t, 7*time.Second, time.Since(began))
	})
}
