package devvault

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody is the largest request body that is read, in bytes (OpenBao's own
// default limit).
const maxBody = 32 << 20

type operation string

const (
	opRead   operation = "read"
	opList   operation = "list"
	opCreate operation = "create"
	opUpdate operation = "update"
	opPatch  operation = "patch"
	opDelete operation = "delete"
)

// write tells whether op is a POST or PUT, be it a creation or an update.
func (op operation) write() bool { return op == opCreate || op == opUpdate }

// request is one API call after parsing, on its way through the policy check
// to an engine.
type request struct {
	ctx     context.Context
	id      string
	op      operation
	path    string // below /v1/, with a trailing slash when op is list
	data    map[string]any
	tokenID string
	// wrapTTL is how long the answer may be had for its token; zero answers
	// plainly.
	wrapTTL      time.Duration
	certificates []*x509.Certificate // the client's, its own first
	// wrapping is the wrapping token a call is about. Guarded by Server.mu.
	wrapping *token

	// token is a copy taken when the call was let in; the token itself may be
	// gone by the time the engine runs.
	token token
}

// parseRequest reads method, path, token and body. Its error is an
// *apiError.
func parseRequest(r *http.Request) (*request, error) {
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	if !ok {
		return nil, &apiError{status: http.StatusNotFound}
	}
	req := &request{id: randomUUID(), path: path, data: map[string]any{}, tokenID: tokenOf(r)}
	if r.TLS != nil {
		req.certificates = r.TLS.PeerCertificates
	}
	var err error
	if req.wrapTTL, err = parseWrapTTL(r.Header.Get("X-Vault-Wrap-TTL")); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	fromQuery := func() {
		for k, vs := range query {
			if len(vs) == 1 {
				req.data[k] = vs[0]
			} else if len(vs) > 1 {
				req.data[k] = vs
			}
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		req.op = opRead
		if list := query.Get("list"); list != "" {
			isList, err := strconv.ParseBool(list)
			if err != nil {
				return nil, &apiError{status: http.StatusBadRequest}
			}
			query.Del("list")
			if isList {
				req.op = opList
			}
		}
		fromQuery()
	case "LIST":
		req.op = opList
		fromQuery()
	case http.MethodDelete:
		req.op = opDelete
		fromQuery()
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		req.op = opUpdate
		if r.Method == http.MethodPatch {
			req.op = opPatch
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/merge-patch+json") {
				return nil, &apiError{status: http.StatusUnsupportedMediaType, message: "PATCH requires Content-Type of application/merge-patch+json, provided " + r.Header.Get("Content-Type")}
			}
		}
		if err := req.readBody(r.Body); err != nil {
			return nil, err
		}
	default:
		return nil, &apiError{status: http.StatusMethodNotAllowed}
	}
	if req.op == opList && !strings.HasSuffix(req.path, "/") {
		req.path += "/"
	}
	return req, nil
}

func (req *request) readBody(body io.Reader) error {
	if body == nil {
		return nil
	}
	dec := json.NewDecoder(io.LimitReader(body, maxBody+1))
	dec.UseNumber()
	var data map[string]any
	if err := dec.Decode(&data); err != nil && !errors.Is(err, io.EOF) {
		if dec.InputOffset() >= maxBody {
			return &apiError{status: http.StatusRequestEntityTooLarge, message: "http: request body too large"}
		}
		// The decoder's own text quotes at most a character of the body, but
		// a body holds secrets: it is not repeated.
		return &apiError{status: http.StatusBadRequest, message: "failed to decode JSON input"}
	}
	if data != nil {
		req.data = data
	}
	return nil
}

func tokenOf(r *http.Request) string {
	if t := r.Header.Get("X-Vault-Token"); t != "" {
		return t
	}
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(t)
	}
	return ""
}

// has tells whether the call carries field.
func (req *request) has(field string) bool {
	v, ok := req.data[field]
	return ok && v != nil
}

// fields reads typed values out of a request and remembers the first that
// cannot be read.
type fields struct {
	req *request
	err error
}

func (req *request) fields() *fields { return &fields{req: req} }

func (f *fields) fail(name, why string) {
	if f.err == nil {
		f.err = badRequest(fmt.Sprintf("Field validation failed: error converting input for field %q: %s", name, why))
	}
}

func (f *fields) text(name string) string {
	switch v := f.req.data[name].(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	f.fail(name, "expected a string")
	return ""
}

func (f *fields) boolean(name string, otherwise bool) bool {
	switch v := f.req.data[name].(type) {
	case nil:
		return otherwise
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b
		}
	case json.Number:
		return v.String() != "0"
	}
	f.fail(name, "expected a boolean")
	return otherwise
}

func (f *fields) integer(name string) int {
	switch v := f.req.data[name].(type) {
	case nil:
		return 0
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
	}
	f.fail(name, "expected an integer")
	return 0
}

func (f *fields) seconds(name string) time.Duration {
	d, err := parseSeconds(f.req.data[name])
	if err != nil {
		f.fail(name, errNotADuration.Error())
	}
	return d
}

// list reads a JSON array of strings, or one string. When commas is set, a
// string is split at them.
func (f *fields) list(name string, commas bool) []string {
	switch v := f.req.data[name].(type) {
	case nil:
		return nil
	case []string:
		return v
	case json.Number:
		return []string{v.String()}
	case string:
		if v == "" {
			return nil
		}
		if !commas {
			return []string{v}
		}
		parts := strings.Split(v, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return parts
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if n, isNumber := e.(json.Number); isNumber {
				s, ok = n.String(), true
			}
			if !ok {
				f.fail(name, "expected a list of strings")
				return nil
			}
			out = append(out, s)
		}
		return out
	}
	f.fail(name, "expected a list of strings")
	return nil
}

func (f *fields) integers(name string) []int {
	var out []int
	for _, s := range f.list(name, true) {
		n, err := strconv.Atoi(s)
		if err != nil {
			f.fail(name, "expected a list of integers")
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (f *fields) object(name string) map[string]any {
	switch v := f.req.data[name].(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	}
	f.fail(name, "expected a map")
	return nil
}

func (f *fields) textMap(name string) map[string]string {
	raw := f.object(name)
	if raw == nil {
		return nil
	}
	out := make(map[string]string, len(raw))
	for k, v := range raw {
		switch v := v.(type) {
		case string:
			out[k] = v
		case json.Number:
			out[k] = v.String()
		case bool:
			out[k] = strconv.FormatBool(v)
		default:
			f.fail(name, "expected a map of strings")
		}
	}
	return out
}
