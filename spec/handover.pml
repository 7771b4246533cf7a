/* Epoch, fence, guards, registration and hand-over of one name, as built.
 *
 * docs/model.md says, step by step, which code and which event each step is. In
 * short: the log is kept as its fold (lease[], committed, n_now, registered[]...) and
 * the fence; an append is one atomic step that only the holder of the fence can
 * make (append.pml shows why that may be assumed, with lost and late answers).
 * Under the fence, the holder's own fold is the log. Messages and answers are
 * sets: each may come at any later time, in any order, or never.
 *
 * Sizes:    LEASES, EPOCHS (claims while faults last), RESTARTS (of consumers, in
 *           total), CONSUMERS (1 or 2).
 * Start:    all consumers on lease 1; -DFIRST nothing acquired, nobody registered;
 *           -DLATECOMER the last consumer is not registered yet.
 * Variants: -DX_name, must stay clean. Mutants: -DM_name, a rule left out, must
 *           violate. spec/check lists and runs them all.
 */
#ifndef LEASES
#define LEASES 2
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#define MAXN 8            /* message numbers: the initial one and two a lease */

/* leasecore.LeaseState; NOTHING: not requested yet, CLOSED: no longer in the state */
#define NOTHING   0
#define REQUESTED 1
#define ACQUIRED  2
#define EXTENDED  3       /* acquired, and guard-extended is in the log */
#define ASKED     4       /* HandingOver */
#define ROLLING   5       /* RollingBack */
#define ACTIVE    6
#define GRACE     7
#define KEPT      8
#define RETIRED   9
#define REVOKING  10
#define CLOSED    11

/* what an instance is to the scope (service/scope.go) */
#define STANDBY 0
#define CLAIMED 1
#define LEADING 2

/* its job at Vault for the candidate (service/vaultwork.go) */
#define NO_JOB    0
#define READ      1       /* the one read is to be made */
#define READ_OK   2
#define READ_LOST 3       /* no answer, or an error after one */
#define READ_NOT  4       /* nothing was asked of Vault */
#define EXTEND    5
#define EXTEND_OK 6
#define GONE      7       /* Vault's "not found" */

/* a consumer's instance (consumer/serve.go) */
#define REGISTERING 1     /* its registration is not answered yet */
#define RUNNING     2
#define LEFT        3     /* ended for good */

#define BIT(x) (1 << (x))
#define HAS(set, x) (((set) >> (x)) & 1)
#define ONLY(l) ((l) == 0 -> 0 : BIT(l))

/* --- the log, folded ----------------------------------------------------- */
byte fence, fence_epoch;      /* the last opened: its sequence, its epoch */
byte lease[LEASES+1];
byte gate_n[LEASES+1];        /* Lease.GateN, in GRACE */
byte committed, candidate, next_lease;
byte last_n;                  /* the highest number given out */
byte n_now;                   /* Name.N: of the last installed or rollback-started */
byte asked_n;                 /* Handover.N */
byte begun;                   /* the epoch that requested, or asked: Lease.Epoch, Handover.Epoch */
byte says[MAXN];              /* number -> the lease it tells to use, 0: none */
bit asks[MAXN];               /* number -> it is a prepare */
byte registered[2];           /* the registered incarnation of each instance, 0: none */
bit said_yes[2];              /* prepared: the registered incarnation said yes to asked_n */

/* --- beside the log ------------------------------------------------------ */
byte cell;                    /* the scope cell's revision: the last epoch claimed */
bit alive[LEASES+1];          /* Vault has the lease */
bit longer[LEASES+1];         /* its guard was extended */
bit alive_twice[LEASES+1];    /* M_TWO_READS: a second lease, unknown to the log */

byte mode[2], inc[2];         /* the living incarnation; a higher one is a later start */
byte uses[2];                 /* set of leases it has sessions with */
byte taken[2];                /* the highest n taken */
byte moved[2];                /* the highest n confirmed: it uses that lease only */
byte dead_moved[2];           /* the same of the incarnation before, while registered */
byte yes_n[2];                /* the prepare it said yes to */
byte answers[2];              /* set of n: answers to registrations under way to it */
byte inbox[2];                /* set of n: prepare, follow, revert under way to it */

/* memory of the holder of the fence (State.confirmed), empty in a new epoch */
byte confirmed[2];
bit told[2];                  /* it told the instance what is in force, in this epoch */
#ifdef M_NO_RESEND
byte tried[2];
#define FORGET_TRIED ; tried[0] = 0; tried[1] = 0
#else
#define FORGET_TRIED
#endif

byte is[2], epoch[2], my_fence[2], job[2], jobs_lease[2];
byte restarts;
bit calm;                     /* from here on nothing fails, and all comes to its end */

/* --- the fence, the gate, and what a mutant leaves out of them ------------ */
#ifdef M_NO_FENCE
#define FENCED_OFF(i) 0
#else
#define FENCED_OFF(i) (my_fence[i] != fence)
#endif
/* may append; what it then appends is of the epoch of the last opened (P1, I1) */
#define LEADS(i) (is[i] == LEADING && !FENCED_OFF(i))
#define APPEND(i) assert(epoch[i] == fence_epoch)

#ifdef M_GATE_ASKED_ONLY
byte asked_set;               /* HandoverStarted.Asked */
#define COUNTS(c) (registered[c] != 0 && HAS(asked_set, c))
#else
#define COUNTS(c) (registered[c] != 0)
#endif
#define PASSED(c, n) (!COUNTS(c) || confirmed[c] >= (n))
#define GATE(n) (PASSED(0, n) && PASSED(1, n))                                 /* P13 */
#define NEW_N(l, prepare) last_n++; says[last_n] = l; asks[last_n] = prepare; EPOCH_OF_N
#ifdef M_EPOCHS_ONLY
byte epoch_of[MAXN], seen_epoch[2];
#define EPOCH_OF_N epoch_of[last_n] = fence_epoch
#else
#define EPOCH_OF_N skip
#endif

#ifdef M_NO_REASK
#define OWN_N own_n = last_n
#define MAY_TELL (own_n == n_now)
#else
#define OWN_N skip
#define MAY_TELL 1
#endif

inline forget() { confirmed[0] = 0; confirmed[1] = 0; told[0] = 0; told[1] = 0 FORGET_TRIED }
/* in one place, so that every mutant's memory is forgotten too */
inline stand_by(i) {
  if :: is[i] == LEADING && !FENCED_OFF(i) -> forget() :: else fi;
  is[i] = STANDBY; epoch[i] = 0; my_fence[i] = 0; job[i] = NO_JOB; jobs_lease[i] = 0;
  revokes = 0; intended = 0; expects = 0;
#ifdef M_ANSWER_BEFORE
  asking = 0; asking_n = 0;
#endif
#ifdef M_STANDBY_STATE
  stale_candidate = 0; stale_committed = 0;
#endif
#ifdef M_NO_REASK
  own_n = 0;
#endif
}

inline roll_back(l, back) {           /* rollback-started */
  NEW_N(back, 0); n_now = last_n; lease[l] = ROLLING; told[0] = 0; told[1] = 0; OWN_N
}
inline install(l) {                   /* installed */
  NEW_N(l, 0); n_now = last_n; told[0] = 0; told[1] = 0; OWN_N;
  x = 1;
  do
  :: x <= LEASES ->
     if :: lease[x] == ACTIVE || lease[x] == KEPT -> lease[x] = GRACE; gate_n[x] = n_now :: else fi;
     x++
  :: else -> break
  od;
  x = 0; lease[l] = ACTIVE; committed = l; candidate = 0; begun = 0; asked_n = 0
}
inline done_with(l, how) { lease[l] = how; candidate = 0; begun = 0; asked_n = 0 }

#define SILENT(c) (registered[c] != 0 && !said_yes[c])
#define ALL_YES (!SILENT(0) && !SILENT(1))

/* --- an instance of the service ------------------------------------------ */
#define USED(l) ((mode[0] == RUNNING && HAS(uses[0], l)) || (mode[1] == RUNNING && HAS(uses[1], l)))
#define OTHER_IS_IDLE (is[1-i] == STANDBY)
#define ONE_IS_FIRST (cell > 0 || i == 0)      /* both are alike: the first claim is 0's */

/* prepare goes to whom is registered while it is asked, also who came meanwhile */
#define PREPARE(c) atomic { LEADS(i) && lease[candidate] == ASKED && begun == fence_epoch && \
  registered[c] == inc[c] && mode[c] != LEFT && taken[c] < asked_n && !HAS(inbox[c], asked_n) -> \
  inbox[c] = inbox[c] | BIT(asked_n) }
/* prepared */
#define ANSWERED(c) atomic { LEADS(i) && lease[candidate] == ASKED && begun == fence_epoch && \
  registered[c] != 0 && yes_n[c] == asked_n && !said_yes[c] -> APPEND(i); said_yes[c] = 1 }
/* P14: told until it is confirmed; nobody is told while everybody is being asked */
#ifdef M_NO_RESEND               /* once, and it may be lost */
#define TELL(c) atomic { LEADS(i) && lease[candidate] != ASKED && registered[c] != 0 && n_now > 0 && \
  confirmed[c] < n_now && tried[c] != n_now -> tried[c] = n_now; \
  if :: told[c] = 1; if :: registered[c] == inc[c] && taken[c] < n_now -> inbox[c] = inbox[c] | BIT(n_now) :: else fi :: skip fi }
#else
#define TELL(c) atomic { LEADS(i) && lease[candidate] != ASKED && registered[c] != 0 && n_now > 0 && MAY_TELL && \
  confirmed[c] < n_now && !(told[c] && (registered[c] != inc[c] || taken[c] >= n_now || HAS(inbox[c], n_now))) -> \
  told[c] = 1; if :: registered[c] == inc[c] && taken[c] < n_now -> inbox[c] = inbox[c] | BIT(n_now) :: else fi }
#endif
#ifdef M_YES_CONFIRMS
#define CONFIRMED_BY(c) (registered[c] == inc[c] -> taken[c] : dead_moved[c])
#else
#define CONFIRMED_BY(c) (registered[c] == inc[c] -> moved[c] : dead_moved[c])
#endif
/* a confirmation, a repeated one too, reaches the holder that told */
#define CONFIRM(c) atomic { LEADS(i) && told[c] && registered[c] != 0 && confirmed[c] < CONFIRMED_BY(c) -> \
  confirmed[c] = CONFIRMED_BY(c) }

/* P9: registered, by compare and replace; it asks again and again, also while it
   runs, as a sign of life */
#ifdef X_CONFIRMED_PER_INSTANCE
#define NEW_CONFIRMED(c) skip
#else
#define NEW_CONFIRMED(c) confirmed[c] = 0
#endif
#define ENLIST(c, k) APPEND(i); registered[c] = k; dead_moved[c] = 0; yes_n[c] = 0; said_yes[c] = 0; told[c] = 0; NEW_CONFIRMED(c)
#ifdef M_ANSWER_BEFORE
/* what to answer is taken when the request comes, before its append */
#define REGISTER(c) atomic { LEADS(i) && asking == 0 && mode[c] != LEFT && registered[c] != inc[c] -> asking = c+1; asking_n = n_now }
#define REGISTER2(c) atomic { LEADS(i) && asking == c+1 -> \
  if :: mode[c] != LEFT && registered[c] != inc[c] -> ENLIST(c, inc[c]); answers[c] = answers[c] | BIT(asking_n) :: else fi; asking = 0; asking_n = 0 }
#else
#define REGISTER(c) atomic { LEADS(i) && mode[c] != LEFT && registered[c] != inc[c] -> ENLIST(c, inc[c]) }
#endif
#ifdef M_ANSWER_FIRST
#define KNOWN(c) 1
#else
#define KNOWN(c) (registered[c] == inc[c])
#endif
#ifdef X_ASKS_ONCE              /* a consumer that runs relies on being told */
#define ASKS_AGAIN(c) 0
#else
#define ASKS_AGAIN(c) (mode[c] == RUNNING && taken[c] < n_now)
#endif
/* the answer, from the state now that the registration is known to be in; a
   repeated registration is answered the same way, without an append */
#define ANSWER(c) atomic { LEADS(i) && KNOWN(c) && !HAS(answers[c], n_now) && \
  (mode[c] == REGISTERING || ASKS_AGAIN(c)) -> answers[c] = answers[c] | BIT(n_now) }
/* a late request of an incarnation that is dead already */
#ifdef M_OLDER_REGISTERS
#define LATE(c, k) atomic { LEADS(i) && !calm && k < inc[c] && registered[c] != k -> ENLIST(c, k) }
#else
#define LATE(c, k) atomic { LEADS(i) && !calm && k < inc[c] && registered[c] < k -> ENLIST(c, k) }
#endif
/* left: by itself, or nobody has listened for leave_after; here it is dead indeed */
#define LEAVE(c) atomic { LEADS(i) && registered[c] != 0 && (registered[c] != inc[c] || mode[c] == LEFT) -> \
  APPEND(i); registered[c] = 0; said_yes[c] = 0; dead_moved[c] = 0; confirmed[c] = 0; told[c] = 0 }

/* the way out of a lease: retired under the gate, revoking, the calls, revoked */
#ifdef M_GRACE_ONLY
#define MAY_RETIRE(l) (lease[l] == GRACE)
#else
#define MAY_RETIRE(l) (lease[l] == GRACE && GATE(gate_n[l]))
#endif
#define RETIRE(l) atomic { LEADS(i) && (MAY_RETIRE(l) || \
  (lease[l] == KEPT && lease[candidate] != ASKED && lease[candidate] != ROLLING && GATE(n_now))) -> \
  APPEND(i); lease[l] = RETIRED; gate_n[l] = 0 }                                              /* P13, P15 */
#define INTEND(l) atomic { LEADS(i) && revokes == 0 && lease[l] == RETIRED -> APPEND(i); lease[l] = REVOKING; revokes = l; intended = 1 }
#define RESUME(l) atomic { LEADS(i) && revokes == 0 && lease[l] == REVOKING -> revokes = l; intended = 1 }   /* P7 */

proctype Service(byte i) {
  byte expects;                 /* the sequence of the last opened that was read before the claim */
  byte revokes, intended, x;
#ifdef M_ANSWER_BEFORE
  byte asking, asking_n;
#endif
#ifdef M_STANDBY_STATE
  byte stale_candidate, stale_committed;
#endif
#ifdef M_NO_REASK
  byte own_n;
#endif
  end: do
  /* scope.step: read the last opened, then claim; a stalled one goes on later */
  :: atomic { is[i] == STANDBY && ONE_IS_FIRST && ((!calm && cell < EPOCHS) || (calm && OTHER_IS_IDLE)) ->
       expects = fence;
#ifdef M_STANDBY_STATE
       if :: lease[candidate] == ASKED -> stale_candidate = candidate; stale_committed = committed :: else fi;
#endif
       cell++; epoch[i] = cell; is[i] = CLAIMED }
  /* scope.open: opened, on the expectation that what was read is still the last */
  :: atomic { is[i] == CLAIMED ->
#if defined(M_OPEN_LOWER) || defined(X_READ_AFTER_CLAIM)
       expects = fence;         /* read again after the claim */
#endif
       if
#ifdef X_READ_AFTER_CLAIM
       :: fence_epoch >= epoch[i] -> stand_by(i)
       :: fence_epoch < epoch[i] ->
#else
#ifdef M_NO_FENCE
       :: 1 ->
#else
       :: expects != fence -> stand_by(i)
       :: expects == fence ->
#endif
#endif
          assert(epoch[i] > fence_epoch);               /* P1, I1 */
          fence++; fence_epoch = epoch[i]; my_fence[i] = fence; expects = 0;
          forget(); is[i] = LEADING
       fi }
  /* deposed, and it notices; a crash and a restart, or a release of the scope */
  :: atomic { is[i] != STANDBY && (cell != epoch[i] || (is[i] == LEADING && FENCED_OFF(i))) -> stand_by(i) }
  :: atomic { is[i] != STANDBY && !calm -> stand_by(i) }

  /* acquire: requested; a guard and one read; acquired, or acquire-failed (P5) */
  :: atomic { LEADS(i) && candidate == 0 && next_lease <= LEASES && job[i] == NO_JOB ->
       APPEND(i); candidate = next_lease; next_lease++; lease[candidate] = REQUESTED; begun = fence_epoch;
       job[i] = READ; jobs_lease[i] = candidate }
  :: atomic { job[i] == READ -> alive[jobs_lease[i]] = 1;
#ifdef M_EXTEND_EARLY
       longer[jobs_lease[i]] = 1;
#endif
       if :: job[i] = READ_OK :: job[i] = READ_LOST fi }
  :: atomic { job[i] == READ -> job[i] = READ_NOT }
#ifdef M_TWO_READS
  :: atomic { job[i] == READ -> alive[jobs_lease[i]] = 1; alive_twice[jobs_lease[i]] = 1; job[i] = READ_OK }
#endif
  :: atomic { LEADS(i) && job[i] == READ_OK -> APPEND(i); lease[jobs_lease[i]] = ACQUIRED; job[i] = NO_JOB; jobs_lease[i] = 0 }
  :: atomic { LEADS(i) && job[i] == READ_LOST -> APPEND(i); done_with(jobs_lease[i], RETIRED); job[i] = NO_JOB; jobs_lease[i] = 0 }
  :: atomic { LEADS(i) && job[i] == READ_NOT -> APPEND(i); done_with(jobs_lease[i], CLOSED); job[i] = NO_JOB; jobs_lease[i] = 0 }
  /* orphaned: an intent of an earlier epoch (P6) */
  :: atomic { LEADS(i) && lease[candidate] == REQUESTED && begun != fence_epoch -> APPEND(i); done_with(candidate, CLOSED) }
  /* extend the guard; guard-extended, or expired by Vault */
  :: atomic { LEADS(i) && lease[candidate] == ACQUIRED && job[i] == NO_JOB -> job[i] = EXTEND; jobs_lease[i] = candidate }
  :: atomic { job[i] == EXTEND -> if :: alive[jobs_lease[i]] -> longer[jobs_lease[i]] = 1; job[i] = EXTEND_OK :: else -> job[i] = GONE fi }
  :: atomic { LEADS(i) && job[i] == EXTEND_OK -> if :: lease[jobs_lease[i]] == ACQUIRED -> APPEND(i); lease[jobs_lease[i]] = EXTENDED :: else fi;
       job[i] = NO_JOB; jobs_lease[i] = 0 }
  :: atomic { LEADS(i) && job[i] == GONE -> if :: lease[jobs_lease[i]] == ACQUIRED -> APPEND(i); done_with(jobs_lease[i], CLOSED) :: else fi;
       job[i] = NO_JOB; jobs_lease[i] = 0 }
  /* a candidate comes to nothing: verify-failed, expired, its definition changed */
  :: atomic { LEADS(i) && (lease[candidate] == ACQUIRED || lease[candidate] == EXTENDED) -> APPEND(i); done_with(candidate, RETIRED) }
#ifdef M_CLOSE_BY_CLOCK
  :: atomic { LEADS(i) && lease[candidate] == ACQUIRED && job[i] == NO_JOB -> APPEND(i); done_with(candidate, CLOSED) }
#endif

  /* hand over: handover-started; everybody registered is asked */
#ifdef M_HANDOVER_BEFORE_EXTENSION
  :: atomic { LEADS(i) && (lease[candidate] == EXTENDED || lease[candidate] == ACQUIRED) ->
#else
  :: atomic { LEADS(i) && lease[candidate] == EXTENDED ->
#endif
       APPEND(i); NEW_N(candidate, 1); lease[candidate] = ASKED; asked_n = last_n; begun = fence_epoch; said_yes[0] = 0; said_yes[1] = 0;
#ifdef M_GATE_ASKED_ONLY
       asked_set = (registered[0] != 0) | ((registered[1] != 0) << 1);
#endif
#ifdef M_RETIRE_EARLY
       if :: committed != 0 -> lease[committed] = RETIRED :: else fi;
#endif
     }
  :: PREPARE(0)
  :: PREPARE(1)
  :: ANSWERED(0)
  :: ANSWERED(1)
  /* installed: all said yes, here or before a takeover (P12) */
#ifdef X_RATHER_THAN_NONE       /* or the committed lease is at its end */
  :: atomic { LEADS(i) && lease[candidate] == ASKED -> APPEND(i); install(candidate) }
#else
  :: atomic { LEADS(i) && lease[candidate] == ASKED && ALL_YES -> APPEND(i); install(candidate) }
#endif
  /* rollback-started: a no, silence, the candidate's end, a takeover (P12) */
#ifdef M_SKIP_RECOVERY
  :: atomic { LEADS(i) && lease[candidate] == ASKED && begun == fence_epoch -> APPEND(i); roll_back(candidate, committed) }
  :: atomic { LEADS(i) && lease[candidate] == ASKED && begun != fence_epoch -> APPEND(i); done_with(candidate, RETIRED) }
#else
  :: atomic { LEADS(i) && lease[candidate] == ASKED -> APPEND(i); roll_back(candidate, committed) }
#endif
#ifdef M_STANDBY_STATE
  :: atomic { LEADS(i) && stale_candidate != 0 -> APPEND(i);
       assert(lease[stale_candidate] == ASKED);          /* else the event does not fit the log */
       committed = stale_committed; roll_back(stale_candidate, stale_committed); stale_candidate = 0; stale_committed = 0 }
#endif
  /* rolled-back, safe: all have confirmed (P13); or not: the candidate is kept */
#if defined(M_REVOKE_UNCONFIRMED)
  :: atomic { LEADS(i) && lease[candidate] == ROLLING -> APPEND(i); done_with(candidate, RETIRED) }
#else
  :: atomic { LEADS(i) && lease[candidate] == ROLLING && GATE(n_now) -> APPEND(i); done_with(candidate, RETIRED) }
  :: atomic { LEADS(i) && lease[candidate] == ROLLING && !GATE(n_now) -> APPEND(i); done_with(candidate, KEPT) }
#endif
  :: TELL(0)
  :: TELL(1)
  :: CONFIRM(0)
  :: CONFIRM(1)
  :: REGISTER(0)
  :: REGISTER(1)
#ifdef M_ANSWER_BEFORE
  :: REGISTER2(0)
  :: REGISTER2(1)
#else
  :: ANSWER(0)
  :: ANSWER(1)
#endif
#if RESTARTS > 0
  :: LATE(0, 1)
  :: LATE(1, 1)
#endif
#if RESTARTS > 1
  :: LATE(0, 2)
  :: LATE(1, 2)
#endif
#ifdef X_LEAVE
  :: LEAVE(0)
  :: LEAVE(1)
#endif
  :: RETIRE(1)
  :: RETIRE(2)
  :: INTEND(1)
  :: INTEND(2)
  :: RESUME(1)
  :: RESUME(2)
#if LEASES > 2
  :: RETIRE(3)
  :: INTEND(3)
  :: RESUME(3)
#endif
  /* the calls that can't be undone, perhaps long after we were deposed */
  :: atomic { intended == 1 ->
       assert(revokes != committed);                         /* I4 */
       assert(!USED(revokes));                            /* I4: no lease that a consumer lives on */
       alive[revokes] = 0; intended = 2 }
  :: atomic { LEADS(i) && intended == 2 -> APPEND(i); lease[revokes] = CLOSED; revokes = 0; intended = 0 }
  od
}

/* --- a consumer's instance ------------------------------------------------ */
#ifdef M_CHECK_NOTHING
#define NEWER(n) ((n) != taken[c])
#define PRUNE(n) skip
#else
#ifdef M_EPOCHS_ONLY
#define NEWER(n) ((n) != taken[c] && epoch_of[n] >= seen_epoch[c])
#define PRUNE(n) seen_epoch[c] = epoch_of[n]
#else
#define NEWER(n) ((n) > taken[c])                                                 /* P10 */
#if defined(M_PREPARE_BEFORE_ANSWER) || defined(X_UNADDRESSED) || defined(M_ANSWER_UNADDRESSED)
#define PRUNE(n) skip           /* it may still reach the next incarnation */
#else
/* what is not newer can never be taken: forgotten, for fewer states */
#define PRUNE(n) inbox[c] = (inbox[c] >> ((n)+1)) << ((n)+1); answers[c] = (answers[c] >> ((n)+1)) << ((n)+1)
#endif
#endif
#endif
#define LOGIN_WORKS(n) (says[n] == 0 || alive[says[n]])                           /* P11 */
#ifdef M_NONE_UNCONFIRMED
#define MOVE(n) if :: says[n] != 0 -> moved[c] = n :: else fi
#else
#define MOVE(n) moved[c] = n
#endif
/* a prepare: the old sessions stay until the commit */
#define TAKE(n) taken[c] = n; mode[c] = RUNNING; \
  if :: asks[n] -> uses[c] = uses[c] | BIT(says[n]); yes_n[c] = n \
     :: else -> uses[c] = ONLY(says[n]); MOVE(n) fi; PRUNE(n)
#if defined(M_PREPARE_BEFORE_ANSWER) || defined(X_PREPARE_BEFORE_ANSWER)
#define LISTENS (mode[c] == RUNNING || mode[c] == REGISTERING)
#else
#define LISTENS (mode[c] == RUNNING)                                              /* P10 */
#endif
#define MESSAGE(n) atomic { LISTENS && HAS(inbox[c], n) && NEWER(n) && LOGIN_WORKS(n) -> TAKE(n) }
#define ANSWERS(n) atomic { HAS(answers[c], n) && (mode[c] == REGISTERING || (mode[c] == RUNNING && NEWER(n))) && LOGIN_WORKS(n) -> TAKE(n) }

proctype Consumer(byte c) {
  end: do
  :: ANSWERS(0)
  :: ANSWERS(1)
  :: MESSAGE(1)
  :: ANSWERS(2)
  :: MESSAGE(2)
  :: ANSWERS(3)
  :: MESSAGE(3)
  :: ANSWERS(4)
  :: MESSAGE(4)
  :: ANSWERS(5)
  :: MESSAGE(5)
#if defined(FIRST) && LEASES > 2
  :: ANSWERS(6)
  :: MESSAGE(6)
#endif
  /* it dies; its successor starts when it is dead, and knows nothing */
  :: atomic { mode[c] != LEFT && !calm && restarts < RESTARTS -> restarts++;
       if :: registered[c] == inc[c] -> dead_moved[c] = moved[c] :: else fi;
       uses[c] = 0; taken[c] = 0; moved[c] = 0;
#ifdef M_EPOCHS_ONLY
       seen_epoch[c] = 0;
#endif
#ifndef M_ANSWER_UNADDRESSED
       answers[c] = 0;
#endif
#if !defined(M_PREPARE_BEFORE_ANSWER) && !defined(X_UNADDRESSED)
       inbox[c] = 0;            /* what is under way is sealed to the dead one's key */
#endif
#ifdef X_LEAVE
       if :: inc[c]++; mode[c] = REGISTERING :: mode[c] = LEFT; answers[c] = 0; inbox[c] = 0 fi
#else
       inc[c]++; mode[c] = REGISTERING
#endif
     }
#ifdef M_TWO_LIVING             /* the instance's promise is broken: the old one lives on */
  :: atomic { c == 1 && mode[1] == RUNNING && !calm && registered[0] != 0 -> registered[0] = 0; confirmed[0] = 0 }
#endif
  od
}

/* --- Vault ends what hangs on a guard that was not extended --------------- */
#define EXPIRE(l) atomic { alive[l] && !longer[l] -> assert(l != committed && !USED(l)); alive[l] = 0 }   /* P5 */
proctype Vault() {
  end: do
  :: EXPIRE(1)
  :: EXPIRE(2)
#if LEASES > 2
  :: EXPIRE(3)
#endif
#ifdef M_TWO_READS
  :: atomic { alive_twice[1] && !longer[1] -> alive_twice[1] = 0 }
  :: atomic { alive_twice[2] && !longer[2] -> alive_twice[2] = 0 }
#endif
  od
}

/* --- once nothing fails any more and nobody can do anything --------------- */
#define AT_REST(l) (lease[l] == NOTHING || lease[l] == ACTIVE || lease[l] == CLOSED)
#define NOTHING_LEFT(l) (alive[l] == (l == committed) && !alive_twice[l])           /* I3 */
#define FOLLOWS(c) (mode[c] == LEFT || (mode[c] == RUNNING && uses[c] == ONLY(committed)))
proctype Rest() {
  calm = 1;
  timeout;
  assert((is[0] == LEADING && my_fence[0] == fence) || (is[1] == LEADING && my_fence[1] == fence));   /* I8 */
  assert(AT_REST(1) && AT_REST(2));
  assert(NOTHING_LEFT(1) && NOTHING_LEFT(2));
#if LEASES > 2
  assert(AT_REST(3) && NOTHING_LEFT(3));
#endif
  assert(FOLLOWS(0));
  assert(FOLLOWS(1))
}

#define ON_LEASE_1(c) mode[c] = RUNNING; inc[c] = 1; registered[c] = 1; uses[c] = BIT(1); taken[c] = 1; moved[c] = 1
#define UNREGISTERED(c) mode[c] = REGISTERING; inc[c] = 1
init { atomic {
#ifdef FIRST
  next_lease = 1;
  UNREGISTERED(0);
#if CONSUMERS > 1
  UNREGISTERED(1);
#endif
#else
  lease[1] = ACTIVE; committed = 1; alive[1] = 1; longer[1] = 1; next_lease = 2;
  last_n = 1; n_now = 1; says[1] = 1;
#if defined(LATECOMER) && CONSUMERS == 1
  UNREGISTERED(0);
#else
  ON_LEASE_1(0);
#endif
#if CONSUMERS > 1
#ifdef LATECOMER
  UNREGISTERED(1);
#else
  ON_LEASE_1(1);
#endif
#endif
#ifdef M_ANSWER_UNADDRESSED     /* duplicates of the first answers are still under way */
  answers[0] = BIT(1); answers[1] = BIT(1);
#endif
#endif
  run Service(0); run Service(1); run Consumer(0);
#if CONSUMERS > 1
  run Consumer(1);
#else
  mode[1] = LEFT;
#endif
  run Vault(); run Rest()
} }
