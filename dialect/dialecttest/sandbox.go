package dialecttest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// sandboxVariable confines the shells of all tests: MODE:PROVIDER, for instance
// workspace-write:landlock.
const sandboxVariable = "SHELLSTEAD_TEST_SANDBOX"

// Confine has cfg's shells confined as SHELLSTEAD_TEST_SANDBOX says, MODE:PROVIDER;
// without it they are as ever. In workspace-write the folder for temporary files,
// where tests keep what they look at, may be written as well.
func Confine(cfg *engine.Config) {
	if os.Getenv(sandboxVariable) != "" {
		cfg.Wrap = wrap
	}
}

// cage is what all tests of a process share.
var cage = sync.OnceValues(func() (*sandbox.Sandbox, error) {
	_, provider, _ := strings.Cut(os.Getenv(sandboxVariable), ":")
	return sandbox.New(sandbox.Options{Provider: provider, Writable: []string{os.TempDir()}})
})

func wrap(ctx context.Context, setup terminals.Setup, spec backend.Spec) (backend.Spec, func() error, error) {
	s, err := cage()
	if err != nil {
		return spec, nil, fmt.Errorf("%s: %w", sandboxVariable, err)
	}
	mode, _, _ := strings.Cut(os.Getenv(sandboxVariable), ":")
	return s.Wrap(ctx, sandbox.Grant{Mode: sandbox.Mode(mode), Root: setup.Cwd}, spec)
}
