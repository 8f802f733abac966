package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Redacted is stored in place of a secret.
const Redacted = "[secret]"

// minSubstring is the length in bytes from which a secret is looked for inside
// longer texts. A shorter one is in every text, and to blot it out everywhere
// would show it; it is replaced where it is a text of its own.
const minSubstring = 4

// redactor knows what must not be stored, the longest first.
type redactor struct{ secrets []string }

// with returns a redactor that knows secret as well. The line ending that
// submits what was typed is no part of it.
func (r redactor) with(secret string) redactor {
	secret = strings.TrimRight(secret, "\r\n")
	if secret == "" || slices.Contains(r.secrets, secret) {
		return r
	}
	secrets := append(slices.Clone(r.secrets), secret)
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return redactor{secrets}
}

func (r redactor) text(text string) string {
	for _, secret := range r.secrets {
		switch {
		case strings.TrimRight(text, "\r\n") == secret:
			return Redacted
		case len(secret) >= minSubstring:
			text = strings.ReplaceAll(text, secret, Redacted)
		}
	}
	return text
}

// value returns value with the secrets in its strings replaced.
func (r redactor) value(value any) (any, error) {
	if len(r.secrets) == 0 || value == nil {
		return value, nil
	}
	raw, err := json.Marshal(value)
	return r.json(raw), err
}

// json replaces secrets in the strings of raw, which is valid JSON. The names of
// members stay, as they are the tool's and not what was typed.
func (r redactor) json(raw json.RawMessage) json.RawMessage {
	if len(r.secrets) == 0 {
		return raw
	}
	var out []byte
	for rest := []byte(raw); len(rest) > 0; {
		begin := bytes.IndexByte(rest, '"')
		if begin < 0 {
			return append(out, rest...)
		}
		end := begin + stringLength(rest[begin:])
		literal, after := rest[begin:end], rest[end:]
		out = append(out, rest[:begin]...)
		if next := bytes.TrimLeft(after, " \t\r\n"); len(next) == 0 || next[0] != ':' {
			literal = r.literal(literal)
		}
		out = append(out, literal...)
		rest = after
	}
	return out
}

// literal replaces the secrets of one JSON string.
func (r redactor) literal(literal []byte) []byte {
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return literal
	}
	clean := r.text(text)
	if clean == text {
		return literal
	}
	literal, _ = json.Marshal(clean) // a string always has a JSON form
	return literal
}

// stringLength returns the length of the JSON string that text begins with.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
