package service

import "time"

// Damage is what a recovery finds of one scope.
type Damage struct {
	Scope string `json:"scope"`
	// Epoch and LastSeq are the highest that are known of.
	Epoch   uint64 `json:"epoch"`
	LastSeq uint64 `json:"last_seq"`
	// Found says what is wrong; none: nothing is.
	Found []string `json:"found"`
	// Kept are the leases that the log still knows, Lost those that are known of
	// and that it does not have. Lost ones are not renewed: they end by themselves,
	// or are revoked in Vault by hand.
	Kept []FoundLease `json:"kept"`
	Lost []FoundLease `json:"lost"`
	// Decided is when an operator decided to go on; zero: nobody has.
	Decided time.Time `json:"decided,omitzero"`
	// KeyLost: the log was written under another seal key than the one given.
	KeyLost bool `json:"key_lost,omitempty"`
	// BucketBehind: the bucket of epochs must be made anew.
	BucketBehind bool `json:"bucket_behind,omitempty"`
	// ValuesGone are active leases, as NAME/NUMBER, whose sealed values are not in
	// the store.
	ValuesGone []string `json:"values_gone,omitempty"`
	// trust is up to where the log is to count without its MACs.
	trust uint64
}

// FoundLease is a lease that is known of.
type FoundLease struct {
	Name  string `json:"name"`
	Lease uint64 `json:"lease"`
	// State and Ends are empty where only the sealed values are there.
	State   string `json:"state,omitempty"`
	LeaseID string `json:"lease_id,omitempty"`
	// Guard is the accessor of the token that the lease hangs on.
	Guard string    `json:"guard,omitempty"`
	Ends  time.Time `json:"ends,omitzero"`
}
