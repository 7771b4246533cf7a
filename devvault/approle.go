package devvault

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// appRole is an AppRole method. Its state is guarded by Server.mu. Names of
// roles are in lower case.
type appRole struct {
	server *Server
	mount  *mount
	roles  map[string]*appRoleRole
}

// appRoleRole is what auth/approle/role/:name keeps.
type appRoleRole struct {
	name         string
	params       tokenParams
	roleID       string
	bindSecretID bool
	secretIDUses int // 0 is unlimited
	secretIDTTL  time.Duration
	boundCIDRs   []string // kept and read back, nothing more
	secretIDs    map[string]*secretID
}

func (a *appRole) open(sub string) bool { return sub == "login" }

func (a *appRole) exists(sub string) bool {
	if name, ok := strings.CutPrefix(sub, "role/"); ok && !strings.Contains(name, "/") {
		return a.roles[strings.ToLower(name)] != nil
	}
	return true
}

func (a *appRole) renewal(t *token, _ *request) (tokenParams, error) {
	role := a.roles[t.login.role]
	if role == nil {
		return tokenParams{}, roleGone(t.login.role)
	}
	return role.params, nil
}

func (a *appRole) handle(req *request, sub string) (*response, error) {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	sub = strings.TrimSuffix(sub, "/")
	if sub == "login" {
		return a.logIn(req)
	}
	rest, ok := strings.CutPrefix(sub+"/", "role/")
	if !ok {
		return nil, unsupportedPath()
	}
	name, below, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	name = strings.ToLower(name)
	role := a.roles[name]
	switch {
	case name == "" && (req.op == opList || req.op == opRead):
		return keysOf(mapKeys(a.roles)), nil
	case below == "":
		return a.roleAPI(req, name)
	case below == "role-id":
		return a.roleIDAPI(req, role)
	}
	return a.secretIDAPI(req, name, below)
}

func (a *appRole) roleAPI(req *request, name string) (*response, error) {
	role := a.roles[name]
	switch {
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		data := map[string]any{
			"bind_secret_id": role.bindSecretID, "local_secret_ids": false, "secret_id_bound_cidrs": nil,
			"secret_id_num_uses": role.secretIDUses, "secret_id_ttl": int64(role.secretIDTTL.Seconds()),
		}
		if role.boundCIDRs != nil {
			data["secret_id_bound_cidrs"] = role.boundCIDRs
		}
		role.params.fill(data)
		return &response{data: data}, nil
	case req.op.write():
		return a.writeRole(req, name)
	case req.op == opDelete:
		delete(a.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (a *appRole) writeRole(req *request, name string) (*response, error) {
	next := appRoleRole{name: name, bindSecretID: true, roleID: randomUUID(), secretIDs: map[string]*secretID{}}
	if before := a.roles[name]; before != nil {
		next = *before
	}
	f := req.fields()
	next.bindSecretID = f.boolean("bind_secret_id", next.bindSecretID)
	if req.has("secret_id_num_uses") {
		if next.secretIDUses = f.integer("secret_id_num_uses"); next.secretIDUses < 0 {
			return nil, badRequest("secret_id_num_uses cannot be negative")
		}
	}
	if req.has("secret_id_ttl") {
		next.secretIDTTL = f.seconds("secret_id_ttl")
	}
	if req.has("secret_id_bound_cidrs") {
		next.boundCIDRs = f.list("secret_id_bound_cidrs", true)
	}
	if req.has("role_id") {
		next.roleID = f.text("role_id")
	}
	if f.err != nil {
		return nil, f.err
	}
	if err := next.params.update(req, "policies", "period"); err != nil {
		return nil, err
	}
	if !next.bindSecretID && len(next.boundCIDRs)+len(next.params.boundCIDRs) == 0 {
		return nil, listed(http.StatusInternalServerError, "at least one constraint should be enabled on the role")
	}
	if other := a.byRoleID(next.roleID); other != nil && other.name != name {
		return nil, listed(http.StatusInternalServerError, "role_id already in use")
	}
	a.roles[name] = &next
	return nil, nil
}

func (a *appRole) byRoleID(id string) *appRoleRole {
	for _, role := range a.roles {
		if role.roleID == id {
			return role
		}
	}
	return nil
}

func (a *appRole) roleIDAPI(req *request, role *appRoleRole) (*response, error) {
	switch {
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		return &response{data: map[string]any{"role_id": role.roleID}}, nil
	case req.op.write():
		if role == nil {
			return nil, unsupportedPath()
		}
		id := req.fields().text("role_id")
		if id == "" {
			return nil, badRequest("missing role_id")
		}
		if other := a.byRoleID(id); other != nil && other != role {
			return nil, listed(http.StatusInternalServerError, "role_id already in use")
		}
		role.roleID = id
		return nil, nil
	}
	return nil, unsupportedOperation()
}

// logIn uses up one use of the secret id, and the secret id with its last.
func (a *appRole) logIn(req *request) (*response, error) {
	f := req.fields()
	roleID, id := f.text("role_id"), f.text("secret_id")
	if f.err != nil {
		return nil, f.err
	}
	if roleID == "" {
		return nil, &apiError{status: http.StatusInternalServerError, message: "missing role_id"}
	}
	if !req.op.write() {
		return nil, unsupportedOperation()
	}
	role := a.byRoleID(roleID)
	if role == nil {
		return nil, badRequest("invalid role or secret ID")
	}
	meta := map[string]string{}
	if role.bindSecretID {
		if id == "" {
			return nil, badRequest("missing secret_id")
		}
		secret := role.live(id, a.server.now())
		if secret == nil {
			return nil, badRequest("invalid role or secret ID")
		}
		switch {
		case secret.uses == 1:
			delete(role.secretIDs, id)
		case secret.uses > 1:
			secret.uses--
			secret.updated = a.server.now()
		}
		for k, v := range secret.meta {
			meta[k] = v
		}
	}
	meta["role_name"] = role.name
	return a.server.logIn(req, role.params, identity{login: login{mount: a.mount, role: role.name}, meta: meta})
}

func noSuchRole(status int, name string) error {
	message := fmt.Sprintf("role %q does not exist", name)
	if status == http.StatusInternalServerError {
		return listed(status, message)
	}
	return &apiError{status: status, message: message}
}
