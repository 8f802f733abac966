//go:build windows || linux

package conpty

import (
	"slices"
	"strings"
)

// systemVariables are those without which programs, and the loader itself, do
// not work.
var systemVariables = []string{"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT"}

// completeEnv returns env as CreateProcess wants it: names differ by more than
// case, the last one of a name counts, sorted by name, and with the variables
// that Windows itself needs, taken from lookup where env has none. Entries such
// as =C:=C:\dir, which hold a drive's working directory, are kept.
func completeEnv(env []string, lookup func(string) (string, bool)) []string {
	type variable struct{ key, entry string }
	last := make(map[string]int)
	var vars []variable
	add := func(entry string) {
		key := strings.ToUpper(envName(entry))
		if i, ok := last[key]; ok {
			vars[i].entry = entry
			return
		}
		last[key] = len(vars)
		vars = append(vars, variable{key, entry})
	}
	for _, entry := range env {
		add(entry)
	}
	for _, name := range systemVariables {
		if _, ok := last[name]; ok {
			continue
		}
		if value, ok := lookup(name); ok {
			add(name + "=" + value)
		}
	}
	slices.SortFunc(vars, func(a, b variable) int { return strings.Compare(a.key, b.key) })
	complete := make([]string, len(vars))
	for i, v := range vars {
		complete[i] = v.entry
	}
	return complete
}

// envName is the name of an entry. The names of drives' directories begin with
// an equals sign.
func envName(entry string) string {
	if i := strings.IndexByte(entry[min(1, len(entry)):], '='); i >= 0 {
		return entry[:i+1]
	}
	return entry
}

// envValue returns the value of a variable, whatever the case of its name.
func envValue(env []string, name string) string {
	value := ""
	for _, entry := range env {
		if n := envName(entry); len(n) < len(entry) && strings.EqualFold(n, name) {
			value = entry[len(n)+1:]
		}
	}
	return value
}
