package shellenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// The keys that the registry sets itself. No contributor may declare them.
const (
	KeyHome         = Prefix + "HOME"
	KeyShell        = Prefix + "SHELL"
	KeySessionID    = Prefix + "SESSION_ID"
	KeySessionJSONL = Prefix + "SESSION_JSONL"
	KeyPTYSessionID = Prefix + "PTY_SESSION_ID"
)

// builtins are the registry's own declarations, sorted by key.
var builtins = []Declaration{
	{Key: KeyHome, Description: "the home folder of settings and session logs, an absolute path"},
	{Key: KeyPTYSessionID, Description: "the id of the terminal that the shell runs in"},
	{Key: KeySessionID, Description: "the id of the agent's session"},
	{Key: KeySessionJSONL, Description: "the file that holds the session's log, one JSON object a line; a hint, it may not exist yet"},
	{Key: KeyShell, Description: "1 in every shell that a tool has started"},
}

// Execution is what a snapshot is made for: one start of a shell, or one
// command in a live one.
type Execution struct {
	SessionID    string // of the agent's session; empty without an agent
	SessionJSONL string // absolute path of its log where that is a plain JSONL file; otherwise empty
	TerminalID   string // of the terminal; empty where the shell is in none
	Cwd          string // where the shell starts or the command runs, as far as known
}

// Contributor adds variables to every snapshot.
type Contributor struct {
	Name string // unique, not blank

	// Keys maps each key that Resolve may return to its description. A key is
	// [Prefix] and then [A-Z][A-Z0-9_]*; a description is not blank.
	Keys map[string]string

	// Resolve returns the values for e; a key that is left out is not set. It is
	// called for every snapshot, from several goroutines at a time, and ends when
	// ctx does. While a call has outlived its context, no other is made.
	Resolve func(ctx context.Context, e Execution) (map[string]string, error)
}

// Declaration is one variable that shells may find.
type Declaration struct {
	Key         string `json:"key"`
	Description string `json:"description"`
	Contributor string `json:"contributor"` // empty for the registry's own
}

// Error is a failure of a contributor, or of its registration.
type Error struct {
	Contributor string
	Key         string // empty where the failure concerns no single key
	Err         error
}

func (e *Error) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("shell environment: contributor %q: key %q: %v", e.Contributor, e.Key, e.Err)
	}
	return fmt.Sprintf("shell environment: contributor %q: %v", e.Contributor, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Registry makes the managed part of a shell's environment. Its methods may be
// called from any goroutine.
type Registry struct {
	home string

	mu           sync.RWMutex
	contributors map[string]*registration
	owners       map[string]string // key → contributor
}

// registration is one contributor; its address identifies it.
type registration struct {
	Contributor
	overdue atomic.Int32 // calls that outlived their context
}

// New returns a registry without contributors. home is the absolute path that
// shells see as DSH_HOME; where it is empty the variable is not set.
func New(home string) *Registry {
	return &Registry{home: home, contributors: map[string]*registration{}, owners: map[string]string{}}
}

// Register adds a contributor and returns what removes it with all its keys;
// calling that again does nothing. It fails with an [*Error] and changes
// nothing when the declaration is malformed, or when the name or a key is taken.
func (r *Registry) Register(c Contributor) (remove func(), err error) {
	refuse := func(key, format string, args ...any) (func(), error) {
		return nil, &Error{Contributor: c.Name, Key: key, Err: fmt.Errorf(format, args...)}
	}
	c.Keys = maps.Clone(c.Keys)
	keys := slices.Sorted(maps.Keys(c.Keys))
	if strings.TrimSpace(c.Name) == "" {
		return refuse("", "the name is blank")
	}
	if c.Resolve == nil {
		return refuse("", "there is no resolver")
	}
	for _, key := range keys {
		switch {
		case !validKey(key):
			return refuse(key, "a key is %s, a capital letter, then capital letters, digits and _", Prefix)
		case slices.ContainsFunc(builtins, func(d Declaration) bool { return d.Key == key }):
			return refuse(key, "the key is reserved")
		case strings.TrimSpace(c.Keys[key]) == "":
			return refuse(key, "the description is blank")
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contributors[c.Name] != nil {
		return refuse("", "the name is taken")
	}
	for _, key := range keys {
		if owner, taken := r.owners[key]; taken {
			return refuse(key, "contributor %q has declared it", owner)
		}
	}
	added := &registration{Contributor: c}
	r.contributors[c.Name] = added
	for _, key := range keys {
		r.owners[key] = c.Name
	}
	return func() { r.remove(added) }, nil
}

// remove takes one registration away, never a later one of the same name.
func (r *Registry) remove(gone *registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contributors[gone.Name] != gone {
		return
	}
	delete(r.contributors, gone.Name)
	for key := range gone.Keys {
		delete(r.owners, key)
	}
}

func validKey(key string) bool {
	rest, ok := strings.CutPrefix(key, Prefix)
	if !ok || rest == "" || rest[0] < 'A' || rest[0] > 'Z' {
		return false
	}
	return strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// List returns every declaration, the registry's own included, sorted by key.
// It runs no resolver.
func (r *Registry) List() []Declaration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := slices.Clone(builtins)
	for _, c := range r.contributors {
		for key, description := range c.Keys {
			list = append(list, Declaration{Key: key, Description: description, Contributor: c.Name})
		}
	}
	slices.SortFunc(list, func(a, b Declaration) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// Snapshot returns the managed environment for e, KEY=VALUE sorted by key.
// Contributors are asked one after another in the order of their names.
//
// It fails with an [*Error] that names the contributor, and the key where one is
// at fault: a resolver that fails, panics or is still busy when ctx ends (the
// error then wraps the context's cause), a key that was not declared, a value
// with a NUL. The caller bounds ctx by how long a shell or a command may wait.
func (r *Registry) Snapshot(ctx context.Context, e Execution) ([]string, error) {
	r.mu.RLock()
	contributors := slices.SortedFunc(maps.Values(r.contributors), func(a, b *registration) int { return cmp.Compare(a.Name, b.Name) })
	r.mu.RUnlock()

	env := []string{KeyShell + "=1"}
	for _, own := range [...]struct{ key, value string }{
		{KeyHome, r.home}, {KeySessionID, e.SessionID}, {KeySessionJSONL, e.SessionJSONL}, {KeyPTYSessionID, e.TerminalID},
	} {
		if own.value == "" {
			continue
		}
		if strings.ContainsRune(own.value, 0) {
			return nil, fmt.Errorf("shell environment: the value of %s contains a NUL", own.key)
		}
		env = append(env, own.key+"="+own.value)
	}
	for _, c := range contributors {
		values, err := c.resolve(ctx, e)
		if err != nil {
			return nil, &Error{Contributor: c.Name, Err: err}
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, declared := c.Keys[key]; !declared {
				return nil, &Error{Contributor: c.Name, Key: key, Err: errors.New("the key was not declared")}
			}
			if strings.ContainsRune(values[key], 0) {
				return nil, &Error{Contributor: c.Name, Key: key, Err: errors.New("the value contains a NUL")}
			}
			env = append(env, key+"="+values[key])
		}
	}
	slices.SortFunc(env, byName)
	return env, nil
}

// byName orders entries by name: "=" sorts after digits, so whole entries would
// put a name behind a longer one that it begins.
func byName(a, b string) int {
	nameA, _, _ := split(a)
	nameB, _, _ := split(b)
	return cmp.Compare(nameA, nameB)
}

// resolve runs the contributor's resolver and waits for it or for ctx.
func (c *registration) resolve(ctx context.Context, e Execution) (map[string]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.overdue.Load() > 0 {
		return nil, errors.New("the resolver is still busy with an earlier call")
	}
	type answer struct {
		values map[string]string
		err    error
	}
	answers := make(chan answer, 1)
	var settled atomic.Bool // by whichever comes first: the answer, or the end of ctx
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("the resolver panicked: %v", p)}
			}
			answers <- a
			if !settled.CompareAndSwap(false, true) {
				c.overdue.Add(-1)
			}
		}()
		a.values, a.err = c.Resolve(ctx, e)
	}()
	select {
	case a := <-answers:
		return a.values, a.err
	case <-ctx.Done():
		c.overdue.Add(1)
		if !settled.CompareAndSwap(false, true) { // it has answered at the same moment
			c.overdue.Add(-1)
		}
		return nil, fmt.Errorf("the resolver did not answer in time: %w", context.Cause(ctx))
	}
}

// Diff compares two snapshots, each sorted by name as [Registry.Snapshot]
// returns it: set holds the entries of after that are new or have another
// value, unset the names that only before has. Both are empty when nothing
// changed.
func Diff(before, after []string) (set, unset []string) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(after) == 0:
			order = -1
		default:
			order = byName(before[0], after[0])
		}
		switch {
		case order < 0:
			name, _, _ := split(before[0])
			unset = append(unset, name)
			before = before[1:]
		case order > 0:
			set = append(set, after[0])
			after = after[1:]
		default:
			if before[0] != after[0] {
				set = append(set, after[0])
			}
			before, after = before[1:], after[1:]
		}
	}
	return set, unset
}
