//go:build windows || linux

package conpty

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// The alias of an application from the Store is an empty file with a reparse
// point: [tag uint32, size uint16, reserved uint16, version uint32], then texts in
// UTF-16 that end in NUL: the package, the application, its program's file and the
// kind.
const (
	aliasTag     = 0x8000001B // IO_REPARSE_TAG_APPEXECLINK
	aliasVersion = 3
	aliasHead    = 12
	aliasProgram = 2 // which of the texts
)

// aliasTarget returns the program's file of a reparse point, "" when the point is
// no alias.
func aliasTarget(point []byte) (string, error) {
	if len(point) < 4 || binary.LittleEndian.Uint32(point) != aliasTag {
		return "", nil
	}
	if len(point) < aliasHead || binary.LittleEndian.Uint32(point[8:]) != aliasVersion {
		return "", fmt.Errorf("it is an alias of an unknown form")
	}
	rest := point[aliasHead:]
	for i := 0; ; i++ {
		var text []uint16
		for {
			if len(rest) < 2 {
				return "", fmt.Errorf("it is an alias that is cut")
			}
			unit := binary.LittleEndian.Uint16(rest)
			rest = rest[2:]
			if unit == 0 {
				break
			}
			text = append(text, unit)
		}
		if i == aliasProgram {
			return string(utf16.Decode(text)), nil
		}
	}
}
