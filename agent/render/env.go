package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Environment gives content as variables, "NAME=value", sorted: the keys on the
// way to each value joined by underscores, in upper case, what is no letter or
// digit replaced by an underscore. Two places with one name, a value with a NUL,
// and content that is no map or list are errors that hold no value.
func Environment(content any, prefix string) ([]string, error) {
	vars := map[string]string{}
	switch content.(type) {
	case map[string]any, []any:
	default:
		return nil, fmt.Errorf("%w: variables need a map", ErrRender)
	}
	if err := flatten(vars, prefix, content); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRender, err)
	}
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out, nil
}

func flatten(vars map[string]string, name string, x any) error {
	switch x := x.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if err := flatten(vars, below(name, k), x[k]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i, item := range x {
			if err := flatten(vars, below(name, strconv.Itoa(i)), item); err != nil {
				return err
			}
		}
		return nil
	}
	if name[0] >= '0' && name[0] <= '9' {
		return fmt.Errorf("the variable %s would begin with a digit; set a prefix", name)
	}
	if _, twice := vars[name]; twice {
		return fmt.Errorf("two places give the variable %s", name)
	}
	text := ""
	switch x := x.(type) {
	case nil:
	case string:
		text = x
	case bool:
		text = strconv.FormatBool(x)
	case json.Number:
		text = x.String()
	default:
		return fmt.Errorf("a %T is no value of a variable", x)
	}
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("the value of %s has a NUL, which no variable can", name)
	}
	vars[name] = text
	return nil
}

// below gives the name of a key below a name.
func below(name, key string) string {
	var b strings.Builder
	b.WriteString(name)
	if name != "" && !strings.HasSuffix(name, "_") {
		b.WriteByte('_')
	}
	for _, r := range strings.ToUpper(key) {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			r = '_'
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// encodeEnv writes variables as a POSIX shell and systemd's EnvironmentFile read
// them.
func encodeEnv(content any, prefix string) ([]byte, error) {
	vars, err := Environment(content, prefix)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		b.WriteString(name + "=" + shellQuote(value) + "\n")
	}
	return []byte(b.String()), nil
}

// shellQuote quotes a value where a shell would not take it for one word.
func shellQuote(s string) string {
	safe := s != ""
	for _, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("_-./:@%+,", r) {
			safe = false
		}
	}
	if safe {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
