package engine

// Numbers that a test can tell beforehand.
func init() { newNumber = func(before uint64) uint64 { return before + 1 } }
