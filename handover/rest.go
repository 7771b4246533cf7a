package handover

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// ErrBinding says that sealed values were sealed for another scope, name or
// lease number than they were found under.
var ErrBinding = errors.New("sealed for another lease")

// atRest is what is sealed: the values and what they belong to.
type atRest struct {
	V      int         `json:"v"`
	Type   string      `json:"type"`
	Scope  string      `json:"scope"`
	Name   string      `json:"name"`
	Lease  uint64      `json:"lease"`
	Values wire.Values `json:"values"`
	Origin *Origin     `json:"origin,omitempty"`
}

// Origin says where sealed values came from, so that a lease whose events are lost
// can be named, and revoked in Vault.
type Origin struct {
	// Vault is the connection's name.
	Vault   string `json:"vault,omitempty"`
	LeaseID string `json:"lease_id,omitempty"`
	// Guard is the accessor of the token that the lease hangs on.
	Guard string `json:"guard,omitempty"`
}

const atRestType = "values-at-rest"

// SealAtRest seals the values (JSON) of a lease to the service itself, with
// scope, name and lease number inside the seal.
func (k *Keys) SealAtRest(scope, name string, lease uint64, values []byte) ([]byte, error) {
	return k.SealWithOrigin(scope, name, lease, values, nil)
}

// SealWithOrigin is [Keys.SealAtRest] that says where the values came from.
func (k *Keys) SealWithOrigin(scope, name string, lease uint64, values []byte, from *Origin) ([]byte, error) {
	where := fmt.Sprintf("sealing the values of %s/%s lease %d", scope, name, lease)
	if !json.Valid(values) {
		return nil, errors.New(where + ": the values are not JSON")
	}
	plain, err := json.Marshal(atRest{V: wire.Version, Type: atRestType, Scope: scope, Name: name, Lease: lease, Values: values, Origin: from})
	if err != nil {
		return nil, errors.New(where + ": the values cannot be encoded")
	}
	sealed, err := k.Seal(k.public, plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return sealed, nil
}

// OpenAtRest opens what [Keys.SealAtRest] sealed for the very same scope, name
// and lease number. It fails with [wire.ErrSeal] under another key, with
// [ErrBinding] when the seal names another lease, and with [wire.ErrVersion]
// for a later form.
func (k *Keys) OpenAtRest(scope, name string, lease uint64, sealed []byte) ([]byte, error) {
	r, err := k.openAtRest(scope, name, lease, sealed)
	if err != nil {
		return nil, err
	}
	return r.Values, nil
}

func (k *Keys) openAtRest(scope, name string, lease uint64, sealed []byte) (*atRest, error) {
	where := fmt.Sprintf("opening the values of %s/%s lease %d with %s", scope, name, lease, k)
	plain, err := k.Open(k.public, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var r atRest
	if err := json.Unmarshal(plain, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", where, wire.ErrMalformed) // err may quote a value
	}
	switch {
	case r.V > wire.Version:
		return nil, fmt.Errorf("%s: %w: %d", where, wire.ErrVersion, r.V)
	case r.V < 1 || r.Type != atRestType:
		return nil, fmt.Errorf("%s: %w", where, wire.ErrMalformed)
	case r.Scope != scope || r.Name != name || r.Lease != lease:
		return nil, fmt.Errorf("%s: %w: %s/%s lease %d", where, ErrBinding, r.Scope, r.Name, r.Lease)
	}
	return &r, nil
}
