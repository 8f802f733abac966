package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// Header says which session a log belongs to. It never changes.
type Header struct {
	ID string `json:"id"` // unique among all sessions of a store; any text but an empty one

	// Parent is the id of the session that this one was forked from, and
	// ParentSeq the last of its events that are this session's past as well.
	// Both are empty for a session of its own.
	Parent    string `json:"parent,omitempty"`
	ParentSeq int64  `json:"parentSeq,omitempty"`

	Cwd     string    `json:"cwd,omitempty"` // absolute, or empty where there is none
	Created time.Time `json:"created"`
}

// idBytes is how much of an id is random: two sessions that begin in the same
// second share it once in 2^64 times.
const idBytes = 8

// NewHeader returns the header of a new session that begins now. Its id is the
// time in UTC and 64 random bits, in lower case, so that ids sort by age.
func NewHeader(cwd string) Header {
	now := time.Now().UTC()
	random := make([]byte, idBytes)
	_, _ = rand.Read(random) // never fails
	return Header{
		ID:      now.Format("20060102-150405-") + hex.EncodeToString(random),
		Cwd:     cwd,
		Created: now.Truncate(time.Millisecond),
	}
}

// Fork returns the header of a new session in the same directory whose past is
// that of h up to its event seq.
func (h Header) Fork(seq int64) Header {
	child := NewHeader(h.Cwd)
	child.Parent, child.ParentSeq = h.ID, seq
	return child
}

// Validate refuses a header that no store can keep.
func (h Header) Validate() error {
	switch {
	case h.ID == "":
		return errors.New("session: the id is empty")
	case h.Cwd != "" && !filepath.IsAbs(h.Cwd):
		return errors.New("session: the cwd is not an absolute path")
	case strings.ContainsRune(h.Cwd, 0):
		return errors.New("session: the cwd contains a NUL")
	}
	return nil
}
