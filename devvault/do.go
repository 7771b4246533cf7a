package devvault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// StatusError is an answer of the API that is not a success.
type StatusError struct {
	Method, Path string
	Status       int
	Errors       []string
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d: %s", e.Method, e.Path, e.Status, strings.Join(e.Errors, "; "))
}

// Do makes one API call as root, in process: no listener is needed, faults do
// not hit it, and it is not logged. path is below /v1/; body is marshalled to
// JSON, nil sends none. It returns the whole answer (nil where there is no
// body), with numbers as json.Number, or a *StatusError.
func (s *Server) Do(ctx context.Context, method, path string, body any) (map[string]any, error) {
	return s.DoAs(ctx, s.cfg.RootToken, method, path, body)
}

// DoAs is Do with a token of the caller's choice.
func (s *Server) DoAs(ctx context.Context, token secret.String, method, path string, body any) (map[string]any, error) {
	return s.do(ctx, token, 0, method, path, body)
}

// DoWrapped is Do with the answer wrapped for ttl, in whole seconds: it
// returns the wrapping token that sys/wrapping/unwrap gives the answer for,
// once.
func (s *Server) DoWrapped(ctx context.Context, ttl time.Duration, method, path string, body any) (secret.String, error) {
	out, err := s.do(ctx, s.cfg.RootToken, ttl, method, path, body)
	if err != nil {
		return secret.String{}, err
	}
	info, _ := out["wrap_info"].(map[string]any)
	token, _ := info["token"].(string)
	if token == "" {
		return secret.String{}, fmt.Errorf("%s %s answered nothing that could be wrapped", method, path)
	}
	return secret.New(token), nil
}

func (s *Server) do(ctx context.Context, token secret.String, wrapTTL time.Duration, method, path string, body any) (map[string]any, error) {
	var payload bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&payload).Encode(body); err != nil {
			return nil, fmt.Errorf("encoding the body of %s %s: %w", method, path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://devvault/v1/"+strings.TrimPrefix(path, "/"), &payload)
	if err != nil {
		return nil, fmt.Errorf("making the request %s %s: %w", method, path, err)
	}
	r.Header.Set("X-Vault-Token", token.Reveal())
	if wrapTTL > 0 {
		r.Header.Set("X-Vault-Wrap-TTL", wrapHeader(wrapTTL))
	}
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if !s.traffic.enter() {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		s.traffic.active.Done()
		return nil, err
	}
	a := func() answer {
		defer s.traffic.active.Done()
		return s.dispatch(r)
	}()
	var out map[string]any
	if len(a.body) > 0 {
		dec := json.NewDecoder(bytes.NewReader(a.body))
		dec.UseNumber()
		if err := dec.Decode(&out); err != nil {
			return nil, fmt.Errorf("decoding the answer to %s %s: %w", method, path, err)
		}
	}
	if a.status >= http.StatusBadRequest {
		failed := &StatusError{Method: method, Path: path, Status: a.status}
		if errs, ok := out["errors"].([]any); ok {
			for _, e := range errs {
				failed.Errors = append(failed.Errors, fmt.Sprint(e))
			}
		}
		return out, failed
	}
	return out, nil
}
