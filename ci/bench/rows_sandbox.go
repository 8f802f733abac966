package main

import (
	"context"
	"runtime"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// confinedBy are the providers that are measured.
var confinedBy = []string{"bubblewrap", "landlock"}

// measureSandbox: what each provider adds to a shell's start and to a command.
func measureSandbox(b *bench, sh *shell) ([]row, error) {
	var rows []row
	for _, provider := range confinedBy {
		start, command := "shell until its first answer, "+provider+", floor: unconfined", "`"+sh.nothing+"`, "+provider+", floor: unconfined"
		s, err := sandbox.New(sandbox.Options{Root: b.dir, Provider: provider})
		if err == nil {
			_, err = s.Check(context.Background())
		}
		if err != nil {
			why := err.Error()
			if runtime.GOOS != "linux" {
				why = linuxOnly
			}
			rows = append(rows, row{Work: start, Skipped: why}, row{Work: command, Skipped: why})
			continue
		}
		more, err := b.measureProvider(sh, s, start, command)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func (b *bench) measureProvider(sh *shell, s *sandbox.Sandbox, start, command string) ([]row, error) {
	plain, err := newStack(sh, b.dir, 0, 0)
	if err != nil {
		return nil, err
	}
	defer plain.close()
	confined, err := newStack(sh, b.dir, 0, 0, func(cfg *engine.Config) {
		cfg.Wrap = func(ctx context.Context, _ terminals.Setup, spec backend.Spec) (backend.Spec, func() error, error) {
			return s.Wrap(ctx, sandbox.Grant{Mode: sandbox.WorkspaceWrite}, spec)
		}
	})
	if err != nil {
		return nil, err
	}
	defer confined.close()

	open := func(of *stack) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			o, err := of.newOwner()
			if err != nil {
				return 0, err
			}
			took, err := of.timed(o, sh.nothing)
			if err != nil {
				return 0, err
			}
			return took, of.service.DisposeOwner(context.Background(), o)
		}
	}
	openFloor, openOurs, err := pair(b.pick(100, 20), 5, open(plain), open(confined))
	if err != nil {
		return nil, err
	}
	sides := make([]func() (time.Duration, error), 2)
	for i, of := range []*stack{plain, confined} {
		o, err := of.owner()
		if err != nil {
			return nil, err
		}
		sides[i] = func() (time.Duration, error) { return of.timed(o, sh.nothing) }
	}
	floorTimes, oursTimes, err := pair(b.pick(2000, 400), 50, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	return []row{
		timeRow(start, openFloor, openOurs, bound{aboveFloor: 20}),
		timeRow(command, floorTimes, oursTimes, bound{ratioP50: 1.05}),
	}, nil
}
