/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Wrong orders on purpose. Each rule has a mutant, and a test that must fail on it. That
 * shows that the tests defend the rule. A mutant is a build of core/ in which that rule
 * alone is broken (-DLODIC_MUTANT=number). Normal builds have none of this code. The checker's
 * build asks at run time: -DLODIC_MUTANT=check_mutant_now, a variable of its host.
 */
#ifndef LODIC_CORE_MUTANT_H
#define LODIC_CORE_MUTANT_H

enum mutant {
	MUTANT_NONE,
	MUTANT_NO_PIN,            /* a pin that is not counted */
	MUTANT_HIDE_AFTER_WALK,   /* frames hidden after the contexts were walked */
	MUTANT_SEQ_AFTER_FILL,    /* seq moved only once, when the fill is done */
	MUTANT_NO_IDENTITY_CHECK, /* an optimistic read believes the translation */
	MUTANT_NO_RECHECK,        /* a pin does not look at the frame */
	MUTANT_CLEAR_BEFORE_FOLD, /* a pte cleared before its count is in the global word */
	MUTANT_UNMAP_DROPS_COUNT, /* a pte cleared and its count forgotten */
	MUTANT_UNREF_OTHER_SLOT,  /* unref at the slot found now, not at the token's */
	MUTANT_REMAP_MOVES_COUNT, /* a count that moves to another address */
	MUTANT_FORK_COPIES_COUNT, /* counter bits copied to the child */
	MUTANT_GLOBAL_BEFORE_LOCALS, /* a query that reads the global word first */
	MUTANT_THAW_STORES, /* frozen thawed by a store: late failed refs are lost */
	/* The scanned gate and the cache: core/cache/ and core/frame.c. */
	MUTANT_COUNT_WITHOUT_FENCE, /* a plain store where the service's fence is full */
	MUTANT_TAKE_WITHOUT_FENCE,  /* no fence between the hide and the walk */
	MUTANT_LOOK_FIRST,          /* a pin looks at the frame, then counts */
	MUTANT_REFUSED_STAYS_HIDDEN, /* a refused frame is not shown again */
	MUTANT_WALK_SKIPS_NEWEST,    /* the walk's bound is one short */
	MUTANT_RAISED_LAST,          /* nr_pinned raised when the pin is made */
	MUTANT_COUNT_LEFT,           /* a look failed, and the count stays */
	MUTANT_LOWERED_EACH,         /* nr_pinned lowered at an entry's every unpin */
	MUTANT_TAKE_LEAVES_NAME,     /* a frame that was taken keeps its name */
	MUTANT_WALK_SKIPS_LAST_WAY,  /* a walk leaves the last entry of a set out */
	MUTANT_WALK_OTHER_SET,       /* a walk looks at another set than a pin does */
	MUTANT_JOIN_SHORTENS,        /* a join into a hole ends the walk there */
	MUTANT_LEAVE_SHORTENS,       /* a leave in the middle ends the walk there */
	MUTANT_TAKE_LEAVES_LED,    /* the translation leads to a frame that was taken */
	MUTANT_MAPS_BY_TAG,        /* an entry believed by its tag alone */
	MUTANT_PIN_KEPT,           /* a pin that nobody vouches for stays counted */
	MUTANT_CHOOSE_PINNED,      /* a soft miss takes the entry of a pinned frame */
	MUTANT_UNPIN_DROPS_ALL,    /* an unpin forgets the other pins of its entry */
	MUTANT_NAME_BEFORE_SEQ,    /* a frame's name looked at before its seq */
	MUTANT_NO_SECOND_LOOK,     /* seq not looked at after the copy */
	MUTANT_FILL_WITHOUT_FENCE, /* a fill begins before its odd seq is in memory */
	MUTANT_PUBLISH_BEFORE_BYTES, /* a frame published, then filled */
	MUTANT_PUBLISH_UNPROVED,     /* published without a look at the file's proof */
	MUTANT_VISITS_UNBOUNDED,     /* visits counted past three */
	MUTANT_REVOKE_WITHOUT_FENCE, /* revoked in the store buffer only */
	MUTANT_LEASE_BACK_FIRST,     /* the writer goes on before the file is revoked */
	MUTANT_VOUCH_FIRST,          /* the proof looked at before the copy */
	MUTANT_VOUCH_THEN_PIN,       /* the proof looked at before the pin */
	MUTANT_ID_USED_AGAIN,        /* a changed file admitted under its old id */
	MUTANT_SIZE_BEFORE_LEASE, /* a file's size asked for before the lease is held */
	MUTANT_ADMIT_LIVE_FIRST,  /* a file's id shown before its size */
	MUTANT_END_NOT_MARKED,    /* a service ends and does not say so */
	MUTANT_END_WITHOUT_FENCE, /* its mark waits while its leases fall */
	MUTANT_ALIVE_IGNORED,     /* nobody asks whether the service lives */
	MUTANT_JOIN_AFTER_TOLD,   /* a reader has its memory before the walk knows it */
	MUTANT_LEAVE_BEFORE_DEATH, /* a context dropped while its reader lives */
	MUTANT_LEAVE_KEEPS,        /* a context that left is still walked */
	MUTANT_HINT_WITHOUT_FENCE, /* no fence between a hint and the look at posted */
	MUTANT_HINT_OVER_FULL,     /* a full ring overwrites its oldest hint */
	MUTANT_HINT_HEAD_FIRST,    /* a hint announced, then written */
	MUTANT_HINT_TAIL_FIRST,    /* a hint given back, then read */
	MUTANT_SLEEP_AFTER_LOOK, /* the service says that it sleeps when it has looked */
	MUTANT_SLEEP_WITHOUT_FENCE, /* no fence between that and the look */
	MUTANT_RIVAL_NO_LOOK, /* a reference in a shared word, and no look at the name */
	MUTANT_HAZARD_NO_LOOK, /* a hazard slot set, and no second look */
	/* The owned gate, and the query flag: core/owned/. */
	MUTANT_FLAG_BEFORE_INCREMENT, /* lodic_flag: a ref looks at the flag, then counts */
	MUTANT_FLAG_PLAIN_STORE, /* lodic_flag: no fence between the flag and the counts */
	MUTANT_UNREF_BY_ADD,     /* unref by what the count is, not by its token */
	MUTANT_REF_ANY_FRAME, /* a ref counts in a pte, whatever frame that leads to */
	MUTANT_UNREF_ANY_FRAME, /* an unref takes from a pte, whatever frame that leads to */
	MUTANT_MAP_NAME_FIRST, /* a frame's name looked at before it is held, then mapped */
	MUTANT_PTE_DROPPED_FIRST, /* a pte's own reference dropped before its count folds */
	MUTANT_SNZI_NO_ANNOUNCE,     /* a leaf counts before the root knows */
	MUTANT_SNZI_VERSION_DROPPED, /* the root's version stands still */
	MUTANT_TEMPLATE_UNREF_HERE, /* unref at this CPU's stripe, not at the token's */
	/* Counts on the reader's CPU: core/count/count_gate.h and what uses it. */
	MUTANT_PAYGO_NO_FENCE,    /* a gate closed, and no fence before the look */
	MUTANT_PAYGO_LOCAL_FIRST, /* READ-ALL: local, then anchor */
	MUTANT_PAYGO_ANCHOR_NOT_ATOMIC, /* an anchor changed by load and store */
	MUTANT_PAYGO_UNREF_HERE, /* unref in this CPU's entry, not in the token's */
	MUTANT_PAYGO_EVICT_LIVE, /* a full bucket's live entry used for another object */
	MUTANT_PERCPU_LOCALS_FIRST, /* the fold reads undone last */
	MUTANT_PERCPU_UNDO_LOCAL,  /* a failed ref taken back on the CPU it is on now */
	MUTANT_REFCACHE_ONE_EPOCH, /* true zero after one epoch */
	MUTANT_REFCACHE_WATCH_IGNORED, /* a ref leaves the watch where it is */
	MUTANT_REFCACHE_COMMIT_FIRST, /* a slot emptied, then the global count raised */
	MUTANT_SLOPPY_SPARES_FIRST,   /* central read after the spares */
	MUTANT_SLOPPY_SPARE_BACK, /* a failed ref leaves its spare on the CPU it is on */
	/* One word, and a slot: core/count_word.h, core/count/count_hazard.c. */
	MUTANT_ATOMIC_FREEZE_STORES, /* atomic: a freeze looks, then stores */
	MUTANT_HAZARD_LOOK_FIRST, /* hazard: a ref looks at the state, then names it */
	MUTANT_HAZARD_NO_FENCE,   /* hazard: no fence between the state and the scan */
	/* Rules that only small constants and worlds of two or three show. */
	MUTANT_CLEAR_LAST_LATE, /* a clear that ran out of tries adds after its exchange */
	MUTANT_REF_PAST_MAX,    /* a pte counts past its bits */
	MUTANT_UNMAP_LEAVES_MARK,     /* an unmap leaves what a freeze may give back */
	MUTANT_UNMAP_FRAME_ONE,       /* a frame unmapped in one process only */
	MUTANT_UNSHARE_NOTHING,       /* an unshare leaves the page mapped */
	MUTANT_FORK_OWNS_NOTHING,     /* a child's pte without a reference of its own */
	MUTANT_QUERY_LOCALS_ONLY,     /* a query forgets the global word */
	MUTANT_SHARE_READ_ONCE,       /* a query does not look at share again */
	MUTANT_SHARE_LOWERED_LAST,    /* a pte less: global before share */
	MUTANT_SUM_GLOBAL_ONLY,       /* a sum forgets the local counts */
	MUTANT_HAZARD_SCAN_SHORT,     /* a scan leaves out each user's last slot */
	MUTANT_HAZARD_CLAIM_STORES,   /* a slot looked at, then taken by an exchange */
	MUTANT_PAYGO_LAST_WAY,        /* READ-ALL leaves out a bucket's last way */
	MUTANT_PAYGO_OVERFLOW_UNSEEN, /* READ-ALL leaves out the overflow */
	MUTANT_SLOPPY_CENTRAL_FIRST,  /* central lowered before the spares go */
	MUTANT_SNZI_NEWS_FIRST,       /* NEWS taken away before the indicator is set */
	MUTANT_SNZI_NOT_UNDONE,       /* an arrival too many stays at the root */
	/* Eviction: core/cache/reclaim.c. */
	MUTANT_EVICT_BEGINS_AGAIN,   /* each call begins a new eviction */
	MUTANT_EVICT_ASKED_ONCE,     /* visits asked for once, not once an eviction */
	MUTANT_REMOVE_KEEPS_REFUSED, /* a frame that left still counts as refused */
	MUTANT_HINT_LIE_BELIEVED,    /* a ring that cannot hold so many hints is read */
	/* Frames on their way out: core/cache/batch.c. */
	MUTANT_HIDE_AFTER_FENCE,  /* frames hidden after the heavy fence */
	MUTANT_WALK_ANY_TAG,      /* a count for another block refuses a frame */
	MUTANT_LIST_BEFORE_FENCE, /* who has pins is asked before the fence */
	MUTANT_ADD_TO_CLOSED,     /* a frame hidden while its batch's fence goes on */
	MUTANT_RESCUED_IN_OLD_BATCH, /* a frame hidden again goes with its old batch */
	MUTANT_SEQ_AT_HIDE,          /* a hidden frame cannot be read */
	MUTANT_GLOBAL_IS_FULL,       /* light pins, and a fence of the service's own */
	MUTANT_QUOTA_IGNORED,        /* pins past the quota */
	MUTANT_PINS_BEFORE_BYTES,    /* a frame takes pins while it is filled */
	/* Views: core/cache/view.h. */
	MUTANT_VIEW_SEQ_NOT_LOOKED,  /* seq not looked at after the bytes */
	MUTANT_VIEW_NAME_NOT_LOOKED, /* a view believes the translation */
	MUTANT_VIEW_NOT_VOUCHED,     /* nobody asks for the file's proof */
	/* Hints once more: posted of core/cache/hint.h. */
	MUTANT_HINT_MARK_FIRST,         /* a ring marked, then the hint posted */
	MUTANT_HINT_MARK_WITHOUT_FENCE, /* no fence between that and the look at sleeping */
	MUTANT_HINT_LOOK_WITHOUT_FENCE, /* a mark cleared, and no fence before the ring */
	/* The second bucket: core/cache/translation.c. */
	MUTANT_SPILL_NOT_MARKED, /* a block in its second bucket, and no bit for it */
	MUTANT_SPILL_MARK_STAYS, /* the bit outlives the block */
	/* Holds: core/cache/hold.c. */
	MUTANT_HOLD_UNPROVED,        /* published without a look at the proof */
	MUTANT_HOLD_ASK_UNPROVED,    /* given without a look at the proof */
	MUTANT_HOLD_ALIVE_IGNORED,   /* the end of the arena is no end of its proofs */
	MUTANT_HOLD_OTHER_ID,        /* a file's new id gets the old one's hold */
	MUTANT_HOLD_OTHER_ARENA,     /* an id gets the hold of another arena's id */
	MUTANT_HOLD_OUTDATED_SHARED, /* outdated or spoilt while being read, and shared */
	MUTANT_HOLD_PIECE_IGNORED,   /* a piece that could not be read is not noticed */
	MUTANT_HOLD_PIECES_UNCOUNTED, /* published while a piece is still being read */
	MUTANT_HOLD_SEAL_IGNORED,     /* given though the seal failed */
	MUTANT_HOLD_PASSED_EARLY,     /* passed on by number before it is published */
	MUTANT_HOLD_NOT_JOINED,       /* a range that is being read is read once more */
	MUTANT_HOLD_ROOM_LATE,        /* bytes counted when they have been read */
	MUTANT_HOLD_ROOM_EARLY,       /* bytes given back before the memory is */
	MUTANT_HOLD_LEAVE_UNASKED,    /* a hold leaves, and nobody asks who has it */
	MUTANT_HOLD_ASK_KEPT,         /* asked, then given, then left by that answer */
	/* The table of leases: core/cache/file_proof.h. */
	MUTANT_PROOF_UNLOCKED,     /* a lease taken, and its table is not locked */
	MUTANT_ENTER_AFTER_UNLOCK, /* a lease entered when the table's lock is free again */
	/* PAYGO's entries that own a reference: core/paygo_gate.h and what uses it. */
	MUTANT_ENTRY_CLOSED_FIRST, /* an entry closed, then its live count folds */
	MUTANT_ENTRY_OWN_FIRST,    /* its own reference dropped before the fold */
	MUTANT_ENTRY_SURPLUS_KEPT, /* returns during a fold stay in the global word */
	MUTANT_ENTRY_AWAY_BLIND,   /* a return from elsewhere, and no look at CLOSED */
	MUTANT_ENTRY_AWAY_LOOK_FIRST,  /* a look at CLOSED, then the return */
	MUTANT_ENTRY_AWAY_PLAIN,       /* a return from elsewhere by load and store */
	MUTANT_ENTRY_REUSED_EARLY,     /* a closed entry used again, tokens still out */
	MUTANT_ENTRY_BESIDE_TOMBSTONE, /* an open entry beside a tombstone of its key */
	MUTANT_ENTRY_HIT_CLOSED,       /* a hit in a closed entry */
	MUTANT_ENTRY_INSTALL_DISABLED, /* an install while entries are disabled */
	MUTANT_ENTRY_DISABLED_LAST,    /* all tables folded, then entries disabled */
	MUTANT_ENTRY_PREEMPT_ON,       /* an entry counted in with preemption on */
	MUTANT_ENTRY_FOLD_ELSEWHERE, /* a CPU folds the table of another one, which runs */
	MUTANT_ENTRY_DEAD_EARLY, /* a CPU's table folded when its last stores are on their way */
	MUTANT_ENTRY_PUT_BY_FLAG, /* an unref by whether there is an entry, not by its token */
	MUTANT_ENTRY_NO_LOOK, /* a hit, and no look at what the frame holds */
	MUTANT_GATE_CLOSED_LATE, /* a gate closed by a store when the counts were looked at */
	/* The owned gate once more. */
	MUTANT_UNREF_GIVES_UP, /* an unref out of tries drops a global reference */
	/* A program's own objects: core/counter/counter.c. */
	MUTANT_COUNTER_KILL_NO_ABORT, /* a kill's fence orders memory, and aborts nothing */
	MUTANT_COUNTER_KILL_NO_FENCE, /* a kill with no fence at all */
	MUTANT_COUNTER_FOLD_FIRST,    /* entries folded, then the word closed */
	MUTANT_COUNTER_CLOSE_STORES,  /* the word closed by load and store */
	MUTANT_COUNTER_NO_BIAS,       /* a word that is 0 while entries fold */
	MUTANT_COUNTER_FOLD_STORES,   /* an entry marked by load and store */
	MUTANT_COUNTER_KEY_FIRST,     /* a fold reads the key, then the counts */
	MUTANT_COUNTER_LAST_WAY,      /* a fold leaves the last entry of a bucket out */
	MUTANT_COUNTER_AWAY_BLIND,   /* a return from elsewhere that ignores the mark */
	MUTANT_COUNTER_AWAY_PLAIN,   /* a return from elsewhere by load and store */
	MUTANT_COUNTER_PACKED_BLIND, /* a packed return that ignores the mark */
	MUTANT_COUNTER_PACKED_NO_LOOK, /* a packed reference, and no look at the word */
	MUTANT_COUNTER_MARK_STAYS,     /* the last return leaves the mark */
	MUTANT_COUNTER_EVICT_LIVE,     /* an entry gets a new key while it counts */
	MUTANT_COUNTER_UNREF_HERE, /* given back on this CPU, whatever the token says */
	MUTANT_COUNTER_UNREF_NO_GATE, /* a return at home, and no look at the key's gate */
	MUTANT_COUNTER_LOCAL_FIRST, /* a query reads local, then away */
	/* A successor: lib/service/succession/takeover.h. */
	MUTANT_HAND_UNPROVED,    /* it believes what it has copied */
	MUTANT_HAND_LEASE_MOVES, /* the old service's lease goes with the descriptor */
	MUTANT_HAND_SUCCESSOR_KEPT, /* one that has died keeps its place in the queue */
	MUTANT_HAND_UNLINKS_LOCK,   /* the old service removes what both have locked */
	MUTANT_HAND_ENDS_EARLY, /* the old service ends when it is asked for its socket */
	MUTANT_HAND_DEATH_ENDS, /* the old service's death is an error of the successor */
	/* Lent files: lib/client/lent.c. */
	MUTANT_LENT_ANY_NAME,   /* a read believes a place whatever file that is for */
	MUTANT_LENT_ANY_TIME,   /* a read believes words of two times */
	MUTANT_LENT_ANY_ANSWER, /* an answer counts whatever file was sent */
	/* The shim of `lodic run`: preload/run.c, run_threads.c. */
	MUTANT_RUN_SLOT_KEPT,    /* a slot outlives its descriptor */
	MUTANT_RUN_SLOT_STORED,  /* a look fills a slot that was emptied meanwhile */
	MUTANT_RUN_GOES_ON,      /* descriptors are shared, and reads are served */
	MUTANT_RUN_CLOSES_COPY,  /* the shim closes a duplicate of the program's */
	MUTANT_RUN_BUSY_IGNORED, /* a read inside a read is served */
	MUTANT_RUN_LENDS_LOCKED, /* a locked file is lent */
	MUTANT_RUN_CHILD_EMPTIES, /* what a vfork() child closes empties its parent's slot */
	MUTANT_RUN_CHILD_READS,    /* a vfork() child has its parent's reader */
	MUTANT_RUN_CONFINED_EARLY, /* a filter comes while other threads are in the shim */
	/* What a reader looks at: core/cache/context.h. */
	MUTANT_FRAME_UNBOUNDED, /* a frame's number believed, whatever it is */
	/* Knodes and tiers: core/kloc/. */
	MUTANT_KLOC_LIST_STALE_SERVED, /* a list serves a knode that has ended */
	MUTANT_KLOC_LIST_FORGET_LATE, /* a knode's generation raised when it is used again */
	MUTANT_KLOC_LIST_FORGET_PLAIN, /* it waits in the store buffer */
	MUTANT_KLOC_LIST_TOKEN_NOW,    /* a late use counts for the next file */
	MUTANT_KLOC_LIST_STALE_COUNTS, /* a stale entry counts as a use */
	MUTANT_KLOC_LIST_LATE_LOST, /* a use whose store comes after the tick is lost */
	MUTANT_KLOC_LIST_DEAD_USED, /* a use of what has ended enters a list */
	MUTANT_KLOC_OBJECT_REUSED, /* a removed object's number is free while it moves */
	MUTANT_KLOC_KNODE_REUSED,  /* a knode is free while an object of it moves */
	MUTANT_KLOC_ROOM_LATE,     /* room counted when the bytes have come */
	MUTANT_KLOC_ROOM_EARLY,    /* room given back before the bytes have left */
	MUTANT_KLOC_UNLINKED_MOVES, /* an unlinked knode's objects still move */
	MUTANT_KLOC_UNLINK_OPEN,    /* an unlinked file dies while it is open */
	MUTANT_KLOC_CLOSE_FIRST,    /* the first of two closes makes it inactive */
	MUTANT_KLOC_CLOSE_KEEPS,    /* a promotion goes on after the last close */
	MUTANT_KLOC_LATE_STAYS, /* what a late move brought to the wrong tier stays there */
	MUTANT_KLOC_BUSY_LOST,       /* what was busy once never moves */
	MUTANT_KLOC_OLD_TIER,        /* a moved object is listed where it was */
	MUTANT_KLOC_COUNTER_IGNORED, /* the ping-pong counter stops nothing */
	MUTANT_KLOC_AGED_STAYS,    /* a use does not wake an open knode that has aged */
	MUTANT_KLOC_COPIES_KEPT,   /* a removed object's copies still count */
	MUTANT_KLOC_LIMIT_IGNORED, /* a lowered limit moves nothing */
	MUTANT_KLOC_TREE_NOT_MENDED, /* a new node stays red below a red one */
	MUTANT_KLOC_AGES_UNORDERED,  /* a use leaves its knode where it is */
	MUTANT_KLOC_HEAP_UNSIFTED,   /* the oracle's heap forgets what a use changed */
	MUTANT_KLOC_PLACE_ANY_STATE, /* what an inactive knode gets is fast, too */
	MUTANT_KLOC_EXCLUDED_PLACED, /* a kind outside the groups goes by its knode */
	MUTANT_KLOC_PROGRAMS_LAST,   /* kernel objects take the last of fast memory */
	/* Blocks from frame to frame: core/cache/move.c and what it calls. */
	MUTANT_MOVE_LED_FIRST, /* the translation leads to a frame, then that is filled */
	MUTANT_MOVE_NAMED_FIRST, /* a frame named, then its bytes copied */
	MUTANT_MOVE_CLEARED_FIRST, /* the source cleared, then the block led to elsewhere */
	MUTANT_MOVE_LEAVES_LED,    /* the translation leads to where the block was */
	MUTANT_MOVE_KEEPS_SOURCE,  /* one block in two frames for good */
	MUTANT_MOVE_TARGET_HIDDEN, /* a block that has moved takes no pins */
	MUTANT_MOVE_PINNED,        /* nobody asks whether the source is pinned */
	MUTANT_MOVE_OF_RESCUED,    /* moved though it is in the batch no more */
	MUTANT_MOVE_DROPS_SPILL,   /* a word takes its bucket's bit along */
	MUTANT_MOVE_VISITS_LOST,   /* a block that has moved counts as never visited */
	MUTANT_MOVE_WALK_STAYS,    /* a walk stands where the block was */
	/* Once more a program's own objects: core/counter/counter.c. */
	MUTANT_COUNTER_NO_GATE,     /* the word closed, and no key gated */
	MUTANT_COUNTER_GATE_ONCE,   /* no second look for keys after the fence */
	MUTANT_COUNTER_GATE_STORES, /* a key gated by load and store */
	/* Clocks that run apart: core/count/count_refcache.c. */
	MUTANT_REFCACHE_EPOCH_LATE,     /* slots flushed, then the epoch looked at */
	MUTANT_REFCACHE_STAMP_EARLY,    /* the epoch looked at, then the watch set */
	MUTANT_REFCACHE_TICK_ELSEWHERE, /* a tick from elsewhere counts as a flush */
	/* A page's count in one word, and who frees it: check/frozen_cases.c. */
	MUTANT_FROZEN_FREED_AS_WAS,   /* freed as what the page was before the put */
	MUTANT_FROZEN_CLAIM_STORES,   /* the bit set without a look at the count */
	MUTANT_FROZEN_GET_GIVES_BACK, /* a get that fails subtracts again */
	/* Once more core/counter/counter.c. */
	MUTANT_COUNTER_SHUT_OTHER, /* any gated key is taken for the object's own */
	/* The papers' rivals: core/count/count_refcache_sv6.c, core/count/count_snzi_sv6.c. */
	MUTANT_REFCACHE_SV6_LOCK_LATE,   /* a slot emptied, then its object locked */
	MUTANT_REFCACHE_SV6_ONE_EPOCH,   /* reviewed after one epoch, not two */
	MUTANT_REFCACHE_SV6_STAMP_EARLY, /* the epoch looked at, then the watch set */
	MUTANT_REFCACHE_SV6_WATCH_STAYS, /* a ref does not take a watch away */
	MUTANT_REFCACHE_SV6_ZERO_STAYS,  /* a true zero outlives its watch */
	MUTANT_REFCACHE_SV6_TICK_ELSEWHERE, /* a tick from elsewhere counts as a flush */
	MUTANT_SNZI_SV6_LET_GO,         /* a node let go before its parent counts it */
	MUTANT_SNZI_SV6_TELLS_EARLY,    /* the parent told before the last one goes */
	MUTANT_SNZI_SV6_ASKED_UNLOCKED, /* a query does not lock the root */
	MUTANT_SNZI_SV6_UNREF_HERE,     /* unref at this CPU's leaf, not the token's */
	MUTANT_COUNTER_GATE_LAST, /* a second look forgets what it gated before the last key */
	MUTANT_COUNTER_OPEN_FIRST, /* a kill without a fence opens the word, then the keys */
	MUTANT_COUNTER_GATE_KEPT, /* it leaves the keys gated */
	/* Rights to ask: lib/service/client/authority.h. */
	MUTANT_AUTHORITY_ANY_KIND,    /* a connection of any kind asks */
	MUTANT_AUTHORITY_BY_CONNECT,  /* what a message says of its sender is ignored */
	MUTANT_AUTHORITY_BY_MESSAGE,  /* what connect() said is ignored */
	MUTANT_AUTHORITY_UNSAID,      /* a message without credentials is believed */
	MUTANT_AUTHORITY_ANY_PROOF,   /* a successor passes any file */
	MUTANT_AUTHORITY_PROOF_READS, /* or the lock file, which it may only read */
	MUTANT_AUTHORITY_OVERFLOW, /* whom the namespace does not map is the same user */
	MUTANT_HAND_READABLE,      /* a file is handed over as a right to read it */
	MUTANT_HAND_TWO,           /* a second successor comes in beside the first */
	MUTANT_HAND_SILENT_KEPT,   /* a successor that is stopped keeps its place */
	MUTANT_HAND_SERVES_LATE,   /* one that has lost its place serves */
	MUTANT_HAND_RESIZES, /* another arena comes while a successor has the socket */
	/* Claims of open files: lib/client/claim.c, view.c. */
	MUTANT_CLAIM_FIRST_FIRST, /* a claim has its new id before its new size */
	MUTANT_CLAIM_VIEW_ANY_ID, /* a view is asked about by a claim of a later id */
	/* Once more the shim of `lodic run`. */
	MUTANT_RUN_RING_GOES_ON,   /* reads served beside a ring that was made */
	MUTANT_RUN_RING_FORGOTTEN, /* reads served in a child that has a ring */
	MUTANT_RUN_GO_SERVED,      /* a program in Go is served */
	MUTANT_RUN_LOOKS_LOCKED, /* a look at a program drops the locks that a process has on it */
	/* A program that gives up rights: lib/client/segment.c, preload/run_leave.c. */
	MUTANT_LEAVE_DATA_FIRST,   /* the data goes, then what a last look needs */
	MUTANT_RUN_LEAVE_NOTHING,  /* the shim stays where it is */
	MUTANT_RUN_LEAVE_EARLY,    /* it connects again before the call is made */
	MUTANT_RUN_LEAVE_COMES_BACK, /* it connects again whatever was given up */
	MUTANT_RUN_STARTS_NOBODY,  /* an open() starts no service */
	/* The second ear: lib/service/file/lease.c. */
	MUTANT_WATCH_AFTER_SIZE,   /* a file's size asked for before it is watched */
	MUTANT_WATCH_LOST_IGNORED, /* what the kernel had no room for revokes nothing */
	/* Mappings that get another memory later: preload/run_place.c. */
	MUTANT_PLACE_AS_IT_WAS,      /* a step without a look at what is mapped there */
	MUTANT_PLACE_FORGOTTEN_FIRST, /* what the program changes there is not heeded */
	MUTANT_PLACE_NEVER_WRITTEN,  /* a mapping that the program writes to gets its hold */
	MUTANT_PLACE_VOUCHED,        /* a hold stays whose file was written meanwhile */
	MUTANT_PLACE_GOES_BACK,      /* a hold stays though somebody writes to the file */
	/* Hints that are kept: core/cache/hint.h. */
	MUTANT_KEPT_FORGETS,       /* kept ranges given up that the service has not taken */
	MUTANT_KEPT_TORN,          /* ranges taken while they change */
	MUTANT_KEPT_WITHOUT_FENCE, /* no fence between what is kept and the look at posted */
	MUTANT_KEPT_DIES,          /* what a reader that ends has left behind is not read */
	MUTANT_AHEAD_NEVER,        /* misses in order bring nothing that comes after them */
	MUTANT_AHEAD_EVICTS,       /* blocks read ahead push others out */
	MUTANT_UNREAD_INTO_MAIN,   /* they come among those that readers asked for */
	MUTANT_NR
};

#ifndef LODIC_MUTANT
#define LODIC_MUTANT 0
#endif

#define MUTANT(name) (LODIC_MUTANT == MUTANT_##name)

/* How long a mutant keeps its wrong window open, in host_relax() calls: without it two
 * cores would need hours to meet in it. */
#ifndef MUTANT_WINDOW_SPINS
#define MUTANT_WINDOW_SPINS 2000u
#endif

/* An unref and a freeze must fit into the window of CLEAR_LAST_LATE. An answer of the service must
 * fit into those of LENT_ANY_TIME and RUN_LEAVE_EARLY. A reader's turn must fit into that of
 * LEAVE_DATA_FIRST, and an open() into that of WATCH_AFTER_SIZE. */
#define MUTANT_WINDOW_TIMES(name) \
	(MUTANT_##name == MUTANT_CLEAR_LAST_LATE ? 5u \
	 : MUTANT_##name == MUTANT_LENT_ANY_TIME || \
	                   MUTANT_##name == MUTANT_RUN_LEAVE_EARLY || \
	                   MUTANT_##name == MUTANT_LEAVE_DATA_FIRST \
	         ? 100u \
	 : MUTANT_##name == MUTANT_WATCH_AFTER_SIZE \
	         ? 20u \
	         : 1u)

#define MUTANT_WINDOW(name) \
	do { \
		if (MUTANT(name)) \
			for (u32 spins_ = \
			             MUTANT_WINDOW_SPINS * MUTANT_WINDOW_TIMES(name); \
			     spins_ > 0; spins_--) \
				host_relax(); \
	} while (0)

#endif
