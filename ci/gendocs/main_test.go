package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	stale, err := generate("../..", true)
	require.NoError(t, err)
	assert.Empty(t, stale, "run: go run ./ci/gendocs")
}

func TestParseCase(t *testing.T) {
	tests := []struct {
		text string
		want []reference
	}{
		{"T5", []reference{{"T5", ""}}},
		{"T29, F42", []reference{{"T29", ""}, {"F42", ""}}},
		{"T7 T8 F29 (nickgnd/tmux-mcp PR#5)", []reference{{"T7", ""}, {"T8", ""}, {"F29", "nickgnd/tmux-mcp PR#5"}}},
		{"F02 (a/b#1) T24, F3 (c/d#2)", []reference{{"F02", "a/b#1"}, {"T24", ""}, {"F3", "c/d#2"}}},
		{"A29b, reference 3.3 #17 (a/b#1, c/d PR#2)", []reference{{"A29b", ""}, {"reference 3.3 #17", "a/b#1, c/d PR#2"}}},
	}
	for _, tt := range tests {
		got, err := parseCase(tt.text)
		require.NoError(t, err, tt.text)
		assert.Equal(t, tt.want, got)
	}
	for _, bad := range []string{"", "(a/b#1)", "T", "42", "T5,", "T5 (a) b", "T5 (a", "T5 is cut"} {
		_, err := parseCase(bad)
		assert.Error(t, err, "%q", bad)
	}
}

func TestScanAttributesToTheTest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x_test.go", `package x

import "testing"

// TestAbove has a comment of its own.
//
// Case: F10 (a/b#1)
func TestAbove(t *testing.T) {}

func TestRows(t *testing.T) {
	for _, row := range []int{
		// Case: T2, F9
		2,
		3, // Case: T2 (c/d#2)
	} {
		_ = row
	}
}
`)
	document, err := casesDocument(dir)
	require.NoError(t, err)
	assert.Contains(t, string(document), "3 cases.\n\n"+
		"| case | source | tests |\n|---|---|---|\n"+
		"| F9 |  | [.](../.) `TestRows` |\n"+
		"| F10 | a/b#1 | [.](../.) `TestAbove` |\n"+
		"| T2 | c/d#2 | [.](../.) `TestRows` |\n")
}

func TestScanRefusesAStrayComment(t *testing.T) {
	for name, source := range map[string]string{
		"outside": "package x\n\n// Case: T1\n\nfunc TestX() {}\n",
		"helper":  "package x\n\n// Case: T1\nfunc helper() {}\n",
		"bad_id":  "package x\n\n// Case: nonsense\nfunc TestX() {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "x_test.go", source)
			_, err := casesDocument(dir)
			assert.ErrorContains(t, err, "x_test.go:3")
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
