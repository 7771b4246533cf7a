package api

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// SchemaOf gives the JSON Schema (2020-12) of a message, made from its type: a
// nil message has no body. What a type can't say (ranges, what goes with what) is
// in docs/protocol.md. Keys that are not named may come with a later version.
func SchemaOf(message any) json.RawMessage {
	s := map[string]any{"type": "null"}
	if message != nil {
		s = schemaOf(reflect.TypeOf(message), 0)
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("the schema of %T: %v", message, err)) // of maps and texts alone
	}
	return b
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	secondsType = reflect.TypeFor[events.Seconds]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	textType    = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType    = reflect.TypeFor[json.Marshaler]()
)

// maxDepth bounds types that hold themselves.
const maxDepth = 12

func schemaOf(t reflect.Type, depth int) map[string]any {
	switch {
	case depth > maxDepth, t == rawType:
		return map[string]any{}
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t == secondsType:
		return map[string]any{"type": []string{"number", "string"}, "description": "seconds, exact"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), depth+1)
	case t.Implements(jsonType) && t.Kind() == reflect.Int64:
		return map[string]any{"type": []string{"number", "string"}, "description": "seconds, exact"}
	case t.Implements(jsonType):
		return map[string]any{} // it writes itself
	case t.Implements(textType):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), depth+1)}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), depth+1)}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		fieldsOf(t, properties, &required, depth)
		out := map[string]any{"type": "object", "properties": properties}
		if len(required) > 0 {
			out["required"] = required
		}
		return out
	default:
		return map[string]any{}
	}
}

// fieldsOf collects the fields of a struct, those of embedded ones included.
func fieldsOf(t reflect.Type, properties map[string]any, required *[]string, depth int) {
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			fieldsOf(f.Type, properties, required, depth)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = schemaOf(f.Type, depth+1)
		if !strings.Contains(opts, "omitempty") && !strings.Contains(opts, "omitzero") {
			*required = append(*required, name)
		}
	}
}
