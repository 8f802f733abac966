package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"
)

// Config is the effective configuration. Its fields are documented with their
// ranges by [Keys].
type Config struct {
	DSHHome  string    `yaml:"dshHome" json:"dshHome" mapstructure:"dshHome"` // absolute
	Backends []Backend `yaml:"backends" json:"backends" mapstructure:"-"`     // unique types, at least one
	Tools    Tools     `yaml:"tools" json:"tools" mapstructure:"tools"`
	Sandbox  Sandbox   `yaml:"sandbox" json:"sandbox" mapstructure:"sandbox"`
	Session  Session   `yaml:"session" json:"session" mapstructure:"session"`
	Hooks    []Hook    `yaml:"hooks" json:"hooks" mapstructure:"-"` // in the order in which they run

	// HomeSource says where DSHHome comes from: the file, the variable or the flag
	// that sets it, DSH_HOME, or empty for the default.
	HomeSource string `yaml:"-" json:"-" mapstructure:"-"`
}

// Values of Backend that other packages have to know.
const (
	NoDialect      = "none"  // ShellDialect: any program
	TypedTransport = "typed" // Transport: commands are typed on the terminal
)

// Backend is one kind of terminal.
type Backend struct {
	Type               string      `yaml:"type" json:"type" mapstructure:"type"`
	Driver             string      `yaml:"driver" json:"driver" mapstructure:"driver"`
	ShellDialect       string      `yaml:"shellDialect" json:"shellDialect" mapstructure:"shellDialect"`
	ShellPath          string      `yaml:"shellPath" json:"shellPath" mapstructure:"shellPath"` // empty: the dialect's program in PATH
	ShellArgs          []string    `yaml:"shellArgs" json:"shellArgs" mapstructure:"shellArgs"` // empty: the dialect's own
	Transport          string      `yaml:"transport" json:"transport" mapstructure:"transport"`
	Env                Environment `yaml:"env" json:"env" mapstructure:"env"`
	Init               string      `yaml:"init" json:"init" mapstructure:"init"`
	Rows               int         `yaml:"rows" json:"rows" mapstructure:"rows"`
	Cols               int         `yaml:"cols" json:"cols" mapstructure:"cols"`
	ScrollbackLines    int         `yaml:"scrollbackLines" json:"scrollbackLines" mapstructure:"scrollbackLines"`
	ScrollbackMaxBytes int         `yaml:"scrollbackMaxBytes" json:"scrollbackMaxBytes" mapstructure:"scrollbackMaxBytes"`
	MaxReadBytes       int         `yaml:"maxReadBytes" json:"maxReadBytes" mapstructure:"maxReadBytes"`
	PollInterval       Millis      `yaml:"pollIntervalMs" json:"pollIntervalMs" mapstructure:"pollIntervalMs"`
	ExactProbeAfter    Millis      `yaml:"exactProbeAfterMs" json:"exactProbeAfterMs" mapstructure:"exactProbeAfterMs"`
	IdleSilence        Millis      `yaml:"idleSilenceMs" json:"idleSilenceMs" mapstructure:"idleSilenceMs"`
	HandoffGrace       Millis      `yaml:"handoffGraceMs" json:"handoffGraceMs" mapstructure:"handoffGraceMs"`
	Timeout            Millis      `yaml:"timeoutMs" json:"timeoutMs" mapstructure:"timeoutMs"`
	DisposeGrace       Millis      `yaml:"disposeGraceMs" json:"disposeGraceMs" mapstructure:"disposeGraceMs"`
}

// Tools holds one block for each tool.
type Tools struct {
	Bash     Command  `yaml:"bash" json:"bash" mapstructure:"bash"`
	Pwsh     Command  `yaml:"pwsh" json:"pwsh" mapstructure:"pwsh"`
	Terminal Terminal `yaml:"terminal" json:"terminal" mapstructure:"terminal"`
}

// Command returns the block of the command tool for a dialect, nil when no tool
// has that name.
func (t *Tools) Command(dialect string) *Command {
	switch dialect {
	case "bash":
		return &t.Bash
	case "pwsh":
		return &t.Pwsh
	}
	return nil
}

// Command configures a persistent command tool.
type Command struct {
	BackendType    string `yaml:"backendType" json:"backendType" mapstructure:"backendType"`
	Timeout        Millis `yaml:"timeoutMs" json:"timeoutMs" mapstructure:"timeoutMs"`
	MaxOutputChars int    `yaml:"maxOutputChars" json:"maxOutputChars" mapstructure:"maxOutputChars"`
	Description    string `yaml:"description" json:"description" mapstructure:"description"` // empty: the tool's own
	OnTimeout      string `yaml:"onTimeout" json:"onTimeout" mapstructure:"onTimeout"`
	Clip           string `yaml:"clip" json:"clip" mapstructure:"clip"`
	Prestart       *bool  `yaml:"prestart" json:"prestart" mapstructure:"prestart"` // nil: the host decides
	WaitConfirm    Millis `yaml:"waitConfirmMs" json:"waitConfirmMs" mapstructure:"waitConfirmMs"`
	Spill          bool   `yaml:"spill" json:"spill" mapstructure:"spill"`
	SpillDir       string `yaml:"spillDir" json:"spillDir" mapstructure:"spillDir"` // empty: a private folder under the temp folder
	SpillMaxBytes  int64  `yaml:"spillMaxBytes" json:"spillMaxBytes" mapstructure:"spillMaxBytes"`
}

// Terminal configures the terminal tools.
type Terminal struct {
	EnableRunInBackground bool `yaml:"enableRunInBackground" json:"enableRunInBackground" mapstructure:"enableRunInBackground"`
	MaxResultBytes        int  `yaml:"maxResultBytes" json:"maxResultBytes" mapstructure:"maxResultBytes"`
}

// Values of Sandbox that other packages have to know.
const (
	ReadOnlyMode       = "read-only"
	WorkspaceWriteMode = "workspace-write"
	FullAccessMode     = "danger-full-access"

	AnyProvider = "auto"
)

// Sandbox says how shells are confined.
type Sandbox struct {
	Mode          string    `yaml:"mode" json:"mode" mapstructure:"mode"`
	WorkspaceRoot string    `yaml:"workspaceRoot" json:"workspaceRoot" mapstructure:"workspaceRoot"`
	Network       bool      `yaml:"network" json:"network" mapstructure:"network"`
	Provider      string    `yaml:"provider" json:"provider" mapstructure:"provider"`
	WritableRoots []string  `yaml:"writableRoots" json:"writableRoots" mapstructure:"writableRoots"`
	Protect       *[]string `yaml:"protect" json:"protect" mapstructure:"protect"`    // nil: the sandbox's own
	DenyRead      *[]string `yaml:"denyRead" json:"denyRead" mapstructure:"denyRead"` // nil: the sandbox's own
}

// defaultMode confines wherever there is a sandbox.
func defaultMode(goos string) string {
	switch goos {
	case "linux", "darwin":
		return WorkspaceWriteMode
	}
	return FullAccessMode
}

// Values of Session that other packages have to know.
const (
	NoLog     = "none"   // Persistence: nothing is stored
	JSONLLog  = "jsonl"  // Persistence: a file for each session
	SQLiteLog = "sqlite" // Persistence: one database
	ZstdLog   = "zstd"   // Compress
)

// Session says where sessions are logged.
type Session struct {
	Persistence *string `yaml:"persistence" json:"persistence" mapstructure:"persistence"` // nil: the host decides
	Root        string  `yaml:"root" json:"root" mapstructure:"root"`                      // absolute
	Compress    string  `yaml:"compress" json:"compress" mapstructure:"compress"`
}

// Hook is a command that runs before or after tool calls.
type Hook struct {
	Event     string   `yaml:"event" json:"event"`
	Matcher   string   `yaml:"matcher" json:"matcher"` // empty: every tool
	Command   []string `yaml:"command" json:"command"` // never empty
	Format    string   `yaml:"format" json:"format"`
	Timeout   Millis   `yaml:"timeoutMs" json:"timeoutMs"`
	OnFailure string   `yaml:"onFailure" json:"onFailure"`
}

// Millis is a duration in whole milliseconds, as configuration writes it.
type Millis int64

// Duration converts m.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Options says where the configuration comes from. The zero value loads the
// defaults.
type Options struct {
	File    string   // the YAML file; empty for none
	Environ []string // KEY=VALUE, usually os.Environ()
	Set     []string // path=value, in order
	Flags   []Flag   // flags of their own, in order

	// Dialects and Drivers are what the program was built with. A backend that
	// asks for another one is refused. Empty Dialects means bash alone, empty
	// Drivers the one of the operating system.
	Dialects []string
	Drivers  []string

	// Found tells whether the shell of a dialect can be found; nil looks for a
	// program of the dialect's name in PATH. A default backend besides "shell"
	// exists only where its shell is found or where the configuration mentions
	// it.
	Found func(dialect string) bool

	// GOOS decides the defaults; empty for the running system.
	GOOS string

	// UserHome is the folder that "~" stands for; empty asks the system.
	UserHome string
}

// Flag is a command line flag that sets one key.
type Flag struct {
	Name  string // as the user writes it: "--timeout"
	Path  string // "tools.bash.timeoutMs"
	Value string
}

// Error is a refused setting. Its text is one line that names the setting, what
// was found and what is allowed.
type Error struct {
	Source  string // "config.yaml:7", "SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS", "--set", "--timeout"; empty after the merge
	Path    string // "tools.bash.timeoutMs"; empty when the source as a whole is refused
	Problem string
}

func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{e.Source, e.Path, e.Problem} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Load reads, checks and merges the configuration. Flags win over Set, Set over
// the environment, the environment over the file, the file over the defaults.
// The error is an *Error.
func Load(opts Options) (*Config, error) {
	l := &loader{opts: opts, types: map[string]*backendType{}, chosen: map[string]string{}}
	l.viper = viper.NewWithOptions(viper.WithDecoderRegistry(strictYAML{l}))
	l.complete()
	if err := l.load(); err != nil {
		return nil, err
	}
	return l.config()
}

// backendType is a backend as far as loading knows it.
type backendType struct {
	name      string
	byDefault bool // exists without configuration
	mentioned bool // configuration says something about it
}

type loader struct {
	opts  Options
	viper *viper.Viper

	types map[string]*backendType // by typeKey
	order []string                // keys of types

	homes []homeSetting // every explicit dshHome
	hooks []Hook        // of the strongest source that has any list
	// chosen remembers where tools.*.backendType was set, for the message.
	chosen map[string]string
}

func (l *loader) complete() {
	o := &l.opts
	if o.GOOS == "" {
		o.GOOS = runtime.GOOS
	}
	if len(o.Dialects) == 0 {
		o.Dialects = []string{"bash"}
	}
	if len(o.Drivers) == 0 {
		o.Drivers = []string{defaultDriver(o.GOOS)}
	}
	if o.Found == nil {
		o.Found = func(dialect string) bool {
			_, err := exec.LookPath(dialect)
			return err == nil
		}
	}
}

func defaultDriver(goos string) string {
	if goos == "windows" {
		return "conpty"
	}
	return "posix"
}

func (l *loader) load() error {
	shell := "bash"
	if l.opts.GOOS == "windows" {
		shell = "pwsh"
	}
	l.addType(&backendType{name: "shell", byDefault: true}, shell)
	l.addType(&backendType{name: "bash", byDefault: true}, "bash")
	l.addType(&backendType{name: "pwsh", byDefault: true}, "pwsh")
	for _, leaf := range fixedLeaves() {
		if leaf.key.def != nil {
			l.viper.SetDefault(leaf.path, leaf.key.def)
		}
	}
	for _, layer := range []func() error{l.file, l.environment, l.settings, l.flags} {
		if err := layer(); err != nil {
			return err
		}
	}
	return nil
}

// addType makes a backend known and gives it its defaults.
func (l *loader) addType(t *backendType, shellDialect string) {
	key := typeKey(t.name)
	l.types[key] = t
	l.order = append(l.order, key)
	for _, k := range backendKeys {
		if k.def != nil {
			l.viper.SetDefault("backends."+key+"."+k.name, k.def)
		}
	}
	l.viper.SetDefault("backends."+key+".type", t.name)
	l.viper.SetDefault("backends."+key+".driver", defaultDriver(l.opts.GOOS))
	l.viper.SetDefault("backends."+key+".shellDialect", shellDialect)
}

func (l *loader) file() error {
	if l.opts.File == "" {
		return nil
	}
	data, err := os.ReadFile(l.opts.File)
	if err != nil {
		problem := err.Error()
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			problem = pathErr.Err.Error()
		}
		return &Error{Source: l.opts.File, Problem: "the configuration file cannot be read: " + problem}
	}
	l.viper.SetConfigType("yaml")
	err = l.viper.ReadConfig(bytes.NewReader(data))
	var refused *Error
	if errors.As(err, &refused) {
		return refused
	}
	return err
}

// environment applies the variables that name a key. Variables that name none
// are left alone: a shell inside a shell inherits marks that start alike.
func (l *loader) environment() error {
	vars := map[string]string{}
	for _, entry := range l.opts.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			vars[name] = value
		}
	}
	if len(vars) == 0 {
		return nil
	}
	if list := vars[envPrefix+"BACKENDS"]; list != "" {
		if err := l.backendList(envPrefix+"BACKENDS", list); err != nil {
			return err
		}
	}
	if list := vars[envPrefix+"HOOKS"]; list != "" {
		if err := l.hookList(envPrefix+"HOOKS", list); err != nil {
			return err
		}
	}
	for _, leaf := range l.leaves() {
		name := EnvName(leaf.path)
		if text := vars[name]; text != "" { // an empty variable counts as unset
			if err := l.set(name, leaf, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) settings() error {
	for _, setting := range l.opts.Set {
		path, text, ok := strings.Cut(setting, "=")
		if !ok {
			return &Error{Source: "--set", Problem: fmt.Sprintf("%s has no '='; write it as path=value", quote(setting))}
		}
		if err := l.setPath("--set", strings.TrimSpace(path), text); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) flags() error {
	for _, flag := range l.opts.Flags {
		if err := l.setPath(flag.Name, flag.Path, flag.Value); err != nil {
			return err
		}
	}
	return nil
}

// config turns what was merged into a Config and checks what only the whole can
// show.
func (l *loader) config() (*Config, error) {
	var merged struct {
		Config   `mapstructure:",squash"`
		Backends map[string]Backend `mapstructure:"backends"`
	}
	// Every value has been checked, so the decoder has nothing to convert.
	if err := l.viper.Unmarshal(&merged); err != nil {
		return nil, &Error{Problem: err.Error()}
	}
	cfg := &merged.Config
	for _, key := range l.order {
		b := merged.Backends[key]
		if l.absent(l.types[key], b) {
			continue
		}
		if err := l.checkBackend(b); err != nil {
			return nil, err
		}
		cfg.Backends = append(cfg.Backends, b)
	}
	var err error
	if cfg.DSHHome, cfg.HomeSource, err = l.home(); err != nil {
		return nil, err
	}
	if cfg.Sandbox.Mode == "" {
		cfg.Sandbox.Mode = defaultMode(l.opts.GOOS)
	}
	if cfg.Session.Root == "" {
		cfg.Session.Root = filepath.Join(cfg.DSHHome, "sessions")
	}
	cfg.Hooks = append([]Hook{}, l.hooks...)
	for _, dialect := range []string{"bash", "pwsh"} {
		if err := l.checkTool(cfg, dialect); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// absent says that a default backend that nobody mentioned does not exist here.
func (l *loader) absent(t *backendType, b Backend) bool {
	if !t.byDefault || t.mentioned {
		return false
	}
	if !slices.Contains(l.opts.Dialects, b.ShellDialect) || !slices.Contains(l.opts.Drivers, b.Driver) {
		return true
	}
	return t.name != "shell" && !l.opts.Found(b.ShellDialect)
}

func (l *loader) checkBackend(b Backend) error {
	path := "backends." + b.Type
	switch {
	case !slices.Contains(l.opts.Dialects, b.ShellDialect):
		return &Error{Path: path + ".shellDialect", Problem: fmt.Sprintf(
			"got %s, which is not available in this version; use %s", quote(b.ShellDialect), strings.Join(l.opts.Dialects, " or "))}
	case !slices.Contains(l.opts.Drivers, b.Driver):
		return &Error{Path: path + ".driver", Problem: fmt.Sprintf(
			"got %s, which does not work on %s in this version; use %s", quote(b.Driver), l.opts.GOOS, strings.Join(l.opts.Drivers, " or "))}
	case b.Transport == TypedTransport && b.ShellDialect != "pwsh":
		return &Error{Path: path + ".transport", Problem: fmt.Sprintf(
			"got %s, which is for pwsh alone; leave it out for %s", quote(b.Transport), b.ShellDialect)}
	case b.ShellDialect == NoDialect && b.ShellPath == "":
		return &Error{Path: path + ".shellPath", Problem: "is empty, and shellDialect none runs any program; name one"}
	case b.ShellDialect == NoDialect && b.Init != "":
		return &Error{Path: path + ".init", Problem: "a program that is run with shellDialect none takes no commands; remove it"}
	case b.MaxReadBytes > b.ScrollbackMaxBytes:
		return &Error{Path: path + ".maxReadBytes", Problem: fmt.Sprintf(
			"got %d, more than scrollbackMaxBytes (%d) retains; lower it or raise scrollbackMaxBytes", b.MaxReadBytes, b.ScrollbackMaxBytes)}
	case b.HandoffGrace < b.PollInterval:
		return &Error{Path: path + ".handoffGraceMs", Problem: fmt.Sprintf(
			"got %d, less than pollIntervalMs (%d); raise it or lower pollIntervalMs", b.HandoffGrace, b.PollInterval)}
	}
	return nil
}

// checkTool refuses the command tool of a dialect when its backend does not
// exist or speaks another one. The tool's default backend may be missing: then
// the program, not the configuration, is what has to change, and the tool says
// so when it is used.
func (l *loader) checkTool(cfg *Config, dialect string) error {
	key := "tools." + dialect + ".backendType"
	backend := cfg.Tools.Command(dialect).BackendType
	b := cfg.Backend(backend)
	switch {
	case !slices.Contains(l.opts.Dialects, dialect): // there is no such tool
		return nil
	case b == nil && typeKey(backend) == dialect:
		return nil
	case b == nil:
		types := make([]string, len(cfg.Backends))
		for i, b := range cfg.Backends {
			types[i] = b.Type
		}
		return &Error{Source: l.chosen[key], Path: key, Problem: fmt.Sprintf(
			"got %s, which is no backend; use one of %s, or add it to backends", quote(backend), list(types))}
	case b.ShellDialect != dialect:
		return &Error{Source: l.chosen[key], Path: key, Problem: fmt.Sprintf(
			"got %s, whose shellDialect is %s; this tool needs a backend that speaks %s", quote(backend), b.ShellDialect, dialect)}
	}
	return nil
}

// Backend returns the backend of a type, nil when there is none.
func (c *Config) Backend(typ string) *Backend {
	for i := range c.Backends {
		if c.Backends[i].Type == typ {
			return &c.Backends[i]
		}
	}
	return nil
}
