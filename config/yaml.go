package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// strictYAML is the decoder with which viper reads the file: it checks every
// key against the schema, where the document's lines are still known.
type strictYAML struct{ l *loader }

// Decoder makes strictYAML the one entry of viper's decoder registry.
func (y strictYAML) Decoder(string) (viper.Decoder, error) { return y, nil }

// Decode fills settings with the checked values of one document.
func (y strictYAML) Decode(data []byte, settings map[string]any) error {
	node, err := parseYAML(string(data))
	if err != nil {
		return &Error{Source: y.l.opts.File, Problem: "not valid YAML: " + yamlProblem(err)}
	}
	if node == nil || isNull(node) { // an empty file sets nothing
		return nil
	}
	d := &document{loader: y.l, source: y.l.opts.File, lines: true}
	if node.Kind != yaml.MappingNode {
		return d.fail(node, "", fmt.Sprintf("got %s, want a mapping of keys to values", describe(node)))
	}
	return d.root(node, settings)
}

// parseYAML returns the only document of data, nil when there is none.
func parseYAML(data string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(data)))
	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("line %d: a second document; keep one", second.Line)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return resolve(doc.Content[0]), nil
}

// yamlProblem is the parser's complaint on one line.
func yamlProblem(err error) string {
	return strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
}

// document checks one piece of YAML.
type document struct {
	*loader
	source string
	lines  bool // source is a file: add line numbers
}

func (d *document) fail(at *yaml.Node, path, problem string) error {
	source := d.source
	if d.lines {
		source = fmt.Sprintf("%s:%d", source, at.Line)
	}
	return &Error{Source: source, Path: path, Problem: problem}
}

func (d *document) root(node *yaml.Node, settings map[string]any) error {
	return d.mapping(node, "", root, []string{"backends", "hooks"}, settings, func(name string, value *yaml.Node) error {
		switch name {
		case "backends":
			backends := map[string]any{}
			settings["backends"] = backends
			return d.backends(value, backends)
		default: // hooks
			return d.hookEntries(value)
		}
	})
}

// mapping checks one mapping against a section. Names in others are handed to
// other.
func (d *document) mapping(node *yaml.Node, path string, s section, others []string, settings map[string]any, other func(string, *yaml.Node) error) error {
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		nameNode, value := resolve(node.Content[i]), resolve(node.Content[i+1])
		if !isText(nameNode) {
			return d.fail(nameNode, path, fmt.Sprintf("got %s as a key, want a name", describe(nameNode)))
		}
		name := nameNode.Value
		at := join(path, name)
		if seen[name] {
			return d.fail(nameNode, at, "is set twice; keep one")
		}
		seen[name] = true
		known := slices.Contains(others, name)
		k := slices.IndexFunc(s.keys, func(k key) bool { return k.name == name })
		sub := slices.IndexFunc(s.sections, func(s section) bool { return s.name == name })
		switch {
		case !known && k < 0 && sub < 0:
			return d.fail(nameNode, at, d.unknownKey(path, name, s, others))
		case isNull(value): // left open: unset
		case known:
			if err := other(name, value); err != nil {
				return err
			}
		case k >= 0:
			checked, fault, problem := s.keys[k].decode(value)
			if problem != "" {
				return d.fail(fault, at, problem)
			}
			d.remember(d.source, at, checked)
			settings[name] = checked
		default:
			inner := map[string]any{}
			settings[name] = inner
			if value.Kind != yaml.MappingNode {
				return d.fail(value, at, fmt.Sprintf("got %s, want a mapping of keys to values", describe(value)))
			}
			if err := d.mapping(value, at, s.sections[sub], nil, inner, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// backends checks the list and files its entries by type: they replace or add
// to the default ones.
func (d *document) backends(node *yaml.Node, settings map[string]any) error {
	if node.Kind != yaml.SequenceNode {
		return d.fail(node, "backends", fmt.Sprintf("got %s, want a list of backends", describe(node)))
	}
	seen := map[string]string{}
	for i, item := range node.Content {
		item = resolve(item)
		path := fmt.Sprintf("backends[%d]", i)
		if item.Kind != yaml.MappingNode {
			return d.fail(item, path, fmt.Sprintf("got %s, want a mapping with a type", describe(item)))
		}
		typ, err := d.declaredType(item, path)
		if err != nil {
			return err
		}
		key := typeKey(typ)
		if other, ok := seen[key]; ok {
			if other == typ {
				return d.fail(item, path+".type", fmt.Sprintf("got %s twice; types are unique", quote(typ)))
			}
			return d.fail(item, path+".type", fmt.Sprintf("got %s next to %s; types differ in more than case, - and _", quote(typ), quote(other)))
		}
		seen[key] = typ
		if known := d.types[key]; known == nil {
			shell := "bash"
			if d.opts.GOOS == "windows" {
				shell = "pwsh"
			}
			d.addType(&backendType{name: typ}, shell)
		} else {
			known.name = typ
		}
		d.types[key].mentioned = true
		inner := map[string]any{}
		settings[key] = inner
		if err := d.mapping(item, "backends."+typ, section{keys: backendKeys}, nil, inner, nil); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) declaredType(item *yaml.Node, path string) (string, error) {
	for i := 0; i < len(item.Content); i += 2 {
		if resolve(item.Content[i]).Value != "type" {
			continue
		}
		value := resolve(item.Content[i+1])
		if _, fault, problem := backendKeys[0].decode(value); problem != "" {
			return "", d.fail(fault, path+".type", problem)
		}
		return value.Value, nil
	}
	return "", d.fail(item, path, "has no type; give it a name of its own")
}

// backendList merges a list of backends that came as text.
func (l *loader) backendList(source, s string) error {
	node, err := parseYAML(s)
	if err != nil || node == nil {
		return &Error{Source: source, Path: "backends", Problem: fmt.Sprintf("got %s, want a list of backends, written as YAML", quote(s))}
	}
	settings := map[string]any{}
	if err := (&document{loader: l, source: source}).backends(node, settings); err != nil {
		return err
	}
	for key, values := range settings {
		for name, value := range values.(map[string]any) {
			l.viper.Set("backends."+key+"."+name, value)
		}
	}
	return nil
}

// hookEntries checks the list of hooks. It replaces the one of a weaker source.
func (d *document) hookEntries(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode {
		return d.fail(node, "hooks", fmt.Sprintf("got %s, want a list of hooks", describe(node)))
	}
	var list []Hook
	for i, item := range node.Content {
		item = resolve(item)
		path := fmt.Sprintf("hooks[%d]", i)
		if item.Kind != yaml.MappingNode {
			return d.fail(item, path, fmt.Sprintf("got %s, want a mapping with event and command", describe(item)))
		}
		values := map[string]any{}
		for _, k := range hookKeys {
			values[k.name] = k.def
		}
		if err := d.mapping(item, path, section{keys: hookKeys}, nil, values, nil); err != nil {
			return err
		}
		command, _ := values["command"].([]string)
		switch {
		case values["event"] == nil:
			return d.fail(item, path, "has no event; give it one of "+strings.Join(hookKeys[0].choices, ", "))
		case len(command) == 0 || strings.TrimSpace(command[0]) == "":
			return d.fail(item, path, "has no command; give it a program and its arguments, as a list")
		}
		list = append(list, Hook{
			Event: values["event"].(string), Matcher: values["matcher"].(string), Command: command,
			Format: values["format"].(string), Timeout: Millis(values["timeoutMs"].(int64)), OnFailure: values["onFailure"].(string),
		})
	}
	d.loader.hooks = list
	return nil
}

// hookList takes a list of hooks that came as text.
func (l *loader) hookList(source, s string) error {
	node, err := parseYAML(s)
	if err != nil || node == nil {
		return &Error{Source: source, Path: "hooks", Problem: fmt.Sprintf("got %s, want a list of hooks, written as YAML", quote(s))}
	}
	return (&document{loader: l, source: source}).hookEntries(node)
}

// unknownKey says what a key that does not exist may have meant.
func (d *document) unknownKey(path, name string, s section, others []string) string {
	siblings := slices.Clone(others)
	for _, k := range s.keys {
		siblings = append(siblings, k.name)
	}
	for _, sub := range s.sections {
		siblings = append(siblings, sub.name)
	}
	if near := nearest(name, siblings); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", join(path, near))
	}
	// The right name in the wrong place.
	for _, leaf := range d.leaves() {
		if strings.EqualFold(leaf.key.name, name) {
			return fmt.Sprintf("unknown key; did you mean %s?", leaf.path)
		}
	}
	return "unknown key; known here are " + list(siblings)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest returns the candidate that name is most likely a slip of, or "".
func nearest(name string, candidates []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, candidate := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance counts the characters to insert, delete, replace or swap with
// their neighbour.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous, current := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		current[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(t)]
}
