//go:build unix

package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
)

// seatbeltProfile is the confinement of one shell in the language of
// sandbox-exec. The last rule that matches decides. Paths are free of symbolic
// links: the kernel compares real ones (/private/tmp, not /tmp).
func seatbeltProfile(p plan) string {
	var b strings.Builder
	rule := func(words ...string) { b.WriteString("(" + strings.Join(words, " ") + ")\n") }
	each := func(action, filter string, paths []string) {
		for _, path := range paths {
			rule(action, "("+filter+" "+quoteSBPL(path)+")")
		}
	}

	rule("version 1")
	rule("deny default")
	// Programs run, see the system and talk among themselves. Services that
	// start other programs (LaunchServices, AppleEvents, launchd) are not
	// reachable: what they start is not confined.
	rule("allow process-exec*")
	rule("allow process-fork")
	rule("allow process-info*", "(target same-sandbox)")
	rule("allow signal", "(target same-sandbox)")
	rule("allow sysctl-read")
	rule("allow user-preference-read")
	rule("allow ipc-posix-sem")
	rule("allow ipc-posix-shm*")
	rule("allow mach-lookup",
		`(global-name "com.apple.system.opendirectoryd.libinfo")`, `(global-name "com.apple.system.opendirectoryd.membership")`,
		`(global-name "com.apple.system.logger")`, `(global-name "com.apple.system.notification_center")`,
		`(global-name "com.apple.SystemConfiguration.configd")`, `(global-name "com.apple.trustd.agent")`)

	rule("allow file-read*")
	// The requests of a terminal are a class of their own: without them no
	// program turns the echo off for a password.
	terminal := `(literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$")`
	rule("allow pseudo-tty")
	rule("allow file-write* file-ioctl", terminal)
	rule("allow file-write-data", `(literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper")`)
	rule("allow file-ioctl", `(literal "/dev/dtracehelper")`)

	writable := append(slices.Clone(p.writable), p.temp)
	each("allow file-write*", "subpath", writable)
	each("deny file-write*", "subpath", p.private)
	each("deny file-write*", "subpath", p.protect)
	// A folder above a protected path must keep its name.
	each("deny file-write-unlink", "literal", p.pinned)
	each("deny file-read* file-write*", "subpath", p.hidden)

	if p.network {
		rule("allow network*")
		rule("allow system-socket")
	} else {
		// Sockets in files, where files may be made.
		each("allow network*", "subpath", writable)
	}
	return b.String()
}

// quoteSBPL writes a string literal.
func quoteSBPL(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(filepath.Clean(text)) + `"`
}
