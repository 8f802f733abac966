package posix

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// memoryDir is the folder that a Linux system keeps in memory for everybody.
const memoryDir = "/dev/shm"

// TempDir implements [backend.Driver]. A TMPDIR that somebody set is respected.
func (*Driver) TempDir() string {
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	return inMemory()
}

var inMemory = sync.OnceValue(func() string {
	var fs unix.Statfs_t
	if err := unix.Statfs(memoryDir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return ""
	}
	dir, err := os.MkdirTemp(memoryDir, "shellstead-")
	if err != nil {
		return ""
	}
	// The room counts too: a container may have none.
	err = os.WriteFile(filepath.Join(dir, "probe"), make([]byte, 4096), 0o600)
	if os.RemoveAll(dir) != nil || err != nil {
		return ""
	}
	return memoryDir
})
