package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// homeSetting is one explicit dshHome.
type homeSetting struct{ source, value string }

// home resolves the home folder: the explicit setting, then $DSH_HOME, then
// ~/.dsh. Explicit settings that name different folders are refused instead of
// ranked: what one part of a system stored, another would not find.
func (l *loader) home() (chosen, from string, err error) {
	for _, setting := range l.homes {
		if strings.TrimSpace(setting.value) == "" {
			continue
		}
		path, err := l.absolute(setting.source, setting.value)
		if err != nil {
			return "", "", err
		}
		if chosen != "" && path != chosen {
			return "", "", &Error{Path: "dshHome", Problem: fmt.Sprintf(
				"%s says %s and %s says %s; remove one", from, quote(chosen), setting.source, quote(path))}
		}
		chosen, from = path, setting.source
	}
	if chosen != "" {
		return chosen, from, nil
	}
	for _, entry := range l.opts.Environ {
		if value, ok := strings.CutPrefix(entry, "DSH_HOME="); ok && strings.TrimSpace(value) != "" {
			chosen, err = l.absolute("DSH_HOME", value)
			return chosen, "DSH_HOME", err
		}
	}
	chosen, err = l.absolute("", "~/.dsh")
	return chosen, "", err
}

// userHome is the user's home folder: HOME, or what the system's user database
// says where a service runs without it.
func userHome() (string, error) {
	home, err := os.UserHomeDir()
	if err == nil {
		return home, nil
	}
	if u, userErr := user.Current(); userErr == nil && u.HomeDir != "" {
		return u.HomeDir, nil
	}
	return "", err
}

// absolute expands ~ and ~/x (on Windows ~\x too; ~user is a plain name) and
// makes path absolute.
func (l *loader) absolute(source, path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, `~\`) {
		home := l.opts.UserHome
		if home == "" {
			var err error
			if home, err = userHome(); err != nil {
				return "", &Error{Source: source, Path: "dshHome", Problem: "the user's home folder is unknown; set dshHome to an absolute path"}
			}
		}
		path = filepath.Join(home, strings.ReplaceAll(path[1:], `\`, "/"))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &Error{Source: source, Path: "dshHome", Problem: err.Error()}
	}
	return abs, nil
}
