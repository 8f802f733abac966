package terminals_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

func TestRegisterRefusals(t *testing.T) {
	f := newFixture(t, nil)

	_, err := f.Register("", f.backend)
	assert.ErrorIs(t, err, terminals.InvalidArgument)
	_, err = f.Register("nothing", nil)
	assert.ErrorIs(t, err, terminals.InvalidArgument)
	_, err = f.Register("shell", &fakeBackend{})
	assert.ErrorIs(t, err, terminals.DuplicateBackend)
	assert.Equal(t, []string{"shell"}, f.Backends(), "a refused registration leaves no trace")
}

func TestBackendsKeepOrderOfRegistration(t *testing.T) {
	s := terminals.NewService(terminals.Options{})
	var removes []func()
	for _, typ := range []string{"pwsh", "bash", "alpha"} {
		remove, err := s.Register(typ, &fakeBackend{})
		require.NoError(t, err)
		removes = append(removes, remove)
	}
	assert.Equal(t, []string{"pwsh", "bash", "alpha"}, s.Backends())
	removes[1]()
	assert.Equal(t, []string{"pwsh", "alpha"}, s.Backends())
}

// Removing a registration leaves its successor alone.
//
// Case: reference 3.3 #13
func TestRemoveSparesTheReplacement(t *testing.T) {
	s := terminals.NewService(terminals.Options{})
	removeA, err := s.Register("shell", &fakeBackend{})
	require.NoError(t, err)
	removeA()
	b := &fakeBackend{}
	_, err = s.Register("shell", b)
	require.NoError(t, err)

	removeA()

	require.Equal(t, []string{"shell"}, s.Backends())
	o, err := s.NewOwner(terminals.OwnerOptions{})
	require.NoError(t, err)
	_, err = s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
	require.NoError(t, err)
	assert.Len(t, b.calls(), 1)
}

// Sessions outlive the registration of their backend.
//
// Case: reference 3.3 #12
func TestRemovedBackendKeepsItsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{}
		s := terminals.NewService(terminals.Options{})
		remove, err := s.Register("shell", &fakeBackend{open: always(session)})
		require.NoError(t, err)
		o, err := s.NewOwner(terminals.OwnerOptions{})
		require.NoError(t, err)
		info, err := s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
		require.NoError(t, err)

		remove()

		page, err := s.Read(o, info.SessionID, 2, 3)
		require.NoError(t, err)
		assert.Equal(t, terminals.Page{Text: "page", LineBegin: 2, LineEnd: 5}, page)
		_, err = s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})
		require.ErrorIs(t, err, terminals.NoBackend)
		require.NoError(t, s.DisposeOwner(t.Context(), o))
		assert.Equal(t, []string{"owner disposed"}, session.closes())
	})
}

// Nothing works on the session of somebody else.
//
// Case: reference 3.3 #2
func TestForeignSession(t *testing.T) {
	f := newFixture(t, nil)
	id := f.mustOpen(f.owner)
	elsewhere := newFixture(t, nil)

	for name, stranger := range map[string]*terminals.Owner{
		"another owner":             f.newOwner("agent"), // even of the same name
		"an owner of other service": elsewhere.owner,
		"no owner":                  nil,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Session(stranger, id)
			assert.ErrorIs(t, err, terminals.ForeignSession)
			_, err = f.StartSend(t.Context(), stranger, id, terminals.SendRequest{})
			assert.ErrorIs(t, err, terminals.ForeignSession)
			_, err = f.Read(stranger, id, 0, 1)
			assert.ErrorIs(t, err, terminals.ForeignSession)
			_, err = f.Signal(t.Context(), stranger, id, terminals.SIGINT)
			assert.ErrorIs(t, err, terminals.ForeignSession)
			_, err = f.Close(t.Context(), stranger, id, "")
			assert.ErrorIs(t, err, terminals.ForeignSession)
			assert.Empty(t, f.List(stranger))
			assert.False(t, f.HasActivity(stranger))
		})
	}
	assert.Equal(t, []string{id}, ids(f.List(f.owner)))
}

func TestUnknownSession(t *testing.T) {
	f := newFixture(t, nil)

	_, err := f.Session(f.owner, "pty-1")
	assert.ErrorIs(t, err, terminals.NoSession)
	_, err = f.StartSend(t.Context(), f.owner, "pty-1", terminals.SendRequest{})
	assert.ErrorIs(t, err, terminals.NoSession)
	_, err = f.Read(f.owner, "pty-1", 0, 1)
	assert.ErrorIs(t, err, terminals.NoSession)
	_, err = f.Signal(t.Context(), f.owner, "pty-1", terminals.SIGINT)
	assert.ErrorIs(t, err, terminals.NoSession)
	_, err = f.Close(t.Context(), f.owner, "pty-1", "")
	assert.ErrorIs(t, err, terminals.NoSession)
	assert.EqualError(t, err, `there is no terminal session "pty-1"; use the id of an open one`)
}

func TestOwnerReachesItsSession(t *testing.T) {
	session := &fakeSession{}
	f := newFixture(t, always(session))
	id := f.mustOpen(f.owner)

	got, err := f.Session(f.owner, id)
	require.NoError(t, err)
	assert.Same(t, session, got)
	_, err = f.StartSend(t.Context(), f.owner, id, terminals.SendRequest{})
	assert.Same(t, errSent, err)
	pgid, err := f.Signal(t.Context(), f.owner, id, terminals.SIGINT)
	require.NoError(t, err)
	assert.Equal(t, 815, pgid)
}

func TestListIsFreshAndInOrderOfPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		first := &fakeSession{}
		f := newFixture(t, func(_ context.Context, setup terminals.Setup) (terminals.Session, error) {
			if setup.ID == "pty-1" {
				<-slow
				return first, nil
			}
			return &fakeSession{}, nil
		})
		one := f.goOpen(t.Context(), terminals.OpenRequest{Type: "shell", Name: new("late")})
		synctest.Wait()
		f.mustOpen(f.owner)
		f.mustOpen(f.newOwner("other"))
		assert.Equal(t, []string{"pty-2"}, ids(f.List(f.owner)), "an opening session is invisible")

		close(slow)
		require.NoError(t, (<-one).err)

		require.Equal(t, []string{"pty-2", "pty-1"}, ids(f.List(f.owner)))
		assert.False(t, f.List(f.owner)[1].Status.Exited)
		first.exit(3)
		assert.Equal(t, terminals.Info{
			SessionID: "pty-1",
			Name:      "late",
			Type:      "shell",
			PID:       4711,
			Status:    terminals.Status{Exited: true, ExitCode: new(3)},
		}, f.List(f.owner)[1])
		assert.True(t, f.HasActivity(f.owner), "an exited session counts until it is closed")
	})
}

func TestErrorCodes(t *testing.T) {
	cause := errors.New("device gone")
	err := fmt.Errorf("outer: %w", &terminals.Error{Code: terminals.NoSession, Message: "no session", Err: cause})

	assert.ErrorIs(t, err, terminals.NoSession)
	assert.ErrorIs(t, err, &terminals.Error{Code: terminals.NoSession})
	assert.ErrorIs(t, err, cause)
	assert.NotErrorIs(t, err, terminals.ForeignSession)
	assert.NotErrorIs(t, err, &terminals.Error{Code: terminals.ForeignSession})
	assert.Equal(t, terminals.NoSession, terminals.CodeOf(err))
	assert.Empty(t, terminals.CodeOf(cause))
	assert.EqualError(t, err, "outer: no session: device gone")
	assert.EqualError(t, terminals.NoSession, "NO_SESSION")
}

func TestFailedRollBackIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := terminals.NewService(terminals.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := s.Register("shell", &fakeBackend{open: func(context.Context, terminals.Setup) (terminals.Session, error) {
		return nil, &terminals.Error{Code: terminals.CleanupFailed, Message: "process 12 survived"}
	}})
	require.NoError(t, err)
	o, err := s.NewOwner(terminals.OwnerOptions{})
	require.NoError(t, err)

	_, err = s.Open(t.Context(), o, terminals.OpenRequest{Type: "shell"})

	require.ErrorIs(t, err, terminals.CleanupFailed)
	assert.Contains(t, log.String(), `session=pty-1 type=shell error="process 12 survived"`)
}
