package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// want says what a key takes.
func (k key) want() string {
	switch k.kind {
	case number:
		return fmt.Sprintf("a whole number from %d to %d (%s)", k.min, k.max, k.unit)
	case boolean:
		return "true or false"
	case choice:
		return "one of " + list(k.choices)
	case texts:
		return "a list of texts"
	case environment:
		return "a mapping of variable names to texts"
	default:
		return "a text"
	}
}

// Each source of values has its own reading; all end in one of these checks,
// which return the value to merge or what is wrong with it.

func (k key) checkNumber(n int64) (any, string) {
	if n < k.min || n > k.max {
		return nil, fmt.Sprintf("got %d, want %s", n, k.want())
	}
	return n, ""
}

func (k key) checkText(s string) (any, string) {
	if k.kind == choice {
		if !slices.Contains(k.choices, s) {
			return nil, fmt.Sprintf("got %s, want %s", quote(s), k.want())
		}
		return s, ""
	}
	if k.refuse != nil {
		if problem := k.refuse(s); problem != "" {
			return nil, fmt.Sprintf("got %s, %s", quote(s), problem)
		}
	}
	return s, ""
}

// parse reads a value that came as text, from a variable, a setting or a flag.
// Lists and mappings are written as YAML.
func (k key) parse(s string) (any, string) {
	switch k.kind {
	case number:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Sprintf("got %s, want %s", quote(s), k.want())
		}
		return k.checkNumber(n)
	case boolean:
		if s != "true" && s != "false" {
			return nil, fmt.Sprintf("got %s, want %s", quote(s), k.want())
		}
		return s == "true", ""
	case texts, environment:
		node, err := parseYAML(s)
		if err != nil || node == nil {
			return nil, fmt.Sprintf("got %s, want %s, written as YAML", quote(s), k.want())
		}
		value, _, problem := k.decode(node)
		return value, problem
	default:
		return k.checkText(s)
	}
}

// decode reads a value out of a YAML document. The node that it returns is the
// one that is at fault.
func (k key) decode(node *yaml.Node) (any, *yaml.Node, string) {
	node = resolve(node)
	wrong := func(n *yaml.Node) (any, *yaml.Node, string) {
		return nil, n, fmt.Sprintf("got %s, want %s", describe(n), k.want())
	}
	switch k.kind {
	case number:
		var n int64
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" || node.Decode(&n) != nil {
			return wrong(node)
		}
		value, problem := k.checkNumber(n)
		return value, node, problem
	case boolean:
		var b bool
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!bool" || node.Decode(&b) != nil {
			return wrong(node)
		}
		return b, node, ""
	case texts:
		if node.Kind != yaml.SequenceNode {
			return wrong(node)
		}
		values := make([]string, 0, len(node.Content))
		for _, item := range node.Content {
			item = resolve(item)
			if !isText(item) {
				return wrong(item)
			}
			if _, problem := k.checkText(item.Value); problem != "" {
				return nil, item, problem
			}
			values = append(values, item.Value)
		}
		return values, node, ""
	case environment:
		if node.Kind != yaml.MappingNode {
			return wrong(node)
		}
		values := make([]string, 0, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			name, item := resolve(node.Content[i]), resolve(node.Content[i+1])
			if name.Kind != yaml.ScalarNode || name.Value == "" || strings.ContainsAny(name.Value, "=\x00") {
				return nil, name, fmt.Sprintf("got %s as a variable's name, want a text without '='", describe(name))
			}
			if slices.ContainsFunc(values, func(entry string) bool { return strings.HasPrefix(entry, name.Value+"=") }) {
				return nil, name, fmt.Sprintf("sets %s twice; keep one", name.Value)
			}
			if !isText(item) {
				return nil, item, fmt.Sprintf("got %s for %s, want a text; put it in quotes", describe(item), name.Value)
			}
			if _, problem := k.checkText(item.Value); problem != "" {
				return nil, item, problem
			}
			values = append(values, name.Value+"="+item.Value)
		}
		return values, node, ""
	default:
		if !isText(node) {
			return wrong(node)
		}
		value, problem := k.checkText(node.Value)
		return value, node, problem
	}
}

func isText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" }

// isNull says that a value is left open, which counts as unset.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// describe names what was found, with its type where that is the fault.
func describe(n *yaml.Node) string {
	n = resolve(n)
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	switch n.ShortTag() {
	case "!!str":
		return "the text " + quote(n.Value)
	case "!!null":
		return "nothing"
	}
	return clip(n.Value)
}

// quote shows a value on one line, not longer than a line should be.
func quote(s string) string { return strconv.Quote(clip(s)) }

const longestShown = 60

func clip(s string) string {
	if runes := []rune(s); len(runes) > longestShown {
		return string(runes[:longestShown]) + "…"
	}
	return s
}

func list(names []string) string { return strings.Join(names, ", ") }

// set merges one value that came as text.
func (l *loader) set(source string, at leaf, s string) error {
	value, problem := at.key.parse(s)
	if problem != "" {
		return &Error{Source: source, Path: at.path, Problem: problem}
	}
	l.remember(source, at.path, value)
	l.viper.Set(l.viperPath(at.path), value)
	return nil
}

// remember notes the settings about which something must be known later.
func (l *loader) remember(source, path string, value any) {
	switch {
	case path == "dshHome":
		l.homes = append(l.homes, homeSetting{source, value.(string)})
	case strings.HasSuffix(path, ".backendType"):
		l.chosen[path] = source
	case strings.HasPrefix(path, "backends."):
		if t := l.types[typeKey(strings.Split(path, ".")[1])]; t != nil {
			t.mentioned = true
		}
	}
}

// viperPath is the path under which viper holds a key.
func (l *loader) viperPath(path string) string {
	parts := strings.Split(path, ".")
	if parts[0] == "backends" {
		parts[1] = typeKey(parts[1])
	}
	return strings.Join(parts, ".")
}

// setPath merges one value for a path that a user wrote.
func (l *loader) setPath(source, path, s string) error {
	switch path {
	case "backends":
		return l.backendList(source, s)
	case "hooks":
		return l.hookList(source, s)
	}
	// A single variable of a backend's environment: the rest is its name.
	if parts := strings.SplitN(path, ".", 4); len(parts) == 4 && parts[0] == "backends" && parts[2] == "env" {
		return l.setVariable(source, strings.Join(parts[:3], "."), parts[3], s)
	}
	leaves := l.leaves()
	for _, leaf := range leaves {
		if leaf.path == path {
			return l.set(source, leaf, s)
		}
	}
	return &Error{Source: source, Path: path, Problem: l.unknownPath(path, leaves)}
}

func (l *loader) setVariable(source, path, name, value string) error {
	for _, leaf := range l.leaves() {
		if leaf.path != path {
			continue
		}
		if problem := refuseNUL(value); problem != "" || strings.ContainsAny(name, "=\x00") || name == "" {
			return &Error{Source: source, Path: path + "." + name, Problem: fmt.Sprintf("got %s, want a text without NUL bytes", quote(value))}
		}
		env := slices.Clone(l.viper.GetStringSlice(l.viperPath(path)))
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
		l.remember(source, path, env)
		l.viper.Set(l.viperPath(path), append(env, name+"="+value))
		return nil
	}
	return &Error{Source: source, Path: path + "." + name, Problem: l.unknownPath(path, l.leaves())}
}

// unknownPath says why a path names no key.
func (l *loader) unknownPath(path string, leaves []leaf) string {
	parts := strings.Split(path, ".")
	switch {
	case parts[0] == "hooks" || strings.HasPrefix(parts[0], "hooks["):
		return "hooks are a list; set all of it, hooks=[{event: …, command: […]}]"
	case parts[0] == "backends" && len(parts) > 1 && l.types[typeKey(parts[1])] == nil:
		names := make([]string, len(l.order))
		for i, key := range l.order {
			names[i] = l.types[key].name
		}
		return fmt.Sprintf("no backend has the type %s; known are %s", quote(parts[1]), list(names))
	case parts[0] == "backends" && len(parts) == 3 && parts[2] == "type":
		return "a backend's type is declared in the configuration file and cannot be changed"
	}
	paths := make([]string, len(leaves))
	for i, leaf := range leaves {
		paths[i] = leaf.path
		if strings.HasPrefix(leaf.path, path+".") {
			return "is a section; set one of its keys, for instance " + leaf.path
		}
	}
	if near := nearest(path, paths); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	return "unknown key; shellstead config lists the known ones"
}
