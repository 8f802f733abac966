package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/terminals"
)

func sandboxFlag(cmd *cobra.Command, mode *string) {
	cmd.Flags().StringVar(mode, "sandbox", "", "what shells may change: `read-only`, workspace-write or danger-full-access")
}

// newSandbox takes the sandbox from the configuration.
func newSandbox(h *host) (*sandbox.Sandbox, error) {
	cfg := h.cfg.Sandbox
	// Each shell names its own workspace; this one only has to exist.
	opts := sandbox.Options{Root: os.TempDir(), Writable: cfg.WritableRoots, Network: cfg.Network, Logger: h.log}
	if cfg.Protect != nil {
		opts.Protect = *cfg.Protect
	}
	if cfg.DenyRead != nil {
		opts.DenyRead = *cfg.DenyRead
	}
	if cfg.Provider != config.AnyProvider {
		opts.Provider = cfg.Provider
	}
	made, err := sandbox.New(opts)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return made, nil
}

// confine settles the mode of the agent's shells: what the command line says,
// else what the session's log says, else the configuration. The log gets what
// somebody chose and it does not hold yet; a fork takes its parent's along.
func (a *agent) confine(ctx context.Context, o sessionOptions) (err error) {
	var stored []sandbox.Mode
	if past := o.stored(); past != "" {
		if stored, err = storedModes(ctx, a.persistence, past); err != nil {
			return err
		}
	}
	if a.policy, err = sandbox.NewPolicy(sandbox.Mode(a.host.cfg.Sandbox.Mode), stored...); err != nil {
		return usageError("session %q: %v", a.id, err)
	}
	mode, err := a.policy.Resolve(sandbox.Mode(o.sandbox))
	if err != nil {
		return usageError("--sandbox: %v", err)
	}
	own := stored
	if o.fork != "" {
		own = nil
	}
	chosen := o.sandbox != "" || len(stored) > 0
	if !chosen || len(own) > 0 && own[len(own)-1] == mode {
		return nil
	}
	return a.policy.Change(mode, a.owner, a.host.service, func() error {
		a.append(session.SandboxMode{Mode: string(mode)})
		return nil
	})
}

// storedModes are the modes that a session's log holds, oldest first.
func storedModes(ctx context.Context, logs session.Persistence, id string) ([]sandbox.Mode, error) {
	var modes []sandbox.Mode
	for event, err := range logs.Events(ctx, id) {
		if errors.Is(err, session.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if event.Type != session.TypeSandboxMode {
			continue
		}
		var stored session.SandboxMode
		if err := event.Decode(&stored); err != nil {
			return nil, err
		}
		modes = append(modes, sandbox.Mode(stored.Mode))
	}
	return modes, nil
}

// mode is what the agent's shells may change.
func (a *agent) mode() sandbox.Mode {
	if a.policy == nil {
		return sandbox.Mode(a.host.cfg.Sandbox.Mode)
	}
	mode, _ := a.policy.Resolve("") // its one error is that of the argument
	return mode
}

// grant is what a shell of owner gets.
func (h *host) grant(owner *terminals.Owner) sandbox.Grant {
	root := h.cfg.Sandbox.WorkspaceRoot
	home := root == "~" || strings.HasPrefix(root, "~/")
	if owner != nil && !home && !filepath.IsAbs(root) {
		root = filepath.Join(owner.Cwd(), root)
	}
	return sandbox.Grant{Mode: h.agentOf(owner).mode(), Root: root}
}

// wrap confines the start of one terminal.
func (h *host) wrap(ctx context.Context, setup terminals.Setup, spec backend.Spec) (backend.Spec, func() error, error) {
	return h.sandbox.Wrap(ctx, h.grant(setup.Owner), spec)
}

// explain says of a failed command what its shell may not do.
func (h *host) explain(owner *terminals.Owner, r persistent.Result) string {
	return h.sandbox.Denial(h.grant(owner), sandbox.Failure{Output: r.Output, Cwd: r.Cwd, ExitCode: *r.ExitCode})
}
