package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
)

// peak is the most memory that a process has held so far, in bytes.
func peak(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0, errors.New("it has ended")
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kilobytes << 10, err
}

// A log of any length is shown in the same memory.
func TestShowIsBoundedSoak(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	p, err := jsonl.New(filepath.Join(l.home, "sessions"), jsonl.Options{})
	require.NoError(t, err)
	// stored is the id of a log of n results.
	stored := func(n int) string {
		log, err := session.New(p, session.NewHeader(""), session.Options{})
		require.NoError(t, err)
		require.NoError(t, log.Append(session.SandboxMode{Mode: "read-only"}))
		require.NoError(t, log.Close())
		at, ok := log.Location()
		require.True(t, ok)
		var text bytes.Buffer
		for seq := range n { // as fast as a log is not appended to
			fmt.Fprintf(&text, `{"type":"tool/result","seq":%d,"time":"2026-01-02T03:04:05Z","id":"1","text":"result %d %s","structured":null,"isError":false,"durationMs":1}`+"\n",
				seq+3, seq, strings.Repeat("x", 200))
		}
		f, err := os.OpenFile(at.Path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.Write(text.Bytes())
		require.NoError(t, errors.Join(err, f.Close()))
		return log.Header().ID
	}
	// shown is the memory that it takes to show a log, read up to nearly its end.
	shown := func(n int) (memory int64) {
		p := startCommand(t, l.command("sessions", "show", stored(n)))
		for seen := 0; ; {
			line, err := p.lines.ReadString('\n')
			if errors.Is(err, io.EOF) {
				assert.Equal(t, n, seen)
				return memory
			}
			require.NoError(t, err)
			if !strings.HasPrefix(line, "result ") {
				continue
			}
			if seen++; seen%100 == 0 {
				if now, err := peak(p.cmd.Process.Pid); err == nil {
					memory = now
				}
			}
		}
	}
	const slack = 16 << 20 // what the collector leaves lying
	more := rounds(20_000, 100_000)
	few, many := shown(2000), shown(more)
	t.Logf("2000 events: %d MB; %d: %d MB", few>>20, more, many>>20)
	require.Positive(t, few)
	assert.Less(t, many, few+slack)
}

// A full disk costs the log, which is said once, and no answer.
func TestFullDiskOfTheLog(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	require.NoError(t, os.MkdirAll(l.home, 0o700))
	err := unix.Mount("tmpfs", l.home, "tmpfs", 0, "mode=0700,size=256k")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("only root mounts a file system")
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(l.home, unix.MNT_DETACH)) })

	p := startCommand(t, l.command("run", "--jsonl", "--log", "jsonl"))
	answered := func(command, want string) {
		_, err := fmt.Fprintf(p.in, "{\"command\": %q}\n", command)
		require.NoError(t, err)
		assert.Contains(t, p.line(), want)
	}
	answered("echo before", `"output":"before\n"`)
	ballast := filepath.Join(l.home, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), unix.ENOSPC)
	answered("echo lost-$((1 + 1)); printf '%09999d' 0", "lost-2")
	answered("echo lost-$((1 + 2)); printf '%09999d' 0", "lost-3")
	answered("echo small", `"output":"small\n"`)
	require.NoError(t, os.Remove(ballast))
	answered("echo after", `"output":"after\n"`)
	answered("echo end", `"output":"end\n"`)
	require.NoError(t, p.in.Close())
	code, _ := p.exit()
	assert.Zero(t, code)
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "cannot be written"), p.stderr.String())
	assert.Contains(t, p.stderr.String(), "no space left on device")
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "can be written again"), p.stderr.String())
	log, err := os.ReadFile(l.file())
	require.NoError(t, err)
	assert.True(t, bytes.Contains(log, []byte(`"text":"before\n"`)))
	assert.True(t, bytes.Contains(log, []byte(`"text":"end\n"`)))
	assert.False(t, bytes.Contains(log, []byte("lost-3")))
}
