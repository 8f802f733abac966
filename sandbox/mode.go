package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/shellstead/shellstead/terminals"
)

// Mode is what a shell may change.
type Mode string

// The modes, from the strictest on.
const (
	// ReadOnly lets a shell change nothing but its own temporary folder.
	ReadOnly Mode = "read-only"

	// WorkspaceWrite lets it change the workspace and the configured folders
	// as well.
	WorkspaceWrite Mode = "workspace-write"

	// DangerFullAccess confines nothing.
	DangerFullAccess Mode = "danger-full-access"
)

// Default is the mode when nobody says anything.
const Default = WorkspaceWrite

var modes = []Mode{ReadOnly, WorkspaceWrite, DangerFullAccess}

// ParseMode returns the mode of a name. The error lists the names.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); m.valid() {
		return m, nil
	}
	return "", fmt.Errorf("%q is no sandbox mode; use %s, %s or %s", name, ReadOnly, WorkspaceWrite, DangerFullAccess)
}

func (m Mode) valid() bool { return slices.Contains(modes, m) }

// Confined tells whether m needs a provider.
func (m Mode) Confined() bool { return m != DangerFullAccess }

// Terminals tells what terminals an owner has. *terminals.Service is one.
type Terminals interface {
	HasActivity(*terminals.Owner) bool
	List(*terminals.Owner) []terminals.Info
}

// ErrModeFixed is matched by the error of a change that open terminals forbid.
var ErrModeFixed = errors.New("sandbox: the mode is fixed while a terminal is open")

// fixedError is an ErrModeFixed in words.
type fixedError struct{ text string }

func (e *fixedError) Error() string        { return e.text }
func (e *fixedError) Is(target error) bool { return target == ErrModeFixed }

// Policy is the mode of one session. Its methods may be called from any
// goroutine.
type Policy struct {
	mu   sync.Mutex
	mode Mode
}

// NewPolicy returns the policy of a session whose log holds the given
// sandbox/mode events, oldest first; without one the deployment's default is in
// force, and Default when that is empty.
func NewPolicy(deployment Mode, events ...Mode) (*Policy, error) {
	if deployment == "" {
		deployment = Default
	}
	p := &Policy{}
	for _, m := range slices.Concat([]Mode{deployment}, events) {
		if _, err := ParseMode(string(m)); err != nil {
			return nil, err
		}
		p.mode = m
	}
	return p, nil
}

// Resolve is the mode of a terminal that is being opened: the override that
// somebody approved for it, else the session's. The caller has reserved the
// terminal already, so that it counts as activity for Change.
func (p *Policy) Resolve(override Mode) (Mode, error) {
	if override != "" {
		return ParseMode(string(override))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, nil
}

// Change makes to the mode of the session once store has written it to the
// session's log. While the owner has a terminal that is open or opening, or a
// failed clean-up that nobody was told of, another mode is refused before it is
// stored, with an error that matches ErrModeFixed and says what to close. The
// mode in force may be stored again at any time. An error of store is returned
// as it is and changes nothing.
func (p *Policy) Change(to Mode, owner *terminals.Owner, open Terminals, store func() error) error {
	if _, err := ParseMode(string(to)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if to != p.mode && open.HasActivity(owner) {
		return &fixedError{refusal(p.mode, to, open.List(owner))}
	}
	if err := store(); err != nil {
		return err
	}
	p.mode = to
	return nil
}

func refusal(from, to Mode, open []terminals.Info) string {
	text := fmt.Sprintf("the sandbox mode stays %s: a terminal keeps the mode that it was opened in, so to get %s ", from, to)
	if len(open) == 0 {
		return text + "wait until the terminal that is being opened or closed has settled, then set the mode again"
	}
	ids := make([]string, len(open))
	for i, info := range open {
		ids[i] = info.SessionID
	}
	return text + "close " + strings.Join(ids, ", ") + " first, then set the mode again"
}
