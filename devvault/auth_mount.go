package devvault

import (
	"fmt"
	"maps"
	"strings"
)

func (s *Server) newAuthMount(path, kind string) (*mount, error) {
	m := &mount{path: path, kind: kind, options: map[string]string{}, uuid: randomUUID(), accessor: "auth_" + kind + "_" + strings.ToLower(randomBase62(8))}
	switch kind {
	case "approle":
		m.engine = &appRole{server: s, mount: m, roles: map[string]*appRoleRole{}}
	case "jwt":
		m.engine = &jwtMethod{server: s, mount: m, roles: map[string]*jwtRole{}}
	case "kubernetes":
		m.engine = &kubernetes{server: s, mount: m, roles: map[string]*kubernetesRole{}}
	case "cert":
		m.engine = &certMethod{server: s, mount: m, roles: map[string]*certRole{}}
	case "":
		return nil, badRequest("backend type must be specified as a string")
	default:
		return nil, badRequest(fmt.Sprintf("plugin not found in the catalog: %s", kind))
	}
	return m, nil
}

// authInfo is info of an auth method.
func (m *mount) authInfo() map[string]any {
	data := m.info()
	config := data["config"].(map[string]any)
	config["token_type"] = "default-service"
	return data
}

// authMountAPI serves sys/auth.
func (s *Server) authMountAPI(req *request, path string) (*response, error) {
	if path == "" {
		if req.op != opRead && req.op != opList {
			return nil, unsupportedOperation()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		data := map[string]any{"token/": s.tokenStore.authInfo()}
		for p, m := range s.authMounts {
			data[p] = m.authInfo()
		}
		return &response{data: data, inject: true}, nil
	}
	name, tune := strings.CutSuffix(strings.TrimSuffix(path, "/"), "/tune")
	path = name + "/"
	switch {
	case tune:
		return s.tuneAuthMount(req, path)
	case req.op == opRead:
		s.mu.Lock()
		defer s.mu.Unlock()
		m := s.authMounts[path]
		if m == nil {
			return nil, badRequest("No auth engine at " + path)
		}
		return &response{data: m.authInfo(), inject: true}, nil
	case req.op.write():
		return s.enableAuthMount(req, path)
	case req.op == opDelete:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.disableAuthMount(path)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (s *Server) enableAuthMount(req *request, path string) (*response, error) {
	f := req.fields()
	kind, config, description := f.text("type"), f.object("config"), f.text("description")
	if f.err != nil {
		return nil, f.err
	}
	m, err := s.newAuthMount(path, kind)
	if err != nil {
		return nil, err
	}
	m.description = description
	if m.defaultLease, m.maxLease, err = leaseLimits(config); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := append([]string{"token/"}, mapKeys(s.authMounts)...)
	for _, p := range taken {
		if strings.HasPrefix(path, p) || strings.HasPrefix(p, path) {
			return nil, badRequest("path is already in use at " + p)
		}
	}
	s.authMounts[path] = m
	return nil, nil
}

func mapKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// disableAuthMount takes a method away, with all the tokens it gave. It
// succeeds where there is none. The caller holds s.mu.
func (s *Server) disableAuthMount(path string) {
	m := s.authMounts[path]
	if m == nil {
		return
	}
	delete(s.authMounts, path)
	var ids []string
	for id, t := range s.tokens {
		if t.login != nil && t.login.mount == m {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		s.revokeTree(id)
	}
}

func (s *Server) tuneAuthMount(req *request, path string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.authMounts[path]
	if m == nil {
		return nil, badRequest(fmt.Sprintf("cannot fetch sysview for path %q", "auth/"+path))
	}
	if req.op == opRead {
		return &response{data: map[string]any{
			"default_lease_ttl": int64(m.defaultTTL(s).Seconds()), "max_lease_ttl": int64(m.maxTTL(s).Seconds()),
			"description": m.description, "force_no_cache": false, "token_type": "default-service",
		}, inject: true}, nil
	}
	next := map[string]any{"default_lease_ttl": m.defaultLease, "max_lease_ttl": m.maxLease}
	maps.Copy(next, req.data)
	usual, limit, err := leaseLimits(next)
	if err != nil {
		return nil, err
	}
	m.defaultLease, m.maxLease = usual, limit
	return nil, nil
}
