package sim

// Mutant is a deliberate fault of what is simulated, to see that the simulator
// sees it. The zero value is none.
type Mutant uint8

// The mutants of what surrounds the core, and of consumers. Those of the core
// itself are leasecore's, behind a build tag.
const (
	NoMutant                   Mutant = iota
	NoFence                           // an append is stored whatever its fence
	OpenUnderLowerEpoch               // the last opened is read again just before opening, its epoch not compared
	TailDecides                       // an append of unknown outcome that a read does not find has not happened
	StandbysState                     // a new holder acts on the state it followed while it stood by
	DefinitionsOnTakeover             // a new holder puts its own file in force, whatever its revision
	TwoReads                          // a credential read whose answer was lost is repeated under the same guard
	ExtendBeforeAcquired              // the guard is extended before acquired is in the log
	ClaimExtended                     // the guard is said to be extended before it is: hand over before the extension
	ForgetOwnership                   // the ids of a credential that lacks keys are dropped
	CloseByAssumedExpiry              // a new holder closes a lease whose guard must have run out
	SkipRecovery                      // a new holder forgets the hand-over that it finds in flight
	RetireBeforeCommit                // the active lease is retired when its hand-over begins
	RevokeUnconfirmedRollBack         // a roll back is safe once its budget is spent
	GateOverAskedOnly                 // who registered after the asking is not waited for
	GraceIsEnough                     // a replaced lease goes once good_for has passed
	NoSendingAgain                    // follow and revert are sent once
	NoAskingAgain                     // a new holder takes everybody for confirmed
	RenewTwice                        // a renewal is started while one is under way
	ServeExpired                      // get gives an expired lease
	RegisterAnsweredFirst             // a registration is answered before its append
	RegisterAnsweredFromBefore        // a registration is answered with the state before its append
	AnswerAnyIncarnation              // an answer reaches whatever incarnation the instance has now
	ConsumerChecksNothing             // a consumer takes any message
	ConsumerComparesEpochs            // a consumer compares epochs only
	PrepareBeforeAnswer               // a consumer takes messages before its registration was answered
	NoneNotConfirmable                // a consumer that is told "none" does not count it as an answer
	NobodyIsAYes                      // a hand-over that nobody is there to follow is committed
	RetryLost                         // a pending retry is never looked at again
	RetryTooSoon                      // a pending retry is not waited for
	RestoreRemembered                 // a consumer that is told to go back goes to what it had, not to what it is told
	Mutants                           // how many there are, none counted
)

var mutantNames = [Mutants]string{
	"none", "no fence", "open under a lower epoch", "decide an unknown outcome by reading", "act on a standby's state",
	"apply definitions on takeover", "two reads under one guard", "extend the guard before acquired",
	"hand over before the extension", "forget ownership before staging", "close by assumed expiry", "skip recovery of a hand-over",
	"retire before the commit", "revoke after an unconfirmed roll back", "gate over asked ones only", "grace as a substitute",
	"no re-sending", "no asking again after a takeover", "double renewal", "serve expired",
	"answer a registration before its append", "a registration answered with the state before its append",
	"an answer not addressed to its incarnation", "consumers check nothing", "compare epochs only",
	"accept a prepare before the answer", "none not confirmable", "take an empty set of consumers for a yes", "drop a pending retry", "jump the back-off", "restore without compare",
}

// String gives the mutant in words.
func (m Mutant) String() string { return mutantNames[m] }
