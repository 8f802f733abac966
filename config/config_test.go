package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/config"
)

// options is a machine that does not depend on the one that tests run on.
func options() config.Options {
	return config.Options{
		GOOS:     "linux",
		UserHome: "/home/u",
		Dialects: []string{"bash", "pwsh"},
		Found:    func(dialect string) bool { return dialect == "bash" },
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	opts := options()
	opts.File = write(t, text)
	return config.Load(opts)
}

// refused checks an error's line. The file's folder is left out of it.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var refusal *config.Error
	require.ErrorAs(t, err, &refusal)
	got := err.Error()
	if i := strings.Index(got, "config.yaml"); i >= 0 {
		got = got[i:]
	}
	assert.Equal(t, want, got)
	assert.NotContains(t, got, "\n", "an error is one line")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(options())
	require.NoError(t, err)

	assert.Equal(t, "/home/u/.dsh", cfg.DSHHome)
	require.Len(t, cfg.Backends, 2)
	for i, typ := range []string{"shell", "bash"} {
		assert.Equal(t, config.Backend{
			Type: typ, Driver: "posix", ShellDialect: "bash", ShellArgs: []string{}, Transport: "channel", Env: config.Environment{},
			Rows: 40, Cols: 160, ScrollbackLines: 10000, ScrollbackMaxBytes: 4194304, MaxReadBytes: 262144,
			PollInterval: 50, ExactProbeAfter: 150, IdleSilence: 3000, HandoffGrace: 500, Timeout: 30000, DisposeGrace: 3000,
		}, cfg.Backends[i])
	}
	bash := config.Command{
		BackendType: "bash", Timeout: 300000, MaxOutputChars: 16000, OnTimeout: "reset", Clip: "head",
		WaitConfirm: 250, Spill: true, SpillMaxBytes: 268435456,
	}
	assert.Equal(t, bash, cfg.Tools.Bash)
	bash.BackendType = "pwsh"
	assert.Equal(t, bash, cfg.Tools.Pwsh)
	assert.Equal(t, config.Terminal{EnableRunInBackground: true, MaxResultBytes: 262144}, cfg.Tools.Terminal)
	assert.Equal(t, config.Sandbox{Mode: "workspace-write", WorkspaceRoot: ".", Provider: "auto", WritableRoots: []string{}}, cfg.Sandbox)
	assert.Equal(t, 300*time.Second, cfg.Tools.Bash.Timeout.Duration())
	assert.Equal(t, "posix", cfg.Backend("shell").Driver)
	assert.Nil(t, cfg.Backend("pwsh"))
}

// everything sets each key to something else than its default.
const everything = `
dshHome: /srv/dsh
backends:
  - type: shell
    driver: posix
    shellDialect: bash
    shellPath: /opt/bash
    shellArgs: [--norc, "-x y"]
    env: {Mixed_Case: "a=b", lower: "", QUOTED: "yes", N: "1"}
    init: |
      . ~/.nvm/nvm.sh
      true
    rows: 1
    cols: 32767
    scrollbackLines: 7
    scrollbackMaxBytes: 4096
    maxReadBytes: 4096
    pollIntervalMs: 10
    exactProbeAfterMs: 20
    idleSilenceMs: 50
    handoffGraceMs: 10
    timeoutMs: 100
    disposeGraceMs: 300
  - type: Other-1
    rows: 0x10
  - type: power
    shellDialect: pwsh
    transport: typed
tools:
  bash: &command
    backendType: Other-1
    timeoutMs: 1
    maxOutputChars: 2
    description: "text: with # marks"
    onTimeout: interrupt
    clip: middle
    prestart: false
    waitConfirmMs: 3
    spill: false
    spillDir: /var/spill
    spillMaxBytes: 1099511627776
  pwsh:
    backendType: power
    timeoutMs: 1
    maxOutputChars: 2
    description: "text: with # marks"
    onTimeout: interrupt
    clip: middle
    prestart: false
    waitConfirmMs: 3
    spill: false
    spillDir: /var/spill
    spillMaxBytes: 1099511627776
  terminal:
    enableRunInBackground: false
    maxResultBytes: 64
sandbox:
  mode: read-only
  workspaceRoot: src
  network: true
  provider: landlock
  writableRoots: [~/go, /var/cache]
  protect: []
  denyRead: [~/.secret]
session:
  persistence: sqlite
  root: /var/log/sessions
  compress: zstd
hooks:
  - event: PreToolUse
    matcher: bash|terminal_.*
    command: [/usr/bin/guard, --strict, "a b"]
    format: codex
    timeoutMs: 1
    onFailure: block
  - {event: PostToolUse, command: [audit]}
`

func TestEveryKeyOfTheFile(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, everything)
	require.NoError(t, err)

	assert.Equal(t, "/srv/dsh", cfg.DSHHome)
	require.Len(t, cfg.Backends, 4)
	assert.Equal(t, config.Backend{
		Type: "shell", Driver: "posix", ShellDialect: "bash", ShellPath: "/opt/bash", ShellArgs: []string{"--norc", "-x y"},
		Transport: "channel", Env: config.Environment{"Mixed_Case=a=b", "lower=", "QUOTED=yes", "N=1"},
		Init: ". ~/.nvm/nvm.sh\ntrue\n", Rows: 1, Cols: 32767, ScrollbackLines: 7, ScrollbackMaxBytes: 4096, MaxReadBytes: 4096,
		PollInterval: 10, ExactProbeAfter: 20, IdleSilence: 50, HandoffGrace: 10, Timeout: 100, DisposeGrace: 300,
	}, cfg.Backends[0])
	assert.Equal(t, "bash", cfg.Backends[1].Type, "a listed backend leaves the other default ones")
	assert.Equal(t, "Other-1", cfg.Backends[2].Type)
	assert.Equal(t, 16, cfg.Backends[2].Rows)
	assert.Equal(t, 160, cfg.Backends[2].Cols, "what an entry leaves out has its default")
	assert.Equal(t, "typed", cfg.Backend("power").Transport)
	no := false
	want := config.Command{
		BackendType: "Other-1", Timeout: 1, MaxOutputChars: 2, Description: "text: with # marks", OnTimeout: "interrupt",
		Clip: "middle", Prestart: &no, WaitConfirm: 3, SpillDir: "/var/spill", SpillMaxBytes: 1 << 40,
	}
	assert.Equal(t, want, cfg.Tools.Bash)
	want.BackendType = "power"
	assert.Equal(t, want, cfg.Tools.Pwsh)
	assert.Same(t, &cfg.Tools.Bash, cfg.Tools.Command("bash"))
	assert.Same(t, &cfg.Tools.Pwsh, cfg.Tools.Command("pwsh"))
	assert.Nil(t, cfg.Tools.Command("terminal"))
	assert.Equal(t, config.Terminal{MaxResultBytes: 64}, cfg.Tools.Terminal)
	assert.Equal(t, config.Sandbox{
		Mode: "read-only", WorkspaceRoot: "src", Network: true, Provider: "landlock",
		WritableRoots: []string{"~/go", "/var/cache"}, Protect: &[]string{}, DenyRead: &[]string{"~/.secret"},
	}, cfg.Sandbox)
	sqlite := "sqlite"
	assert.Equal(t, config.Session{Persistence: &sqlite, Root: "/var/log/sessions", Compress: "zstd"}, cfg.Session)
	assert.Equal(t, []config.Hook{
		{Event: "PreToolUse", Matcher: "bash|terminal_.*", Command: []string{"/usr/bin/guard", "--strict", "a b"}, Format: "codex", Timeout: 1, OnFailure: "block"},
		{Event: "PostToolUse", Command: []string{"audit"}, Format: "claude-code", Timeout: 60000, OnFailure: "allow"},
	}, cfg.Hooks)
}

// The strongest source that has a list of hooks has all of it.
func TestHooksOfSeveralSources(t *testing.T) {
	t.Parallel()
	first := func(hooks []config.Hook) string {
		if len(hooks) == 0 {
			return ""
		}
		return hooks[0].Command[0]
	}
	opts := options()
	opts.File = write(t, "hooks: [{event: PreToolUse, command: [file]}, {event: PreToolUse, command: [second]}]")
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, "file", first(cfg.Hooks))
	opts.Environ = []string{"SHELLSTEAD_HOOKS=[{event: PreToolUse, command: [variable]}]"}
	cfg, err = config.Load(opts)
	require.NoError(t, err)
	assert.Len(t, cfg.Hooks, 1)
	assert.Equal(t, "variable", first(cfg.Hooks))
	opts.Set = []string{"hooks=[]"}
	cfg, err = config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, []config.Hook{}, cfg.Hooks)
}

func TestSessionDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, "dshHome: /srv/dsh")
	require.NoError(t, err)
	assert.Equal(t, config.Session{Root: "/srv/dsh/sessions", Compress: "none"}, cfg.Session)
	assert.Regexp(t, `config\.yaml$`, cfg.HomeSource)
	opts := options()
	opts.Environ = []string{"DSH_HOME=/amb"}
	cfg, err = config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, "/amb/sessions", cfg.Session.Root)
	assert.Equal(t, "DSH_HOME", cfg.HomeSource)
	cfg, err = config.Load(options())
	require.NoError(t, err)
	assert.Empty(t, cfg.HomeSource)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"defaults":   "",
		"everything": everything,
		"awkward text": `
backends:
  - type: shell
    init: "a\tb\r\n\e[0m 'q' \"d\" \u2028 \\ ~"
    env: {A: "null", B: "1.5", C: " lead", D: "multi\nline", E: "0x1", F: "~", "true": "true", "": "x"}
`,
	} {
		if name == "awkward text" {
			text = strings.Replace(text, `, "": "x"`, "", 1)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := load(t, text)
			require.NoError(t, err)
			printed, err := cfg.YAML()
			require.NoError(t, err)

			opts := options()
			opts.File = write(t, string(printed))
			again, err := config.Load(opts)
			require.NoError(t, err, "%s", printed)
			cfg.HomeSource, again.HomeSource = "", "" // another file
			assert.Equal(t, cfg, again, "%s", printed)
			reprinted, err := again.YAML()
			require.NoError(t, err)
			assert.Equal(t, string(printed), string(reprinted))
		})
	}
}

func TestPrintedJSONIsYAMLToo(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, everything)
	require.NoError(t, err)
	printed, err := json.Marshal(cfg)
	require.NoError(t, err)
	again, err := load(t, string(printed))
	require.NoError(t, err, "%s", printed)
	cfg.HomeSource, again.HomeSource = "", "" // another file
	assert.Equal(t, cfg, again)
}

// Every number is refused below and above its range, in every other type, from
// every source, naming its path and its range.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	ranges := map[string][2]int64{
		"backends.shell.rows":               {1, 32767},
		"backends.shell.cols":               {1, 32767},
		"backends.shell.scrollbackLines":    {1, 10_000_000},
		"backends.shell.scrollbackMaxBytes": {1, 1 << 30},
		"backends.shell.maxReadBytes":       {1, 1 << 30},
		"backends.shell.pollIntervalMs":     {1, 604_800_000},
		"backends.shell.exactProbeAfterMs":  {1, 604_800_000},
		"backends.shell.idleSilenceMs":      {1, 604_800_000},
		"backends.shell.handoffGraceMs":     {1, 604_800_000},
		"backends.shell.timeoutMs":          {1, 604_800_000},
		"backends.shell.disposeGraceMs":     {1, 604_800_000},
		"tools.bash.timeoutMs":              {1, 604_800_000},
		"tools.bash.maxOutputChars":         {1, 16 << 20},
		"tools.bash.waitConfirmMs":          {1, 60_000},
		"tools.bash.spillMaxBytes":          {1, 1 << 40},
		"tools.pwsh.timeoutMs":              {1, 604_800_000},
		"tools.pwsh.maxOutputChars":         {1, 16 << 20},
		"tools.pwsh.waitConfirmMs":          {1, 60_000},
		"tools.pwsh.spillMaxBytes":          {1, 1 << 40},
		"tools.terminal.maxResultBytes":     {64, 1 << 30},
	}
	numbers := 0
	for _, key := range config.Keys() {
		if strings.HasPrefix(key.Want, "a whole number") && !strings.HasPrefix(key.Path, "hooks[]") {
			numbers++
		}
	}
	require.Len(t, ranges, numbers, "every number has a row")

	for path, bounds := range ranges {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			outside := []string{fmt.Sprint(bounds[0] - 1), "-1", fmt.Sprint(bounds[1] + 1)}
			wrong := []string{"abc", "1.5", "1e3", "true", "99999999999999999999", "[1]", "{a: 1}", `"5"`, "1 000", "'1'"}
			for _, value := range append(outside, wrong...) {
				for source, err := range everySource(t, path, value) {
					var refusal *config.Error
					require.ErrorAs(t, err, &refusal, "%s %s", source, value)
					assert.Equal(t, path, refusal.Path, "%s %s", source, value)
					assert.Contains(t, err.Error(), fmt.Sprintf("want a whole number from %d to %d (", bounds[0], bounds[1]), "%s %s", source, value)
					assert.Contains(t, refusal.Problem, "got ", "%s %s", source, value)
				}
			}
			// The bounds themselves pass the key's own check; a rule between two
			// keys may still apply.
			for _, value := range bounds {
				for source, err := range everySource(t, path, fmt.Sprint(value)) {
					if err != nil {
						assert.NotContains(t, err.Error(), "want a whole number", "%s %d", source, value)
					}
				}
			}
		})
	}
}

// everySource loads one value through each source there is.
func everySource(t *testing.T, path, value string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	fromFile := options()
	fromFile.File = write(t, nested(path, value))
	fromEnv := options()
	fromEnv.Environ = []string{config.EnvName(path) + "=" + value}
	fromSet := options()
	fromSet.Set = []string{path + "=" + value}
	fromFlag := options()
	fromFlag.Flags = []config.Flag{{Name: "--flag", Path: path, Value: value}}
	for source, opts := range map[string]config.Options{"file": fromFile, "env": fromEnv, "set": fromSet, "flag": fromFlag} {
		_, errs[source] = config.Load(opts)
	}
	return errs
}

// nested writes path: value as a document.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	if parts[0] == "backends" {
		return fmt.Sprintf("backends:\n  - type: %s\n    %s: %s\n", parts[1], parts[2], value)
	}
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(strings.Repeat("  ", i) + part + ":")
		if i < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	return b.String() + " " + value + "\n"
}

func TestBooleansAndChoices(t *testing.T) {
	t.Parallel()
	for path, bad := range map[string][]string{
		"tools.bash.spill":                     {"1", "0", "yes", "on", "True", "t", "''", "[]"},
		"tools.bash.prestart":                  {"1", "no", "False"},
		"tools.terminal.enableRunInBackground": {"1", "off"},
		"sandbox.network":                      {"1", "off", "yes"},
		"tools.bash.onTimeout":                 {"kill", "Reset", "1", "true", "[]"},
		"tools.bash.clip":                      {"tail", "HEAD", "1"},
		"backends.shell.shellDialect":          {"zsh", "BASH", "1"},
		"backends.shell.driver":                {"ssh", "Posix", "1"},
		"sandbox.mode":                         {"none", "full", "1"},
		"session.persistence":                  {"file", "JSONL", "true"},
		"session.compress":                     {"gzip", "1", "false"},
	} {
		for _, value := range bad {
			for source, err := range everySource(t, path, value) {
				if source == "file" && (value == "True" || value == "False") {
					continue // a boolean's other spelling in YAML
				}
				var refusal *config.Error
				if assert.ErrorAs(t, err, &refusal, "%s: %s from %s", path, value, source) {
					assert.Equal(t, path, refusal.Path)
					assert.Contains(t, err.Error(), "want ")
				}
			}
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, value, want string }{
		{"backends.shell.shellPath", "bin/bash", "want an absolute path, or a name without slashes"},
		{"backends.shell.shellPath", "~/bin/bash", "want an absolute path, or a name without slashes"},
		{"tools.bash.spillDir", "spill", "want an absolute path"},
		{"tools.bash.spillDir", "a\x00b", "without NUL bytes"},
		{"backends.shell.init", "a\x00b", "without NUL bytes"},
		{"backends.shell.init", "\xff", "want valid UTF-8"},
		{"backends.shell.shellArgs", `["a\0b"]`, "without NUL bytes"},
		{"backends.shell.shellArgs", "-l", "want a list of texts"},
		{"backends.shell.shellArgs", "[1]", "want a list of texts"},
		{"backends.shell.env", "A=1", "want a mapping of variable names to texts"},
		{"backends.shell.env", "{A: 1}", "got 1 for A, want a text; put it in quotes"},
		{"backends.shell.env", "{A=B: x}", "want a text without '='"},
		{"backends.shell.env", `{A: "\0"}`, "without NUL bytes"},
		{"tools.bash.backendType", "", "want a name of up to 64 letters"},
		{"tools.bash.backendType", "a b", "want a name of up to 64 letters"},
	} {
		opts := options()
		opts.Set = []string{c.path + "=" + c.value}
		_, err := config.Load(opts)
		var refusal *config.Error
		if assert.ErrorAs(t, err, &refusal, c.path) {
			assert.Equal(t, c.path, refusal.Path)
			assert.Contains(t, err.Error(), c.want, c.path)
			assert.True(t, strings.HasPrefix(err.Error(), "--set: "), err.Error())
		}
	}
	for path, value := range map[string]string{
		"backends.shell.shellPath": "true", "backends.shell.init": "1", "tools.bash.description": "[a]", "dshHome": "2026-01-01",
	} {
		_, err := load(t, nested(path, value))
		var refusal *config.Error
		if assert.ErrorAs(t, err, &refusal, path) {
			assert.Contains(t, err.Error(), "want a text")
		}
	}
}

func TestRefusedLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"wrong type":       {"tools:\n  bash:\n    timeoutMs: abc\n", `config.yaml:3: tools.bash.timeoutMs: got the text "abc", want a whole number from 1 to 604800000 (ms)`},
		"zero timeout":     {"tools: {bash: {timeoutMs: 0}}", `config.yaml:1: tools.bash.timeoutMs: got 0, want a whole number from 1 to 604800000 (ms)`},
		"negative timeout": {"backends:\n- type: x\n  timeoutMs: -5", `config.yaml:3: backends.x.timeoutMs: got -5, want a whole number from 1 to 604800000 (ms)`},
		"slip":             {"tools: {bash: {timoutMs: 5}}", `config.yaml:1: tools.bash.timoutMs: unknown key; did you mean tools.bash.timeoutMs?`},
		"short":            {"tools: {bash: {timeout: 5}}", `config.yaml:1: tools.bash.timeout: unknown key; did you mean tools.bash.timeoutMs?`},
		"case":             {"tools: {bash: {TimeoutMs: 5}}", `config.yaml:1: tools.bash.TimeoutMs: unknown key; did you mean tools.bash.timeoutMs?`},
		"swapped":          {"snadbox: {}", `config.yaml:1: snadbox: unknown key; did you mean sandbox?`},
		"misplaced":        {"maxOutputChars: 5", `config.yaml:1: maxOutputChars: unknown key; did you mean tools.bash.maxOutputChars?`},
		"far":              {"sandbox: {zzzzzzzz: 1}", `config.yaml:1: sandbox.zzzzzzzz: unknown key; known here are mode, workspaceRoot, network, provider, writableRoots, protect, denyRead`},
		"backend key":      {"backends: [{type: x, shelPath: /a}]", `config.yaml:1: backends.x.shelPath: unknown key; did you mean backends.x.shellPath?`},
		"no type":          {"backends:\n  - rows: 5", `config.yaml:2: backends[0]: has no type; give it a name of its own`},
		"empty type":       {"backends: [{type: ''}]", `config.yaml:1: backends[0].type: got "", want a name of up to 64 letters, digits, - and _`},
		"type of a type":   {"backends: [{type: 5}]", `config.yaml:1: backends[0].type: got 5, want a text`},
		"same types":       {"backends: [{type: a}, {type: a}]", `config.yaml:1: backends[1].type: got "a" twice; types are unique`},
		"near types":       {"backends: [{type: a-b}, {type: A_b}]", `config.yaml:1: backends[1].type: got "A_b" next to "a-b"; types differ in more than case, - and _`},
		"no list":          {"backends: {type: a}", `config.yaml:1: backends: got a mapping, want a list of backends`},
		"no entry":         {"backends: [a]", `config.yaml:1: backends[0]: got the text "a", want a mapping with a type`},
		"no section":       {"tools: [bash]", `config.yaml:1: tools: got a list, want a mapping of keys to values`},
		"no document":      {"just text", `config.yaml:1: got the text "just text", want a mapping of keys to values`},
		"number as key":    {"1: 2", `config.yaml:1: got 1 as a key, want a name`},
		"twice":            {"sandbox: {}\nsandbox: {}", `config.yaml:2: sandbox: is set twice; keep one`},
		"two documents":    {"sandbox: {}\n---\ntools: {}", `config.yaml: not valid YAML: line 2: a second document; keep one`},
		"no YAML":          {"a: [1", `config.yaml: not valid YAML: line 1: did not find expected ',' or ']'`},
		"read past paging": {"backends: [{type: shell, scrollbackMaxBytes: 100}]", `backends.shell.maxReadBytes: got 262144, more than scrollbackMaxBytes (100) retains; lower it or raise scrollbackMaxBytes`},
		"short grace":      {"backends: [{type: shell, handoffGraceMs: 10}]", `backends.shell.handoffGraceMs: got 10, less than pollIntervalMs (50); raise it or lower pollIntervalMs`},
		"typed bash":       {"backends: [{type: shell, transport: typed}]", `backends.shell.transport: got "typed", which is for pwsh alone; leave it out for bash`},
		"absent program":   {"backends: [{type: py, shellDialect: none, shellPath: python3}]", `backends.py.shellDialect: got "none", which is not available in this version; use bash or pwsh`},
		"absent driver":    {"backends: [{type: x, driver: conpty}]", `backends.x.driver: got "conpty", which does not work on linux in this version; use posix`},
		"no backend":       {"tools: {bash: {backendType: zsh}}", `config.yaml: tools.bash.backendType: got "zsh", which is no backend; use one of shell, bash, or add it to backends`},
		"session root":     {"session: {root: logs}", `config.yaml:1: session.root: got "logs", want an absolute path`},
		"session key":      {"session: {persistance: jsonl}", `config.yaml:1: session.persistance: unknown key; did you mean session.persistence?`},
		"no hooks":         {"hooks: {}", `config.yaml:1: hooks: got a mapping, want a list of hooks`},
		"no hook":          {"hooks: [x]", `config.yaml:1: hooks[0]: got the text "x", want a mapping with event and command`},
		"no event":         {"hooks: [{command: [x]}]", `config.yaml:1: hooks[0]: has no event; give it one of PreToolUse, PostToolUse`},
		"no command":       {"hooks:\n- {event: PreToolUse, command: [x]}\n- event: PreToolUse\n  command: []", `config.yaml:3: hooks[1]: has no command; give it a program and its arguments, as a list`},
		"text as command":  {"hooks: [{event: PreToolUse, command: x y}]", `config.yaml:1: hooks[0].command: got the text "x y", want a list of texts`},
		"bad event":        {"hooks: [{event: Stop, command: [x]}]", `config.yaml:1: hooks[0].event: got "Stop", want one of PreToolUse, PostToolUse`},
		"bad matcher":      {"hooks: [{event: PreToolUse, matcher: '(', command: [x]}]", "config.yaml:1: hooks[0].matcher: got \"(\", want a regular expression: error parsing regexp: missing closing ): `(`"},
		"bad hook timeout": {"hooks: [{event: PreToolUse, timeoutMs: 0, command: [x]}]", `config.yaml:1: hooks[0].timeoutMs: got 0, want a whole number from 1 to 3600000 (ms)`},
		"bad hook key":     {"hooks: [{event: PreToolUse, timeout: 5, command: [x]}]", `config.yaml:1: hooks[0].timeout: unknown key; did you mean hooks[0].timeoutMs?`},
		"long value":       {"tools: {bash: {clip: " + strings.Repeat("x", 100) + "}}", `config.yaml:1: tools.bash.clip: got "` + strings.Repeat("x", 60) + `…", want one of head, middle`},
		"many lines":       {"tools: {bash: {clip: \"a\\nb\"}}", `config.yaml:1: tools.bash.clip: got "a\nb", want one of head, middle`},
		"same variables":   {"backends: [{type: x, env: {A: a, A: b}}]", `config.yaml:1: backends.x.env: sets A twice; keep one`},
		"merge key":        {"sandbox: {<<: {mode: x}}", `config.yaml:1: sandbox: got << as a key, want a name`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.text)
			refused(t, err, c.want)
		})
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"tools.bash.timeoutMs":           `--set: "tools.bash.timeoutMs" has no '='; write it as path=value`,
		"tools.bash.timeout=5":           `--set: tools.bash.timeout: unknown key; did you mean tools.bash.timeoutMs?`,
		"tools.bash=5":                   `--set: tools.bash: is a section; set one of its keys, for instance tools.bash.backendType`,
		"zzzzzzzzzzzzzzzzzz=5":           `--set: zzzzzzzzzzzzzzzzzz: unknown key; shellstead config lists the known ones`,
		"backends.zsh.rows=5":            `--set: backends.zsh.rows: no backend has the type "zsh"; known are shell, bash, pwsh`,
		"backends.shell.type=x":          `--set: backends.shell.type: a backend's type is declared in the configuration file and cannot be changed`,
		"backends.zsh.env.A=1":           `--set: backends.zsh.env.A: no backend has the type "zsh"; known are shell, bash, pwsh`,
		"backends.shell.env.A=\x00":      `--set: backends.shell.env.A: got "\x00", want a text without NUL bytes`,
		"backends=5":                     `--set: backends: got 5, want a list of backends`,
		"backends=[":                     `--set: backends: got "[", want a list of backends, written as YAML`,
		"session.root=x":                 `--set: session.root: got "x", want an absolute path`,
		"hooks=5":                        `--set: hooks: got 5, want a list of hooks`,
		"hooks=[":                        `--set: hooks: got "[", want a list of hooks, written as YAML`,
		"hooks[0].event=PreToolUse":      `--set: hooks[0].event: hooks are a list; set all of it, hooks=[{event: …, command: […]}]`,
		"tools.bash.backendType=missing": `--set: tools.bash.backendType: got "missing", which is no backend; use one of shell, bash, or add it to backends`,
	} {
		opts := options()
		opts.Set = []string{set}
		_, err := config.Load(opts)
		refused(t, err, want)
	}
	opts := options()
	opts.Environ = []string{"SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS=soon"}
	_, err := config.Load(opts)
	refused(t, err, `SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS: tools.bash.timeoutMs: got "soon", want a whole number from 1 to 604800000 (ms)`)

	opts = options()
	opts.Environ = []string{"SHELLSTEAD_BACKENDS=x"}
	_, err = config.Load(opts)
	refused(t, err, `SHELLSTEAD_BACKENDS: backends: got the text "x", want a list of backends`)
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.File = filepath.Join(t.TempDir(), "config.yaml")
	_, err := config.Load(opts)
	refused(t, err, "config.yaml: the configuration file cannot be read: no such file or directory")
	opts.File = t.TempDir()
	_, err = config.Load(opts)
	assert.ErrorContains(t, err, "the configuration file cannot be read: is a directory")
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	opts := options()
	value := func() config.Millis {
		cfg, err := config.Load(opts)
		require.NoError(t, err)
		return cfg.Tools.Bash.Timeout
	}
	assert.EqualValues(t, 300000, value())
	opts.File = write(t, "tools: {bash: {timeoutMs: 1}}")
	assert.EqualValues(t, 1, value())
	opts.Environ = []string{"SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS=2"}
	assert.EqualValues(t, 2, value())
	opts.Set = []string{"tools.bash.timeoutMs=3"}
	assert.EqualValues(t, 3, value())
	opts.Set = append(opts.Set, "tools.bash.timeoutMs=4")
	assert.EqualValues(t, 4, value(), "a later setting wins")
	opts.Flags = []config.Flag{{Name: "--timeout", Path: "tools.bash.timeoutMs", Value: "5"}}
	assert.EqualValues(t, 5, value())
}

// A value that a stronger one hides is checked all the same.
func TestHiddenValuesAreChecked(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.File = write(t, "tools: {bash: {timeoutMs: 0}}")
	opts.Flags = []config.Flag{{Name: "--timeout", Path: "tools.bash.timeoutMs", Value: "5"}}
	_, err := config.Load(opts)
	refused(t, err, "config.yaml:1: tools.bash.timeoutMs: got 0, want a whole number from 1 to 604800000 (ms)")
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.File = write(t, "backends: [{type: my-shell}]")
	opts.Environ = []string{
		"SHELLSTEAD_COOKIE_0123456789abcdef0123456789abcdef=1", // a shell of an outer instance
		"SHELLSTEAD_UNHEARD_OF=x",
		"SHELLSTEAD_TOOLS_BASH_CLIP=", // empty counts as unset
		"SHELLSTEAD_TOOLS_BASH_MAX_OUTPUT_CHARS=7",
		"SHELLSTEAD_TOOLS_BASH_SPILL=false",
		"SHELLSTEAD_DSH_HOME=/e",
		"SHELLSTEAD_SANDBOX_WORKSPACE_ROOT=/w",
		"SHELLSTEAD_BACKENDS_MY_SHELL_EXACT_PROBE_AFTER_MS=9",
		"SHELLSTEAD_BACKENDS_MY_SHELL_SHELL_ARGS=[-l, 'a b']",
		"SHELLSTEAD_BACKENDS_BASH_ENV={FOO: bar}",
		"SHELLSTEAD_BACKENDS_BASH_SHELL_PATH=/b",
		"shellstead_tools_bash_clip=zzz",
		"malformed",
	}
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, "head", cfg.Tools.Bash.Clip)
	assert.Equal(t, 7, cfg.Tools.Bash.MaxOutputChars)
	assert.False(t, cfg.Tools.Bash.Spill)
	assert.Equal(t, "/e", cfg.DSHHome)
	assert.Equal(t, "/w", cfg.Sandbox.WorkspaceRoot)
	assert.EqualValues(t, 9, cfg.Backend("my-shell").ExactProbeAfter)
	assert.Equal(t, []string{"-l", "a b"}, cfg.Backend("my-shell").ShellArgs)
	assert.Equal(t, config.Environment{"FOO=bar"}, cfg.Backend("bash").Env)
	assert.Equal(t, "/b", cfg.Backend("bash").ShellPath)

	opts = options()
	opts.Environ = []string{"SHELLSTEAD_BACKENDS=[{type: one, rows: 3}]", "SHELLSTEAD_BACKENDS_ONE_COLS=4"}
	cfg, err = config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, 3, cfg.Backend("one").Rows)
	assert.Equal(t, 4, cfg.Backend("one").Cols)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.File = write(t, "backends: [{type: bash, env: {Keep: 'k', FOO: file}}]")
	opts.Set = []string{
		"backends.bash.env.FOO=a=b",
		"backends.bash.env.dotted.name=x",
		"tools.bash.description=",
		"backends.bash.shellPath=",
		"backends=[{type: two, cols: 8}]",
		"backends.two.rows=9",
		"tools.bash.prestart=true",
	}
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, config.Environment{"Keep=k", "FOO=a=b", "dotted.name=x"}, cfg.Backend("bash").Env)
	assert.Equal(t, 8, cfg.Backend("two").Cols)
	assert.Equal(t, 9, cfg.Backend("two").Rows)
	assert.True(t, *cfg.Tools.Bash.Prestart)
}

// A key that is written and left open is unset.
func TestOpenValues(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, "dshHome:\ntools:\n  bash:\n    timeoutMs:\n    prestart: null\nsandbox:\nhooks: ~\nbackends:\n")
	require.NoError(t, err)
	defaults, err := config.Load(options())
	require.NoError(t, err)
	assert.Equal(t, defaults, cfg)
}

// Blank settings, relative paths and the forms of ~.
//
// Case: reference 3.3 #81
func TestHome(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	require.NoError(t, err)
	for _, c := range []struct{ setting, ambient, want string }{
		{"", "", "/home/u/.dsh"},
		{"", "   ", "/home/u/.dsh"},
		{"", "/amb", "/amb"},
		{"", "~/amb", "/home/u/amb"},
		{" ", "/amb", "/amb"},
		{"/set", "/amb", "/set"},
		{"~", "", "/home/u"},
		{"~/x/../y", "", "/home/u/y"},
		{`~\x`, "", "/home/u/x"},
		{"~other", "", filepath.Join(here, "~other")},
		{"rel", "", filepath.Join(here, "rel")},
	} {
		opts := options()
		opts.Environ = []string{"DSH_HOME=" + c.ambient}
		opts.Set = []string{"dshHome=" + c.setting}
		cfg, err := config.Load(opts)
		require.NoError(t, err)
		assert.Equal(t, c.want, cfg.DSHHome, "%q %q", c.setting, c.ambient)
	}
}

func TestTwoHomes(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.File = write(t, "dshHome: ~/a")
	opts.Environ = []string{"SHELLSTEAD_DSH_HOME=/home/u/a/", "DSH_HOME=/elsewhere"}
	cfg, err := config.Load(opts)
	require.NoError(t, err, "two settings that mean the same agree")
	assert.Equal(t, "/home/u/a", cfg.DSHHome)

	opts.Environ = []string{"SHELLSTEAD_DSH_HOME=/home/u/b"}
	_, err = config.Load(opts)
	require.Error(t, err)
	assert.Contains(t, err.Error(), `config.yaml says "/home/u/a" and SHELLSTEAD_DSH_HOME says "/home/u/b"; remove one`)
}

func TestBackendsThatAreNotThere(t *testing.T) {
	t.Parallel()
	types := func(opts config.Options) []string {
		cfg, err := config.Load(opts)
		require.NoError(t, err)
		var types []string
		for _, b := range cfg.Backends {
			types = append(types, b.Type)
		}
		return types
	}
	opts := options()
	opts.Found = func(string) bool { return false }
	assert.Equal(t, []string{"shell"}, types(opts), "bash is not found")
	opts.Set = []string{"backends.bash.shellPath=/opt/bash"}
	assert.Equal(t, []string{"shell", "bash"}, types(opts), "bash is where the setting says")

	opts = options()
	assert.Equal(t, []string{"shell", "bash"}, types(opts), "pwsh is not found")
	opts.Set = []string{"backends.pwsh.shellPath=/opt/pwsh"}
	assert.Equal(t, []string{"shell", "bash", "pwsh"}, types(opts), "pwsh is where the setting says")
	opts.Set = []string{"tools.pwsh.backendType=shell"}
	_, err := config.Load(opts)
	refused(t, err, `--set: tools.pwsh.backendType: got "shell", whose shellDialect is bash; this tool needs a backend that speaks pwsh`)
	opts.Dialects = []string{"bash"}
	assert.Equal(t, []string{"shell", "bash"}, types(opts), "a tool that the program lacks is not checked")
	opts.Set = []string{"backends.pwsh.shellPath=/opt/pwsh"}
	_, err = config.Load(opts)
	refused(t, err, `backends.pwsh.shellDialect: got "pwsh", which is not available in this version; use bash`)

	opts = options()
	opts.Found = func(string) bool { return true }
	assert.Equal(t, []string{"shell", "bash", "pwsh"}, types(opts))
	opts.Set = []string{"tools.bash.backendType=pwsh"}
	_, err = config.Load(opts)
	refused(t, err, `--set: tools.bash.backendType: got "pwsh", whose shellDialect is pwsh; this tool needs a backend that speaks bash`)

	opts = options()
	opts.GOOS, opts.Dialects = "windows", []string{"bash"}
	assert.Equal(t, []string{"bash"}, types(opts), "without pwsh only bash is left")
	opts.Dialects = []string{"pwsh", "bash"}
	opts.Found = func(string) bool { return true }
	cfg, err := config.Load(opts)
	require.NoError(t, err)
	assert.Equal(t, "pwsh", cfg.Backend("shell").ShellDialect)
	assert.Equal(t, "conpty", cfg.Backend("shell").Driver)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, key := range config.Keys() {
		assert.NotEmpty(t, key.Doc, key.Path)
		assert.NotEmpty(t, key.Want, key.Path)
		assert.True(t, !seen[key.Env] || key.Env == "SHELLSTEAD_HOOKS", "%s shares its variable", key.Path)
		seen[key.Env] = true
	}
	assert.True(t, seen["SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS"])
	assert.True(t, seen["SHELLSTEAD_DSH_HOME"])
	assert.True(t, seen["SHELLSTEAD_BACKENDS_TYPE_SCROLLBACK_MAX_BYTES"])
}

func FuzzFile(f *testing.F) {
	f.Add(everything)
	f.Add("a: &a [*a]")
	f.Add("tools: &t {bash: *t}")
	f.Fuzz(func(t *testing.T, text string) {
		opts := options()
		opts.File = write(t, text)
		cfg, err := config.Load(opts)
		if err != nil {
			var refusal *config.Error
			require.ErrorAs(t, err, &refusal)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		printed, err := cfg.YAML()
		require.NoError(t, err)
		opts.File = write(t, string(printed))
		again, err := config.Load(opts)
		require.NoError(t, err, "%s", printed)
		cfg.HomeSource, again.HomeSource = "", "" // another file
		require.Equal(t, cfg, again)
	})
}

// A terminal type whose program is no shell.
func TestPrograms(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.Dialects = append(opts.Dialects, config.NoDialect)
	load := func(text string) (*config.Config, error) {
		opts.File = write(t, text)
		return config.Load(opts)
	}
	cfg, err := load("backends: [{type: py, shellDialect: none, shellPath: python3, shellArgs: [-q]}]")
	require.NoError(t, err)
	assert.Equal(t, "python3", cfg.Backend("py").ShellPath)
	_, err = load("backends: [{type: py, shellDialect: none}]")
	refused(t, err, `backends.py.shellPath: is empty, and shellDialect none runs any program; name one`)
	_, err = load("backends: [{type: py, shellDialect: none, shellPath: python3, init: x}]")
	refused(t, err, `backends.py.init: a program that is run with shellDialect none takes no commands; remove it`)
	_, err = load("{backends: [{type: py, shellDialect: none, shellPath: python3}], tools: {bash: {backendType: py}}}")
	refused(t, err, `config.yaml: tools.bash.backendType: got "py", whose shellDialect is none; this tool needs a backend that speaks bash`)
}
