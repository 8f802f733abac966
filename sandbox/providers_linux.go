package sandbox

import (
	"os"
	"strings"
)

func systemProviders() []provider { return []provider{newBubblewrap(), landlock{}} }

func isRoot() bool { return os.Geteuid() == 0 }

// withoutLoader takes what the dynamic loader obeys out of an environment. A
// library that it names may lie in the workspace, and would run before anything
// is confined.
func withoutLoader(env []string) (rest, loader []string) {
	for _, entry := range env {
		if strings.HasPrefix(entry, "LD_") {
			loader = append(loader, entry)
		} else {
			rest = append(rest, entry)
		}
	}
	return rest, loader
}
