package shellenv_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/shellenv"
)

// fixed returns a resolver with one answer.
func fixed(values map[string]string) func(context.Context, shellenv.Execution) (map[string]string, error) {
	return func(context.Context, shellenv.Execution) (map[string]string, error) { return values, nil }
}

// contributor returns one that declares keys, each with a description.
func contributor(name string, values map[string]string, keys ...string) shellenv.Contributor {
	c := shellenv.Contributor{Name: name, Keys: map[string]string{}, Resolve: fixed(values)}
	for _, key := range keys {
		c.Keys[key] = "what " + key + " is"
	}
	return c
}

func TestSnapshotOfTheRegistryItself(t *testing.T) {
	for _, tt := range []struct {
		name string
		home string
		e    shellenv.Execution
		want []string
	}{
		{"without an agent", "/home/u/.dsh", shellenv.Execution{}, []string{"DSH_HOME=/home/u/.dsh", "DSH_SHELL=1"}},
		{"without a home", "", shellenv.Execution{}, []string{"DSH_SHELL=1"}},
		{"an agent without a log file", "/h", shellenv.Execution{SessionID: "s"}, []string{"DSH_HOME=/h", "DSH_SESSION_ID=s", "DSH_SHELL=1"}},
		{
			"a terminal of an agent", "/with space\nand line",
			shellenv.Execution{SessionID: "s", SessionJSONL: "/l/session.jsonl", TerminalID: "pty-1"},
			[]string{"DSH_HOME=/with space\nand line", "DSH_PTY_SESSION_ID=pty-1", "DSH_SESSION_ID=s", "DSH_SESSION_JSONL=/l/session.jsonl", "DSH_SHELL=1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env, err := shellenv.New(tt.home).Snapshot(t.Context(), tt.e)
			require.NoError(t, err)
			assert.Equal(t, tt.want, env)
		})
	}

	_, err := shellenv.New("/a\x00b").Snapshot(t.Context(), shellenv.Execution{})
	assert.EqualError(t, err, "shell environment: the value of DSH_HOME contains a NUL")
}

func TestSnapshotWithContributors(t *testing.T) {
	r := shellenv.New("/h")
	_, err := r.Register(shellenv.Contributor{
		Name: "tickets", Keys: map[string]string{"DSH_TICKET": "the ticket", "DSH_TICKET_URL": "its page"},
		Resolve: func(_ context.Context, e shellenv.Execution) (map[string]string, error) {
			return map[string]string{"DSH_TICKET": "of " + e.SessionID + " in " + e.Cwd}, nil
		},
	})
	require.NoError(t, err)
	_, err = r.Register(contributor("answers", map[string]string{"DSH_SHELL_2": "", "DSH_A": "a=b"}, "DSH_SHELL_2", "DSH_A"))
	require.NoError(t, err)

	env, err := r.Snapshot(t.Context(), shellenv.Execution{SessionID: "s", Cwd: "/src"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"DSH_A=a=b", "DSH_HOME=/h", "DSH_SESSION_ID=s", "DSH_SHELL=1", "DSH_SHELL_2=", "DSH_TICKET=of s in /src",
	}, env)
}

// What is declared badly is refused by name, and nothing of it stays.
//
// Case: reference 3.3 #80
func TestRegisterRefuses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		contributor shellenv.Contributor
		want        string
	}{
		{"blank name", contributor(" \t", nil, "DSH_X"), `contributor " \t": the name is blank`},
		{"taken name", contributor("first", nil, "DSH_X"), `contributor "first": the name is taken`},
		{"taken key", contributor("second", nil, "DSH_A_FREE_KEY", "DSH_TAKEN"), `contributor "second": key "DSH_TAKEN": contributor "first" has declared it`},
		{"no resolver", shellenv.Contributor{Name: "x", Keys: map[string]string{"DSH_X": "x"}}, `contributor "x": there is no resolver`},
		{"blank description", shellenv.Contributor{Name: "x", Keys: map[string]string{"DSH_X": "\n "}, Resolve: fixed(nil)}, `key "DSH_X": the description is blank`},
		{"lower case", contributor("x", nil, "DSH_x"), `key "DSH_x": a key is DSH_`},
		{"lower prefix", contributor("x", nil, "dsh_X"), `key "dsh_X": a key is DSH_`},
		{"other prefix", contributor("x", nil, "PATH"), `key "PATH": a key is DSH_`},
		{"prefix alone", contributor("x", nil, "DSH_"), `key "DSH_": a key is DSH_`},
		{"digit first", contributor("x", nil, "DSH_1"), `key "DSH_1": a key is DSH_`},
		{"underscore first", contributor("x", nil, "DSH__A"), `key "DSH__A": a key is DSH_`},
		{"equals sign", contributor("x", nil, "DSH_A=B"), `key "DSH_A=B": a key is DSH_`},
		{"not ASCII", contributor("x", nil, "DSH_AÄ"), `key "DSH_AÄ": a key is DSH_`},
		{"reserved home", contributor("x", nil, "DSH_HOME"), `key "DSH_HOME": the key is reserved`},
		{"reserved shell", contributor("x", nil, "DSH_SHELL"), `key "DSH_SHELL": the key is reserved`},
		{"reserved session", contributor("x", nil, "DSH_SESSION_ID"), `key "DSH_SESSION_ID": the key is reserved`},
		{"reserved log", contributor("x", nil, "DSH_SESSION_JSONL"), `key "DSH_SESSION_JSONL": the key is reserved`},
		{"reserved terminal", contributor("x", nil, "DSH_PTY_SESSION_ID"), `key "DSH_PTY_SESSION_ID": the key is reserved`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shellenv.New("/h")
			_, err := r.Register(contributor("first", nil, "DSH_TAKEN"))
			require.NoError(t, err)
			before := r.List()
			_, err = r.Register(tt.contributor)
			assert.ErrorContains(t, err, tt.want)
			var typed *shellenv.Error
			if assert.ErrorAs(t, err, &typed) {
				assert.Equal(t, tt.contributor.Name, typed.Contributor)
			}
			assert.Equal(t, before, r.List())
		})
	}
}

// A resolver that breaks its word fails the snapshot, by the contributor's name
// and the key.
//
// Case: reference 3.3 #80
func TestSnapshotFails(t *testing.T) {
	broken := errors.New("no network")
	for _, tt := range []struct {
		name    string
		resolve func(context.Context, shellenv.Execution) (map[string]string, error)
		want    string
		cause   error
	}{
		{"undeclared key", fixed(map[string]string{"DSH_OTHER": "1"}), `contributor "jira": key "DSH_OTHER": the key was not declared`, nil},
		{"undeclared built-in", fixed(map[string]string{"DSH_SESSION_ID": "forged"}), `contributor "jira": key "DSH_SESSION_ID": the key was not declared`, nil},
		{"NUL", fixed(map[string]string{"DSH_TICKET": "a\x00b"}), `contributor "jira": key "DSH_TICKET": the value contains a NUL`, nil},
		{"error", func(context.Context, shellenv.Execution) (map[string]string, error) { return nil, broken }, `contributor "jira": no network`, broken},
		{"panic", func(context.Context, shellenv.Execution) (map[string]string, error) { panic("index out of range") }, `contributor "jira": the resolver panicked: index out of range`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shellenv.New("/h")
			c := contributor("jira", nil, "DSH_TICKET")
			c.Resolve = tt.resolve
			remove, err := r.Register(c)
			require.NoError(t, err)
			env, err := r.Snapshot(t.Context(), shellenv.Execution{})
			assert.Nil(t, env)
			assert.EqualError(t, err, "shell environment: "+tt.want)
			if tt.cause != nil {
				assert.ErrorIs(t, err, tt.cause)
			}
			remove()
			_, err = r.Snapshot(t.Context(), shellenv.Execution{})
			assert.NoError(t, err)
		})
	}
}

// A resolver that ignores the end of its context costs a caller no more than
// that, and there is never a second call beside it.
func TestResolverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shellenv.New("/h")
		release := make(chan struct{})
		c := contributor("slow", nil, "DSH_SLOW")
		c.Resolve = func(context.Context, shellenv.Execution) (map[string]string, error) {
			<-release
			return map[string]string{"DSH_SLOW": "1"}, nil
		}
		_, err := r.Register(c)
		require.NoError(t, err)

		cause := errors.New("the command was cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() {
			_, err := r.Snapshot(ctx, shellenv.Execution{})
			failed <- err
		}()
		synctest.Wait()
		cancel(cause)
		err = <-failed
		assert.ErrorIs(t, err, cause)
		assert.ErrorContains(t, err, `contributor "slow": the resolver did not answer in time`)

		_, err = r.Snapshot(t.Context(), shellenv.Execution{})
		assert.ErrorContains(t, err, `contributor "slow": the resolver is still busy with an earlier call`)

		close(release)
		synctest.Wait()
		env, err := r.Snapshot(t.Context(), shellenv.Execution{})
		require.NoError(t, err)
		assert.Contains(t, env, "DSH_SLOW=1")

		_, err = r.Snapshot(ctx, shellenv.Execution{})
		assert.ErrorIs(t, err, cause, "an ended context asks nobody")
	})
}

// Case: reference 3.3 #80
func TestListRunsNoResolver(t *testing.T) {
	r := shellenv.New("/h")
	c := contributor("jira", nil, "DSH_TICKET", "DSH_AGENT")
	c.Resolve = func(context.Context, shellenv.Execution) (map[string]string, error) { panic("called") }
	_, err := r.Register(c)
	require.NoError(t, err)
	c.Keys["DSH_LATER"] = "changed after the registration"

	var keys []string
	for _, d := range r.List() {
		keys = append(keys, d.Contributor+" "+d.Key)
		assert.NotEmpty(t, d.Description)
	}
	assert.Equal(t, []string{
		"jira DSH_AGENT", " DSH_HOME", " DSH_PTY_SESSION_ID", " DSH_SESSION_ID", " DSH_SESSION_JSONL", " DSH_SHELL", "jira DSH_TICKET",
	}, keys)
}

// Case: reference 3.3 #80
func TestRemove(t *testing.T) {
	r := shellenv.New("/h")
	first := contributor("jira", map[string]string{"DSH_TICKET": "1"}, "DSH_TICKET")
	remove, err := r.Register(first)
	require.NoError(t, err)
	remove()
	env, err := r.Snapshot(t.Context(), shellenv.Execution{})
	require.NoError(t, err)
	assert.Equal(t, []string{"DSH_HOME=/h", "DSH_SHELL=1"}, env)

	// The name and the keys are free again, and the old remove leaves them alone.
	_, err = r.Register(first)
	require.NoError(t, err)
	remove()
	env, err = r.Snapshot(t.Context(), shellenv.Execution{})
	require.NoError(t, err)
	assert.Contains(t, env, "DSH_TICKET=1")
}

func TestRegistryConcurrently(t *testing.T) {
	r := shellenv.New("/h")
	var wg sync.WaitGroup
	for _, session := range []string{"parent", "child"} {
		for range 4 {
			wg.Go(func() {
				for range 100 {
					env, err := r.Snapshot(t.Context(), shellenv.Execution{SessionID: session})
					if assert.NoError(t, err) {
						assert.Contains(t, env, "DSH_SESSION_ID="+session)
						assert.True(t, slices.IsSortedFunc(env, func(a, b string) int { return strings.Compare(a[:strings.Index(a, "=")], b[:strings.Index(b, "=")]) }))
					}
				}
			})
		}
	}
	for range 100 {
		remove, err := r.Register(contributor("coming and going", map[string]string{"DSH_X": "1"}, "DSH_X"))
		require.NoError(t, err)
		r.List()
		remove()
	}
	wg.Wait()
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		before, after, set, unset []string
	}{
		{"nothing", nil, nil, nil, nil},
		{"the same", []string{"A=1", "B=2"}, []string{"A=1", "B=2"}, nil, nil},
		{"first", nil, []string{"A=1", "B=2"}, []string{"A=1", "B=2"}, nil},
		{"last", []string{"A=1", "B=2"}, nil, nil, []string{"A", "B"}},
		{"all kinds", []string{"A=1", "B=2", "D=4"}, []string{"B=3", "C=3", "D=4", "E="}, []string{"B=3", "C=3", "E="}, []string{"A"}},
		{"names that begin alike", []string{"DSH_SHELL=1", "DSH_SHELL_2=x"}, []string{"DSH_SHELL=1"}, nil, []string{"DSH_SHELL_2"}},
		{"emptied is set", []string{"A=1"}, []string{"A="}, []string{"A="}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, unset := shellenv.Diff(tt.before, tt.after)
			assert.Equal(t, tt.set, set)
			assert.Equal(t, tt.unset, unset)
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	r := shellenv.New("/home/u/.dsh")
	e := shellenv.Execution{SessionID: "s", SessionJSONL: "/home/u/.dsh/sessions/p/s/session.jsonl", TerminalID: "pty-1"}
	for b.Loop() {
		if _, err := r.Snapshot(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
