package session_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
)

// writerVariable makes this test program a process that writes one session:
// kind, root and id, separated by line feeds that none of them has.
const writerVariable = "SESSION_TEST_WRITER"

func TestMain(m *testing.M) {
	if task := os.Getenv(writerVariable); task != "" {
		if err := write(strings.Split(task, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// write appends events without end. It prints the seq of each one that is
// stored.
func write(task []string) error {
	var p session.Persistence
	for _, kind := range kinds {
		if kind.name == task[0] {
			var err error
			if p, err = kind.make(task[1]); err != nil {
				return err
			}
		}
	}
	l, err := session.Resume(context.Background(), p, task[2], session.Options{})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		size := 20 + n%5*2_000 // from a part of a page to many
		if err := l.Append(session.ToolResult{ID: strconv.Itoa(n), Text: strings.Repeat("x", size)}); err != nil {
			return err
		}
		fmt.Println(l.Fork().ParentSeq)
	}
}

// writer starts a process that writes the session id.
func writer(t *testing.T, kind, root, id string) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerVariable+"="+strings.Join([]string{kind, root, id}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// rounds is how often a soak repeats: briefly among the other tests, in full
// with SHELLSTEAD_SOAK=1 (ci/soak).
func rounds(brief, full int) int {
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		return full
	}
	return brief
}

// Whatever was acknowledged before a process was killed is in its log, and the
// log goes on.
func TestKilledWritersSoak(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := t.TempDir()
			p := open(t, kind.make, root)
			l := newLog(t, p, session.NewHeader(cwd(t)))
			require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
			require.NoError(t, l.Close())

			for range rounds(5, 200) {
				cmd, out := writer(t, kind.name, root, l.Header().ID)
				acknowledged, after := int64(-1), rand.IntN(30)
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					seq, err := strconv.ParseInt(lines.Text(), 10, 64)
					require.NoError(t, err)
					acknowledged = seq
					if n == after {
						require.NoError(t, cmd.Process.Kill())
					}
				}
				require.Error(t, cmd.Wait(), "it was killed")
				require.Positive(t, acknowledged)

				last := int64(-1)
				for event, err := range p.Events(t.Context(), l.Header().ID) {
					require.NoError(t, err)
					require.Equal(t, last+1, event.Seq)
					last = event.Seq
				}
				require.GreaterOrEqual(t, last, acknowledged)

				again, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
				require.NoError(t, err)
				require.NoError(t, again.Append(session.SandboxMode{Mode: "read-only"}))
				assert.Equal(t, last+1, again.Fork().ParentSeq)
				require.NoError(t, again.Close())
			}
			fork, err := session.ForkStored(t.Context(), p, l.Header().ID)
			require.NoError(t, err)
			child := newLog(t, p, fork)
			require.NoError(t, child.Append(session.SandboxMode{Mode: "read-only"}))
			n := 0
			for _, err := range p.List(t.Context()) {
				require.NoError(t, err)
				n++
			}
			assert.Equal(t, 2, n)
		})
	}
}

// A session that another process writes is not written here, but read; when the
// process dies, however, it is free.
func TestTwoProcesses(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := t.TempDir()
			p := open(t, kind.make, root)
			l := newLog(t, p, session.NewHeader(cwd(t)))
			require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
			require.NoError(t, l.Close())

			cmd, out := writer(t, kind.name, root, l.Header().ID)
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			_, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
			assert.ErrorIs(t, err, session.ErrInUse)
			assert.ErrorIs(t, newLog(t, p, l.Header()).Append(session.SandboxMode{Mode: "other"}), session.ErrInUse)
			other, _ := writer(t, kind.name, root, l.Header().ID)
			assert.Error(t, other.Wait(), "a second process is refused")
			for _, err := range p.Events(t.Context(), l.Header().ID) {
				require.NoError(t, err)
				break
			}
			require.NoError(t, cmd.Process.Kill())
			_, _ = io.Copy(io.Discard, out)
			assert.Error(t, cmd.Wait())

			again, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
			require.NoError(t, err)
			require.NoError(t, again.Close())
		})
	}
}
