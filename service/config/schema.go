package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// schemaDialect is the version of JSON Schema that editors know.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// Schema gives the JSON Schema of the service file, for editors, and
// DefinitionsSchema that of a definitions file. They say what a key may hold as
// far as a schema can; how the values stand to each other only reading tells.
func Schema() ([]byte, error) {
	return schemaFile("leasesvc: service file", defaults().shape(), aboutService)
}

// DefinitionsSchema is [Schema] for a definitions file.
func DefinitionsSchema() ([]byte, error) {
	defs := &Definitions{Leases: map[string]events.Definition{}, Documents: map[string]any{}, places: map[string]Position{}}
	return schemaFile("leasesvc: definitions file", defs.shape(newDraft(rules{})), aboutDefinitions)
}

// schema is one schema, with its keys in an order that does not change.
type schema map[string]any

func schemaFile(title string, s shape, of aboutFile) ([]byte, error) {
	root := of.schema(s, "")
	root["$schema"], root["title"] = schemaDialect, title
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("making the schema of a %s: %w", title, err)
	}
	return append(b, '\n'), nil
}

// namePattern is [events.CheckName] as a pattern.
const namePattern = "^[A-Za-z0-9][A-Za-z0-9-]{0,63}$"

// schema gives the schema of what stands at a key.
func (f aboutFile) schema(s shape, key string) schema {
	switch s := s.(type) {
	case lease:
		return f.schema(s.draft.shape(false), key)
	case object:
		properties, required := schema{}, []string{}
		for _, field := range s.fields {
			at := strings.TrimPrefix(key+"."+field.name, ".")
			p := f.schema(field.shape, at)
			p["description"] = f.description(field, at)
			properties[field.name] = p
			if field.required {
				required = append(required, field.name)
			}
		}
		out := schema{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			out["required"] = required
		}
		return out
	case named:
		out := schema{"type": "object", "propertyNames": schema{"pattern": namePattern}, "additionalProperties": f.schema(s.elem("NAME"), key+".NAME")}
		if s.min > 0 {
			out["minProperties"] = s.min
		}
		return out
	case sequence:
		return schema{"type": "array", "maxItems": s.max, "items": f.schema(s.elem(), key+"[]")}
	case boolean, either:
		return schema{"type": "boolean"}
	case integer:
		if len(s.allowed) > 0 {
			return schema{"enum": s.allowed}
		}
		return schema{"type": "integer", "minimum": s.min, "maximum": s.max}
	case rate:
		return schema{"type": "number", "exclusiveMinimum": 0, "maximum": maxRate}
	case part:
		return schema{"type": "number", "minimum": 0, "maximum": 1}
	case fraction:
		return schema{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
	case duration:
		return schema{"anyOf": []schema{{"type": "number", "minimum": 0}, {"type": "string", "pattern": spans.String()}}}
	case size:
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 0}, {"type": "string", "pattern": sizeForm.String()}}}
	case interface{ words() []string }:
		return schema{"enum": s.words()}
	case params:
		return schema{"type": "object", "maxProperties": maxParams, "propertyNames": schema{"pattern": paramName.String()}, "additionalProperties": schema{"type": []string{"string", "number", "boolean"}}}
	case headers:
		return schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "number", "boolean"}}}
	case arguments:
		return schema{"type": "array", "items": schema{"type": []string{"string", "number", "boolean"}}}
	case documentContent, content:
		return schema{"type": []string{"object", "array"}}
	default: // texts of all kinds; reading says what is wrong with one
		return schema{"type": "string"}
	}
}

// description is what an editor shows of a key: what it is, its type, its default.
func (f aboutFile) description(of field, key string) string {
	text := of.typ()
	switch {
	case of.required:
		text += "; required"
	case of.def != "":
		text += "; default: " + of.def
	}
	if strings.HasPrefix(key, "defaults.") {
		key = "leases.NAME" + strings.TrimPrefix(key, "defaults")
	}
	if what := f.plain(key); what != "" {
		text = what + " (" + text + ")"
	}
	return text
}
