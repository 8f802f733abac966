package sandbox

import (
	"bytes"
	"os"
	"slices"
	"strings"
)

// maxSockets bounds the mounts that hide sockets. A machine has some dozens.
const maxSockets = 1000

// boundSockets lists the sockets in files that somebody listens on. Mounting
// their folder read-only does not keep a program from connecting.
func boundSockets() []string {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var paths []string
	for line := range bytes.Lines(table) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), " ", 8)
		if len(fields) < 8 || !strings.HasPrefix(fields[7], "/") {
			continue // not bound, or an abstract name
		}
		info, err := os.Lstat(fields[7])
		if err == nil && info.Mode()&os.ModeSocket != 0 && len(paths) < maxSockets {
			paths = append(paths, fields[7])
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
