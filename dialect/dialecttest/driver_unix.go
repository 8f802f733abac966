//go:build unix

package dialecttest

import (
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
