//go:build windows || linux

package conpty

import (
	"encoding/binary"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// point is a reparse point as the system returns it.
func point(tag, version uint32, texts ...string) []byte {
	data := binary.LittleEndian.AppendUint32(nil, version)
	for _, text := range texts {
		for _, unit := range append(utf16.Encode([]rune(text)), 0) {
			data = binary.LittleEndian.AppendUint16(data, unit)
		}
	}
	head := binary.LittleEndian.AppendUint32(nil, tag)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(data)))
	return append(append(head, 0, 0), data...)
}

// Case: W17
func TestAliasTarget(t *testing.T) {
	const program = `C:\Program Files\WindowsApps\Microsoft.PowerShell_7.5.0.0_x64__8wekyb3d8bbwe\pwsh.exe`
	alias := point(aliasTag, 3, "Microsoft.PowerShell_8wekyb3d8bbwe", "Microsoft.PowerShell_8wekyb3d8bbwe!App", program, "0")
	got, err := aliasTarget(alias)
	require.NoError(t, err)
	assert.Equal(t, program, got)

	got, err = aliasTarget(point(0xA000000C, 3, "a", "b", "c")) // a symbolic link
	require.NoError(t, err)
	assert.Empty(t, got)
	got, err = aliasTarget(nil)
	require.NoError(t, err)
	assert.Empty(t, got)

	_, err = aliasTarget(point(aliasTag, 4, "a", "b", "c", "0"))
	assert.ErrorContains(t, err, "unknown form")
	for n := 4; n < len(alias)-6; n++ {
		if got, err := aliasTarget(alias[:n]); err == nil {
			require.Equal(t, program, got, "%d", n)
			require.GreaterOrEqual(t, n, len(alias)-4)
		}
	}
}
