package posix

// TempDir implements [backend.Driver]: macOS keeps no folder in memory.
func (*Driver) TempDir() string { return "" }
