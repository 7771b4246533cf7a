package devvault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// ServiceAccount is who a Kubernetes service account token is of.
type ServiceAccount struct {
	Namespace, Name, UID string
	Audiences            []string
	// Expires is when the token ends; zero is never.
	Expires time.Time
}

// TrustServiceAccount makes the Kubernetes methods know a service account
// token, or know it anew: it stands in for the cluster that is asked. The
// token can be any text; its claims are not looked at.
func (s *Server) TrustServiceAccount(jwt secret.String, account ServiceAccount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serviceAccounts[jwt.Reveal()] = account
}

// DistrustServiceAccount makes them forget it.
func (s *Server) DistrustServiceAccount(jwt secret.String) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.serviceAccounts, jwt.Reveal())
}

// kubernetes is a Kubernetes method. Its state is guarded by Server.mu.
type kubernetes struct {
	server *Server
	mount  *mount
	host   string // of the configuration; empty is none
	config map[string]any
	roles  map[string]*kubernetesRole
}

// kubernetesRole is what auth/kubernetes/role/:name keeps.
type kubernetesRole struct {
	params            tokenParams
	names, namespaces []string
	audience          string
}

func (k *kubernetes) open(sub string) bool { return sub == "login" }

func (k *kubernetes) exists(sub string) bool {
	name, ok := strings.CutPrefix(sub, "role/")
	return !ok || k.roles[strings.ToLower(name)] != nil
}

func (k *kubernetes) renewal(t *token, _ *request) (tokenParams, error) {
	role := k.roles[t.login.role]
	if role == nil {
		return tokenParams{}, roleGone(t.login.role)
	}
	return role.params, nil
}

func (k *kubernetes) handle(req *request, sub string) (*response, error) {
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	sub = strings.TrimSuffix(sub, "/")
	name, isRole := strings.CutPrefix(sub, "role/")
	switch {
	case sub == "login" && req.op.write():
		return k.logIn(req)
	case sub == "config":
		return k.configAPI(req)
	case sub == "role" && (req.op == opList || req.op == opRead):
		return keysOf(mapKeys(k.roles)), nil
	case isRole:
		return k.roleAPI(req, strings.ToLower(name))
	case sub == "login" || sub == "role":
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

func (k *kubernetes) configAPI(req *request) (*response, error) {
	switch {
	case req.op == opRead:
		if k.host == "" {
			return nil, nil
		}
		return &response{data: k.config}, nil
	case req.op.write():
		f := req.fields()
		host, ca, reviewer := f.text("kubernetes_host"), f.text("kubernetes_ca_cert"), f.text("token_reviewer_jwt")
		noLocal := f.boolean("disable_local_ca_jwt", false)
		switch {
		case f.err != nil:
			return nil, f.err
		case host == "":
			return nil, badRequest("no host provided")
		case noLocal && ca == "":
			return nil, badRequest("kubernetes_ca_cert must be given when disable_local_ca_jwt is true")
		}
		k.host = host
		k.config = map[string]any{
			"kubernetes_host": host, "kubernetes_ca_cert": ca, "token_reviewer_jwt_set": reviewer != "", "disable_local_ca_jwt": noLocal,
			"disable_iss_validation": true, "issuer": "", "pem_keys": []string{},
		}
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (k *kubernetes) roleAPI(req *request, name string) (*response, error) {
	role := k.roles[name]
	switch {
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		data := map[string]any{
			"bound_service_account_names": role.names, "bound_service_account_namespaces": orEmpty(role.namespaces),
			"bound_service_account_namespace_selector": "", "alias_name_source": "serviceaccount_uid",
		}
		if role.audience != "" {
			data["audience"] = role.audience
		}
		role.params.fill(data)
		return &response{data: data}, nil
	case req.op.write():
		return k.writeRole(req, name)
	case req.op == opDelete:
		delete(k.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (k *kubernetes) writeRole(req *request, name string) (*response, error) {
	var next kubernetesRole
	if before := k.roles[name]; before != nil {
		next = *before
	}
	f := req.fields()
	for field, at := range map[string]*[]string{"bound_service_account_names": &next.names, "bound_service_account_namespaces": &next.namespaces} {
		if req.has(field) {
			*at = f.list(field, true)
		}
	}
	if req.has("audience") {
		next.audience = f.text("audience")
	}
	if f.err != nil {
		return nil, f.err
	}
	if err := next.params.update(req, "policies", "ttl", "max_ttl", "period", "num_uses"); err != nil {
		return nil, err
	}
	switch {
	case len(next.names) == 0:
		return nil, badRequest(`"bound_service_account_names" can not be empty`)
	case len(next.namespaces) == 0:
		return nil, badRequest(`"bound_service_account_namespaces" can not be empty if "bound_service_account_namespace_selector" is not set`)
	case len(next.names) > 1 && slices.Contains(next.names, "*"), len(next.namespaces) > 1 && slices.Contains(next.namespaces, "*"):
		return nil, badRequest(`can not mix "*" with values`)
	}
	k.roles[name] = &next
	return nil, nil
}

func (k *kubernetes) logIn(req *request) (*response, error) {
	f := req.fields()
	name, jwt := f.text("role"), f.text("jwt")
	role := k.roles[strings.ToLower(name)]
	refused := func(message string) error { return &apiError{status: http.StatusForbidden, message: message} }
	switch {
	case f.err != nil:
		return nil, f.err
	case name == "":
		return nil, badRequest("missing role")
	case role == nil:
		return nil, badRequest(fmt.Sprintf("invalid role name %q", name))
	case jwt == "":
		return nil, badRequest("missing jwt")
	case k.host == "":
		return nil, &apiError{status: http.StatusInternalServerError, message: "could not load backend configuration"}
	}
	account, known := k.server.serviceAccounts[jwt]
	switch {
	case !known:
		return nil, refused("permission denied")
	case !account.Expires.IsZero() && k.server.now().Add(-clockSkew).After(account.Expires):
		return nil, refused("invalid expiration time (exp) claim: token is expired")
	case role.audience != "" && !slices.Contains(account.Audiences, role.audience):
		return nil, refused("invalid audience (aud) claim: audience claim does not match any expected audience")
	case !globbed(role.names, account.Name):
		return nil, refused("service account name not authorized")
	case !globbed(role.namespaces, account.Namespace):
		return nil, refused("namespace not authorized")
	}
	return k.server.logIn(req, role.params, identity{
		login: login{mount: k.mount, role: strings.ToLower(name)}, display: account.Namespace + "-" + account.Name,
		meta: map[string]string{
			"role": name, "service_account_name": account.Name, "service_account_namespace": account.Namespace,
			"service_account_uid": account.UID, "service_account_secret_name": "",
		},
	})
}
