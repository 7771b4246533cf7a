package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// encodeYAML writes content as YAML. It makes the nodes itself, so that a number
// stays as it was written and a text that looks like one is quoted.
func encodeYAML(content any) ([]byte, error) {
	n, err := yamlNode(content)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(n)
}

func yamlNode(x any) (*yaml.Node, error) {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch x := x.(type) {
	case nil:
		return scalar("!!null", "null"), nil
	case bool:
		return scalar("!!bool", fmt.Sprint(x)), nil
	case string:
		n := scalar("!!str", x)
		// Quoted whenever an older reader could take it for something else.
		if !plainWord(x) {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n, nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(x.String(), ".eE") {
			tag = "!!float"
		}
		return scalar(tag, x.String()), nil
	case int, int64, float64:
		return scalar("!!float", fmt.Sprint(x)), nil
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range x {
			c, err := yamlNode(item)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		return n, nil
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			key, err := yamlNode(k)
			if err != nil {
				return nil, err
			}
			value, err := yamlNode(x[k])
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, key, value)
		}
		return n, nil
	}
	return nil, fmt.Errorf("a %T has no form in YAML", x)
}

// plainWord tells a text that is a text to every reader of YAML.
func plainWord(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	return true
}
