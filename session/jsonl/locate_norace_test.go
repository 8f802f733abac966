//go:build !race

// The race detector makes everything several times slower.

package jsonl_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
)

// Locate is called wherever a shell starts.
func TestLocateIsFast(t *testing.T) {
	const bound = 10 * time.Microsecond
	p, err := jsonl.New(t.TempDir(), jsonl.Options{})
	require.NoError(t, err)
	h := session.NewHeader(filepath.FromSlash("/home/user/src/my-project"))
	fastest := time.Hour
	for range 1000 { // one of them is not interrupted by another program
		begin := time.Now()
		_, _ = p.Locate(h)
		fastest = min(fastest, time.Since(begin))
	}
	assert.Less(t, fastest, bound)
}
