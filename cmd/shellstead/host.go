package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/hooks"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/shellenv"
	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
	"github.com/shellstead/shellstead/toolpty"
	"github.com/shellstead/shellstead/toolpwsh"
)

// dialects are the shell languages that this program was built with. Each has a
// command tool of its name.
var dialects = []dialect.Dialect{bash.Dialect{}, pwsh.Dialect{}}

// plain is how a terminal is run whose program is no such shell.
var plain = none.Dialect{}

func dialectNames() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name()
	}
	return names
}

func dialectNamed(name string) (dialect.Dialect, error) {
	if name == plain.Name() {
		return plain, nil
	}
	for _, d := range dialects {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, usageError("the dialect %s is not available in this version; use %s", name, strings.Join(dialectNames(), " or "))
}

// found tells whether the shell of a dialect is in PATH.
func found(dialect string) bool {
	d, err := dialectNamed(dialect)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(d.Programs(), func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
}

// absent is the error of a command tool without a shell.
func absent(d dialect.Dialect) error {
	return usageError("%s was not found in PATH: %s; or name it with --set backends.%s.shellPath=/path/to/%s",
		strings.Join(d.Programs(), " or "), d.Install(), d.Name(), d.Programs()[0])
}

// host is the part of a process that serves commands: one service with its
// backends, and the tools over them.
type host struct {
	cfg     *config.Config
	log     *slog.Logger
	drivers map[string]backend.Driver
	service *terminals.Service
	env     *shellenv.Registry // what shells find as DSH_*
	sandbox *sandbox.Sandbox
	hooks   *hooks.Runner
	agents  sync.Map // of *terminals.Owner to *agent

	keepSpill bool
	terminals bool // the terminal tools are mounted
	disposal  sync.Once
}

// newHost builds a host. It opens no terminal and needs no shell. keepSpill
// leaves the files with clipped output behind when their owner ends.
func newHost(cfg *config.Config, log *slog.Logger, keepSpill bool) (*host, error) {
	h := &host{
		cfg:     cfg,
		log:     log,
		drivers: map[string]backend.Driver{},
		service: terminals.NewService(terminals.Options{Logger: log}),
		env:     shellenv.New(cfg.DSHHome),

		keepSpill: keepSpill,
	}
	var err error
	if h.hooks, err = newHooks(cfg, log); err != nil {
		return nil, err
	}
	if h.sandbox, err = newSandbox(h); err != nil {
		return nil, err
	}
	for _, b := range cfg.Backends {
		if err := h.register(b); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// newHooks takes the hooks from the configuration, which has checked them.
func newHooks(cfg *config.Config, log *slog.Logger) (*hooks.Runner, error) {
	opts := hooks.Options{MaxResultBytes: cfg.Tools.Terminal.MaxResultBytes, Logger: log}
	for _, h := range cfg.Hooks {
		opts.Hooks = append(opts.Hooks, hooks.Hook{
			Event: hooks.Event(h.Event), Matcher: h.Matcher, Command: h.Command,
			Format: hooks.Format(h.Format), Timeout: h.Timeout.Duration(), OnFailure: hooks.OnFailure(h.OnFailure),
		})
	}
	return hooks.New(opts)
}

func (h *host) register(b config.Backend) error {
	driver := h.drivers[b.Driver]
	if driver == nil {
		var err error
		if driver, err = newDriver(h.log); err != nil {
			return err
		}
		h.drivers[b.Driver] = driver
	}
	d, err := dialectNamed(b.ShellDialect)
	if err != nil {
		return err
	}
	if b.Transport == config.TypedTransport {
		d = pwsh.Dialect{Typed: true} // the only one that has another
	}
	made, err := engine.New(engine.Config{
		Type:               b.Type,
		ShellPath:          b.ShellPath,
		ShellArgs:          b.ShellArgs,
		Env:                b.Env,
		Init:               b.Init,
		Rows:               b.Rows,
		Cols:               b.Cols,
		ScrollbackLines:    b.ScrollbackLines,
		ScrollbackMaxBytes: b.ScrollbackMaxBytes,
		MaxReadBytes:       b.MaxReadBytes,
		PollInterval:       b.PollInterval.Duration(),
		ExactProbeAfter:    b.ExactProbeAfter.Duration(),
		IdleSilence:        b.IdleSilence.Duration(),
		HandoffGrace:       b.HandoffGrace.Duration(),
		Timeout:            b.Timeout.Duration(),
		DisposeGrace:       b.DisposeGrace.Duration(),
		Wrap:               h.wrap,
		CaseInsensitiveEnv: runtime.GOOS == "windows",
		Logger:             h.log,
	}, driver, d)
	if err != nil {
		return fmt.Errorf("backends.%s: %w", b.Type, err)
	}
	_, err = h.service.Register(b.Type, made)
	return err
}

func (h *host) newRunner(c config.Command) (*persistent.Runner, error) {
	return persistent.New(h.service, persistent.Config{
		BackendType:    c.BackendType,
		Timeout:        c.Timeout.Duration(),
		OnTimeout:      persistent.OnTimeout(c.OnTimeout),
		MaxOutputChars: c.MaxOutputChars,
		Clip:           persistent.Clip(c.Clip),
		WaitConfirm:    c.WaitConfirm.Duration(),
		Spill:          c.Spill,
		SpillDir:       c.SpillDir,
		SpillMaxBytes:  c.SpillMaxBytes,
		KeepSpill:      h.keepSpill,
		TerminalTools:  h.terminals,
		Logger:         h.log,
		Resolve: func(ctx context.Context, owner *terminals.Owner, _, cwd string) ([]string, error) {
			return h.managedEnv(ctx, owner, "", cwd)
		},
		Explain:   h.explain,
		SessionID: func(owner *terminals.Owner) string { return h.agentOf(owner).id },
	})
}

// agentOf returns the owner's agent; one without a session for an owner that has
// none, as doctor's.
func (h *host) agentOf(owner *terminals.Owner) *agent {
	if a, ok := h.agents.Load(owner); ok {
		return a.(*agent)
	}
	return &agent{host: h, owner: owner}
}

// managedEnv is what a shell of owner finds besides its own environment.
// terminal is the session's id, for interactive terminals.
func (h *host) managedEnv(ctx context.Context, owner *terminals.Owner, terminal, cwd string) ([]string, error) {
	a := h.agentOf(owner)
	return h.env.Snapshot(ctx, shellenv.Execution{SessionID: a.id, SessionJSONL: a.jsonl, TerminalID: terminal, Cwd: cwd})
}

// commandTool is the runner of one command tool. A tool has the name of its
// dialect.
type commandTool struct {
	name     string
	runner   *persistent.Runner
	settings *config.Command
}

// command makes a command tool's runner. It starts nothing, but it wants a
// shell that could be started.
func (h *host) command(name string) (commandTool, error) {
	d, err := dialectNamed(name)
	if err != nil {
		return commandTool{}, err
	}
	settings := h.cfg.Tools.Command(name)
	if h.cfg.Backend(settings.BackendType) == nil {
		return commandTool{}, absent(d)
	}
	runner, err := h.newRunner(*settings)
	return commandTool{name: name, runner: runner, settings: settings}, err
}

// mounted are the tools of a `--tools` list.
type mounted struct {
	commands []commandTool
	tools    []tool.Tool // those of commands first
}

// mount makes the tools of a list. notify is told of each background task that
// has ended; it may be nil.
func (h *host) mount(list string, notify func(*terminals.Owner, tasks.Notice)) (mounted, error) {
	names, err := h.parseTools(list)
	if err != nil {
		return mounted{}, err
	}
	h.terminals = slices.Contains(names, terminalTools)
	var m mounted
	for _, name := range names {
		if slices.Contains(groups, name) {
			continue
		}
		c, err := h.command(name)
		if err != nil {
			return mounted{}, err
		}
		m.commands = append(m.commands, c)
		m.tools = append(m.tools, c.tool())
	}
	if h.terminals {
		more, err := h.terminalTools(slices.Contains(names, taskTools), notify)
		if err != nil {
			return mounted{}, err
		}
		m.tools = append(m.tools, more...)
	}
	return m, nil
}

// environmentTimeout bounds what is asked before a terminal opens.
const environmentTimeout = 10 * time.Second

// terminalTools makes the six tools and, where background is set, the three for
// background sends.
func (h *host) terminalTools(background bool, notify func(*terminals.Owner, tasks.Notice)) ([]tool.Tool, error) {
	settings := toolpty.Config{
		RunInBackground: background,
		MaxResultBytes:  h.cfg.Tools.Terminal.MaxResultBytes,
		Env: func(owner *terminals.Owner, id string) ([]string, error) {
			ctx, cancel := context.WithTimeout(owner.Context(), environmentTimeout)
			defer cancel()
			return h.managedEnv(ctx, owner, id, owner.Cwd())
		},
	}
	var more []tool.Tool
	if background {
		runtime, err := tasks.New(tasks.Config{MaxResultBytes: settings.MaxResultBytes, Notify: notify, Logger: h.log})
		if err != nil {
			return nil, err
		}
		settings.Tasks, more = runtime, runtime.Tools()
	}
	six, err := toolpty.New(h.service, settings)
	return append(six, more...), err
}

// tool is what a model sees of c.
func (c commandTool) tool() tool.Tool {
	if c.name == toolpwsh.Name {
		return toolpwsh.New(c.runner, toolpwsh.Options{Description: c.settings.Description})
	}
	return toolbash.New(c.runner, toolbash.Options{Description: c.settings.Description})
}

// prestart starts the owner's shell, unless the settings say no or, where they
// say nothing, byDefault does. A failure is not final: the first command tries
// again and reports it.
func (c commandTool) prestart(owner *terminals.Owner, byDefault bool, log *slog.Logger) {
	if want := c.settings.Prestart; want != nil {
		byDefault = *want
	}
	if !byDefault {
		return
	}
	go func() {
		if err := c.runner.Prestart(owner.Context(), owner); err != nil && owner.Live() {
			log.Warn("the shell could not be started yet", "tool", c.name, "error", err.Error())
		}
	}()
}

// dispose ends every shell. What survives is logged: the caller is about to end
// and has nobody else to tell.
func (h *host) dispose() {
	h.disposal.Do(func() {
		if err := h.service.Dispose(context.Background()); err != nil {
			h.log.Error("not everything could be cleaned up", "error", err)
		}
	})
}
