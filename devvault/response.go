package devvault

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// response is what an engine answers; nil means 204 without a body (404 for
// a read or a list).
type response struct {
	status   int // 0 is 200
	lease    *leaseAnswer
	data     map[string]any
	warnings []string
	auth     *authAnswer
	// inject repeats the data at the top level, as some old sys routes do.
	inject bool
	// raw is answered as it is, in place of all else.
	raw *rawBody
	// wrappedAccessor is told when the answer is wrapped: the accessor of what
	// is in it.
	wrappedAccessor string
}

type rawBody struct {
	contentType string
	body        []byte
}

type leaseAnswer struct {
	id        string
	renewable bool
	ttl       time.Duration
}

type authAnswer struct {
	ClientToken    string            `json:"client_token"`
	Accessor       string            `json:"accessor"`
	Policies       []string          `json:"policies"`
	TokenPolicies  []string          `json:"token_policies,omitempty"`
	Metadata       map[string]string `json:"metadata"`
	LeaseDuration  int64             `json:"lease_duration"`
	Renewable      bool              `json:"renewable"`
	EntityID       string            `json:"entity_id"`
	TokenType      string            `json:"token_type"`
	Orphan         bool              `json:"orphan"`
	MFARequirement any               `json:"mfa_requirement"`
	NumUses        int               `json:"num_uses"`
}

// apiError is an answer that is not a success. An empty message answers
// {"errors":[]}.
type apiError struct {
	status  int
	message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%d %s", e.status, e.message)
}

// badRequest is an error the engine answers as plain text with 400.
func badRequest(message string) error {
	return &apiError{status: http.StatusBadRequest, message: message}
}

// listed is an error that reaches the client through the list of errors that
// the server collects on a call's way.
func listed(status int, message string) *apiError {
	return &apiError{status: status, message: "1 error occurred:\n\t* " + message + "\n\n"}
}

func unsupportedPath() error { return listed(http.StatusNotFound, "unsupported path") }

func unsupportedOperation() error {
	return listed(http.StatusMethodNotAllowed, "unsupported operation")
}

// answer is a finished HTTP answer.
type answer struct {
	status      int
	body        []byte
	contentType string // empty is JSON
}

func (s *Server) render(req *request, resp *response, err error) answer {
	if err != nil {
		return renderError(err)
	}
	if resp == nil {
		if req.op == opRead || req.op == opList {
			return renderError(&apiError{status: http.StatusNotFound})
		}
		return answer{status: http.StatusNoContent}
	}
	if resp.raw != nil {
		return answer{status: max(resp.status, http.StatusOK), body: resp.raw.body, contentType: resp.raw.contentType}
	}
	if req.op == opList && len(resp.warnings) == 0 && resp.status == 0 {
		if keys, ok := resp.data["keys"].([]string); !ok && len(resp.data) == 0 || ok && len(keys) == 0 {
			return renderError(&apiError{status: http.StatusNotFound})
		}
	}
	if resp.status == http.StatusAccepted {
		return answer{status: resp.status}
	}
	body := map[string]any{}
	if resp.inject {
		maps.Copy(body, resp.data)
	}
	body["request_id"] = req.id
	body["lease_id"] = ""
	body["renewable"] = false
	body["lease_duration"] = 0
	if l := resp.lease; l != nil {
		body["lease_id"], body["renewable"], body["lease_duration"] = l.id, l.renewable, int64(l.ttl.Seconds())
	}
	body["data"] = nil
	if resp.data != nil {
		body["data"] = resp.data
	}
	body["wrap_info"] = nil
	body["warnings"] = resp.warnings
	body["auth"] = resp.auth
	status := resp.status
	if status == 0 {
		status = http.StatusOK
	}
	return answer{status: status, body: encode(body)}
}

func renderError(err error) answer {
	var e *apiError
	if !errors.As(err, &e) {
		e = listed(http.StatusInternalServerError, err.Error())
	}
	errs := []string{}
	if e.message != "" {
		errs = append(errs, e.message)
	}
	return answer{status: e.status, body: encode(map[string]any{"errors": errs})}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		// Only values of our own making get here: a failure is a bug.
		panic("devvault: encoding an answer: " + err.Error())
	}
	return append(b, '\n')
}

// keysOf answers a list.
func keysOf(keys []string) *response {
	slices.Sort(keys)
	return &response{data: map[string]any{"keys": keys}}
}
