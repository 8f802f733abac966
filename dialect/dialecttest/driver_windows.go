package dialecttest

import (
	"testing"

	"github.com/shellstead/shellstead/backend/conpty"
	"github.com/shellstead/shellstead/backend/conpty/conptytest"
)

// Driver is the driver that all hosts of a test binary share. The binary's
// TestMain calls conptytest.Main.
var Driver = func() *conpty.Driver {
	d, err := conpty.New(conptytest.Options())
	if err != nil {
		panic(err)
	}
	return d
}()

// crlf says that shells end their lines with \r\n.
const crlf = true

// unremovable tells of an error of removing files that is not ours.
func unremovable(err error) bool { return conptytest.Unremovable(err) }

func tempDir(t testing.TB) string { return conptytest.TempDir(t) }
