package epochkv

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// product marks every cell, so that somebody else's value under one of our
// keys is seen (E16).
const product = "leasesvc"

// Keys of the bucket.
const (
	holderPrefix = "holder."
	scopePrefix  = "scope."
	claimKey     = "claim"
	probeKey     = "probe"
)

// HolderState is what a holder cell says about its incarnation.
type HolderState string

// States of a holder cell.
const (
	HolderLive    HolderState = "live"
	HolderDeposed HolderState = "deposed" // by a challenger; its scopes are free
	HolderStopped HolderState = "stopped" // by itself, after it released its scopes
)

// HolderCell is the value of key holder.<id>. Its revision is the token.
type HolderCell struct {
	Product     string          `json:"product"`
	Holder      string          `json:"holder"`
	Incarnation string          `json:"incarnation"` // one StartHolder of that holder
	Instance    string          `json:"instance,omitempty"`
	State       HolderState     `json:"state"`
	By          string          `json:"by,omitempty"` // who deposed it
	Attempt     string          `json:"attempt"`      // unique per write
	WrittenAt   time.Time       `json:"written_at"`   // for people; decides nothing
	Version     string          `json:"version,omitempty"`
	Echo        json.RawMessage `json:"echo,omitempty"` // E13
	Stored      time.Time       `json:"-"`              // when the server stored it, as far as it was read
}

// ScopeCell is the value of key scope.<scope>. The revision of a cell that is
// not released is the epoch.
type ScopeCell struct {
	Product     string    `json:"product"`
	Holder      string    `json:"holder"`
	Incarnation string    `json:"incarnation"`
	Released    bool      `json:"released"`
	Epoch       uint64    `json:"epoch,omitempty"` // in a released cell: the epoch that was given back
	Attempt     string    `json:"attempt"`
	ClaimedAt   time.Time `json:"claimed_at"` // for people; decides nothing
	Version     string    `json:"version,omitempty"`
}

// newID mints an id of 130 random bits that is a token of a subject.
func newID() string { return strings.ToLower(rand.Text()) }

var scopeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

func checkScope(scope string) error {
	if !scopeName.MatchString(scope) {
		return fmt.Errorf("scope %q: %w", scope, errBadName)
	}
	return nil
}

// decodeCell reads a cell into v, which must be a pointer to a cell type.
// Another product's value is ErrForeignCell.
func decodeCell(key string, data []byte, v any) error {
	var head struct {
		Product string `json:"product"`
		Holder  string `json:"holder"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Product != product || head.Holder == "" {
		return fmt.Errorf("key %s: %w: another product may be writing under the same names", key, ErrForeignCell)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("key %s: %w: %w", key, ErrForeignCell, err)
	}
	return nil
}

// encodeCell is json.Marshal of a value that can't fail: cells hold only text,
// numbers, times and JSON that was checked before.
func encodeCell(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("epochkv: cell that is not JSON: " + err.Error())
	}
	return b
}
