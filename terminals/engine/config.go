package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/shellenv"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

// Config is one terminal type. The zero value of a field means its default.
type Config struct {
	Type      string   // the type it is registered under, for messages
	ShellPath string   // the shell's file; empty: the dialect's program, looked up in PATH
	ShellArgs []string // empty: the dialect's own
	Env       []string // explicit, trusted additions, KEY=VALUE; may restore scrubbed names
	Init      string   // program run once in each new shell

	Rows, Cols         int // 1–32767
	ScrollbackLines    int
	ScrollbackMaxBytes int
	MaxReadBytes       int // one page, one viewport; ≤ ScrollbackMaxBytes

	PollInterval    time.Duration // longest pause between two probes of an undecided send
	ExactProbeAfter time.Duration // earliest moment at which a wait that was never seen left may count
	IdleSilence     time.Duration // silence that counts as inferred idle
	HandoffGrace    time.Duration // added to that once a prompt marker was seen
	Timeout         time.Duration // bound of a send, and of a shell's start
	DisposeGrace    time.Duration // longest wait at each step of the teardown

	// Wrap, when not nil, is given each program just before it is started, and
	// returns what is started in its place, confined for instance. Its second
	// result undoes what it prepared; it is called once everything of the session
	// has ended, or when the start failed. An error fails the open.
	Wrap func(ctx context.Context, setup terminals.Setup, spec backend.Spec) (backend.Spec, func() error, error)

	Ambient            []string // the host's environment; nil: the process's own
	CaseInsensitiveEnv bool     // variable names differ by more than case only
	Logger             *slog.Logger
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Type: "shell", Rows: 40, Cols: 160,
		ScrollbackLines: 10000, ScrollbackMaxBytes: 4 << 20, MaxReadBytes: 256 << 10,
		PollInterval: 50 * time.Millisecond, ExactProbeAfter: 150 * time.Millisecond,
		IdleSilence: 3 * time.Second, HandoffGrace: 500 * time.Millisecond,
		Timeout: 30 * time.Second, DisposeGrace: 3 * time.Second,
	}
}

func (c *Config) fill() error {
	d := DefaultConfig()
	for _, f := range []struct {
		name string
		v    *int
		def  int
		max  int
	}{
		{"rows", &c.Rows, d.Rows, 32767}, {"cols", &c.Cols, d.Cols, 32767},
		{"scrollbackLines", &c.ScrollbackLines, d.ScrollbackLines, 1 << 31},
		{"scrollbackMaxBytes", &c.ScrollbackMaxBytes, d.ScrollbackMaxBytes, 1 << 31},
		{"maxReadBytes", &c.MaxReadBytes, d.MaxReadBytes, 1 << 31},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.max {
			return invalid("%s must be between 1 and %d, not %d", f.name, f.max, *f.v)
		}
	}
	for _, f := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"pollIntervalMs", &c.PollInterval, d.PollInterval}, {"exactProbeAfterMs", &c.ExactProbeAfter, d.ExactProbeAfter},
		{"idleSilenceMs", &c.IdleSilence, d.IdleSilence}, {"handoffGraceMs", &c.HandoffGrace, d.HandoffGrace},
		{"timeoutMs", &c.Timeout, d.Timeout}, {"disposeGraceMs", &c.DisposeGrace, d.DisposeGrace},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 0 {
			return invalid("%s must be positive, not %d", f.name, f.v.Milliseconds())
		}
	}
	if c.Type == "" {
		c.Type = d.Type
	}
	if c.MaxReadBytes > c.ScrollbackMaxBytes {
		return invalid("maxReadBytes (%d) must not be larger than scrollbackMaxBytes (%d)", c.MaxReadBytes, c.ScrollbackMaxBytes)
	}
	if c.HandoffGrace < c.PollInterval {
		return invalid("handoffGraceMs (%d) must not be smaller than pollIntervalMs (%d)", c.HandoffGrace.Milliseconds(), c.PollInterval.Milliseconds())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// New returns a backend whose sessions run d's shell on driver's terminals.
func New(cfg Config, driver backend.Driver, d dialect.Dialect) (terminals.Backend, error) {
	if driver == nil || d == nil {
		return nil, invalid("a backend needs a driver and a dialect")
	}
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if cfg.ShellPath == "" && len(d.Programs()) == 0 {
		return nil, invalid("shellPath of the backend %q must name a program: shellDialect %s has none of its own", cfg.Type, d.Name())
	}
	return &opener{cfg: cfg, driver: driver, dialect: d}, nil
}

type opener struct {
	cfg     Config
	driver  backend.Driver
	dialect dialect.Dialect
}

// Environment that keeps programs from starting a pager that nobody turns.
var (
	plainEnv   = []string{"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat"}
	commandEnv = []string{"NO_COLOR=1"}
)

// dirPrefix names a session's private folder.
const dirPrefix = "shellstead-"

// Open starts a session. See [terminals.Backend].
func (o *opener) Open(ctx context.Context, setup terminals.Setup) (terminals.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	cfg := o.cfg
	path, err := o.shellPath()
	if err != nil {
		return nil, err
	}
	if setup.Cwd != "" {
		if err := checkDir(setup.Cwd); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(o.driver.TempDir(), dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("no private folder for the shell (set TMPDIR to a writable folder): %w", err)
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	command := setup.Mode == terminals.Command
	shell, err := o.dialect.New(dialect.Setup{CommandMode: command, Secret: hex.EncodeToString(secret), Args: cfg.ShellArgs, Dir: dir, Rewrites: o.driver.Capabilities().Rewrites})
	if err != nil {
		os.RemoveAll(dir)
		return nil, &terminals.Error{Code: terminals.Unsupported, Message: fmt.Sprintf("the backend %q cannot start such a session", cfg.Type), Err: err}
	}
	launch := shell.Launch()
	if err := writeFiles(dir, launch.Files); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}

	ambient := cfg.Ambient
	if ambient == nil {
		ambient = os.Environ()
	}
	layers := [][]string{shellenv.Unset(shellenv.Scrub(ambient), launch.Unset, cfg.CaseInsensitiveEnv), plainEnv}
	if command {
		layers = append(layers, commandEnv)
	}
	layers = append(layers, launch.Env, cfg.Env, setup.Env)
	env := shellenv.Merge(cfg.CaseInsensitiveEnv, layers...)

	spec := backend.Spec{
		Path: path, Args: launch.Args, Env: env, Dir: setup.Cwd,
		Rows: cfg.Rows, Cols: max(cfg.Cols, launch.MinCols), Modes: launch.Modes,
		SeparateDescriptors: launch.SeparateDescriptors, InterruptLead: time.Duration(launch.InterruptLead) * time.Millisecond, OutputPipe: launch.OutputPipe, Remove: []string{dir},
	}
	if launch.Bootstrap != nil {
		spec.Channel = &backend.Channel{Bootstrap: launch.Bootstrap, Keep: launch.KeepChannel}
	}
	startCtx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, errStartTimeout)
	defer cancel()
	remove := func() error { return os.RemoveAll(dir) }
	if cfg.Wrap != nil {
		wrapped, undo, err := cfg.Wrap(startCtx, setup, spec)
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		spec = wrapped
		remove = func() error { return errors.Join(undo(), os.RemoveAll(dir)) }
	}
	dev, err := o.driver.Start(startCtx, spec)
	if err != nil {
		if rmErr := remove(); rmErr != nil {
			cfg.Logger.Warn("a failed start left something behind", "error", rmErr)
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	marker := shell.Marker()
	scrollback := screen.Config{Lines: cfg.ScrollbackLines, Bytes: cfg.ScrollbackMaxBytes, MaxSequence: cfg.MaxReadBytes}
	if !command {
		scrollback.Columns = spec.Cols // a line editor wraps and goes back by rows
	}
	s := &session{
		cfg: cfg, dev: dev, shell: shell, launch: launch, dir: dir, remove: remove, command: command, path: path, language: o.dialect.Name(),
		markers: len(marker.Prefix) > 0,
		split:   screen.NewSplitter(marker.Prefix, marker.End, marker.Max),
		scr:     screen.New(scrollback),
		exited:  make(chan struct{}), readDone: make(chan struct{}),
		log: cfg.Logger.With("session", setup.ID),
	}
	caps := o.driver.Capabilities()
	s.exact, s.maxLine = caps.ExactRead, caps.MaxLine
	s.probe = time.AfterFunc(time.Hour, s.onTimer)
	s.probe.Stop()
	if err := s.start(ctx, startCtx); err != nil {
		return nil, s.rollBack(ctx, err)
	}
	for _, f := range launch.Files {
		os.Remove(filepath.Join(dir, f.Name))
	}
	return s, nil
}

// shellPath finds the shell. A name is looked up in the host's own PATH: the
// shell is the host's choice, whatever the sessions' environment says.
func (o *opener) shellPath() (string, error) {
	names, install := o.dialect.Programs(), o.dialect.Install()
	if name := o.cfg.ShellPath; name != "" {
		if strings.ContainsRune(name, filepath.Separator) {
			return name, nil // the driver says what is wrong with it
		}
		names, install = []string{name}, "install it"
	}
	var missing error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			return filepath.Abs(path)
		}
		missing = errors.Join(missing, err)
	}
	return "", &terminals.Error{Code: terminals.InvalidArgument, Err: missing,
		Message: fmt.Sprintf("no %s found in PATH: %s, or set shellPath of the backend %q", strings.Join(names, " or "), install, o.cfg.Type)}
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf("cwd %q cannot be used; give an existing folder", dir), Err: err}
	}
	if !info.IsDir() {
		return invalid("cwd %q is not a folder; give an existing folder", dir)
	}
	return nil
}
