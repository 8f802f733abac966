package jsonl

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxName is the longest name of a file in bytes on the usual file systems.
const maxName = 255

// How a text becomes a name that every file system takes and keeps apart, on
// its own and with other case:
//
//	a-z 0-9 . _ -   themselves
//	~XXXX           a UTF-16 unit, in upper-case hexadecimal
//	~xXX            a byte that is not UTF-8
//	~h and 64 hex   the SHA-256 of the whole text, where the name is too long
//
// The hexadecimal digits that follow ~h are in lower case, and neither h nor x
// is one, so no two of these begin alike.
const escapeByte = '~'

// sessionFolder returns the name of the folder of the session id, which is not
// empty. Different ids have different names, also for file systems that ignore
// case: capital letters are escaped.
func sessionFolder(id string) string {
	var name strings.Builder
	escapeFirst := reserved(id)
	trailing := len(strings.TrimRight(id, ".")) // Windows drops dots at the end
	for at, char := range chars(id) {
		lower := 'a' <= char.r && char.r <= 'z' || '0' <= char.r && char.r <= '9'
		plain := lower || char.r == '-' || char.r == '_' || char.r == '.' && at < trailing
		if plain && !(at == 0 && escapeFirst) {
			name.WriteRune(char.r)
		} else {
			char.escape(&name)
		}
	}
	return bounded(name.String(), id, maxName)
}

// projectFolder returns the name of the folder that groups the sessions of one
// working directory: --<slug>--, where each separator is a dash. Different clean
// absolute paths of one system have different names.
func projectFolder(cwd string) string {
	if cwd == "" {
		return "_no-cwd"
	}
	const edge = "--"
	return edge + bounded(slug(cwd), cwd, maxName-2*len(edge)) + edge
}

func slug(cwd string) string {
	path := cwd
	var name strings.Builder
	switch {
	case drive(path):
		path = path[:1] + strings.ReplaceAll(path[2:], `\`, "/")
	case strings.HasPrefix(path, `\\`): // a share; its server may be called like a drive
		char{r: '\\', valid: true}.escape(&name)
		path = strings.ReplaceAll(path, `\`, "/")
	}
	separated := true // at the beginning too: no dash leads
	for _, char := range chars(path) {
		if char.r == '/' {
			if !separated {
				name.WriteByte('-')
			}
			separated = true
			continue
		}
		separated = false
		letter := 'a' <= char.r|0x20 && char.r|0x20 <= 'z' && char.r < utf8.RuneSelf
		if letter || '0' <= char.r && char.r <= '9' || char.r == '.' || char.r == '_' {
			name.WriteRune(char.r)
		} else {
			char.escape(&name)
		}
	}
	switch text := name.String(); text {
	case "": // the root itself
		return "root"
	case "root": // a folder of that name
		return "~0072oot"
	default:
		return text
	}
}

// drive tells whether path begins with the root of a Windows drive.
func drive(path string) bool {
	return len(path) >= 3 && 'a' <= path[0]|0x20 && path[0]|0x20 <= 'z' && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// reserved tells whether Windows takes a file of this name for a device,
// whatever follows the first dot.
func reserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.TrimRight(base, " ")
	switch strings.ToLower(base) {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	return len(base) == 4 && (strings.EqualFold(base[:3], "com") || strings.EqualFold(base[:3], "lpt")) && '0' <= base[3] && base[3] <= '9'
}

// bounded cuts name, which stands for whole, to max bytes. The hash of the whole
// keeps it apart from what begins alike.
func bounded(name, whole string, max int) string {
	if len(name) <= max {
		return name
	}
	hash := sha256.Sum256([]byte(whole))
	tail := "~h" + hex.EncodeToString(hash[:])
	return name[:max-len(tail)] + tail
}

// char is one character of a text: a rune, or a byte that belongs to none.
type char struct {
	r     rune // utf8.RuneError for such a byte
	stray byte
	valid bool
}

// chars yields the characters of text and where each begins.
func chars(text string) iter.Seq2[int, char] {
	return func(yield func(int, char) bool) {
		for at := 0; at < len(text); {
			r, size := utf8.DecodeRuneInString(text[at:])
			if !yield(at, char{r: r, stray: text[at], valid: r != utf8.RuneError || size > 1}) {
				return
			}
			at += size
		}
	}
}

func (c char) escape(name *strings.Builder) {
	if !c.valid {
		name.WriteString("~x")
		writeHex(name, uint16(c.stray), 2)
		return
	}
	for _, unit := range utf16.Encode([]rune{c.r}) {
		name.WriteByte(escapeByte)
		writeHex(name, unit, 4)
	}
}

// writeHex writes the last digits hexadecimal digits of value.
func writeHex(name *strings.Builder, value uint16, digits int) {
	for i := digits - 1; i >= 0; i-- {
		name.WriteByte("0123456789ABCDEF"[value>>(4*i)&0xF])
	}
}
