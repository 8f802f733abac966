package toolpwsh_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/toolpwsh"
)

var update = flag.Bool("update", false, "write the golden files")

// What a model sees of the tool. A change costs every client its cache, so it
// has to be meant.
func TestGoldenSpec(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(toolpwsh.New(nil, toolpwsh.Options{}).Spec()))
	path := filepath.Join("testdata", "spec.golden")
	if *update {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.String(), "run go test ./toolpwsh -run Golden -update if this is meant")
}

func TestDescription(t *testing.T) {
	spec := toolpwsh.New(nil, toolpwsh.Options{Description: "A shell on the build machine."}).Spec()
	assert.Equal(t, "A shell on the build machine.", spec.Description)
	assert.Equal(t, toolpwsh.Name, spec.Name)
}
