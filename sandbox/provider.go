package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// probeLimit bounds one probe. A working provider needs some hundredths of a
// second, on a busy machine some tenths.
const probeLimit = 5 * time.Second

// Description says what one provider does on this machine, for people.
type Description struct {
	Provider string

	// Confines and Gaps are short sentences without a full stop: what is kept
	// inside, and what is not.
	Confines []string
	Gaps     []string
}

// Attempt is one provider that does not work here.
type Attempt struct {
	Provider string
	Err      error
	Remedy   string // what makes it work on this machine
}

// UnavailableError says that no provider confines here. It matches
// terminals.Unsupported.
type UnavailableError struct{ Tried []Attempt }

func (e *UnavailableError) Error() string {
	text := "no sandbox works on this machine, and a confined mode starts no shell without one"
	if len(e.Tried) == 0 {
		text = "this version has no sandbox for " + runtime.GOOS + ", and a confined mode starts no shell without one"
	}
	for _, a := range e.Tried {
		text += fmt.Sprintf("; %s: %v (%s)", a.Provider, a.Err, a.Remedy)
	}
	return text + "; or run with the sandbox mode " + string(DangerFullAccess) + " and confine the program from outside"
}

// Is matches the code of an ability that this machine lacks.
func (e *UnavailableError) Is(target error) bool { return target == terminals.Unsupported }

// Check tries the providers and describes the one that shells get. A provider
// that was seen to confine is not tried again. The error is an
// *UnavailableError, or ctx's cause.
func (s *Sandbox) Check(ctx context.Context) (Description, error) {
	chosen, err := s.provider(ctx)
	if err != nil {
		return Description{}, err
	}
	return chosen.describe(s.opts), nil
}

// provider returns the first one that works. A failure is not kept: what was
// missing may be there at the next try.
func (s *Sandbox) provider(ctx context.Context) (provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chosen != nil {
		return s.chosen, nil
	}
	failure := &UnavailableError{}
	for _, candidate := range s.providers {
		err := s.probe(ctx, candidate)
		if err == nil {
			s.chosen = candidate
			return candidate, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failure.Tried = append(failure.Tried, Attempt{candidate.name(), err, candidate.remedy(err)})
	}
	return nil, failure
}

// probe confines a small program with the options of a shell and looks at what
// it could do: it must have run, have written where it may, and not where it
// may not.
func (s *Sandbox) probe(ctx context.Context, candidate provider) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.probeLimit, fmt.Errorf("the probe did not end within %v", s.probeLimit))
	defer cancel()
	outside, err := os.MkdirTemp(s.opts.TempDir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(outside)) }()
	private := filepath.Join(outside, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		return err
	}
	const script = `echo inside >"$TMPDIR/inside"; echo outside >"$0/outside"; echo outside >"$0/private/outside"; [ -f "$TMPDIR/inside" ]`
	spec := backend.Spec{
		Path:   "/bin/sh",
		Args:   func(backend.ChannelRef) []string { return []string{"-c", script, outside} },
		Env:    os.Environ(),
		Remove: []string{private},
	}
	p, remove, err := s.plan(Grant{Mode: ReadOnly}, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	spec, err = s.confine(candidate, p, spec)
	if err != nil {
		return err
	}
	if err := run(ctx, spec); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(p.temp, "inside")); err != nil {
		return errors.New("the confined program did not run")
	}
	for _, file := range []string{filepath.Join(outside, "outside"), filepath.Join(private, "outside")} {
		if _, err := os.Lstat(file); err == nil {
			return errors.New("it ran the program without confining it")
		}
	}
	return nil
}

// run runs a wrapped program on no terminal and ends with it, whatever holds
// its output.
func run(ctx context.Context, spec backend.Spec) error {
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args(backend.ChannelRef{})...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	ownGroup(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // the output of a killed program has no reader's interest
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		if text := output.String(); text != "" {
			return errors.New(text)
		}
		return err
	}
	return nil
}

// tail keeps the first line of an output.
type tail struct{ kept bytes.Buffer }

const maxReason = 300

func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p[:min(len(p), maxReason-min(t.kept.Len(), maxReason))])
	return len(p), nil
}

func (t *tail) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.kept.String()), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(line), "?")
}
