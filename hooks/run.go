package hooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/shellstead/shellstead/terminals/screen"
)

const (
	// maxOutput bounds what is kept of a hook's standard output and of its
	// standard error. A result that a hook replaces is smaller by far.
	maxOutput = 4 << 20

	// pipeGrace is how long a hook's pipes are read after its end, for what its
	// own children still hold. What they print later is lost, they live on.
	pipeGrace = 100 * time.Millisecond

	// exitBlock is the exit status that blocks.
	exitBlock = 2
)

// run runs the hook with payload on its standard input.
func (h hook) run(ctx context.Context, payload []byte, cwd string) (answer, error) {
	limited, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, h.Command[0], h.Command[1:]...)
	if info, err := os.Stat(cwd); err == nil && info.IsDir() {
		cmd.Dir = cwd // otherwise it is gone, which is no fault of the hook
	}
	stdout, stderr := new(head), new(head)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(payload), stdout, stderr
	cmd.WaitDelay = pipeGrace
	tree := newTree(cmd)
	defer tree.release()
	cmd.Cancel = tree.kill

	err := cmd.Start()
	if err == nil {
		tree.adopt()
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case limited.Err() != nil:
		return answer{}, fmt.Errorf("it did not end within %d ms", h.Timeout.Milliseconds())
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		if stdout.lost && bytes.HasPrefix(bytes.TrimSpace(stdout.kept), []byte("{")) {
			return answer{}, fmt.Errorf("its answer is longer than %d bytes", maxOutput)
		}
		return parse(h.Event, stdout.kept)
	case errors.As(err, &exit) && exit.ExitCode() == exitBlock:
		return answer{blocked: true, reason: cmp.Or(stderr.text(), noReason)}, nil
	case errors.As(err, &exit):
		line, _, _ := strings.Cut(stderr.text(), "\n")
		return answer{}, fmt.Errorf("%w: %s", err, line)
	}
	return answer{}, err
}

// head keeps the beginning of what is written to it.
type head struct {
	kept []byte
	lost bool
}

// text is what was kept, without what only a terminal understands.
func (h *head) text() string { return strings.TrimSpace(screen.Text(h.kept)) }

func (h *head) Write(p []byte) (int, error) {
	part := p[:min(len(p), maxOutput-len(h.kept))]
	h.kept = append(h.kept, part...)
	h.lost = h.lost || len(part) < len(p)
	return len(p), nil
}
