package snapshot

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

// A snapshot begins with what it is and the version of what follows: the release
// and the layout that made it, the content, and the MAC of all before it.
const (
	magic       = "leasesvc snapshot 1\n"
	releaseSize = 16
)

// Position says where in which log a snapshot was taken.
type Position struct {
	// Scope is the scope's name.
	Scope string
	// StreamCreated tells the stream from one that was made anew.
	StreamCreated time.Time
	// LastSeq is the sequence of the last event looked at, Skipped how many did
	// not count by then. Applied is the last that counted: it must stand in the
	// log, and ends in the MAC Last.
	LastSeq, Applied, Skipped uint64
	// Last, Segment and AtOpened are the chain's ([events.Chain.Resume]), SealKey
	// the id of the seal key in force.
	Last, Segment string
	AtOpened      bool
	SealKey       string
}

// Ahead says that the clock that stamped a lease ran ahead of the server's; it
// is the one thing that a follower remembers beside the projection.
type Ahead struct {
	Name  string
	Lease uint64
	By    time.Duration
}

// content is all that a snapshot holds, in its order.
type content struct {
	Position Position
	Head     leasecore.Head
	Shared   []leasecore.Shared
	Ahead    []Ahead
}

var (
	ofContent = layoutOf(reflect.TypeFor[content]())
	ofName    = layoutOf(reflect.TypeFor[leasecore.Name]())
)

// Key makes and checks the MACs of snapshots.
type Key struct {
	// keys has the one that makes, and then those that are believed beside it.
	keys [][]byte
	// chain begins the chain of what is restored.
	chain events.Chain
	// begin is what the snapshots of this release begin with.
	begin []byte
}

// NewKey gives the key that belongs to the one of the log's chain of MACs, for
// the snapshots of a release.
func NewKey(chain []byte, release string) (Key, error) {
	return newKey(events.NewChain(chain), release, chain)
}

// NewKeyUnder is NewKey where the log's epochs may be under any key of a ring:
// snapshots are made under the first of these MAC keys, and believed under all of
// them.
func NewKeyUnder(ring *events.Keyring, release string, macKeys ...[]byte) (Key, error) {
	return newKey(events.NewChainUnder(ring), release, macKeys...)
}

func newKey(chain events.Chain, release string, macKeys ...[]byte) (Key, error) {
	k := Key{chain: chain}
	for _, macKey := range macKeys {
		key, err := hkdf.Key(sha256.New, macKey, nil, "leasesvc snapshot mac v1", sha256.Size)
		if err != nil {
			return Key{}, fmt.Errorf("deriving the key of snapshots: %w", err)
		}
		k.keys = append(k.keys, key)
	}
	h := sha256.New()
	for _, part := range [][]byte{ofContent.fingerprint[:], ofName.fingerprint[:], []byte(release), []byte(events.Release().String())} {
		_, _ = h.Write(part) // never gives an error
	}
	k.begin = append([]byte(magic), h.Sum(nil)[:releaseSize]...)
	return k, nil
}

// release tells the snapshots of this release from those of others by name.
func (k Key) release() string {
	return hex.EncodeToString(k.begin[min(len(magic), len(k.begin)):])
}

// What can be wrong with a snapshot, so that it is ignored.
var (
	// ErrForged: it is not what a holder of the seal key saved.
	ErrForged = errors.New("its MAC does not hold")
	// ErrLayout: another release saved it, which may have folded the same events
	// to another state.
	ErrLayout = errors.New("another release saved it")
	// ErrDamaged: it is genuine and makes no sense, which is a defect of ours.
	ErrDamaged = errors.New("it makes no sense")
)

// Taken is what a snapshot is made of: a projection as it was at one moment.
type Taken struct {
	at    Position
	state leasecore.Frozen
	ahead []Ahead
}

// Take gives what a snapshot of a projection is made of. The projection's state
// is frozen until it is thawed ([leasecore.State.Freeze]), so that the snapshot can
// be encoded while the projection goes on.
func Take(p *projector.Projection, created time.Time, ahead []Ahead) Taken {
	state, chain := p.State(), p.Chain()
	skipped, _ := p.Skipped()
	t := Taken{
		at:    Position{Scope: state.Scope, StreamCreated: created, LastSeq: p.LastSeq(), Applied: state.LastSeq, Skipped: skipped},
		state: state.Freeze(), ahead: ahead,
	}
	t.at.Last, t.at.Segment, t.at.AtOpened = chain.State()
	t.at.SealKey = chain.SealKey()
	return t
}

// Encode makes the snapshot. It takes time in proportion to the number of names,
// some microseconds each.
func (k Key) Encode(t Taken) []byte {
	c := content{Position: t.at, Head: t.state.Head, Shared: t.state.Shared, Ahead: t.ahead}
	w := newWriter(ofContent)
	w.b = make([]byte, 0, 4096+400*len(t.state.Names))
	w.b = append(w.b, k.begin...)
	ofContent.root.write(w, reflect.ValueOf(&c).Elem())
	names := newWriter(ofName)
	names.b = w.b
	names.uint(uint64(len(t.state.Names)) + 1)
	for _, n := range t.state.Names {
		ofName.root.write(names, reflect.ValueOf(n).Elem())
	}
	return append(names.b, macOf(k.keys[0], names.b)...)
}

func macOf(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(b) // never gives an error
	return h.Sum(nil)
}

// Decode gives the projection that was saved, and where it stood. The errors are
// [ErrForged], [ErrLayout] and [ErrDamaged]; b is not looked into before its MAC
// was found to hold.
func (k Key) Decode(b []byte) (*projector.Projection, Position, []Ahead, error) {
	body, mac := b[:max(0, len(b)-sha256.Size)], b[max(0, len(b)-sha256.Size):]
	if !slices.ContainsFunc(k.keys, func(key []byte) bool { return hmac.Equal(macOf(key, body), mac) }) {
		return nil, Position{}, nil, ErrForged
	}
	body, ok := bytes.CutPrefix(body, k.begin)
	if !ok {
		return nil, Position{}, nil, ErrLayout
	}
	p, c, err := k.decode(body)
	if err != nil {
		return nil, Position{}, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return p, c.Position, c.Ahead, nil
}

func (k Key) decode(body []byte) (*projector.Projection, *content, error) {
	var c content
	r := newReader(ofContent, body)
	ofContent.root.read(r, reflect.ValueOf(&c).Elem())
	if r.err != nil {
		return nil, nil, r.err
	}
	r.b, body = nil, r.b
	r = newReader(ofName, body)
	count, _ := r.length()
	names := make([]*leasecore.Name, 0, count)
	for i := 0; i < count && r.err == nil; i++ {
		n := &leasecore.Name{}
		ofName.root.read(r, reflect.ValueOf(n).Elem())
		names = append(names, n)
	}
	switch {
	case r.err != nil:
		return nil, nil, r.err
	case len(r.b) > 0:
		return nil, nil, fmt.Errorf("%d bytes follow", len(r.b))
	case c.Head.Scope != c.Position.Scope || c.Head.LastSeq != c.Position.Applied || c.Position.Applied > c.Position.LastSeq:
		return nil, nil, errors.New("its position contradicts its state")
	}
	state, err := leasecore.Restore(leasecore.Frozen{Head: c.Head, Names: names, Shared: c.Shared})
	if err != nil {
		return nil, nil, err
	}
	chain := k.chain
	chain.Resume(c.Position.Last, c.Position.Segment, c.Position.AtOpened)
	chain.Under(c.Position.SealKey)
	return projector.Resume(state, chain, c.Position.LastSeq, c.Position.Skipped), &c, nil
}
