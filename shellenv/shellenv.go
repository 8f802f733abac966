// Package shellenv decides which environment variables reach a shell. It is
// pure: it never reads or changes the environment of its own process.
package shellenv

import "strings"

// Prefix begins the name of every variable that the project manages itself.
// Such a name is never inherited: a value that comes from outside would be
// stale, or another session's.
const Prefix = "DSH_"

// secretWords mark a variable's name as one that may hold a credential.
var secretWords = []string{
	"KEY", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIAL",
}

// Scrub returns the entries of env, KEY=VALUE, that a shell may inherit. It
// leaves out every name that contains KEY, PASSWORD, PASSWD, PASSPHRASE,
// SECRET, TOKEN or CREDENTIAL and every name that begins with [Prefix], in any
// case of letters on every system. Values are not looked at. env is not
// changed.
func Scrub(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		name, _, ok := split(entry)
		if ok && !private(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

func private(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, Prefix) {
		return true
	}
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Merge joins layers of KEY=VALUE entries into one environment in which every
// name stands once. A later layer wins over an earlier one, and so does a later
// entry of the same layer. A name keeps the place at which it first appeared
// and the spelling of the entry that won, which matters where caseInsensitive
// makes Path and PATH one name. Entries without a name or without "=" are left
// out; the entries with which Windows remembers a folder for each drive
// (=C:=C:\folder) are kept.
func Merge(caseInsensitive bool, layers ...[]string) []string {
	var size int
	for _, layer := range layers {
		size += len(layer)
	}
	merged := make([]string, 0, size)
	place := make(map[string]int, size)
	for _, layer := range layers {
		for _, entry := range layer {
			name, _, ok := split(entry)
			if !ok {
				continue
			}
			key := fold(name, caseInsensitive)
			if at, seen := place[key]; seen {
				merged[at] = entry
				continue
			}
			place[key] = len(merged)
			merged = append(merged, entry)
		}
	}
	return merged
}

// Unset returns env without the variables called names. A name that ends in *
// stands for every variable whose name begins with what precedes the *. env is
// not changed.
func Unset(env, names []string, caseInsensitive bool) []string {
	exact := make(map[string]bool, len(names))
	var prefixes []string
	for _, name := range names {
		name = fold(name, caseInsensitive)
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			prefixes = append(prefixes, prefix)
		} else {
			exact[name] = true
		}
	}
	kept := make([]string, 0, len(env))
next:
	for _, entry := range env {
		name, _, _ := split(entry)
		name = fold(name, caseInsensitive)
		if exact[name] {
			continue
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				continue next
			}
		}
		kept = append(kept, entry)
	}
	return kept
}

func fold(name string, caseInsensitive bool) string {
	if caseInsensitive {
		return strings.ToUpper(name)
	}
	return name
}

// split cuts entry at the "=" after its name. The search begins at the second
// byte because the names of Windows' drive folders begin with "=".
func split(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	at := strings.IndexByte(entry[1:], '=')
	if at < 0 {
		return entry, "", false
	}
	return entry[:at+1], entry[at+2:], true
}
