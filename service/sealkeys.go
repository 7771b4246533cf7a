package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/config"
)

// sealKeys reads the seal keys that a service file names: the first seals, all
// open.
func sealKeys(cfg *config.Config) (*handover.Keyring, error) {
	current, err := sealKeyAt(cfg, "seal_key", &cfg.SealKey)
	if err != nil {
		return nil, err
	}
	var others []*handover.Keys
	for i := range cfg.SealKey.Previous {
		key := fmt.Sprintf("seal_key.previous[%d]", i)
		other, err := sealKeyAt(cfg, key, &cfg.SealKey.Previous[i])
		if err != nil {
			return nil, err
		}
		if others = append(others, other); slices.ContainsFunc(append([]*handover.Keys{current}, others[:i]...), func(k *handover.Keys) bool { return k.ID() == other.ID() }) {
			return nil, cfg.Refuse(key, "it is the same key (%s) as another one of seal_key; name each once", other.ID())
		}
	}
	return handover.NewKeyring(current, others...)
}

func sealKeyAt(cfg *config.Config, key string, at *config.SealKey) (*handover.Keys, error) {
	seed, err := sealSeed(cfg, key, at)
	if err != nil {
		return nil, err
	}
	keys, err := handover.NewKeys(seed)
	if err != nil {
		return nil, cfg.Refuse(key, "%v; make one with: leasesvc seal-key new", err)
	}
	return keys, nil
}

func sealSeed(cfg *config.Config, key string, at *config.SealKey) (secret.String, error) {
	if at.Env != "" {
		seed := os.Getenv(at.Env)
		if seed == "" {
			return secret.String{}, cfg.Refuse(key+".env", "the environment has no %s", at.Env)
		}
		return secret.New(seed), nil
	}
	seed, err := readSecret(at.File)
	if err != nil {
		return secret.String{}, cfg.Refuse(key+".file", "%v; make one with: leasesvc seal-key new", err)
	}
	return seed, nil
}

// scopeKeys is what is known of the keys of one scope: those of the instance, and
// what is kept of those that were replaced.
type scopeKeys struct {
	*handover.Keyring
	past []handover.PastKey
	// mac has the keys of the scope's log.
	mac *events.Keyring
}

// newScopeKeys puts an instance's keys and a scope's past keys together.
func newScopeKeys(keys *handover.Keyring, past []handover.PastKey) *scopeKeys {
	k := &scopeKeys{Keyring: keys, past: past, mac: events.NewKeyring()}
	for _, key := range keys.All() {
		k.mac.Add(key.ID(), key.MACKey())
	}
	for _, p := range past {
		k.mac.AddUntil(p.ID, p.MACKey, p.Until)
	}
	return k
}

// macKeys gives all MAC keys, the current one first.
func (k *scopeKeys) macKeys() (out [][]byte) {
	for _, key := range k.All() {
		out = append(out, key.MACKey())
	}
	for _, p := range k.past {
		out = append(out, p.MACKey)
	}
	return out
}

// missing tells which key values are still sealed under that this instance does
// not have; nil: none.
func (k *scopeKeys) missing(scope string) error {
	for _, p := range k.past {
		if p.Needed && !k.Has(p.ID) {
			return &missingKeyError{scope: scope, id: p.ID}
		}
	}
	return nil
}

// missingKeyError says that a seal key was taken away that is still needed.
type missingKeyError struct{ scope, id string }

// Error implements error.
func (e *missingKeyError) Error() string {
	return fmt.Sprintf("values of scope %s are still sealed under the seal key %s, which this instance does not have: put it into seal_key.previous until leasesvc status says that it can be removed; where it is lost for good, run leasesvc recover",
		e.scope, e.id)
}

// loadKeys reads what is kept of a scope's past keys.
func (s *Service) loadKeys(ctx context.Context, scope string) (*scopeKeys, error) {
	past, closed, err := s.blobs.Past(ctx, s.keys, scope)
	if err != nil {
		return nil, err
	}
	if closed > 0 {
		s.log.Info("past seal keys are kept under a key that this instance does not have", "scope", scope, "count", closed)
	}
	return newScopeKeys(s.keys, past), nil
}

// fingerprint tells same from changed values without giving them away.
func (k *scopeKeys) fingerprint(data []byte) string {
	return fingerprintUnder(k.FingerprintKey(), data)
}

// fingerprintLike is fingerprint for values that are compared with what has another
// one: where they are the same under any key that it may be of, that one is given.
func (k *scopeKeys) fingerprintLike(data []byte, other string) string {
	for _, key := range k.All() {
		if other != "" && fingerprintUnder(key.FingerprintKey(), data) == other {
			return other
		}
	}
	for _, p := range k.past {
		if other != "" && fingerprintUnder(p.FingerprintKey, data) == other {
			return other
		}
	}
	return k.fingerprint(data)
}

func fingerprintUnder(key, data []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// errNoOldKey keeps an instance from going on under its own key where it does not
// have the one in force.
var errNoOldKey = errors.New("the seal key in force is not known here")

// keepKey has what is needed of the key in force kept, before an epoch is opened
// under another one. From then on the old one may be taken away once no values are
// under it.
func (sc *scope) keepKey(ctx context.Context, inForce string) error {
	k := sc.svc.keys
	if inForce == "" || inForce == k.ID() {
		return nil
	}
	old := k.ByID(inForce)
	if old == nil {
		return fmt.Errorf("the last epoch was opened under the seal key %s: %w; put it into seal_key.previous", inForce, errNoOldKey)
	}
	return sc.svc.blobs.KeepPast(ctx, k, sc.name, handover.PastOf(old))
}

// reloadKeys looks whether what was missing still is: who leads may have done
// without it meanwhile, or an operator decided to.
func (sc *scope) reloadKeys(ctx context.Context, missing error) error {
	keys, err := sc.svc.loadKeys(ctx, sc.name)
	if err != nil {
		return err
	}
	if keys.missing(sc.name) != nil {
		return missing
	}
	sc.keys.Store(keys)
	return nil
}

// maxPins bounds the incarnations whose pinned keys are remembered.
const maxPins = 10_000

// pins remembers which of the service's public keys registered incarnations take
// messages under, as each said when it registered last, and when readers asked who
// take another than the current one. It is memory: who registers says it again each
// minute, and who did not is sent everything under each key.
type pins struct {
	mu    sync.Mutex
	of    map[string][]string
	asked map[string]time.Time // by the id of the key
}

func (p *pins) note(incarnation string, keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= maxPins {
		p.of = map[string][]string{}
	}
	p.of[incarnation] = keys
}

func (p *pins) get(incarnation string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[incarnation]
}

// sealFor seals an answer to who asked, under the keys that they take.
func (sc *scope) sealFor(to string, pinned []string, body wire.Body) ([][]byte, error) {
	data, err := wire.Encode(body)
	if err != nil {
		return nil, err
	}
	return sc.sealEncodedFor(to, pinned, data)
}

func (sc *scope) sealEncodedFor(to string, pinned []string, data []byte) ([][]byte, error) {
	keys := sc.svc.keys
	if all := keys.All(); len(all) > 1 && len(pinned) > 0 && !slices.Contains(pinned, keys.Public()) {
		for _, k := range all[1:] {
			if slices.Contains(pinned, k.Public()) {
				sc.pins.ask(k.ID())
			}
		}
	}
	return keys.SealEncodedFor(to, pinned, data)
}

func (p *pins) ask(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]time.Time{}
	}
	p.asked[key] = time.Now()
}

// askedWithin tells whether somebody asked lately who takes that key and not the
// current one.
func (p *pins) askedWithin(key string, d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.asked[key]
	return ok && time.Since(at) < d
}

// keyAnswer answers for the seal key that is in force.
func (sc *scope) keyAnswer(epoch uint64) ([][]byte, error) {
	k := sc.svc.keys
	body, err := wire.Encode(wire.Key{XKey: k.Public(), KeyID: k.ID(), Epoch: epoch})
	return [][]byte{body}, err
}

// knows tells whether the log's MACs under a seal key can be checked.
func (k *scopeKeys) knows(id string) bool {
	return id == "" || k.Has(id) || slices.ContainsFunc(k.past, func(p handover.PastKey) bool { return p.ID == id })
}
