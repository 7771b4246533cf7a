package devvault

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wrapped is an answer that waits for who has its token.
type wrapped struct {
	body    []byte
	path    string // what was asked
	created time.Time
	ttl     time.Duration
}

// wrappingRules is what a wrapping token may do, once.
var wrappingRules = []rule{
	{path: "cubbyhole/response", caps: capCreate | capRead},
	{path: "sys/wrapping/unwrap", caps: capUpdate},
}

// parseWrapTTL reads the header X-Vault-Wrap-TTL: seconds, or a duration.
func parseWrapTTL(header string) (time.Duration, error) {
	if header == "" {
		return 0, nil
	}
	ttl, err := parseSeconds(header)
	if err == nil && ttl < 0 {
		err = errors.New("requested wrap ttl cannot be negative")
	}
	if err != nil {
		return 0, badRequest("error parsing X-Vault-Wrap-TTL header: " + err.Error())
	}
	return ttl, nil
}

// wrap keeps an answer back and answers the token it can be had for, once.
func (s *Server) wrap(req *request, resp *response, body []byte) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &wrapped{body: body, path: req.path, created: s.now(), ttl: req.wrapTTL}
	info := s.wrapAnew(req.path, w)
	switch {
	case resp.auth != nil && resp.auth.Accessor != "":
		info["wrapped_accessor"] = resp.auth.Accessor
	case resp.wrappedAccessor != "":
		info["wrapped_accessor"] = resp.wrappedAccessor
	}
	return answer{status: http.StatusOK, body: wrapBody(info)}
}

// wrapAnew makes the token for w. The caller holds s.mu.
func (s *Server) wrapAnew(path string, w *wrapped) map[string]any {
	now := s.now()
	t := &token{
		policies: []string{"response-wrapping"}, path: path, uses: 1, wrapped: w,
		creationTTL: w.ttl, granted: w.ttl, explicitMax: w.ttl, created: now, issued: now, expires: now.Add(w.ttl),
	}
	s.addToken(t)
	return map[string]any{
		"token": t.id.Reveal(), "accessor": t.accessor, "ttl": int64(w.ttl.Seconds()), "creation_time": now, "creation_path": w.path,
	}
}

func wrapBody(info map[string]any) []byte {
	return encode(map[string]any{
		"request_id": "", "lease_id": "", "renewable": false, "lease_duration": 0, "data": nil, "warnings": nil, "auth": nil, "wrap_info": info,
	})
}

// wrappingToken finds the wrapping token that a call under sys/wrapping/ is
// about, and makes it the caller's where there is no other.
func (s *Server) wrappingToken(req *request) (*token, error) {
	f := req.fields()
	id := f.text("token")
	if f.err != nil {
		return nil, f.err
	}
	if id == "" {
		id = req.tokenID
	}
	if id == "" {
		return nil, &apiError{status: http.StatusForbidden, message: "error validating wrapping token: token is empty"}
	}
	t := s.liveToken(id)
	if t == nil || t.wrapped == nil || t.uses == usesPending {
		return nil, noWrappingToken()
	}
	if req.tokenID == "" {
		req.tokenID = id
	}
	req.wrapping = t
	return t, nil
}

func noWrappingToken() error { return badRequest("wrapping token is not valid or does not exist") }

// isUnwrapping tells whether path is one that is about a wrapping token.
func isUnwrapping(path string) bool {
	sub, ok := strings.CutPrefix(path, "sys/wrapping/")
	return ok && slices.Contains([]string{"lookup", "unwrap", "rewrap"}, sub)
}

// wrappingAPI serves sys/wrapping/.
func (s *Server) wrappingAPI(req *request, sub string) (*response, error) {
	if sub == "wrap" && req.op.write() {
		if req.wrapTTL == 0 {
			return nil, badRequest("endpoint requires response wrapping to be used")
		}
		return &response{data: req.data}, nil
	}
	w := req.wrapping
	if w == nil {
		return nil, unsupportedPath()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[w.id.Reveal()] != w { // somebody else was faster
		return nil, noWrappingToken()
	}
	switch {
	case sub == "lookup" && (req.op.write() || req.op == opRead):
		return &response{data: map[string]any{
			"creation_path": w.wrapped.path, "creation_time": w.wrapped.created, "creation_ttl": int64(w.wrapped.ttl.Seconds()),
		}}, nil
	case sub == "unwrap" && req.op.write():
		s.revokeTree(w.id.Reveal())
		return &response{raw: &rawBody{contentType: "application/json", body: w.wrapped.body}}, nil
	case sub == "rewrap" && req.op.write():
		s.revokeTree(w.id.Reveal())
		again := *w.wrapped
		again.created = s.now()
		return &response{raw: &rawBody{contentType: "application/json", body: wrapBody(s.wrapAnew(req.path, &again))}}, nil
	}
	return nil, unsupportedOperation()
}

// wrapHeader is the header that asks for ttl.
func wrapHeader(ttl time.Duration) string { return strconv.FormatInt(int64(ttl.Seconds()), 10) }
