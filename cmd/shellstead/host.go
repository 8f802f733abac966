package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/shellenv"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
)

// dialects are the shell languages that this program was built with.
var dialects = []dialect.Dialect{bash.Dialect{}}

func dialectNames() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name()
	}
	return names
}

func dialectNamed(name string) (dialect.Dialect, error) {
	for _, d := range dialects {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, usageError("the dialect %s is not available in this version; use %s", name, strings.Join(dialectNames(), " or "))
}

// newDriver makes the driver of a name. Which name an operating system has is
// the configuration's default.
func newDriver(name string, log *slog.Logger) (backend.Driver, error) {
	switch name {
	case "posix":
		return posix.New(posix.Options{Logger: log})
	default:
		return nil, &terminals.Error{
			Code:    terminals.Unsupported,
			Message: fmt.Sprintf("terminals on %s are not available in this version; it runs on linux and darwin", runtime.GOOS),
			Err:     backend.ErrUnsupported,
		}
	}
}

// host is the part of a process that serves commands: one service with its
// backends, and the tools over them.
type host struct {
	cfg     *config.Config
	log     *slog.Logger
	drivers map[string]backend.Driver
	service *terminals.Service
	bash    *persistent.Runner

	disposal sync.Once
}

// newHost builds a host. It opens no terminal. keepSpill leaves the files with
// clipped output behind when their owner ends.
func newHost(cfg *config.Config, log *slog.Logger, keepSpill bool) (*host, error) {
	h := &host{
		cfg:     cfg,
		log:     log,
		drivers: map[string]backend.Driver{},
		service: terminals.NewService(terminals.Options{Logger: log}),
	}
	for _, b := range cfg.Backends {
		if err := h.register(b); err != nil {
			return nil, err
		}
	}
	if cfg.Backend(cfg.Tools.Bash.BackendType) == nil {
		return nil, usageError("bash was not found in PATH; install it, or name it with --set backends.bash.shellPath=/path/to/bash")
	}
	var err error
	h.bash, err = h.newRunner(cfg.Tools.Bash, keepSpill)
	return h, err
}

func (h *host) register(b config.Backend) error {
	driver := h.drivers[b.Driver]
	if driver == nil {
		var err error
		if driver, err = newDriver(b.Driver, h.log); err != nil {
			return err
		}
		h.drivers[b.Driver] = driver
	}
	d, err := dialectNamed(b.ShellDialect)
	if err != nil {
		return err
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
		CaseInsensitiveEnv: runtime.GOOS == "windows",
		Logger:             h.log,
	}, driver, d)
	if err != nil {
		return fmt.Errorf("backends.%s: %w", b.Type, err)
	}
	_, err = h.service.Register(b.Type, made)
	return err
}

func (h *host) newRunner(c config.Command, keepSpill bool) (*persistent.Runner, error) {
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
		KeepSpill:      keepSpill,
		Logger:         h.log,
		Resolve:        func(*terminals.Owner) []string { return h.managedEnv() },
	})
}

// managedEnv is what every shell of a tool finds besides its own environment.
func (h *host) managedEnv() []string {
	return []string{shellenv.Prefix + "HOME=" + h.cfg.DSHHome, shellenv.Prefix + "SHELL=1"}
}

// toolNames are the tools that `--tools` knows.
var toolNames = []string{toolbash.Name}

// laterTools are named by the documentation and come with a later version.
var laterTools = []string{"pwsh", "terminal", "task"}

// tools makes the tools of a `--tools` list.
func (h *host) tools(list string) ([]tool.Tool, error) {
	names, err := parseTools(list)
	if err != nil {
		return nil, err
	}
	tools := make([]tool.Tool, 0, len(names))
	for range names { // bash is all there is
		tools = append(tools, toolbash.New(h.bash, toolbash.Options{Description: h.cfg.Tools.Bash.Description}))
	}
	return tools, nil
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
