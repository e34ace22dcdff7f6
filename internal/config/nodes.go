package config

import "gopkg.in/yaml.v3"

// sections reads the whole document: settings, and mappings as sections.
func (f *File) sections(root *yaml.Node) error {
	root = resolve(root)
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	return f.mapping(root, func(key string, value *yaml.Node) error {
		if value.Kind != yaml.MappingNode {
			return f.setting("", key, value)
		}
		return f.mapping(value, func(name string, inner *yaml.Node) error {
			return f.setting(key, name, inner)
		})
	})
}

// mapping calls visit for each pair of node. Keys must be plain text and different from each other.
func (f *File) mapping(node *yaml.Node, visit func(key string, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return f.Errorf(node.Line, "want lines of the form name: value")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return f.Errorf(key.Line, "want a flag's name before the colon")
		}
		if seen[key.Value] {
			return f.Errorf(key.Line, "%s is set twice", key.Value)
		}
		seen[key.Value] = true
		if err := visit(key.Value, resolve(node.Content[i+1])); err != nil {
			return err
		}
	}
	return nil
}

// setting adds one entry: a scalar, or a list of scalars.
func (f *File) setting(section, key string, value *yaml.Node) error {
	e := Entry{Section: section, Key: key, Line: value.Line}
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		e.List, items = true, value.Content
	}
	for _, item := range items {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode {
			return f.Errorf(item.Line, "%s: want a value or a list of values", key)
		}
		if item.Tag == "!!null" {
			return f.Errorf(item.Line, "%s: no value", key)
		}
		e.Items = append(e.Items, item.Value)
	}
	f.places[place{section, key}] = len(f.entries)
	f.entries = append(f.entries, e)
	return nil
}

// resolve follows an alias to what it stands for. It never nests: what an anchor holds is looked at two levels deep at
// most, so aliases can't multiply.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}
