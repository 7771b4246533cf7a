package leasecore

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// At is what a decision may know of the world.
type At struct {
	// Now is the holder's clock.
	Now time.Time
	// ID is unique to the command; the events get it with their number.
	ID string
	// Cause is the event or command that this one follows from, Actor who
	// wants it.
	Cause string
	Actor events.Actor
	// Draining: the holder is about to give the scope back (E18). What is in
	// flight goes on to its end, nothing new is begun.
	Draining bool
}

// Command is something that happened, or that somebody wants.
type Command interface{ command() }

// Tick has a name looked at again: its time has come.
type Tick struct{ Name string }

// ApplyDefinitions puts a whole definitions file in force.
type ApplyDefinitions struct {
	Revision    uint64
	Digest      string
	Definitions map[string]events.Definition
	// Insecure accepts consumers that no definition names.
	Insecure bool
}

// Failed is how an effect went wrong.
type Failed struct {
	events.Failure
	// Refused: Vault understood and said no; trying the same again is useless.
	Refused bool
	// Gone: Vault does not have what it was asked about.
	Gone bool
	// NotSent: Vault was known to be out, so it was not asked at all.
	NotSent bool
	// RetryAfter is the least wait that was asked for.
	RetryAfter time.Duration
}

// AcquireDone is the outcome of an acquisition: a grant, or a failure with
// what is known of what it may have left behind.
type AcquireDone struct {
	Name  string
	Lease uint64
	Grant *events.Acquired
	Err   *Failed
	// Keys, LeaseID and Guard belong to a failure.
	Keys           []string
	LeaseID, Guard string
}

// ExtendDone is the outcome of extending a guard.
type ExtendDone struct {
	Name     string
	Lease    uint64
	Granted  events.Seconds
	SentAt   time.Time
	Warnings []string // Vault's
	Err      *Failed
}

// VerifyDone is the outcome of a verifier.
type VerifyDone struct {
	Name     string
	Lease    uint64
	Verifier string
	Took     events.Seconds
	Err      *Failed
}

// Answered is an incarnation's answer to a prepare.
type Answered struct {
	Name        string
	N           uint64
	Incarnation string
	Yes         bool
	Reason      string
}

// RenewDone is the outcome of a renewal.
type RenewDone struct {
	Name    string
	Lease   uint64
	Renewed *events.Renewed
	// Anew: Vault gave another lease id or other values with it (L32, L33);
	// the holder keeps them for the acquisition that this asks for.
	Anew bool
	// BoundByToken: the TTL is what is left of our own token, on which a successor
	// would hang as well. It is no sign of the lease's max TTL (L37).
	BoundByToken bool
	Err          *Failed
}

// PollDone is the outcome of reading a secret without lease again.
type PollDone struct {
	Name        string
	Lease       uint64
	Fingerprint string
}

// Adopt takes over a lease that was obtained elsewhere (L51), by the Vault
// connection that the definition has. Its values are sealed under Lease already,
// a number that was not given out yet; the path is the definition's.
type Adopt struct {
	Name    string
	Lease   uint64
	Adopted events.Adopted
}

// Reissue wants successors of all active leases, under the token that is now in
// force (L52).
type Reissue struct{}

// Shutdown retires everything that is owned, so that it is revoked (L48).
type Shutdown struct{}

// RevokeDone is the outcome of a revocation.
type RevokeDone struct {
	Name  string
	Lease uint64
	Gone  bool
	Err   *Failed
}

// Register wants an incarnation to be asked from here on (P9). The signature
// was checked by the caller.
type Register struct {
	Name         string
	Registration events.Registered
	// Insecure accepts consumers that the definition does not name.
	Insecure bool
}

// Leave says that an incarnation need not be asked any more.
type Leave struct {
	Name, Incarnation, Reason string
}

// Rotate wants a successor of the active lease now.
type Rotate struct{ Name string }

// Reported is a consumer's word that a server refused the active lease, say
// because its account was dropped behind our back (C58). The signature was
// checked by the caller.
type Reported struct {
	Name  string
	Lease uint64
}

// ReportCooldown is the least time between two requests of a name that reports
// caused: a consumer that asks the wrong server must not have Vault asked for
// ever more credentials.
const ReportCooldown = time.Minute

// RevokeActive takes the active lease away at once, whoever uses it.
type RevokeActive struct{ Name string }

// Finalize lets all be written that this release reads, from here on: no release
// that reads less can take the scope over any more. That every instance reads it,
// and that none of an earlier release will come back, is the caller's to know.
type Finalize struct{}

// Release gives the scope back.
type Release struct {
	Holder string
	// Shutdown: everything was given back before.
	Shutdown bool
}

func (Tick) command()             {}
func (ApplyDefinitions) command() {}
func (AcquireDone) command()      {}
func (ExtendDone) command()       {}
func (VerifyDone) command()       {}
func (Answered) command()         {}
func (RenewDone) command()        {}
func (RevokeDone) command()       {}
func (Register) command()         {}
func (Leave) command()            {}
func (Rotate) command()           {}
func (Reported) command()         {}
func (RevokeActive) command()     {}
func (Release) command()          {}
func (PollDone) command()         {}
func (Adopt) command()            {}
func (Reissue) command()          {}
func (Shutdown) command()         {}
func (Finalize) command()         {}

// Why a command was refused. Nothing was decided then.
var (
	ErrUnknownName  = errors.New("there is no such name")
	ErrNoActive     = errors.New("the name has no active lease")
	ErrBusy         = errors.New("a hand-over is in flight")
	ErrWaiting      = errors.New("it waits")
	ErrRevision     = errors.New("the revision is not above the one in force")
	ErrSameRevision = errors.New("the revision is in force with other content")
	ErrNotAConsumer = errors.New("the definition does not name this consumer")
	ErrMismatch     = errors.New("another incarnation of this instance is registered")
	ErrDefect       = errors.New("this is a defect of leasesvc, please report it")
	ErrStale        = errors.New("it answers something that is over")
	ErrUnfit        = errors.New("it can't be taken over")
	ErrLeaving      = errors.New("the scope is being given to another holder")
	ErrNumber       = errors.New("the lease number is taken")
)

// MismatchError refuses a registration that does not replace the incarnation
// which is registered (P9). It unwraps to [ErrMismatch].
type MismatchError struct{ Registered string }

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: %s; register as its replacement once it is dead", ErrMismatch, e.Registered)
}

// Unwrap gives ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }
