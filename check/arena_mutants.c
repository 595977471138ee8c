/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Wrong orders in liblodic's protocols, and where each shows.
 *
 * A budget is thirty times and more of the most schedules that PCT needed from any of eleven
 * seeds (2892, take-without-fence; lease-break has four actors and ten times that). Under
 * uniformly random choices some are not found at all: they need one task to run through a
 * whole refill while another stands still.
 */
#include "check/case.h"

const struct check_mutant check_mutants_arena[] = {
	/* Pins and the gate. */
	{ MUTANT_NO_PIN, "no-pin", "pin-reclaim", "lodic", CHECK_SC,
	  "C1: a pin is counted", 100000 },
	{ MUTANT_CLEAR_AFTER_WALK, "clear-after-walk", "softmiss-reclaim", "lodic",
	  CHECK_SC, "O5: cleared before the walk", 100000 },
	{ MUTANT_NO_RECHECK, "no-recheck", "softmiss-reclaim", "lodic", CHECK_SC,
	  "C3: a soft miss looks again", 100000 },
	{ MUTANT_SOFT_WITHOUT_FENCE, "soft-without-fence", "softmiss-reclaim", "lodic",
	  CHECK_TSO, "C3: a full fence before it looks again", 100000 },
	{ MUTANT_TAKE_WITHOUT_FENCE, "take-without-fence", "softmiss-reclaim", "lodic",
	  CHECK_TSO, "O5: a full fence before the walk", 100000 },
	{ MUTANT_TAKE_STORES, "take-stores", "pin-reclaim", "lodic", CHECK_SC,
	  "I3: an entry is emptied while its count is 0", 100000 },
	{ MUTANT_TAKE_LEAVES_CLEARED, "take-leaves-cleared", "pin-reclaim", "lodic",
	  CHECK_SC, "T1: a refused take has changed nothing", 100000 },
	{ MUTANT_WALK_SKIPS_NEWEST, "walk-skips-newest", "join", "lodic", CHECK_SC,
	  "I1: every context is walked", 100000 },
	{ MUTANT_ADD_BELIEVED, "add-believed", "pin-reclaim", "lodic", CHECK_SC,
	  "C1: an add that met another value is no pin", 100000 },
	{ MUTANT_ADD_LEFT, "add-left", "pin-reclaim", "lodic", CHECK_SC,
	  "C5: a count of nothing is taken away", 100000 },
	{ MUTANT_PLACE_PINNED, "place-pinned", "entries-evict", "lodic", CHECK_SC,
	  "C2: an entry is replaced at count 0 only", 100000 },
	{ MUTANT_UNPIN_DROPS_ALL, "unpin-drops-all", "pin-reclaim", "lodic", CHECK_SC,
	  "C2: an unpin takes one", 100000 },
	{ MUTANT_RIVAL_NO_LOOK, "rival-no-look", "pin-reclaim", "atomic", CHECK_SC,
	  "C4: the frame's name, once it stands still", 100000 },
	{ MUTANT_HAZARD_NO_LOOK, "hazard-no-look", "softmiss-reclaim", "hazard",
	  CHECK_SC, "W3: a slot is set, then looked again", 100000 },
	/* Reads. */
	{ MUTANT_SEQ_AFTER_FILL, "seq-after-fill", "read-refill", "lodic", CHECK_SC,
	  "F1: odd before the first byte", 100000 },
	{ MUTANT_NO_IDENTITY_CHECK, "no-identity-check", "read-refill", "lodic",
	  CHECK_SC, "C4: the frame has the block's name", 100000 },
	{ MUTANT_NAME_BEFORE_SEQ, "name-before-seq", "read-refill", "lodic", CHECK_SC,
	  "O2: the name belongs to the seq seen before", 100000 },
	{ MUTANT_NO_SECOND_LOOK, "no-second-look", "read-refill", "lodic", CHECK_SC,
	  "C4: the same seq after the copy", 100000 },
	{ MUTANT_FILL_WITHOUT_FENCE, "fill-without-fence", "read-dma", "lodic",
	  CHECK_TSO, "O1: odd in memory before the first byte", 100000 },
	{ MUTANT_PUBLISH_BEFORE_BYTES, "publish-before-bytes", "read-refill", "lodic",
	  CHECK_SC, "O2: the bytes, then the even seq", 100000 },
	{ MUTANT_VISITS_UNBOUNDED, "visits-unbounded", "visits", "lodic", CHECK_SC,
	  "R5: three visits at most", 100000 },
	/* The file's proof, and the service's life. */
	{ MUTANT_REVOKE_WITHOUT_FENCE, "revoke-without-fence", "lease-break", "lodic",
	  CHECK_TSO, "S1: a full fence before the writer goes on", 1000000 },
	{ MUTANT_LEASE_BACK_FIRST, "lease-back-first", "lease-break", "lodic", CHECK_SC,
	  "S1: revoked before the writer goes on", 1000000 },
	{ MUTANT_VOUCH_FIRST, "vouch-first", "lease-break", "lodic", CHECK_SC,
	  "S2: the proof is looked at after the copies", 1000000 },
	{ MUTANT_ID_USED_AGAIN, "id-used-again", "lease-break", "lodic", CHECK_SC,
	  "S2: an id is used once", 1000000 },
	{ MUTANT_ADMIT_LIVE_FIRST, "admit-live-first", "admit", "lodic", CHECK_SC,
	  "O4: the size before the id", 100000 },
	{ MUTANT_ALIVE_IGNORED, "alive-ignored", "service-dies", "lodic", CHECK_SC,
	  "C4: the service lived afterwards", 100000 },
	/* Readers that come and go. */
	{ MUTANT_JOIN_AFTER_TOLD, "join-after-told", "join", "lodic", CHECK_SC,
	  "I2: on the walk list first", 100000 },
	{ MUTANT_LEAVE_BEFORE_DEATH, "leave-before-death", "reap", "lodic", CHECK_SC,
	  "I1: a context stays while its reader lives", 100000 },
	{ MUTANT_LEAVE_KEEPS, "leave-keeps", "reap", "lodic", CHECK_SC,
	  "arena_leave: a dead reader's pins are free", 100000 },
	/* Hints. */
	{ MUTANT_HINT_WITHOUT_FENCE, "hint-without-fence", "hint-ring", "lodic",
	  CHECK_TSO, "SB of hint and sleep, the reader's fence", 100000 },
	{ MUTANT_HINT_HEAD_FIRST, "hint-head-first", "hint-ring", "lodic", CHECK_SC,
	  "a hint is written, then announced", 100000 },
	{ MUTANT_HINT_TAIL_FIRST, "hint-tail-first", "hint-full", "lodic", CHECK_SC,
	  "a hint is read, then given back", 100000 },
	{ MUTANT_SLEEP_AFTER_LOOK, "sleep-after-look", "hint-ring", "lodic", CHECK_SC,
	  "SB of hint and sleep: said first, then looked", 100000 },
	{ MUTANT_SLEEP_WITHOUT_FENCE, "sleep-without-fence", "hint-ring", "lodic",
	  CHECK_TSO, "SB of hint and sleep, the service's fence", 100000 },
	{ MUTANT_NONE, NULL, NULL, NULL, CHECK_SC, NULL, 0 },
};
