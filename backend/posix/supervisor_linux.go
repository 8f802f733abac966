package posix

import (
	_ "embed" // for the script
	"strconv"
)

//go:embed supervisor_linux.sh
var supervisorScript string

// startName is a start time as the supervisor's script reads it.
func startName(id identity) string { return strconv.FormatUint(id.start, 10) }
