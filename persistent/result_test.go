package persistent

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// Every line that can stand around an output, in the order in which they stand.
func TestGoldenNotices(t *testing.T) {
	code := func(n int) *int { return &n }
	clipped := capture{head: []byte("0123"), chars: 10, shown: 4}
	saved, capped, unsaved := clipped, clipped, clipped
	saved.spill = spilled{path: "/tmp/shellstead-1/output-1.txt", size: 10}
	capped.spill = spilled{path: "/tmp/shellstead-1/output-1.txt", size: 8, capped: true}
	unsaved.spill = spilled{err: errors.New("no space left on device")}
	middle := capture{head: []byte("01"), tail: []byte("89"), chars: 10, shown: 4}
	needs := func(program string, kind terminals.InputKind) *terminals.NeedsInput {
		return &terminals.NeedsInput{Program: program, Kind: kind}
	}

	cases := []struct {
		name string
		call call
	}{
		{"nothing", call{}},
		{"output that ends its line", call{out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"output that does not", call{out: capture{head: []byte("out"), chars: 3, shown: 3}, exit: exitCodeNotice(code(1))}},
		{"exit code 0", call{exit: exitCodeNotice(code(0))}},
		{"negative exit code", call{exit: exitCodeNotice(code(-1073741510))}},
		{"unknown exit code", call{exit: exitCodeNotice(nil)}},
		{"shell exited with a code", call{exit: shellExitedNotice(terminals.Status{ExitCode: code(9)}), fresh: true}},
		{"shell killed", call{exit: shellExitedNotice(terminals.Status{Signal: "SIGKILL"}), fresh: true}},
		{"shell exited", call{exit: shellExitedNotice(terminals.Status{}), fresh: true}},
		{"interrupted", call{before: []string{interruptedNotice("cat")}, out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"completed meanwhile", call{before: []string{completedNotice(code(2))}, out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"completed meanwhile, nobody knows how", call{before: []string{completedNotice(nil)}, unsolicited: []byte("hello bob\n"), out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"interrupted and replaced", call{before: []string{interruptedNotice("cat"), replacedNotice("/project dir")}}},
		{"exited before, code", call{before: []string{shellHadExitedNotice(terminals.Status{ExitCode: code(3)}, "/project dir")}}},
		{"exited before, signal", call{before: []string{shellHadExitedNotice(terminals.Status{Signal: "SIGSEGV"}, "/project dir")}}},
		{"exited before", call{before: []string{shellHadExitedNotice(terminals.Status{}, "/project dir")}}},
		{"unsolicited", call{unsolicited: []byte("job done"), out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"unsolicited alone", call{unsolicited: []byte("job done\n")}},
		{"unsolicited that is no text", call{unsolicited: []byte("\x1b[0m"), out: capture{head: []byte("out\n"), chars: 4, shown: 4}}},
		{"clipped, not saved by choice", call{out: clipped}},
		{"clipped and saved", call{out: saved}},
		{"clipped and saved in part", call{out: capped}},
		{"clipped and not saved", call{out: unsaved}},
		{"clipped in the middle", call{out: middle}},
		{"lost", call{result: Result{LostPrefix: 7}}},
		{"timeout", call{timedOut: timeoutNotice(1500*time.Millisecond, false), fresh: true}},
		{"timeout, kept", call{timedOut: timeoutNotice(1500*time.Millisecond, true)}},
		{"waiting", call{wait: waitingNotice(needs("cat", terminals.LineInput), "pty-1", false)}},
		{"waiting for a secret", call{wait: waitingNotice(needs("sudo", terminals.SecretInput), "pty-1", true)}},
		{"waiting for a key", call{wait: waitingNotice(needs("less", terminals.KeyInput), "pty-1", false)}},
		{"a program with a strange name", call{wait: waitingNotice(needs("a\x1b[31m]\n[exit", terminals.LineInput), "pty-1", false)}},
		{"error", call{result: Result{Error: &Error{Message: "it did not work"}}, out: capture{head: []byte("out\n"), chars: 4, shown: 4}, fresh: true}},
		{"everything", call{
			result:      Result{Error: &Error{Message: "it did not work"}, LostPrefix: 7},
			before:      []string{interruptedNotice("cat"), replacedNotice("/project dir")},
			unsolicited: []byte("job done"),
			out:         unsaved,
			exit:        exitCodeNotice(code(1)),
			timedOut:    timeoutNotice(time.Second, false),
			wait:        waitingNotice(needs("cat", terminals.LineInput), "pty-1", false),
			fresh:       true,
		}},
	}
	f := newFixture(t, nil)
	state, err := f.stateOf(f.owner)
	require.NoError(t, err)
	var b strings.Builder
	for _, c := range cases {
		c.call.state = state
		c.call.render()
		fmt.Fprintf(&b, "== %s\n%s\n", c.name, c.call.result.Text)
	}
	golden(t, "notices.golden", b.String())
}

func TestGoldenResult(t *testing.T) {
	code, signal, session := 3, "SIGKILL", "s-1"
	results := []Result{
		{Command: "x", Output: "caf\xe9 \xe4\xb8 <b>\n", Reason: Completed, ExitCode: &code, Text: "t"},
		{
			Command: "x", Reason: WaitingInput, Signal: &signal, SessionID: &session, Clipped: true, LostPrefix: 7,
			OutputFile: "/tmp/shellstead-1/output-1.txt", Unsolicited: "u", Cwd: "/project dir", DurationMs: 12, TerminalID: "pty-1",
			NeedsInput: &terminals.NeedsInput{Kind: terminals.SecretInput, Prompt: "Password: ", Program: "sudo", PID: 815},
		},
		Refused("x\x00", errors.New("no")),
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, r := range results {
		require.NoError(t, enc.Encode(r))
	}
	golden(t, "result.golden", b.String())
}

// The schema is written by hand; it has to describe the type.
func TestResultSchemaDescribesResult(t *testing.T) {
	type schema struct {
		Properties map[string]schema `json:"properties"`
		Required   []string          `json:"required"`
		Enum       []string          `json:"enum"`
	}
	var s schema
	require.NoError(t, json.Unmarshal(ResultSchema(), &s))
	check := func(s schema, of reflect.Type) {
		var names []string
		for i := range of.NumField() {
			if name := of.Field(i).Tag.Get("json"); name != "" && name != "-" {
				names = append(names, name)
				assert.Contains(t, s.Properties, name)
			}
		}
		assert.Len(t, s.Properties, len(names))
		slices.Sort(names)
		slices.Sort(s.Required)
		assert.Equal(t, names, s.Required)
	}
	check(s, reflect.TypeFor[Result]())
	check(s.Properties["error"], reflect.TypeFor[Error]())
	check(s.Properties["needsInput"], reflect.TypeFor[terminals.NeedsInput]())
	for _, reason := range []Reason{Completed, TimedOut, ShellExited, WaitingInput, Cancelled, Failed} {
		assert.Contains(t, s.Properties["reason"].Enum, string(reason))
	}

	ResultSchema()[0] = 'x'
	assert.True(t, json.Valid(ResultSchema()), "a caller cannot change it")
}

func TestResultErr(t *testing.T) {
	var res Result
	assert.NoError(t, res.Err())
	res.cancel(nil)
	assert.EqualError(t, res.Err(), "the call was cancelled")
}

func TestConfigIsValidated(t *testing.T) {
	cases := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.BackendType = "" }, "persistent: backendType must name a terminal backend, got an empty string"},
		{func(c *Config) { c.Timeout = 0 }, "persistent: timeoutMs must be from 1 to 604800000, got 0"},
		{func(c *Config) { c.Timeout = MaxTimeout + time.Millisecond }, "persistent: timeoutMs must be from 1 to 604800000, got 604800001"},
		{func(c *Config) { c.OnTimeout = "stop" }, `persistent: onTimeout must be "reset" or "interrupt", got "stop"`},
		{func(c *Config) { c.MaxOutputChars = 0 }, "persistent: maxOutputChars must be from 1 to 16777216, got 0"},
		{func(c *Config) { c.MaxOutputChars = MaxOutputChars + 1 }, "persistent: maxOutputChars must be from 1 to 16777216, got 16777217"},
		{func(c *Config) { c.Clip = "tail" }, `persistent: clip must be "head" or "middle", got "tail"`},
		{func(c *Config) { c.WaitConfirm = 0 }, "persistent: waitConfirmMs must be from 1 to 60000, got 0"},
		{func(c *Config) { c.WaitConfirm = 2 * time.Minute }, "persistent: waitConfirmMs must be from 1 to 60000, got 120000"},
		{func(c *Config) { c.SpillMaxBytes = 0 }, "persistent: spillMaxBytes must be from 1 to 1099511627776, got 0"},
	}
	service := terminals.NewService(terminals.Options{})
	for _, c := range cases {
		cfg := DefaultConfig()
		c.change(&cfg)
		_, err := New(service, cfg)
		assert.EqualError(t, err, c.want)
	}
	_, err := New(service, DefaultConfig())
	assert.NoError(t, err)
	_, err = New(nil, DefaultConfig())
	assert.Error(t, err)
}

// The file appears when the output is clipped, and goes with its owner.
func TestSpillFileLivesAsLongAsItsOwner(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep=%t", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := strings.Repeat("line\n", 100)
				shell := playing(printing(whole, 0))
				f := newFixture(t, func(c *Config) { c.MaxOutputChars, c.KeepSpill = 20, keep }, shell)
				defer f.dispose()
				res := f.run("x")
				assert.True(t, res.Clipped)
				assert.Equal(t, whole[:20], res.Output)
				assert.Equal(t, whole[:20]+"[output clipped: 20 of 500 characters shown; full output: "+res.OutputFile+"]", res.Text)
				content, err := os.ReadFile(res.OutputFile)
				require.NoError(t, err)
				assert.Equal(t, whole, string(content))

				shell.play = printing("short", 0)
				assert.Empty(t, f.run("y").OutputFile)

				require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))
				_, err = os.Stat(filepath.Dir(res.OutputFile))
				if keep {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, fs.ErrNotExist)
				}
			})
		})
	}
}

func TestSpillCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.MaxOutputChars, c.Spill = 4, false }, playing(printing("0123456789", 0)))
		defer f.dispose()
		res := f.run("x")
		assert.Empty(t, res.OutputFile)
		assert.Equal(t, "0123\n[output clipped: 4 of 10 characters shown]", res.Text)
	})
}

// Reference 3.3 #69 and F65 (anthropics/claude-code#23540): the output is what
// was printed, the text is what a person would see.
func TestTextIsSanitisedAndOutputIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := "\r10%\r20%\x1b[31m red\x1b[0m\x07\n"
		f := newFixture(t, nil, playing(printing(raw, 0)))
		defer f.dispose()
		res := f.run("x")
		assert.Equal(t, raw, res.Output)
		assert.Equal(t, "20% red\n", res.Text)
	})
}
