//go:build unix

package dialecttest

import (
	"testing"

	"github.com/shellstead/shellstead/backend/posix"
)

// Driver is the driver that all hosts of a test binary share.
var Driver = func() *posix.Driver {
	d, err := posix.New(posix.Options{})
	if err != nil {
		panic(err)
	}
	return d
}()

// crlf says that shells end their lines with \r\n.
const crlf = false

// unremovable tells of an error of removing files that is not ours.
func unremovable(error) bool { return false }

func tempDir(t testing.TB) string { return t.TempDir() }
