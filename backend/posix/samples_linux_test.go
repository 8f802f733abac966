package posix

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
)

// samples is how often a test looks: the whole proof with SHELLSTEAD_SOAK=1
// (ci/soak), otherwise a tenth of it.
func samples(whole int) int {
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		return whole
	}
	return whole / 10
}

const compile = `printf '#include <stdio.h>\n#include <math.h>\nint main(void) { return printf("%f", sin(1)); }\n' >x.c; echo rea""dy; while :; do gcc -O2 -pipe -c x.c; done`

var neverReady = []classified{
	{name: "sleep", run: "echo rea''dy; sleep 300", shows: "ready"},
	{name: "short sleeps", run: "echo rea''dy; while :; do sleep 0.001; done", shows: "ready"},
	{name: "loop", run: "echo rea''dy; while :; do :; done", shows: "ready"},
	{name: "pipeline", run: "echo rea''dy; while :; do seq 1000 | sort | cat >/dev/null; done", shows: "ready"},
	{name: "writer", run: "while :; do echo ready; done", shows: "ready"},
	// platform A13b: the foreground goes to and fro between the shell and its jobs.
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

// What waits is seen to wait each time.
func TestWaitingProgramsAreAlwaysReadySoak(t *testing.T) {
	wanted := map[string]bool{"cat": true, "python3": true, "getpass": true, "less": true, "gdb": true, "sqlite3": true, "bc": true, "git add -p": true, "script with cat": true, "tmux with cat": true}
	var waiting []*screen
	var rows []classified
	for _, row := range classification {
		if !wanted[row.name] || !present(row.needs) {
			continue
		}
		s := row.checkIn(t, place(t))
		waiting, rows = append(waiting, s), append(rows, row)
	}
	for i := range samples(1000) {
		n := i % len(waiting)
		w, err := waiting[n].InputWait()
		require.NoError(t, err, rows[n].name)
		require.Equal(t, backend.WaitReading, w.State, "%s: %+v", rows[n].name, w)
	}
}

func TestSamplesUnprivilegedSoak(t *testing.T) {
	cmd := unprivileged(t, "-test.run=Ready.*Soak$", "-test.v")
	cmd.Env = append(cmd.Env, "SHELLSTEAD_SOAK="+os.Getenv("SHELLSTEAD_SOAK"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: TestBusyProgramsAreNeverReadySoak")
}
