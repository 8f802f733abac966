package posix

import (
	_ "embed" // for the script
	"time"
)

//go:embed supervisor_darwin.sh
var supervisorScript string

// startName is a start time as "ps -o lstart=" prints it in the C locale, with
// single blanks.
func startName(id identity) string {
	return time.UnixMicro(int64(id.start)).Local().Format("Mon Jan 2 15:04:05 2006")
}
