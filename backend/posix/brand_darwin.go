package posix

// brand does nothing: macOS has no limit that nothing else looks at.
func brand(int) uint64 { return 0 }

// treeGap says what escapes a teardown.
func treeGap() string {
	return "a process that leaves both the session and the tree is found again by its environment alone, " +
		"which macOS hides for its own programs"
}
