package devvault

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// engine serves what lies below a mount.
type engine interface {
	// handle serves one call; sub is the path below the mount.
	handle(req *request, sub string) (*response, error)
	// exists tells whether a write to sub would be an update rather than a
	// creation. The caller holds s.mu.
	exists(sub string) bool
}

// mount is a secrets engine, or an auth method, at a path.
type mount struct {
	path, kind, description string // path ends in a slash
	options                 map[string]string
	uuid, accessor          string
	defaultLease, maxLease  time.Duration // zero: the server's
	fixed                   bool          // it cannot be unmounted

	engine engine
}

func (m *mount) defaultTTL(s *Server) time.Duration {
	return min(firstPositive(m.defaultLease, s.cfg.DefaultLeaseTTL), m.maxTTL(s))
}

func (m *mount) maxTTL(s *Server) time.Duration { return firstPositive(m.maxLease, s.cfg.MaxLeaseTTL) }

func (s *Server) newMount(path, kind string, options map[string]string) (*mount, error) {
	switch kind {
	case "kv-v1", "kv-v2":
		options["version"] = strings.TrimPrefix(kind, "kv-v")
		kind = "kv"
	}
	m := &mount{path: path, kind: kind, options: options, uuid: randomUUID(), accessor: kind + "_" + strings.ToLower(randomBase62(8))}
	switch {
	case kind == "database":
		if options["version"] != "" {
			return nil, badRequest(`secrets engine "database" does not allow setting a version`)
		}
		m.engine = &database{server: s, mount: m, configs: map[string]*databaseConfig{}, roles: map[string]*databaseRole{}, static: map[string]*staticRole{}}
	case kind == "kv" && options["version"] == "2":
		m.engine = &kv2{server: s, secrets: map[string]*kv2Secret{}}
	case kind == "kv" || kind == "generic":
		m.engine = &kv1{server: s, mount: m, secrets: map[string]map[string]any{}}
	case kind == "rabbitmq":
		m.engine = &rabbitmq{server: s, mount: m, roles: map[string]*rabbitRole{}}
	case kind == "pki":
		m.engine = &pki{server: s, mount: m, roles: map[string]*pkiRole{}, certificates: map[string]*pkiCertificate{}}
	case kind == "":
		return nil, badRequest("backend type must be specified as a string")
	default:
		return nil, badRequest(fmt.Sprintf("plugin not found in the catalog: %s", kind))
	}
	return m, nil
}

// fixedMounts are listed as every server lists them; what they hold is served
// elsewhere, or not at all.
func fixedMounts() []*mount {
	var out []*mount
	for _, m := range []mount{
		{path: "sys/", kind: "system", description: "system endpoints used for control, policy and debugging"},
		{path: "identity/", kind: "identity", description: "identity store"},
		{path: "cubbyhole/", kind: "cubbyhole", description: "per-token private secret storage"},
	} {
		m.uuid, m.accessor, m.fixed = randomUUID(), m.kind+"_"+strings.ToLower(randomBase62(8)), true
		out = append(out, &m)
	}
	return out
}

// tokenMount is what serves auth/token/, as it is listed.
func tokenMount() *mount {
	return &mount{path: "token/", kind: "token", description: "token based credentials", uuid: randomUUID(), accessor: "auth_token_" + strings.ToLower(randomBase62(8)), fixed: true}
}

func (m *mount) info() map[string]any {
	var options any
	if m.options != nil {
		options = m.options
	}
	data := map[string]any{
		"type": m.kind, "description": m.description, "accessor": m.accessor, "uuid": m.uuid, "options": options,
		"local": false, "seal_wrap": false, "external_entropy_access": false,
		"plugin_version": "", "running_plugin_version": "v0.0.0+builtin.bao", "running_sha256": "",
		"config": map[string]any{
			"default_lease_ttl": int64(m.defaultLease.Seconds()), "max_lease_ttl": int64(m.maxLease.Seconds()), "force_no_cache": false,
		},
	}
	if m.kind == "cubbyhole" {
		data["local"] = true
	}
	if !m.fixed {
		data["deprecation_status"] = "supported"
	}
	return data
}

// mountAPI serves sys/mounts.
func (s *Server) mountAPI(req *request, path string) (*response, error) {
	if path == "" {
		if req.op != opRead && req.op != opList {
			return nil, unsupportedOperation()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		data := map[string]any{}
		for _, m := range s.fixtures {
			data[m.path] = m.info()
		}
		for p, m := range s.mounts {
			data[p] = m.info()
		}
		return &response{data: data, inject: true}, nil
	}
	name, tune := strings.CutSuffix(strings.TrimSuffix(path, "/"), "/tune")
	path = name + "/"
	switch {
	case tune:
		return s.tuneMount(req, path)
	case req.op == opRead:
		s.mu.Lock()
		defer s.mu.Unlock()
		m := s.mounts[path]
		if m == nil {
			return nil, badRequest("No secret engine mount at " + path)
		}
		return &response{data: m.info(), inject: true}, nil
	case req.op.write():
		return s.enableMount(req, path)
	case req.op == opDelete:
		return s.disableMount(req.ctx, path)
	}
	return nil, unsupportedOperation()
}

func (s *Server) enableMount(req *request, path string) (*response, error) {
	f := req.fields()
	kind, options, config := f.text("type"), f.textMap("options"), f.object("config")
	if options == nil {
		options = map[string]string{}
	}
	if f.err != nil {
		return nil, f.err
	}
	m, err := s.newMount(path, kind, options)
	if err != nil {
		return nil, err
	}
	m.description = f.text("description")
	if m.defaultLease, m.maxLease, err = leaseLimits(config); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.mounts {
		if p == path || strings.HasPrefix(path, p) || strings.HasPrefix(p, path) {
			return nil, &apiError{status: http.StatusBadRequest, message: "path is already in use at " + p}
		}
	}
	s.mounts[path] = m
	return nil, nil
}

func leaseLimits(config map[string]any) (usual, limit time.Duration, err error) {
	for field, at := range map[string]*time.Duration{"default_lease_ttl": &usual, "max_lease_ttl": &limit} {
		if v := config[field]; v != "system" {
			if *at, err = parseSeconds(v); err != nil {
				return 0, 0, badRequest(fmt.Sprintf("unable to parse %s: %s", field, err))
			}
		}
	}
	if limit != 0 && usual > limit {
		return 0, 0, badRequest("given default lease TTL greater than given max lease TTL")
	}
	return usual, limit, nil
}

func (s *Server) tuneMount(req *request, path string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mounts[path]
	if m == nil {
		return nil, badRequest("no mount entry found")
	}
	if req.op == opRead {
		data := map[string]any{
			"default_lease_ttl": int64(m.defaultTTL(s).Seconds()), "max_lease_ttl": int64(m.maxTTL(s).Seconds()),
			"description": m.description, "force_no_cache": false,
		}
		if len(m.options) > 0 {
			data["options"] = m.options
		}
		return &response{data: data, inject: true}, nil
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

// disableMount revokes the leases of a mount and takes it away. It succeeds
// where there is none.
func (s *Server) disableMount(ctx context.Context, path string) (*response, error) {
	s.mu.Lock()
	m := s.mounts[path]
	ids := s.leaseIDs(path)
	s.mu.Unlock()
	if m == nil {
		return nil, nil
	}
	for _, id := range ids {
		s.mu.Lock()
		l := s.leases[id]
		s.mu.Unlock()
		if l == nil {
			continue
		}
		if err := s.dropLease(ctx, l, false); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mounts, path)
	return nil, nil
}

// mountOf finds the mount that serves path and what is left below it. The
// caller holds s.mu.
func (s *Server) mountOf(path string) (*mount, string) {
	for p, m := range s.mounts {
		if below, ok := strings.CutPrefix(path, p); ok {
			return m, below
		}
	}
	return nil, ""
}
