package bash

import (
	"strconv"
	"strings"
)

// quote makes s one word of bash.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// unquote reads one word as printf %q writes it: backslashes, or $'…' when it
// holds control characters. False means that it is no such word.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$'"):
			n, ok := unquoteANSI(&b, s[i+2:])
			if !ok {
				return "", false
			}
			i += 2 + n
		case s[i] == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return "", false
			}
			b.WriteString(s[i+1 : i+1+end])
			i += end + 2
		case s[i] == '\\':
			if i+1 == len(s) {
				return "", false
			}
			b.WriteByte(s[i+1])
			i += 2
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String(), true
}

// unquoteANSI reads the inside of $'…' through its closing quote and returns
// how much it read.
func unquoteANSI(b *strings.Builder, s string) (int, bool) {
	const plain = `abefEnrtv\'"?`
	const value = "\a\b\x1b\f\x1b\n\r\t\v\\'\"?"
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			return i + 1, true
		case s[i] != '\\':
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return 0, false
		}
		if k := strings.IndexByte(plain, s[i]); k >= 0 {
			b.WriteByte(value[k])
			continue
		}
		base, digits, start := 8, 3, i
		if s[i] == 'x' {
			base, digits, start = 16, 2, i+1
		}
		end := start
		for end < len(s) && end-start < digits {
			if _, err := strconv.ParseUint(s[end:end+1], base, 8); err != nil {
				break
			}
			end++
		}
		v, err := strconv.ParseUint(s[start:end], base, 16)
		if err != nil || v > 255 {
			return 0, false
		}
		b.WriteByte(byte(v))
		i = end - 1
	}
	return 0, false
}
