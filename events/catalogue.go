package events

import "time"

// The event types. The words are those of the log; they never change.
const (
	TypeOpened   Type = "opened"
	TypeReleased Type = "released"
	TypePaused   Type = "paused"
	TypeResumed  Type = "resumed"
	TypeFormat   Type = "format"

	TypeRequested       Type = "requested"
	TypeAcquired        Type = "acquired"
	TypeGuardExtended   Type = "guard-extended"
	TypeAcquireFailed   Type = "acquire-failed"
	TypeVerified        Type = "verified"
	TypeVerifyFailed    Type = "verify-failed"
	TypeHandoverStarted Type = "handover-started"
	TypePrepared        Type = "prepared"
	TypeInstalled       Type = "installed"
	TypeRollbackStarted Type = "rollback-started"
	TypeRolledBack      Type = "rolled-back"
	TypeRenewed         Type = "renewed"
	TypeRenewFailed     Type = "renew-failed"
	TypeRetired         Type = "retired"
	TypeRevoking        Type = "revoking"
	TypeRevoked         Type = "revoked"
	TypeRevokeFailed    Type = "revoke-failed"
	TypeExpired         Type = "expired"
	TypeAdopted         Type = "adopted"
	TypeOrphaned        Type = "orphaned"
	TypeChanged         Type = "changed"

	TypeRegistered Type = "registered"
	TypeLeft       Type = "left"

	TypeUpdated  Type = "updated"
	TypeRejected Type = "rejected"

	TypeApplied Type = "applied"
	TypeRemoved Type = "removed"
)

// How a scope was taken.
const (
	HowFresh    = "fresh"    // nobody held it before
	HowOwn      = "own"      // our own incarnation held it
	HowReleased = "released" // its holder gave it back
	HowQuiet    = "quiet"    // its holder was silent and was deposed
	HowReopened = "reopened" // same epoch, to settle an append of unknown outcome
	// HowRecovered: the log had lost something, and an operator decided to go on.
	HowRecovered = "recovered"
)

// Opened begins an epoch; its sequence is the fence of every later append.
type Opened struct {
	Holder string `json:"holder"`
	How    string `json:"how"`
	// Attempt tells one append of this event from another.
	Attempt string `json:"attempt"`
	// SealKey is the id of the seal key in force.
	SealKey string `json:"seal_key"`
	// StreamCreated tells this stream from a recreated or restored one.
	StreamCreated time.Time `json:"stream_created"`
	// Overlap is how long the holder before, if it was deposed and does not know
	// it yet, may go on answering readers.
	Overlap Seconds `json:"overlap_s,omitzero"`
	// KeyProof is there where the seal key is another than before: a MAC under the
	// old one over scope, epoch, attempt and the new one ([Keyring.Endorse]).
	KeyProof string `json:"key_proof,omitempty"`
	// Found and Lost are there where it is recovered: what was wrong, for people,
	// and the leases that are known of and that the log does not have, as
	// NAME/NUMBER with the lease id behind where that is known. At most 100 each.
	Found []string `json:"found,omitempty"`
	Lost  []string `json:"lost,omitempty"`
}

// Released ends an epoch in good order.
type Released struct {
	Holder string `json:"holder"`
	// Shutdown: everything was given back by hand (L48); who stands by leaves
	// the scope alone until an instance is started anew.
	Shutdown bool `json:"shutdown,omitempty"`
}

// Paused says that a Vault connection refuses our credentials (E12).
type Paused struct {
	Vault string `json:"vault"`
	Kind  string `json:"kind"`
}

// Resumed ends a pause.
type Resumed struct {
	Vault string `json:"vault"`
}

// Format lets later versions of event types be written from here on. It has all
// that may be written above the lowest, so that the last one says it; a release
// that can't read one of them goes no further ([Format.Raised]).
type Format struct {
	Versions map[Type]int `json:"versions"`
}

// Why a lease was requested.
const (
	ReasonFirst         = "first"           // the name has no usable lease
	ReasonDue           = "due"             // it is not renewable and half its TTL has gone
	ReasonShortGrant    = "short-grant"     // a renewal granted less: max TTL is near (L37)
	ReasonRefused       = "renewal-refused" // L34
	ReasonRotate        = "rotate"          // somebody asked for it
	ReasonDefinition    = "definition"      // path or Vault connection changed (L3)
	ReasonExpired       = "expired"
	ReasonRevokedByHand = "revoked-by-hand"
	ReasonChanged       = "changed"      // a secret without lease has new values (L38)
	ReasonAnew          = "renewed-anew" // a renewal gave another lease or other values (L32, L33)
	ReasonReissue       = "reissue"      // all were asked for anew (L52)
	ReasonReported      = "reported"     // a consumer says that a server refuses it (C58)
)

// Requested intends one read of a credential (P5).
type Requested struct {
	Vault    string `json:"vault"`
	Path     string `json:"path"`
	Reason   string `json:"reason"`
	Attempt  int    `json:"attempt"`
	Replaces uint64 `json:"replaces,omitempty"`
}

// Acquired says that Vault granted a credential and that its values are sealed
// in the store under the lease's number.
type Acquired struct {
	// LeaseID is Vault's; empty for a secret without lease.
	LeaseID string `json:"lease_id,omitempty"`
	// TTL counts from SentAt; 0 does not expire (L9).
	TTL       Seconds   `json:"ttl_s"`
	Renewable bool      `json:"renewable"`
	SentAt    time.Time `json:"sent_at"`
	// Guard is the accessor of the token that the lease hangs on, GuardTTL its
	// life from SentAt until it is extended.
	Guard    string  `json:"guard,omitempty"`
	GuardTTL Seconds `json:"guard_ttl_s,omitzero"`
	// Keys are the names of the values that came, Public the few that may be
	// read by auditors, Fingerprint a keyed one that tells same from changed.
	Keys        []string          `json:"keys"`
	Public      map[string]string `json:"public,omitempty"`
	Fingerprint string            `json:"fingerprint"`
	// Suspect is set where Vault's duration made no sense and was replaced.
	Suspect  string   `json:"lease_duration_suspect,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// RereadIn is when a static role is to be read again: when its own clock will
	// have given it new values (L39), or earlier, for rotations by hand (C18); 0:
	// it has no clock.
	RereadIn Seconds `json:"reread_in_s,omitzero"`
}

// GuardExtended says that the guard lives on; only from here on may the lease
// be handed over.
type GuardExtended struct {
	Granted  Seconds   `json:"granted_s"`
	SentAt   time.Time `json:"sent_at"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Retry is what a failure plans: the how-manieth attempt failed, and when the
// next one is due. Attempt stops counting at 7.
type Retry struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
}

// Failure says what went wrong without saying any secret.
type Failure struct {
	// Kind is one of the kinds of error, such as "permission" or "timeout".
	Kind string `json:"kind"`
	// Message is for people.
	Message string `json:"message"`
}

// AcquireFailed ends an acquisition. A guard or lease id that is known is
// still owed its revocation.
type AcquireFailed struct {
	Failure
	// Keys are the names of the values that came, when some were missing.
	Keys    []string `json:"keys,omitempty"`
	LeaseID string   `json:"lease_id,omitempty"`
	Guard   string   `json:"guard,omitempty"`
	Retry   Retry    `json:"retry"`
	// NotSent: Vault was known to be out, so it was not asked at all.
	NotSent bool `json:"not_sent,omitempty"`
}

// Verified says that a login of our own with the candidate worked.
type Verified struct {
	Verifier string  `json:"verifier"`
	Took     Seconds `json:"took_s"`
}

// VerifyFailed says that it did not within its budget.
type VerifyFailed struct {
	Failure
	Retry Retry `json:"retry"`
}

// HandoverStarted begins to ask; its sequence is the n of every prepare.
type HandoverStarted struct {
	Previous uint64 `json:"previous,omitempty"`
	// Asked are the incarnations registered at this moment.
	Asked []string `json:"asked,omitempty"`
	// Budget is the time everybody has to say yes.
	Budget Seconds `json:"budget_s"`
	// Unasked says why nobody is asked; empty: everybody is.
	Unasked string `json:"unasked,omitempty"`
}

// Prepared is one incarnation's answer to a prepare.
type Prepared struct {
	Incarnation string `json:"incarnation"`
	// N is the sequence of the hand-over it answers.
	N      uint64 `json:"n"`
	Yes    bool   `json:"yes"`
	Reason string `json:"reason,omitempty"`
}

// What proved a candidate that was installed.
const (
	ProofConsumers = "consumers" // everybody registered said yes
	ProofVerifier  = "verifier"  // our own login; nobody was registered
	ProofStaging   = "staging"   // the keys are there; the definition asks nobody
	ProofRather    = "rather"    // the active one was at its end: rather this than none
	// Nobody need be asked: the values are those that everybody uses (L13).
	ProofUnchanged = "unchanged"
	// Nobody could go back: a static role's earlier values are dead already.
	ProofForward = "forward"
)

// Installed commits: the lease is the name's active one. Its sequence is the n
// of every follow.
type Installed struct {
	Previous uint64 `json:"previous,omitempty"`
	Proof    string `json:"proof"`
	// GoodFor and RetireAfter bound the previous lease's grace.
	GoodFor     Seconds `json:"good_for_s"`
	RetireAfter Seconds `json:"retire_after_s"`
	Rehearsal
}

// RollbackStarted ends a hand-over without commit; its sequence is the n of
// every revert.
type RollbackStarted struct {
	Failure
	// Back is the lease everybody goes back to; 0: none.
	Back   uint64  `json:"back,omitempty"`
	Budget Seconds `json:"budget_s"`
}

// RolledBack ends a roll back. Safe: everybody confirmed, the candidate may be
// revoked. Otherwise it is kept, since somebody may live on it (L22).
type RolledBack struct {
	Safe        bool     `json:"safe"`
	Unconfirmed []string `json:"unconfirmed,omitempty"`
	Retry       Retry    `json:"retry"`
}

// Renewed says that a lease, and its guard if it has one, lives on.
type Renewed struct {
	TTL       Seconds   `json:"ttl_s"`
	SentAt    time.Time `json:"sent_at"`
	Renewable bool      `json:"renewable"`
	GuardTTL  Seconds   `json:"guard_ttl_s,omitzero"`
	// Short: less was granted than asked for, so max TTL is near (L37).
	Short    bool     `json:"short,omitempty"`
	Suspect  string   `json:"lease_duration_suspect,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// RenewFailed says that a renewal, or the extension of a guard, failed.
type RenewFailed struct {
	Failure
	// Refused: Vault said no (400, 403, 404), so a successor is due (L34).
	Refused bool  `json:"refused,omitempty"`
	Retry   Retry `json:"retry"`
}

// Why a lease was retired.
const (
	RetiredReplaced   = "replaced"    // a later lease was installed and everybody follows it
	RetiredOverdue    = "overdue"     // replaced, and retire_after has passed
	RetiredRolledBack = "rolled-back" // a candidate that everybody has left
	RetiredUnproven   = "unproven"    // a candidate that nobody was asked about
	RetiredByHand     = "by-hand"     // an operator's revoke
	RetiredRemoved    = "removed"     // its definition is gone (L7)
	RetiredExpired    = "expired"     // its time is up
	RetiredUnchanged  = "unchanged"   // a secret without lease, read again, is the same
	RetiredShutdown   = "shutdown"    // everything is given back (L48)
)

// Retired says that a lease is not used any more and is owed a revocation.
type Retired struct {
	Reason string `json:"reason"`
	// CutOff names the incarnations that had not confirmed.
	CutOff []string `json:"cut_off,omitempty"`
}

// Revoking intends the revocation; it is final (P7).
type Revoking struct{}

// Revoked says that Vault has no such lease any more. Gone: it had none.
type Revoked struct {
	Gone bool `json:"gone,omitempty"`
	// Shared: another lease of the scope goes on under the same lease id, so
	// Vault was not asked (L26).
	Shared bool `json:"shared,omitempty"`
}

// RevokeFailed says that it still has it.
type RevokeFailed struct {
	Failure
	Retry Retry `json:"retry"`
}

// Who found a lease to be at its end.
const (
	ExpiredByClock = "clock"
	ExpiredByVault = "vault"
)

// Expired says that a lease's time is up. Found by the clock it is still owed
// a revocation, since a late extension may have saved it (P6); found by Vault
// it is closed.
type Expired struct {
	By string `json:"by"`
	// Retry paces the next acquisition when a candidate came to nothing.
	Retry Retry `json:"retry,omitzero"`
}

// Adopted says that a lease obtained elsewhere is ours now (L51).
type Adopted struct {
	Acquired
	Vault string `json:"vault"`
	Path  string `json:"path"`
}

// Orphaned closes an intent whose outcome nobody knows. What it may have left
// in Vault at this path ends with its guard or, unguarded, with its TTL.
type Orphaned struct {
	Vault string `json:"vault"`
	Path  string `json:"path"`
}

// Changed says that a secret without lease has new values (L38).
type Changed struct {
	Fingerprint string `json:"fingerprint"`
}

// Registered says that an incarnation of a consumer must be asked from here on.
type Registered struct {
	Consumer    string `json:"consumer"`
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	// Replaces is the instance's earlier incarnation, dead by now.
	Replaces string `json:"replaces,omitempty"`
	Key      string `json:"key"`
	XKey     string `json:"xkey"`
	Subject  string `json:"subject"`
}

// Why an incarnation left.
const (
	LeftByItself = "deregistered"
	LeftSilent   = "no-responders"
	LeftByHand   = "removed-by-hand"
	LeftUnnamed  = "not-named" // by the definition in force
)

// Left says that an incarnation need not be asked any more.
type Left struct {
	Incarnation string `json:"incarnation"`
	Reason      string `json:"reason"`
}

// Updated says that a settings document changed. With a higher revision other
// things are written in it; with the revision that it had, a secret that it
// refers to, and that has no lease, has other values. The event's name is the
// document's.
type Updated struct {
	Revision uint64 `json:"revision"`
	// Paths are the places that differ, never what stands there.
	Paths []string `json:"paths"`
	// Blob is the number under which the content is sealed away.
	Blob string `json:"blob"`
	// Definitions is the revision of the definitions file that the content came
	// from, Fingerprint a keyed one of it; 0: it came by the API.
	Definitions uint64 `json:"definitions,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Rejected says that an update of a settings document was refused.
type Rejected struct {
	Failure
	Revision uint64 `json:"revision"`
}

// Applied puts a definition in force or, under [DefinitionsName], records the
// revision whose definitions all are.
type Applied struct {
	Revision   uint64      `json:"revision"`
	Digest     string      `json:"digest,omitempty"`
	Definition *Definition `json:"definition,omitempty"`
}

// Removed takes a definition out of force.
type Removed struct {
	Revision uint64 `json:"revision"`
}
