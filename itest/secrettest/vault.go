package secrettest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Answered takes the secrets out of what a Vault answered: the tokens, and the
// values that are secret by their key, or by the engine they are read from.
func (w *Watch) Answered(path string, body []byte) {
	var a answer
	if json.Unmarshal(body, &a) == nil {
		w.took(path, a)
	}
}

// Audited takes them out of an audit log that a real server wrote in the clear
// (log_raw).
func (w *Watch) Audited(log []byte) {
	for line := range bytes.Lines(log) {
		var entry struct {
			Request  struct{ Path string }
			Response answer
		}
		if json.Unmarshal(line, &entry) == nil {
			w.took(entry.Request.Path, entry.Response)
		}
	}
}

// answer is what may hold secrets of an answer.
type answer struct {
	Data     map[string]any
	Auth     *auth
	WrapInfo *struct{ Token string } `json:"wrap_info"`
}

type auth struct {
	ClientToken string `json:"client_token"`
}

// secretKeys are those of values that are secret wherever they are read.
var secretKeys = map[string]bool{
	"password": true, "private_key": true, "secret_id": true, "token": true, "client_token": true, "secret_key": true,
}

func (w *Watch) took(path string, a answer) {
	if a.Auth != nil {
		w.Secret("a token given out at "+path, a.Auth.ClientToken)
	}
	if a.WrapInfo != nil {
		w.Secret("a wrapping token given out at "+path, a.WrapInfo.Token)
	}
	data, all := a.Data, false
	if inner, ok := data["data"].(map[string]any); ok && data["metadata"] != nil { // KV version 2: every value is one
		data, all = inner, true
	}
	for key, v := range data {
		if all || secretKeys[key] && !strings.HasPrefix(path, "sys/") {
			w.value(fmt.Sprintf("%s of %s", key, path), v)
		}
	}
}

func (w *Watch) value(what string, v any) {
	switch v := v.(type) {
	case string:
		w.Secret(what, v)
	case map[string]any:
		for key, inner := range v {
			w.value(what+"."+key, inner)
		}
	case []any:
		for _, inner := range v {
			w.value(what, inner)
		}
	}
}
