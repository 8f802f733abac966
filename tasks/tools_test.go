package tasks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/tool"
)

// call runs one of the three tools.
func (f *fixture) call(name, arguments string) tool.Result {
	f.t.Helper()
	for _, t := range f.Tools() {
		if t.Spec().Name == name {
			placed := 0
			res := t.Call(f.t.Context(), f.owner, tool.Call{Arguments: json.RawMessage(arguments), Placed: func() { placed++ }})
			assert.Equal(f.t, 1, placed, "a call holds up no other one")
			return res
		}
	}
	f.t.Fatalf("there is no tool %s", name)
	return tool.Result{}
}

func TestGoldenSpecs(t *testing.T) {
	f := newFixture(t, tasks.Config{})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, one := range f.Tools() {
		require.NoError(t, enc.Encode(one.Spec()))
	}
	golden(t, "specs.golden", b.String())
}

func TestGoldenResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		var b strings.Builder
		show := func(title, name, arguments string) {
			res := f.call(name, arguments)
			structured, err := json.Marshal(res.Structured)
			require.NoError(t, err)
			fmt.Fprintf(&b, "== %s\n%s\n-- %s error=%t\n%s\n", title, res.Text, res.Intent, res.IsError, structured)
		}
		show("no tasks", "task_list", "")
		j, killed, failed := newJob(), newJob(), newJob()
		f.start(j)
		show("nothing yet", "task_output", `{"task_id": "job-1"}`)
		j.print("out\n")
		show("output", "task_output", `{"task_id": "job-1", "wait": false, "more": 1}`)
		j.print("prompt> ")
		j.cut = true
		show("its beginning was dropped", "task_output", `{"task_id": "job-1"}`)
		f.start(killed)
		killed.stubborn = true
		show("kill", "task_kill", `{"task_id": "job-2"}`)
		show("stopping", "task_output", `{"task_id": "job-2"}`)
		killed.end(tasks.Outcome{Err: tasks.ErrKilled, Detail: "wait: stdin_read"})
		f.start(failed)
		failed.end(tasks.Outcome{Err: errors.New("the device is gone")})
		synctest.Wait()
		show("list", "task_list", "{}")
		j.print("last")
		j.end(tasks.Outcome{Detail: "session exited: 3", Notes: []string{"[note 1]", "[note 2]"}, Result: map[string]int{"code": 3}})
		synctest.Wait()
		show("end", "task_output", `{"task_id": "job-1", "wait": true}`)
		show("later", "task_output", `{"task_id": "job-1", "wait": true}`)
		show("killed", "task_output", `{"task_id": "job-2"}`)
		show("kill too late", "task_kill", `{"task_id": "job-2"}`)
		show("failed", "task_output", `{"task_id": "job-3"}`)
		for _, bad := range []string{`{}`, `{"task_id": 5}`, `{"task_id": "pty-1"}`, `{"task_id": "job-1", "wait": "yes"}`,
			`{"task_id": "job-1", "timeout_ms": -1}`, `{"task_id": "job-1", "timeout_ms": 600001}`, `{"task_id": "job-1", "timeout_ms": 1.5}`} {
			show(bad, "task_output", bad)
		}
		show("kill nothing", "task_kill", `{}`)
		show("kill unknown", "task_kill", `{"task_id": ""}`)
		show("list badly", "task_list", `[]`)
		golden(t, "results.golden", b.String())
	})
}

func TestWaitArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		f.start(j)
		for arguments, want := range map[string]time.Duration{
			`{"task_id": "job-1"}`:                                    0,
			`{"task_id": "job-1", "timeout_ms": 7000}`:                0,
			`{"task_id": "job-1", "wait": true}`:                      30 * time.Second,
			`{"task_id": "job-1", "wait": true, "timeout_ms": 0}`:     0,
			`{"task_id": "job-1", "wait": true, "timeout_ms": null}`:  30 * time.Second,
			`{"task_id": "job-1", "wait": true, "timeout_ms": 90000}`: 90 * time.Second,
		} {
			began := time.Now()
			assert.Equal(t, "(no new output)\n[status: running]", f.call("task_output", arguments).Text)
			assert.Equal(t, want, time.Since(began), arguments)
		}
		j.end(tasks.Outcome{})
	})
}

// Reference 3.3 #86: a bound leaves the status, which is the last line.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, max := range []int{64, 65, 80, 100, 150, 1000} {
			for _, detail := range []string{"", "wait: inferred_idle", strings.Repeat("一", 100)} {
				for _, notes := range [][]string{nil, {"[waiting for input: python3 (line)]", "[full-screen program]"}} {
					for _, text := range []string{"", "short", "line\n", strings.Repeat("0123456789", 12), strings.Repeat("🦉\n", 100)} {
						f := newFixture(t, tasks.Config{MaxResultBytes: max})
						j := newJob()
						id := f.start(j)
						j.print(text)
						j.end(tasks.Outcome{Detail: detail, Notes: notes})
						synctest.Wait()
						got := f.call("task_output", `{"task_id": "`+id+`"}`)
						require.LessOrEqual(t, len(got.Text), max)
						require.True(t, utf8.ValidString(got.Text))
						lines := strings.Split(got.Text, "\n")
						require.True(t, strings.HasPrefix(lines[len(lines)-1], "[status: completed"), got.Text)
						res := got.Structured.(tasks.OutputResult)
						require.True(t, strings.HasSuffix(text, res.Output))
						require.Equal(t, text != res.Output, res.Truncated)
						if res.Truncated {
							require.Contains(t, got.Text, tool.Truncated)
						}
						if res.Output != "" {
							require.True(t, strings.HasPrefix(got.Text, res.Output))
						}
						require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))
					}
				}
			}
		}
	})
}
