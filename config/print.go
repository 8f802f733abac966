package config

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Environment is a list of KEY=VALUE that configuration writes as a mapping.
// Names are unique and keep their case and order.
type Environment []string

// MarshalYAML writes e as a mapping.
func (e Environment) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if len(e) == 0 {
		node.Style = yaml.FlowStyle
	}
	for _, entry := range e {
		name, value, _ := strings.Cut(entry, "=")
		for _, s := range []string{name, value} {
			var item yaml.Node
			item.SetString(s)
			// The encoder quotes what would otherwise read as another type.
			node.Content = append(node.Content, &item)
		}
	}
	return node, nil
}

// MarshalJSON writes e as an object.
func (e Environment) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, entry := range e {
		if i > 0 {
			b.WriteByte(',')
		}
		name, value, _ := strings.Cut(entry, "=")
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// YAML prints the configuration so that it loads again to the same. It holds
// the values of env, which may be secret.
func (c *Config) YAML() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(c); err != nil {
		return nil, err
	}
	annotate(&doc, "")
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(&doc); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// annotate puts the notes next to their keys.
func annotate(node *yaml.Node, path string) {
	if node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		at := join(path, name.Value)
		if note := notes[at]; note != "" {
			if value.Kind == yaml.MappingNode {
				name.HeadComment = "# " + note
			} else if isNull(value) {
				value.LineComment = "# " + note
			}
		}
		annotate(value, at)
	}
}
