package devvault

import (
	"net/http"
	"strconv"
	"strings"
)

// version is what the server says it is. The suffix tells it from a real one.
const version = "2.6.0-devvault"

// systemAPI serves sys/.
func (s *Server) systemAPI(req *request, sub string) (*response, error) {
	head, rest, _ := strings.Cut(sub, "/")
	switch head {
	case "leases":
		return s.leaseAPI(req, rest)
	case "renew", "revoke", "revoke-prefix", "revoke-force":
		return s.leaseAPI(req, strings.TrimSuffix(sub, "/"))
	case "mounts":
		return s.mountAPI(req, strings.TrimSuffix(rest, "/"))
	case "auth":
		return s.authMountAPI(req, strings.TrimSuffix(rest, "/"))
	case "wrapping":
		return s.wrappingAPI(req, strings.TrimSuffix(rest, "/"))
	case "policy":
		return s.policyAPI(req, strings.TrimSuffix(rest, "/"), true)
	case "policies":
		if name, ok := strings.CutPrefix(rest, "acl"); ok {
			return s.policyAPI(req, strings.Trim(name, "/"), false)
		}
	case "capabilities-self":
		return s.capabilitiesAPI(req)
	case "seal":
		if req.op.write() {
			s.Seal()
			return nil, nil
		}
	}
	return nil, unsupportedPath()
}

// health answers sys/health: the status code is the answer, and the caller
// may choose which.
func (s *Server) health(r *http.Request) answer {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return renderError(&apiError{status: http.StatusMethodNotAllowed})
	}
	query := r.URL.Query()
	codes := map[string]int{"activecode": http.StatusOK, "sealedcode": http.StatusServiceUnavailable, "standbycode": http.StatusTooManyRequests, "uninitcode": http.StatusNotImplemented}
	for name := range codes {
		if v := query.Get(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 100 || n > 999 {
				return renderError(&apiError{status: http.StatusBadRequest})
			}
			codes[name] = n
		}
	}
	if v := query.Get("standbyok"); v != "" {
		if _, err := strconv.ParseBool(v); err != nil {
			return renderError(&apiError{status: http.StatusBadRequest})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{
		"initialized": true, "sealed": s.sealed, "standby": false, "replication_performance_mode": "disabled", "replication_dr_mode": "disabled",
		"server_time_utc": s.now().UTC().Unix(), "version": version,
	}
	status := codes["activecode"]
	if s.sealed {
		// A sealed server does not know its mode nor its cluster.
		body["replication_performance_mode"], body["replication_dr_mode"] = "unknown", "unknown"
		status = codes["sealedcode"]
	} else {
		body["cluster_name"], body["cluster_id"] = s.clusterN, s.cluster
	}
	return answer{status: status, body: encode(body)}
}

func (s *Server) sealStatus() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{
		"type": "shamir", "initialized": true, "sealed": s.sealed, "t": 1, "n": 1, "progress": 0, "nonce": "", "version": version,
		"commit_date": "", "migration": false, "recovery_seal": false, "storage_type": "inmem",
	}
	if !s.sealed {
		body["cluster_name"], body["cluster_id"] = s.clusterN, s.cluster
	}
	return answer{status: http.StatusOK, body: encode(body)}
}
