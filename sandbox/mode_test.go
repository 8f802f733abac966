package sandbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/terminals"
)

// openTerminals is what an owner has open.
type openTerminals struct {
	active bool
	ids    []string
}

func (o openTerminals) HasActivity(*terminals.Owner) bool { return o.active }

func (o openTerminals) List(*terminals.Owner) (list []terminals.Info) {
	for _, id := range o.ids {
		list = append(list, terminals.Info{SessionID: id})
	}
	return list
}

var _ sandbox.Terminals = (*terminals.Service)(nil)

func TestParseMode(t *testing.T) {
	for _, name := range []string{"read-only", "workspace-write", "danger-full-access"} {
		mode, err := sandbox.ParseMode(name)
		require.NoError(t, err)
		assert.Equal(t, sandbox.Mode(name), mode)
		assert.Equal(t, name != "danger-full-access", mode.Confined())
	}
	_, err := sandbox.ParseMode("full")
	assert.EqualError(t, err, `"full" is no sandbox mode; use read-only, workspace-write or danger-full-access`)
}

func TestModeInForce(t *testing.T) {
	for _, tt := range []struct {
		deployment sandbox.Mode
		events     []sandbox.Mode
		override   sandbox.Mode
		want       sandbox.Mode
	}{
		{"", nil, "", sandbox.WorkspaceWrite},
		{sandbox.ReadOnly, nil, "", sandbox.ReadOnly},
		{sandbox.ReadOnly, []sandbox.Mode{sandbox.DangerFullAccess, sandbox.WorkspaceWrite}, "", sandbox.WorkspaceWrite},
		{sandbox.ReadOnly, []sandbox.Mode{sandbox.WorkspaceWrite}, sandbox.DangerFullAccess, sandbox.DangerFullAccess},
	} {
		p, err := sandbox.NewPolicy(tt.deployment, tt.events...)
		require.NoError(t, err)
		mode, err := p.Resolve(tt.override)
		require.NoError(t, err)
		assert.Equal(t, tt.want, mode)
	}
	_, err := sandbox.NewPolicy("", "none")
	assert.Error(t, err)
	p, err := sandbox.NewPolicy("")
	require.NoError(t, err)
	_, err = p.Resolve("none")
	assert.Error(t, err)
}

func TestChangeOfMode(t *testing.T) {
	stored := 0
	store := func() error { stored++; return nil }
	inForce := func(p *sandbox.Policy) sandbox.Mode {
		mode, err := p.Resolve("")
		require.NoError(t, err)
		return mode
	}
	p, err := sandbox.NewPolicy(sandbox.WorkspaceWrite)
	require.NoError(t, err)

	require.NoError(t, p.Change(sandbox.ReadOnly, nil, openTerminals{}, store))
	assert.Equal(t, sandbox.ReadOnly, inForce(p))
	assert.Equal(t, 1, stored)

	err = p.Change(sandbox.DangerFullAccess, nil, openTerminals{true, []string{"pty-1", "pty-4"}}, store)
	assert.ErrorIs(t, err, sandbox.ErrModeFixed)
	assert.EqualError(t, err, "the sandbox mode stays read-only: a terminal keeps the mode that it was opened in, so to get danger-full-access close pty-1, pty-4 first, then set the mode again")
	err = p.Change(sandbox.DangerFullAccess, nil, openTerminals{active: true}, store)
	assert.ErrorIs(t, err, sandbox.ErrModeFixed)
	assert.ErrorContains(t, err, "wait until the terminal that is being opened or closed has settled")
	assert.Equal(t, 1, stored, "a refused change is not stored")
	assert.Equal(t, sandbox.ReadOnly, inForce(p))

	require.NoError(t, p.Change(sandbox.ReadOnly, nil, openTerminals{active: true}, store), "the mode in force passes")
	assert.Equal(t, 2, stored)

	full := errors.New("the disk is full")
	assert.ErrorIs(t, p.Change(sandbox.WorkspaceWrite, nil, openTerminals{}, func() error { return full }), full)
	assert.Equal(t, sandbox.ReadOnly, inForce(p))
	assert.Error(t, p.Change("none", nil, openTerminals{}, store))
	assert.Equal(t, 2, stored)
}

// With the real service: a terminal that is being opened fixes the mode.
func TestModeIsFixedWhileATerminalOpens(t *testing.T) {
	service := terminals.NewService(terminals.Options{})
	t.Cleanup(func() { assert.NoError(t, service.Dispose(context.Background())) })
	owner, err := service.NewOwner(terminals.OwnerOptions{Name: t.Name()})
	require.NoError(t, err)
	p, err := sandbox.NewPolicy("")
	require.NoError(t, err)
	opening, release := make(chan struct{}), make(chan struct{})
	_, err = service.Register("slow", slowBackend{opening, release})
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := service.Open(t.Context(), owner, terminals.OpenRequest{Type: "slow"})
		done <- err
	}()
	<-opening
	nothing := func() error { return nil }
	assert.ErrorIs(t, p.Change(sandbox.DangerFullAccess, owner, service, nothing), sandbox.ErrModeFixed)
	close(release)
	assert.Error(t, <-done)
	assert.NoError(t, p.Change(sandbox.DangerFullAccess, owner, service, nothing))
}

// slowBackend opens nothing, slowly.
type slowBackend struct{ opening, release chan struct{} }

func (b slowBackend) Open(context.Context, terminals.Setup) (terminals.Session, error) {
	close(b.opening)
	<-b.release
	return nil, errors.New("no terminal")
}
