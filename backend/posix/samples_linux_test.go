package posix

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

const compile = `printf '#include <stdio.h>\n#include <math.h>\nint main(void) { return printf("%f", sin(1)); }\n' >x.c; echo rea""dy; while :; do gcc -O2 -pipe -c x.c; done`

var neverReady = []classified{
	{name: "sleep", run: "echo rea''dy; sleep 300", shows: "ready"},
	{name: "short sleeps", run: "echo rea''dy; while :; do sleep 0.001; done", shows: "ready"},
	{name: "loop", run: "echo rea''dy; while :; do :; done", shows: "ready"},
	{name: "pipeline", run: "echo rea''dy; while :; do seq 1000 | sort | cat >/dev/null; done", shows: "ready"},
	{name: "writer", run: "while :; do echo ready; done", shows: "ready"},
	// The foreground goes to and fro between the shell and its jobs.
	{name: "commands of a shell", needs: []string{"bash"}, run: "PS1='$ ' bash --norc --noprofile -i", types: "echo rea''dy; while :; do /bin/true; done\n", shows: "ready"},
	// A background job may wait for a terminal that it must not read.
	{name: "shell with a waiting job", needs: []string{"bash", "python3"}, run: "PS1='$ ' bash --norc --noprofile -i",
		types: "python3 -c 'import select; print(\"rea\"+\"dy\", flush=True); select.select([0], [], [])' & while :; do :; done\n", shows: "ready"},
	{name: "node timers", needs: []string{"node"}, run: `node -e "setInterval(() => {}, 1); setTimeout(() => console.log('rea'+'dy'), 10)"`, shows: "ready"},
	{name: "busy REPL", needs: []string{"python3"}, run: "python3 -q", types: "import time; x = print('rea'+'dy') or [time.sleep(0.001) for i in range(1000000)]\n", shows: "ready"},
	{name: "gcc", needs: []string{"gcc"}, run: compile, shows: "ready"},
	{name: "go build", needs: []string{"go"}, run: `printf 'package main\nfunc main() { println() }\n' >x.go; echo rea""dy; while :; do go build -o x x.go; rm -rf "$GOCACHE"; done`,
		env: []string{"GOCACHE=/var/tmp/posix-go-build", "GOTOOLCHAIN=local", "GOFLAGS=", "GO111MODULE=off"}, shows: "ready"},
}

// Nothing that is busy is taken for waiting.
//
// Case: A13b
func TestBusyProgramsAreNeverReadySoak(t *testing.T) {
	var busy []*screen
	var rows []classified
	for _, row := range neverReady {
		if !present(row.needs) {
			continue // the tests of the single programs name what is absent
		}
		dir := place(t)
		for i, v := range row.env {
			row.env[i] = strings.ReplaceAll(v, "/var/tmp/posix-go-build", dir+"/cache")
		}
		busy, rows = append(busy, row.in(t, dir)), append(rows, row)
	}
	for i := range samples(10_000) {
		n := i % len(busy)
		w, err := busy[n].InputWait()
		require.NoError(t, err, rows[n].name)
		require.NotEqual(t, backend.WaitReading, w.State, "%s: %+v", rows[n].name, w)
	}
}

// What waits is seen to wait each time. Some programs wake up for a moment by
// themselves, as tmux does for its status line: a look at such a moment has to
// find them running.
func TestWaitingProgramsAreAlwaysReadySoak(t *testing.T) {
	wanted := map[string]bool{"cat": true, "python3": true, "getpass": true, "less": true, "gdb": true, "sqlite3": true, "bc": true, "git add -p": true, "script with cat": true, "tmux with cat": true}
	var waiting []*screen
	var rows []classified
	for _, row := range classification {
		if !wanted[row.name] || !present(row.needs) {
			continue
		}
		waiting, rows = append(waiting, row.in(t, place(t))), append(rows, row)
	}
	settle(t, rows, waiting)
	awake, all := 0, samples(1000)
	for i := range all {
		n := i % len(waiting)
		before := waiting[n].account(t)
		w, err := waiting[n].InputWait()
		require.NoError(t, err, rows[n].name)
		if w.State == backend.WaitReading {
			continue
		}
		waiting[n].waits(t, backend.WaitReading)
		require.NotEqual(t, before, waiting[n].account(t), "%s waits and is not seen to: %+v", rows[n].name, w)
		awake++
	}
	assert.LessOrEqual(t, awake, max(1, all/50), "of %d looks", all)
}

// account is what the scheduler has counted for the program and its family.
func (s *screen) account(t *testing.T) string {
	t.Helper()
	members, err := s.family.members()
	require.NoError(t, err)
	pids := []int{s.PID()}
	for _, p := range members {
		pids = append(pids, p.pid)
	}
	account, known := accountOf(threadsOf(pids))
	require.True(t, known)
	return string(account)
}

func TestSamplesUnprivilegedSoak(t *testing.T) {
	t.Parallel()
	cmd := unprivileged(t, "-test.run=Ready.*Soak$", "-test.v")
	cmd.Env = append(cmd.Env, "SHELLSTEAD_SOAK="+os.Getenv("SHELLSTEAD_SOAK"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: TestBusyProgramsAreNeverReadySoak")
}
