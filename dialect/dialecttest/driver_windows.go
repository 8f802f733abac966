package dialecttest

import (
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
