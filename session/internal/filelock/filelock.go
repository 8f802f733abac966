// Package filelock gives a file one writer. The lock belongs to the open file:
// it ends when that is closed or its process dies, however it dies, and it keeps
// nobody from reading.
package filelock

import "errors"

// ErrLocked says that another open file holds the lock.
var ErrLocked = errors.New("filelock: locked")
