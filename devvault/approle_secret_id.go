package devvault

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// secretID is one secret id of an AppRole role.
type secretID struct {
	id                        secret.String
	accessor                  string
	uses                      int // left; 0 is unlimited
	ttl                       time.Duration
	created, updated, expires time.Time // expires is zero: never
	meta                      map[string]string
}

// live finds a secret id that has not expired; one that has goes.
func (r *appRoleRole) live(id string, now time.Time) *secretID {
	found := r.secretIDs[id]
	if found != nil && !found.expires.IsZero() && !found.expires.After(now) {
		delete(r.secretIDs, id)
		return nil
	}
	return found
}

func (r *appRoleRole) byAccessor(accessor string, now time.Time) *secretID {
	for id := range r.secretIDs {
		if found := r.live(id, now); found != nil && found.accessor == accessor {
			return found
		}
	}
	return nil
}

func (i *secretID) fields() map[string]any {
	data := map[string]any{
		"secret_id_accessor": i.accessor, "secret_id_num_uses": i.uses, "secret_id_ttl": int64(i.ttl.Seconds()),
		"creation_time": i.created, "last_updated_time": i.updated, "expiration_time": time.Time{},
		"metadata": i.meta, "cidr_list": []string{}, "token_bound_cidrs": []string{},
	}
	if !i.expires.IsZero() {
		data["expiration_time"] = i.expires
	}
	return data
}

// secretIDAPI serves what lies below auth/approle/role/:name.
func (a *appRole) secretIDAPI(req *request, name, below string) (*response, error) {
	role := a.roles[name]
	known := []string{"secret-id", "custom-secret-id", "secret-id/lookup", "secret-id/destroy", "secret-id-accessor/lookup", "secret-id-accessor/destroy"}
	switch {
	case !slices.Contains(known, below):
		return nil, unsupportedPath()
	case below == "secret-id" && req.op == opList:
		return a.listSecretIDs(role, name)
	case !req.op.write() && !(req.op == opDelete && (below == "secret-id/destroy" || below == "secret-id-accessor/destroy")):
		return nil, unsupportedOperation()
	case below == "secret-id" || below == "custom-secret-id":
		if role == nil {
			return nil, noSuchRole(http.StatusNotFound, name)
		}
		return a.newSecretID(req, role, below == "custom-secret-id")
	}
	f := req.fields()
	id, accessor := f.text("secret_id"), f.text("secret_id_accessor")
	now := a.server.now()
	switch below {
	case "secret-id/lookup", "secret-id/destroy":
		if id == "" {
			return nil, badRequest("missing secret_id")
		}
		if role == nil {
			return nil, noSuchRole(http.StatusInternalServerError, name)
		}
		found := role.live(id, now)
		if below == "secret-id/destroy" || found == nil {
			delete(role.secretIDs, id)
			return nil, nil
		}
		return &response{data: found.fields()}, nil
	}
	if accessor == "" {
		return nil, badRequest("missing secret_id_accessor")
	}
	if role == nil {
		return nil, noSuchRole(http.StatusInternalServerError, name)
	}
	found := role.byAccessor(accessor, now)
	missing := fmt.Sprintf("failed to find accessor entry for secret_id_accessor: %q", accessor)
	switch {
	case below == "secret-id-accessor/lookup" && found == nil:
		return &response{status: http.StatusNotFound, data: map[string]any{"error": missing}}, nil
	case found == nil:
		return nil, listed(http.StatusInternalServerError, missing)
	case below == "secret-id-accessor/lookup":
		return &response{data: found.fields()}, nil
	}
	delete(role.secretIDs, found.id.Reveal())
	return nil, nil
}

func (a *appRole) listSecretIDs(role *appRoleRole, name string) (*response, error) {
	if role == nil {
		return nil, noSuchRole(http.StatusBadRequest, name)
	}
	var keys []string
	for id := range maps.Clone(role.secretIDs) {
		if found := role.live(id, a.server.now()); found != nil {
			keys = append(keys, found.accessor)
		}
	}
	return keysOf(keys), nil
}

// newSecretID makes one, within what the role allows.
func (a *appRole) newSecretID(req *request, role *appRoleRole, custom bool) (*response, error) {
	f := req.fields()
	next := &secretID{
		id: secret.New(randomUUID()), accessor: randomUUID(), uses: role.secretIDUses, ttl: role.secretIDTTL,
		created: a.server.now(), updated: a.server.now(), meta: map[string]string{},
	}
	if custom {
		if next.id = secret.New(f.text("secret_id")); next.id.IsZero() {
			return nil, badRequest("missing secret_id")
		}
	}
	if req.has("num_uses") {
		uses := f.integer("num_uses")
		switch {
		case uses < 0:
			return nil, badRequest("num_uses cannot be negative")
		case role.secretIDUses > 0 && (uses == 0 || uses > role.secretIDUses):
			return nil, badRequest("num_uses cannot be higher than the role's secret_id_num_uses")
		}
		next.uses = uses
	}
	if req.has("ttl") {
		ttl := f.seconds("ttl")
		if role.secretIDTTL > 0 && (ttl == 0 || ttl > role.secretIDTTL) {
			return nil, badRequest("ttl cannot be longer than the role's secret_id_ttl")
		}
		next.ttl = ttl
	}
	if raw := f.text("metadata"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &next.meta); err != nil {
			return nil, badRequest("failed to parse metadata: failed to parse the input: invalid <key,value> format")
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	if !role.bindSecretID {
		return nil, badRequest("bind_secret_id is not set on the role")
	}
	if next.ttl > 0 {
		next.expires = next.created.Add(next.ttl)
	}
	id := next.id.Reveal()
	if role.live(id, next.created) != nil {
		return nil, listed(http.StatusInternalServerError, "failed to store secret_id: SecretID is already registered")
	}
	role.secretIDs[id] = next
	return &response{
		data: map[string]any{
			"secret_id": id, "secret_id_accessor": next.accessor, "secret_id_num_uses": next.uses, "secret_id_ttl": int64(next.ttl.Seconds()),
		},
		wrappedAccessor: next.accessor,
	}, nil
}
