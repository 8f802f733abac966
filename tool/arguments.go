package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals"
)

// Decode reads a call's arguments, one JSON object, into v, a pointer to a
// struct. No arguments at all are an empty object; properties that v does not
// have are ignored. The error matches [terminals.InvalidArgument] and names the
// property and what it must be. Text that JSON would change silently (bytes
// that are not UTF-8, half a surrogate pair) is refused.
func Decode(raw json.RawMessage, v any) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	if at := invalidUTF8(raw); at >= 0 {
		return invalid("the arguments are not valid UTF-8 at byte %d; send text as UTF-8", at)
	}
	if at := loneSurrogate(raw); at >= 0 {
		return invalid("the arguments have half a surrogate pair at byte %d; send both halves or the character itself", at)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	err := dec.Decode(v)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return invalid("the arguments must be a JSON object, not %s", article(wrongType.Value))
	case errors.As(err, &wrongType):
		return invalid("%q must be %s, not %s", wrongType.Field, article(jsonKind(wrongType)), article(wrongType.Value))
	case errors.As(err, &syntax):
		return invalid("the arguments are not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the arguments are not valid JSON: they end in the middle")
	case err != nil:
		return invalid("the arguments cannot be read: %s", err.Error())
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("the arguments must be one JSON object and nothing after it")
	}
	return nil
}

// Missing is the error for a required property that a call does not have.
func Missing(name string) error {
	return invalid("%q is required", name)
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// jsonKind names in JSON's words what a field takes.
func jsonKind(err *json.UnmarshalTypeError) string {
	t := err.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr:
		return "integer"
	case t.Kind() == reflect.Float32, t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return "array"
	}
	return "object"
}

func article(kind string) string {
	switch kind[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + kind
	}
	return "a " + kind
}

func invalidUTF8(raw []byte) int {
	if utf8.Valid(raw) {
		return -1
	}
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// loneSurrogate returns where raw has a \u escape that is half a surrogate pair
// without its other half, or -1.
func loneSurrogate(raw []byte) int {
	unit := func(at int) (rune, bool) {
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
		return rune(n), err == nil
	}
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '\\')
		if next < 0 {
			return -1
		}
		at += next
		first, ok := unit(at)
		if !ok {
			at += 2 // an escape of one character
			if at > len(raw) {
				return -1
			}
			continue
		}
		if utf16.IsSurrogate(first) {
			second, ok := unit(at + 6)
			if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
				return at
			}
			at += 6
		}
		at += 6
	}
}
