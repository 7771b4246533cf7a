/* The append, as built: opening an epoch, fenced appends, and outcomes that are
 * not known (events/journal: writer.go, settle.go, opened.go; service/scope.go).
 *
 * Two instances lead a scope in turn. The log shows one hand-over in flight; who
 * leads decides commit or roll back, once. Both in the log, or one of them twice,
 * would be the end of all rules of handover.pml, which takes an append for one
 * atomic step. A request is delivered at any later time, once, or lost; an answer
 * may be lost; a read may not show yet what the log holds.
 *
 * Sizes:    CLAIMS, IDS (of messages; one may be sent many times), SLOTS (requests
 *           under way at a time).
 * Variants: -DX_name, must stay clean. Mutants: -DM_name, must violate.
 */
#ifndef CLAIMS
#define CLAIMS 2
#endif
#ifndef IDS
#define IDS 5
#endif
#ifndef SLOTS
#define SLOTS 2
#endif

#define NO_REQUEST 0
#define COMMIT     1          /* a decision: one event, or a batch that is one */
#define ROLL_BACK  2
#define OPENED     3

#define NO_ANSWER 0
#define STORED    1
#define MOVED     2           /* 10071: the last opened is another */
#define FULL      3           /* refused for another reason, and not stored */

typedef Request { byte kind; byte expect; byte epoch; byte id; byte from };
Request way[SLOTS];

/* --- the log --------------------------------------------------------------- */
byte fence, fence_epoch, fence_id;  /* the last opened: sequence, epoch, attempt id */
byte decided, decided_id;           /* the decision that is in, and its id */

byte cell;                          /* the scope cell's revision */
byte ids;
/* what the one who waits for wanted[i] is told */
byte wanted[2], answer[2], answer_fence[2];

#ifdef M_NO_FENCE
#define ACCEPTS(s) 1
#else
#define ACCEPTS(s) (way[s].expect == fence)
#endif
/* who does not wait any more does not hear it: that is a lost answer, too */
#define REPLY(s, what, f) if :: wanted[way[s].from] == way[s].id -> answer[way[s].from] = what; answer_fence[way[s].from] = f \
                             :: wanted[way[s].from] != way[s].id -> skip fi
#define FREE(s) way[s].kind = NO_REQUEST; way[s].expect = 0; way[s].epoch = 0; way[s].id = 0; way[s].from = 0

/* the stream's leader: looks at the expectation and stores in one step */
#define DELIVER(s) \
  :: atomic { way[s].kind == OPENED -> \
       if :: way[s].expect == fence -> \
             assert(way[s].epoch >= fence_epoch);                 /* P1, I1 */ \
             fence++; fence_epoch = way[s].epoch; fence_id = way[s].id; REPLY(s, STORED, fence) \
          :: way[s].expect != fence -> REPLY(s, MOVED, 0) fi; \
       FREE(s) } \
  :: atomic { (way[s].kind == COMMIT || way[s].kind == ROLL_BACK) -> \
       if :: ACCEPTS(s) -> \
             assert(way[s].epoch == fence_epoch);                 /* I1: no event of an epoch after a later one */ \
             assert(decided == 0);                                /* none twice, none beside another */ \
             decided = way[s].kind; decided_id = way[s].id; REPLY(s, STORED, 0) \
          :: !ACCEPTS(s) -> REPLY(s, MOVED, 0) \
          :: ACCEPTS(s) -> REPLY(s, FULL, 0) fi; \
       FREE(s) } \
  :: atomic { way[s].kind != NO_REQUEST -> FREE(s) }              /* lost */

active proctype Stream() { end: do DELIVER(0) DELIVER(1)
#if SLOTS > 2
  DELIVER(2)
#endif
  od }

#define IN_SLOT(s, k, f, n) way[s].kind == NO_REQUEST -> way[s].kind = k; way[s].expect = f; way[s].epoch = epoch; way[s].id = n; way[s].from = i
#define PUBLISH(k, f, n) wanted[i] = n; \
  if :: IN_SLOT(0, k, f, n) \
     :: way[0].kind != NO_REQUEST && IN_SLOT(1, k, f, n) \
     THIRD(k, f, n) \
     :: ALL_TAKEN -> skip /* never left */ fi
#if SLOTS > 2
#define THIRD(k, f, n) :: way[0].kind != NO_REQUEST && way[1].kind != NO_REQUEST && IN_SLOT(2, k, f, n)
#define ALL_TAKEN (way[0].kind != NO_REQUEST && way[1].kind != NO_REQUEST && way[2].kind != NO_REQUEST)
#else
#define THIRD(k, f, n)
#define ALL_TAKEN (way[0].kind != NO_REQUEST && way[1].kind != NO_REQUEST)
#endif
#define NEW_ID(n) ids < IDS -> ids++; n = ids
#define WAIT_NO_MORE answer[i] = NO_ANSWER; answer_fence[i] = 0; wanted[i] = 0

proctype Instance(byte i) {
  byte epoch, mine, expects, id, decides, believes;

standing_by:
  end: atomic { cell < CLAIMS ->
#ifndef M_OPEN_LOWER
       expects = fence;                   /* scope.lastOpened: before the claim, not again in it */
#endif
#ifdef X_STALE_READ                       /* the follower is behind */
       if :: expects > 0 -> expects = expects-1 :: skip fi;
#endif
       skip }
  atomic { if :: cell < CLAIMS -> cell++; epoch = cell :: else -> goto leave fi }       /* Cells.ClaimStep */
#ifdef M_OPEN_LOWER
  expects = fence;                        /* read after the claim, and no epochs compared */
#endif
#ifdef X_READ_AFTER_CLAIM
  atomic { expects = fence; if :: fence_epoch >= epoch -> goto leave :: else fi };
#endif

opening:                                  /* Log.AppendOpened: one attempt, however often it is sent */
  if
  :: atomic { NEW_ID(id); PUBLISH(OPENED, expects, id) }
  :: goto leave                           /* a crash */
  fi;
  goto opened_answer;
send_opened:
  atomic { PUBLISH(OPENED, expects, id) };
opened_answer:
  if
  :: atomic { answer[i] == STORED -> mine = answer_fence[i]; WAIT_NO_MORE; goto lead }
  :: atomic { answer[i] == MOVED -> WAIT_NO_MORE;                                       /* whoMoved */
       if :: fence_id == id -> mine = fence; goto lead :: else -> goto leave fi }
  :: atomic { WAIT_NO_MORE;                                                             /* lookForAttempt */
       if :: fence != expects && fence_id == id -> mine = fence; goto lead
          :: fence != expects && fence_id != id -> goto leave                           /* Fenced */
          :: goto send_opened             /* not there, or not shown yet: the same once more */
       fi }
  :: goto leave
  fi;

lead:                                     /* folded up to mine: what stands below it is all there will be */
  atomic { id = 0; expects = 0; believes = decided;
    if :: believes != 0 -> goto act
       :: believes == 0 && ids == IDS -> goto leave
       :: believes == 0 && ids < IDS -> if :: decides = COMMIT :: decides = ROLL_BACK fi fi;
    NEW_ID(id); PUBLISH(decides, mine, id) };
#ifdef M_REPEAT
decision_answer:
#endif
  if
  :: atomic { answer[i] == STORED -> believes = decides; WAIT_NO_MORE; goto act }
  :: atomic { answer[i] == MOVED -> WAIT_NO_MORE; goto leave }                          /* Fenced */
  :: atomic { answer[i] == FULL -> WAIT_NO_MORE; goto lead }                            /* nothing stored: decide again */
  :: atomic { WAIT_NO_MORE;                                                             /* no answer: Writer.settle */
       if :: decided != 0 && decided_id == id -> believes = decided; goto act           /* found */
          :: fence != mine -> goto leave                                                /* look: a foreign opened */
#ifdef M_DECIDE_BY_READING
          :: decided_id != id -> goto lead
#else
#ifdef M_REPEAT
          :: decided_id != id -> PUBLISH(decides, mine, id); goto decision_answer
#else
          :: skip                         /* not there, or not shown yet: it decides nothing */
#endif
#endif
       fi }
  :: goto leave
  fi;
#if !defined(M_DECIDE_BY_READING) && !defined(M_REPEAT)
reopen:                                   /* opened of the same epoch, on our own fence: a new attempt id */
  if :: atomic { NEW_ID(id); expects = mine; decides = 0; PUBLISH(OPENED, expects, id) } :: goto leave fi;
  goto opened_answer;                     /* then lead: read up to the new fence, keep what is found or decide again */
#endif

act:                                      /* effects start: while the fence is ours, the log says what we believe */
  atomic { if :: fence == mine -> assert(believes == decided) :: else fi };
leave:
  atomic { epoch = 0; mine = 0; expects = 0; id = 0; decides = 0; believes = 0; WAIT_NO_MORE; goto standing_by }
}

init { atomic { run Instance(0); run Instance(1) } }
