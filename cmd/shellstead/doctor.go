package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/terminals"
)

// health is what a check came to.
type health string

const (
	works   health = "ok"
	limited health = "limited" // works, with less than there could be
	failed  health = "failed"
)

// check is one line of the doctor's report.
type check struct {
	Name   string `json:"name"`
	Health health `json:"status"`
	Detail string `json:"detail"`
}

// checkup is the doctor's report.
type checkup struct {
	Version string  `json:"version"`
	OK      bool    `json:"ok"` // the default job can run
	Checks  []check `json:"checks"`
}

func (c *checkup) add(name string, h health, format string, args ...any) {
	c.Checks = append(c.Checks, check{name, h, fmt.Sprintf(format, args...)})
}

// require adds a check without which the default job cannot run.
func (c *checkup) require(name string, err error, format string, args ...any) bool {
	if err != nil {
		c.OK = false
		c.add(name, failed, "%s", err)
		return false
	}
	c.add(name, works, format, args...)
	return true
}

// probes ask a shell of each dialect for its program and version.
var probes = map[string]string{
	"bash": `printf '%s %s' "$BASH" "$BASH_VERSION"`,
	"pwsh": `[Console]::Write("$([Environment]::ProcessPath) $($PSVersionTable.PSVersion)")`,
}

// probeTimeout bounds one probe; a shell that takes longer is of no use.
const probeTimeout = 10 * time.Second

func newDoctor(a *app) *cobra.Command {
	var asJSON bool
	var list string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what works on this machine",
		Long:  "Show what works on this machine, by trying it. The exit code is 1 when a tool of\n--tools cannot run commands.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			log, err := a.logger()
			if err != nil {
				return err
			}
			ctx, stop := catchSignals(context.Background())
			defer stop()
			report := &checkup{Version: versionLine(), OK: true}
			report.add("system", works, "%s/%s", runtime.GOOS, runtime.GOARCH)
			report.add("configuration", works, "%s", configurationOf(a.file))
			h, err := newHost(cfg, log, false)
			if report.require("host", err, "%d terminal types", len(cfg.Backends)) {
				defer h.dispose()
				needed, err := h.parseTools(list)
				if err != nil {
					return err
				}
				report.confinement(ctx, h)
				report.shells(ctx, h, needed)
				report.capabilities(h)
			}
			report.folders(cfg)
			if err := report.print(a.out, asJSON); err != nil {
				return err
			}
			var signal interruption
			switch {
			case errors.As(context.Cause(ctx), &signal):
				return &exitError{code: signal.code()}
			case !report.OK:
				return &exitError{code: exitFailure}
			}
			return nil
		},
	}
	a.configFlags(cmd)
	toolsFlag(cmd, &list, platformTool())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func configurationOf(file string) string {
	if file == "" {
		return "defaults, environment and flags; no file"
	}
	return file
}

// shells opens a shell of each terminal type and asks for its version. The
// tools that are needed must have one.
func (c *checkup) shells(ctx context.Context, h *host, needed []string) {
	need := func(backend string) bool {
		return slices.ContainsFunc(needed, func(tool string) bool {
			settings := h.cfg.Tools.Command(tool)
			return settings != nil && settings.BackendType == backend
		})
	}
	for _, b := range h.cfg.Backends {
		if b.ShellDialect == plain.Name() {
			c.program(ctx, h, b)
			continue
		}
		name := "shell " + b.Type
		found, err := h.probe(ctx, b)
		switch {
		case err == nil:
			c.add(name, works, "%s %s on a real terminal", b.ShellDialect, found)
		case need(b.Type):
			c.require(name, err, "")
		default:
			c.add(name, limited, "%s", err)
		}
	}
	for _, d := range dialects {
		backend := h.cfg.Tools.Command(d.Name()).BackendType
		switch {
		case h.cfg.Backend(backend) != nil:
		case need(backend):
			c.require("shell "+backend, absent(d), "")
		default:
			c.add("shell "+backend, limited, "%s", absent(d))
		}
	}
}

// program opens a terminal whose program is no shell of ours.
func (c *checkup) program(ctx context.Context, h *host, b config.Backend) {
	name := "program " + b.Type
	owner, done, err := h.examiner(ctx, b.Type)
	if err == nil {
		defer done()
		_, err = h.service.Open(ctx, owner, terminals.OpenRequest{Type: b.Type})
	}
	if err != nil {
		c.add(name, limited, "%s", err)
		return
	}
	c.add(name, works, "%s on a real terminal", b.ShellPath)
}

// examiner makes an owner for one check and returns how to end it.
func (h *host) examiner(ctx context.Context, backend string) (owner *terminals.Owner, done func(), err error) {
	dir, err := workingDir("")
	if err != nil {
		return nil, nil, err
	}
	owner, err = h.service.NewOwner(terminals.OwnerOptions{Name: "doctor", Cwd: dir})
	if err != nil {
		return nil, nil, err
	}
	return owner, func() {
		if err := h.service.DisposeOwner(context.WithoutCancel(ctx), owner); err != nil {
			h.log.Error("a terminal could not be cleaned up", "type", backend, "error", err)
		}
	}, nil
}

func (h *host) probe(ctx context.Context, b config.Backend) (string, error) {
	settings := *h.cfg.Tools.Command(b.ShellDialect)
	settings.BackendType = b.Type
	settings.Spill = false
	runner, err := h.newRunner(settings)
	if err != nil {
		return "", err
	}
	owner, done, err := h.examiner(ctx, b.Type)
	if err != nil {
		return "", err
	}
	defer done()
	res := runner.Run(ctx, owner, persistent.Command{Text: probes[b.ShellDialect], Timeout: probeTimeout})
	switch {
	case res.Err() != nil:
		return "", res.Err()
	case res.Reason != persistent.Completed || res.ExitCode == nil || *res.ExitCode != 0:
		return "", fmt.Errorf("the shell answered a test command with %q", res.Text)
	}
	return res.Output, nil
}

// confinement shows what keeps shells inside, by confining a program.
func (c *checkup) confinement(ctx context.Context, h *host) {
	mode := sandbox.Mode(h.cfg.Sandbox.Mode)
	found, err := h.sandbox.Check(ctx)
	if !mode.Confined() {
		other := found.Provider + " could confine them"
		if err != nil {
			other = err.Error()
		}
		c.add("sandbox", limited, "%s: shells may do what their user may do; %s", mode, other)
		return
	}
	if !c.require("sandbox", err, "%s by %s", mode, found.Provider) {
		return
	}
	c.add("sandbox confines", works, "%s", strings.Join(found.Confines, "; "))
	c.add("sandbox leaves open", limited, "%s", strings.Join(found.Gaps, "; "))
}

// capabilities shows what the drivers in use can prove.
func (c *checkup) capabilities(h *host) {
	for name, driver := range h.drivers {
		can := driver.Capabilities()
		c.add("driver "+name, works, "%s", can.System)
		c.ability("exact readiness", can.ExactRead, "a program that waits for input is proved", can.ExactReadWhy)
		c.ability("process trees", can.WholeTree, "children are found wherever they went", can.WholeTreeWhy)
		c.ability("host death", can.HostDeath, "nothing survives a killed shellstead", "")
		c.add("signals", works, "%s", signalList(can))
	}
}

func (c *checkup) ability(name string, can bool, yes, why string) {
	switch {
	case can:
		c.add(name, works, "%s", yes)
	case why != "":
		c.add(name, limited, "%s", why)
	default:
		c.add(name, limited, "not on this system")
	}
}

func signalList(can backend.Capabilities) string {
	if len(can.Signals) == 0 {
		return "none"
	}
	return strings.Join(can.Signals, " ")
}

func (c *checkup) folders(cfg *config.Config) {
	c.sessions(cfg)
	c.require("temporary folder", writable(os.TempDir()), "%s is writable", os.TempDir())
	for _, tool := range commandTools {
		settings := cfg.Tools.Command(tool)
		if settings.SpillDir == "" || !settings.Spill {
			continue
		}
		if err := writable(settings.SpillDir); err != nil {
			c.add("spill folder of "+tool, limited, "%s; long output will be clipped without a file", err)
		} else {
			c.add("spill folder of "+tool, works, "%s is writable", settings.SpillDir)
		}
	}
	source := cfg.HomeSource
	if source == "" {
		source = "the default"
	}
	h, state := folder(cfg.DSHHome)
	c.add("DSH_HOME", h, "%s, from %s; %s", cfg.DSHHome, source, state)
}

// sessions shows where calls are logged and who is asked about them.
func (c *checkup) sessions(cfg *config.Config) {
	kind := config.JSONLLog + ", in shellstead mcp alone"
	if configured := cfg.Session.Persistence; configured != nil {
		kind = *configured
	}
	if kind == config.NoLog {
		c.add("session log", works, "%s", kind)
	} else {
		h, state := folder(cfg.Session.Root)
		c.add("session log", h, "%s; %s; %s", kind, cfg.Session.Root, state)
	}
	if len(cfg.Hooks) == 0 {
		c.add("hooks", works, "none")
	}
	for i, hook := range cfg.Hooks {
		name := fmt.Sprintf("hooks[%d]", i)
		if path, err := exec.LookPath(hook.Command[0]); err != nil {
			c.add(name, limited, "%s: %s; when it fails: %s", hook.Event, err, hook.OnFailure)
		} else {
			c.add(name, works, "%s: %s", hook.Event, path)
		}
	}
}

// folder tells whether a folder can be used that may be made first.
func folder(path string) (health, string) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		parent := filepath.Dir(path)
		for parent != filepath.Dir(parent) {
			if _, err := os.Stat(parent); !errors.Is(err, os.ErrNotExist) {
				break
			}
			parent = filepath.Dir(parent)
		}
		if err := writable(parent); err != nil {
			return limited, fmt.Sprintf("does not exist and cannot be made: %s", err)
		}
		return works, "does not exist yet"
	case err != nil:
		return limited, err.Error()
	case !info.IsDir():
		return limited, "is not a folder"
	}
	if err := writable(path); err != nil {
		return limited, fmt.Sprintf("is not writable: %s", err)
	}
	return works, "is writable"
}

// writable tries to keep a private file in dir.
func writable(dir string) error {
	private, err := os.MkdirTemp(dir, "shellstead-doctor-")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(private, "")
	if err == nil {
		_, err = f.WriteString("x")
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(err, os.Remove(private))
}

func (c *checkup) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, c, "  ")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, c.Version)
	for _, check := range c.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", check.Name, check.Health, strings.Join(strings.Fields(check.Detail), " "))
	}
	if c.OK {
		fmt.Fprintln(table, "commands can be run")
	} else {
		fmt.Fprintln(table, "commands cannot be run; see what has failed")
	}
	return table.Flush()
}
