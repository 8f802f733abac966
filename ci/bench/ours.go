package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// shell is one of the shells that are measured.
type shell struct {
	name       string
	dialect    dialect.Dialect
	startFloor func(dir string) (floor, error)
	nothing    string // a command that does nothing
}

var (
	// terminalShell stands for terminals, whatever runs in them.
	terminalShell = &shell{name: "terminal"}

	bashShell = &shell{"bash", bash.Dialect{}, startBashFloor, "true"}
	pwshShell = &shell{"pwsh", pwsh.Dialect{}, startPwshFloor, "$null"}
)

var shells map[string]*shell

func init() { // floorStart, which a child runs, looks itself up in it
	shells = map[string]*shell{bashShell.name: bashShell, pwshShell.name: pwshShell}
}

// found tells whether the shell is installed here.
func (sh *shell) found() bool {
	if sh == terminalShell {
		return true // each measurement looks for its own programs
	}
	_, err := exec.LookPath(sh.name)
	return err == nil
}

// stack is the module as a program embeds it.
type stack struct {
	shell   *shell
	service *terminals.Service
	runner  *persistent.Runner
	owners  int
}

// newStack builds a stack over one shell. grace is the backend's disposeGraceMs, 0 for the
// default; timeout the commands' own, 0 for the default. change sets more of the
// backend.
func newStack(sh *shell, dir string, grace, timeout time.Duration, change ...func(*engine.Config)) (*stack, error) {
	driver, err := posix.New(posix.Options{})
	if err != nil {
		return nil, err
	}
	cfg := engine.DefaultConfig()
	cfg.Type = sh.name
	if grace > 0 {
		cfg.DisposeGrace = grace
	}
	for _, set := range change {
		set(&cfg)
	}
	backend, err := engine.New(cfg, driver, sh.dialect)
	if err != nil {
		return nil, err
	}
	service := terminals.NewService(terminals.Options{})
	if _, err := service.Register(sh.name, backend); err != nil {
		return nil, err
	}
	runs := persistent.DefaultConfig()
	runs.BackendType = sh.name
	runs.SpillDir = dir
	if timeout > 0 {
		runs.Timeout = timeout
	}
	runner, err := persistent.New(service, runs)
	if err != nil {
		return nil, err
	}
	return &stack{shell: sh, service: service, runner: runner}, nil
}

func (s *stack) close() error { return s.service.Dispose(context.Background()) }

// newOwner makes an owner without a shell.
func (s *stack) newOwner() (*terminals.Owner, error) {
	s.owners++
	return s.service.NewOwner(terminals.OwnerOptions{Name: fmt.Sprintf("bench-%d", s.owners), Cwd: os.TempDir()})
}

// owner makes an owner whose shell has answered once.
func (s *stack) owner() (*terminals.Owner, error) {
	o, err := s.newOwner()
	if err != nil {
		return nil, err
	}
	_, err = s.run(o, s.shell.nothing)
	return o, err
}

// run runs one command that has to complete with exit code 0.
func (s *stack) run(o *terminals.Owner, text string) (persistent.Result, error) {
	res := s.runner.Run(context.Background(), o, persistent.Command{Text: text})
	if res.Reason != persistent.Completed || res.ExitCode == nil || *res.ExitCode != 0 {
		return res, fmt.Errorf("ours: %.60q came back as %s: %.200q", text, res.Reason, res.Text)
	}
	return res, nil
}

// timed returns how long one run of text took.
func (s *stack) timed(o *terminals.Owner, text string) (time.Duration, error) {
	begin := time.Now()
	_, err := s.run(o, text)
	return time.Since(begin), err
}
