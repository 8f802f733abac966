//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// process is the program, running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(program(t), args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd}
	cmd.Stderr = &p.stderr
	var err error
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p.lines = bufio.NewReader(out)
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

func (p *process) line() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(p.t, err, "stderr: %s", &p.stderr)
	return strings.TrimSuffix(line, "\n")
}

// pids reads a line of process ids.
func (p *process) pids() []int {
	p.t.Helper()
	var pids []int
	for field := range strings.FieldsSeq(p.line()) {
		pid, err := strconv.Atoi(field)
		require.NoError(p.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// exit waits for the end and returns the exit code and what was left on stdout.
func (p *process) exit() (code int, rest string) {
	p.t.Helper()
	out, err := io.ReadAll(p.lines)
	require.NoError(p.t, err)
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), string(out)
}

// gone waits until none of the processes runs. A zombie does not run.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	require.NotEmpty(t, pids)
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !runs(pid) }, patience, 5*time.Millisecond, "process %d survived", pid)
	}
}

func runs(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return err != nil && !os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return !strings.HasPrefix(state, "Z")
}

// leave starts a program that ignores what it can and a daemon, and tells the
// pids of the shell and of both; busy does so and goes on.
const (
	leave = `sh -c 'trap "" HUP INT TERM; sleep 1000 & wait' & a=$!; ` +
		`d=$( (setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' </dev/null 2>/dev/null &) ); echo $$ $a $d`
	busy = leave + "; sleep 1000"
)

// A signal to the program in the middle of a command: the command is stopped,
// every shell ends, and the exit code is the signal's.
func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, mode := range []string{"", "--json", "--text"} {
			t.Run(sig.String()+mode, func(t *testing.T) {
				t.Parallel()
				pids := filepath.Join(t.TempDir(), "pids")
				args := []string{"run", "--set", "backends.bash.disposeGraceMs=300"}
				if mode != "" {
					args = append(args, mode)
				}
				p := start(t, append(args, leave+" > "+pids+".part; mv "+pids+".part "+pids+"; sleep 1000", "echo never")...)
				started := waitFor(t, pids)
				require.NoError(t, p.cmd.Process.Signal(sig))
				code, out := p.exit()
				assert.Equal(t, exitSignal+int(sig), code)
				assert.NotContains(t, out, "never")
				if mode == "--json" {
					assert.Contains(t, out, `"reason":"cancelled","error":{"code":"CANCELLED","message":"interrupted by `)
				}
				gone(t, started...)
			})
		}
	}
}

// waitFor waits for a file with process ids.
func waitFor(t *testing.T, path string) []int {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	}, patience, 5*time.Millisecond)
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// Nothing of ours survives a program that was killed.
func TestRunIsKilled(t *testing.T) {
	t.Parallel()
	p := start(t, "run", busy)
	pids := p.pids()
	require.NoError(t, p.cmd.Process.Kill())
	gone(t, pids...)
}

func TestIdleJSONLIsInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, "run", "--jsonl")
	_, err := io.WriteString(p.in, "{\"command\":\"echo $$\"}\n")
	require.NoError(t, err)
	_, after, ok := strings.Cut(p.line(), `"output":"`)
	require.True(t, ok, "an answer is flushed before the next line comes")
	digits, _, ok := strings.Cut(after, `\n`)
	require.True(t, ok)
	pid, err := strconv.Atoi(digits)
	require.NoError(t, err)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	code, _ := p.exit()
	assert.Equal(t, 143, code)
	gone(t, pid)
}

// nohup means what it says; a signal that was not given does nothing.
func TestRunUnderNohup(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, program(t), "run", `echo ready; read -t 0.3 x < <(sleep 1); echo done`)
	p := startCommand(t, cmd)
	assert.Equal(t, "ready", p.line())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	code, out := p.exit()
	assert.Equal(t, 0, code)
	assert.Equal(t, "done\n", out)
}

// A reader that goes away ends the run as quietly as it ends other tools.
func TestRunLosesItsReader(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "echo $$; yes"}, {"run", "--json", "echo $$", "yes | head -n 1000000 >&2; echo x", "sleep 1000"}} {
		cmd := exec.Command(program(t), args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, out.Close())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		stop()
		cancel()
		assert.Equal(t, exitSignal+int(syscall.SIGPIPE), cmd.ProcessState.ExitCode(), "%v", args)
		assert.Empty(t, stderr.String())
	}
}

func TestRunCannotWrite(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full on this system")
	}
	defer full.Close()
	for _, mode := range []string{"--text", "--json", "--text=false"} {
		cmd := exec.Command(program(t), "run", mode, "echo x; sleep 0.2", "sleep 1000")
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run()
		assert.Equal(t, exitFailure, cmd.ProcessState.ExitCode(), mode)
		assert.Equal(t, "shellstead: stdout cannot be written: no space left on device\n", stderr.String(), mode)
	}
}

// Every byte comes out as it went in.
func TestRunIsTransparent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := make([]byte, 0, 1<<20)
	for len(want) < 1<<20 {
		for b := range 256 {
			want = append(want, byte(b), byte(b>>1))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bytes"), want, 0o600))
	cmd := exec.Command(program(t), "run", "--cwd", dir, "cat bytes", "printf end")
	got, err := cmd.Output()
	require.NoError(t, err)
	assert.True(t, bytes.Equal(append(want, "end"...), got), "%d bytes came, want %d", len(got), len(want)+3)
}

// Two processes with one configuration do not meet.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("tools: {bash: {maxOutputChars: 3}}"), 0o600))
	a, b := start(t, "run", "--config", file, "--jsonl"), start(t, "run", "--config", file, "--jsonl")
	for _, p := range []*process{a, b} {
		_, err := io.WriteString(p.in, "{\"command\":\"x=$((x+1)); echo $x\"}\n")
		require.NoError(t, err)
	}
	for _, p := range []*process{a, b} {
		assert.Contains(t, p.line(), `"output":"1\n"`)
		require.NoError(t, p.in.Close())
		code, _ := p.exit()
		assert.Equal(t, 0, code)
	}
}

// A shell within a shell: the inner program's variables are left alone.
func TestNestedRun(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program(t), "run", `x=outer; "`+program(t)+`" run 'echo inner $x; exit 3'; echo $? $x`)
	got, err := cmd.CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(got), "inner\n")
	assert.Contains(t, string(got), "3 outer\n")
}

// Closing stdin ends every shell and what runs in it.
func TestMCPStdinEndsShells(t *testing.T) {
	t.Parallel()
	s := startRaw(t, "--set", "backends.bash.disposeGraceMs=300")
	s.send(bashCall(1, leave))
	result := s.answer("1")["result"]
	_, after, ok := strings.Cut(string(result), `"text":"`)
	require.True(t, ok, "%s", result)
	digits, _, ok := strings.Cut(after, `\n`)
	require.True(t, ok, "%s", result)
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
	for field := range strings.FieldsSeq(digits) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		assert.False(t, runs(pid), "process %d lives when the server has ended", pid)
	}
}

func TestMCPIsTerminated(t *testing.T) {
	t.Parallel()
	s := startRaw(t)
	s.send(bashCall(1, "echo $$"))
	_, after, ok := strings.Cut(string(s.answer("1")["result"]), `"text":"`)
	require.True(t, ok)
	digits, _, ok := strings.Cut(after, `\n`)
	require.True(t, ok)
	pid, err := strconv.Atoi(digits)
	require.NoError(t, err)
	s.send(strings.Replace(bashCall(2, "echo started; sleep 1000"), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1))
	s.progress()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Contains(t, string(s.answer("2")["result"]), `"isError":true`, "the call is answered before the end")
	_ = s.cmd.Wait()
	assert.Equal(t, 143, s.cmd.ProcessState.ExitCode())
	assert.False(t, runs(pid))
}

// A client that leaves without reading its answers keeps no shell alive.
func TestMCPClientStopsReading(t *testing.T) {
	t.Parallel()
	s := startRaw(t, "--set", "tools.bash.maxOutputChars=1000000")
	s.send(bashCall(1, "echo $$"))
	_, after, ok := strings.Cut(string(s.answer("1")["result"]), `"text":"`)
	require.True(t, ok)
	digits, _, ok := strings.Cut(after, `\n`)
	require.True(t, ok)
	pid, err := strconv.Atoi(digits)
	require.NoError(t, err)
	s.send(bashCall(2, "seq 100000"), bashCall(3, "seq 100000"), bashCall(4, "sleep 1000"))
	require.NoError(t, s.in.Close())
	gone(t, pid)
	require.Eventually(t, func() bool { return !runs(s.cmd.Process.Pid) }, patience, 5*time.Millisecond)
}
