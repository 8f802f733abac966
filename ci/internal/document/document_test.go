package document

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplace(t *testing.T) {
	const before = "head\n<!-- generated: p -->\nold\n<!-- end of p -->\ntail\n"
	const after = "head\n<!-- generated: p -->\n\nnew\n\n<!-- end of p -->\ntail\n"
	once, err := Replace([]byte(before), "p", "new\n")
	require.NoError(t, err)
	assert.Equal(t, after, string(once))
	twice, err := Replace(once, "p", "new\n")
	require.NoError(t, err)
	assert.Equal(t, after, string(twice))

	_, err = Replace([]byte("no marks"), "p", "")
	assert.ErrorContains(t, err, "generated: p")
	_, err = Replace([]byte("<!-- generated: p -->\n"), "p", "")
	assert.ErrorContains(t, err, "end of p")
}
