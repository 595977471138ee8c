/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The arena: frames, their translation, the files they belong to, and the walk list of
 * contexts whose readers use them. One service writes it. Any number of readers map it
 * read-only. core/cache/context.h is the reader's side; this file is the service's.
 *
 * The scanned gate (ADR-0001, ADR-0019). A reader may be killed between any two instructions.
 * So it writes only its own context, and nothing that anybody would have to repair. To take
 * frames away, the service goes through five steps, for many frames at a time:
 *
 *   1. It queries the contexts, load only, and stops at the first pin (LODIC s.4.5).
 *   2. It hides the frame: no new pin of it holds. Reads go on, and so do pins of before.
 *   3. The heavy fence: one for all frames that are hidden by now.
 *   4. It walks every context that has pins at all. A frame that nobody has pinned is taken:
 *      its translation is cleared, and it is nobody's.
 *   5. It shows each other frame again. A hidden frame that somebody asks for meanwhile it
 *      may show at once, if it has not been taken.
 *
 * Two kinds of fence make step 3 safe; the arena's header says which. ARENA_BARRIER_LOCK: the
 * reader's count is an exchange and the service's fence a full one, of its own. It is there at
 * once. ARENA_BARRIER_LIGHT: the reader's count is a plain store, and the service has a fence
 * that acts on all processes (membarrier(2), GLOBAL). It takes milliseconds, so that frames
 * go in batches, and a caller waits elsewhere.
 *
 * Invariants
 * K1 the service hides a frame, passes the heavy fence, then walks. It clears or refills the
 *    frame only if that walk has seen no pin on it, in any context on the walk list.
 * K2 a context is on the walk list from before its reader has its memory. It stays there until
 *    nobody has the memory any more, or its reader has said that it is done. The
 *    service never looks at it afterwards.
 * K3 the service writes no context's entries. A stale entry stays until its owner needs it.
 * K4 a context that may not pin has no entries for the walk. Whatever its reader writes there
 *    holds nothing, so such readers cannot use up the frames.
 * K5 the walk looks in the set of the block that the frame holds. An entry's count matters
 *    only if the frame and the block's tag stand in it. So a passing count on a stale entry
 *    of another block holds up nobody.
 * K6 the walk may skip a context whose nr_pinned it has seen at 0 after the heavy fence (C8).
 *    It may not use what it saw before the fence.
 * K7 a frame is shown again only while it is hidden and not taken.
 * Order
 * O5 the frame hidden, heavy fence, walk. Shape SB against a pin, which counts in its
 *    entry, fence (light or full), looks whether the frame is hidden. One of the two sees
 *    the other.
 * O20 the last byte of a fill, then the look whether the file's proof still holds, then the
 *    publication. A writer whose byte the fill has read had ended the proof before.
 * O21 the orderly end: the service marks itself dead, full fence, then gives up what proves
 *    that files stand still. A reader that has read a later writer's byte then sees the
 *    mark, because its look comes after its copies (O22). Shape MP.
 *
 * Mutual exclusion. X: the two must not run at the same time. -: they may.
 *
 *        [1]  [2]  [3]  [4]
 *   [1]   X    -    -    X     [1] arena_* and cache_* calls of the service, but for [3], [4]
 *   [2]   -    a    -    X     [2] calls of readers: context.h, and cache.h's first half
 *   [3]   -    -    b    X     [3] file_proof_*, arena_end()
 *   [4]   X    X    X    -     [4] arena_format(), arena_check(), context_check()
 *
 *   a: X for one context, - for two. Two contexts share no word that readers write, but for
 *      the shared counters of atomic and frozen.
 *   b: X for one file, - for two.
 *
 *   X at [1]: one thread of the service makes all these calls.
 *   X at [2]: one thread owns a context.
 *   X at [3]: for a file under a lease, the lock of the table of leases (S5); else one thread
 *   makes all these calls.
 *   X at [4]: arena_format() comes before anybody else knows the memory, and the checks want
 *      everybody at rest.
 *   - of [1] and [2]: K1 to K3, O5, F1 to F3 (core/frame.h) and H1 to H8 (hint.h).
 *   - of [1] and [3]: O20.  - of [2] and [3]: S1, S2, O21 and C4.
 */
#ifndef LODIC_CORE_CACHE_ARENA_H
#define LODIC_CORE_CACHE_ARENA_H

#include "core/cache/file_proof.h"
#include "core/cache/hint.h"
#include "core/cache/translation.h"
#include "core/frame.h"

#define ARENA_MAGIC 0x31616c6369646f6cu /* "lodicla1", little end first */
#ifndef ARENA_MAX_CONTEXTS
#define ARENA_MAX_CONTEXTS 1024u
#endif
#ifndef ARENA_HAZARD_SLOTS
#define ARENA_HAZARD_SLOTS 64u
#endif
#ifndef CONTEXT_WAYS
#define CONTEXT_WAYS 8u /* ptes in a set: one cache line */
#endif
#define ARENA_LINE_FRAMES 64u /* whose visits share a cache line */
#define ARENA_DEAD ((u64)0)   /* header.alive of a service that has ended */
#define COUNT_STRIDE 8u       /* words: a shared counter has a cache line of its own */

/* How an arena counts pins; chosen when it is made. */
enum arena_scheme {
	ARENA_SCANNED,
	ARENA_ATOMIC,
	ARENA_FROZEN,
	ARENA_HAZARD,
	ARENA_NR_SCHEMES
};

/* What orders a reader's count and its look: K1, C1. */
enum arena_barrier {
	ARENA_BARRIER_LOCK,  /* the reader's exchange, and the service's full fence */
	ARENA_BARRIER_LIGHT, /* nothing in the reader; a fence over all processes */
	ARENA_NR_BARRIERS
};

/* The control segment's first bytes. Everything but the last three lines is written
 * once, before any reader sees it. Offsets are from the start of the control segment. */
struct arena_header {
	u64 magic;
	u64 bytes;      /* of the control segment */
	u64 data_bytes; /* of the data segment: nr_frames blocks */
	u64 nr_frames;
	u64 nr_files;
	u64 nr_entries; /* ptes in a context's table, a power of two */
	u64 nr_words;   /* of the translation */
	u64 scheme;     /* enum arena_scheme */
	u64 files_at;
	u64 frames_at;
	u64 words_at;
	u64 generation; /* differs from that of any other service's arena */
	u64 barrier;    /* enum arena_barrier */
	u64 pad0[3];
	/* The service's life. Its low half is a robust futex that holds the service
	 * thread's id. When that thread dies, the kernel changes the futex before the
	 * files' leases fall. A reader compares the word with what it was at attach. */
	u64 alive;
	u64 pad1[7];
	u64 sleeping; /* the service waits for an event: a hint must wake it */
	u64 pad2[7];
	/* Statistics; the service writes, anybody reads. */
	u64 nr_cached;   /* frames */
	u64 nr_admitted; /* blocks, since the start */
	u64 nr_evicted;  /* blocks */
	u64 nr_refused;  /* evictions refused because of a pin */
	u64 nr_contexts; /* now */
	u64 nr_errors;   /* failed reads of the backing file */
};
_Static_assert(offsetof(struct arena_header, alive) % 64 == 0, "a line of its own");

/* What a reader may count about itself, in its context's memory: a crash loses none. */
enum context_counter {
	CONTEXT_HITS,   /* blocks read or pinned from the cache */
	CONTEXT_SOFT,   /* of these: pins that found no entry of theirs */
	CONTEXT_MISSES, /* blocks that were not there */
	CONTEXT_RETRIES, /* copies thrown away because the frame was refilled meanwhile */
	CONTEXT_FULL, /* pins refused: count full, quota, or every entry of the set */
	CONTEXT_NR_COUNTERS
};

/* A context's memory: shared by one reader thread and the service, by nobody else.
 * After it come the ptes (or hazard slots). */
struct context_memory {
	struct hint_ring ring;
	/* enum context_counter; reader writes. These must not lie at the start of a page,
	 * where readers' buffers often begin. A load waits for a recent store whose
	 * address has the same low 12 bits. */
	u64 counters[7];
	u64 nr_pinned; /* C8; scanned gate only */
	struct hint_kept kept;
};
_Static_assert(CONTEXT_NR_COUNTERS <= 7, "counters fit their line");

/* One entry of the walk list: where the service has mapped a context. */
struct context_table {
	struct context_memory *memory; /* NULL: no context in this place */
	u64 *entries;                  /* NULL: its reader may not pin (K4) */
};

/* An arena as one process has it: addresses that hold in that process alone. */
struct arena {
	struct arena_header *header;
	struct file_proof *files;
	struct frame *frames;
	struct translation translation;
	u8 *data;
	/* The shared segment, which readers write, too. A lie there makes a worse victim, or
	 * delays a hint (H5). */
	u8 *visits;  /* a byte for each frame: 0 to FRAME_VISITS_MAX */
	u8 *posted;  /* a byte for each place of the walk list: H6 in hint.h */
	u64 *counts; /* nr_frames * COUNT_STRIDE words; atomic and frozen only */
	u32 nr_frames;
	u32 nr_files;
	u32 nr_entries;
	u32 scheme;
	/* The walk list; the service's own. */
	struct context_table *contexts;
	u32 nr_contexts; /* the walk's bound: one more than the last place in use */
};

/* What an arena is made of. Frame 0 is never used (core/cache/translation.h), so a cache of
 * n blocks has n + 1 frames. */
struct arena_shape {
	u32 nr_frames;
	u32 nr_files;
	u32 nr_entries; /* 0: arena_shape_default() chooses */
	u32 scheme;
	u32 barrier; /* enum arena_barrier */
};
void arena_shape_default(struct arena_shape *shape);
/* How many entries a context may pin, where the user does not say: C9. */
u32 arena_default_quota(const struct arena_shape *shape);
u64 arena_control_bytes(const struct arena_shape *shape);
u64 arena_shared_bytes(const struct arena_shape *shape);
/* A context that may not pin has a table of one set, which holds nothing (K4). */
u32 arena_context_entries(u32 nr_entries, u32 quota);
u64 arena_context_bytes(u32 nr_entries, u32 quota);

/* arena_format() lays a new arena into zeroed memory of arena_control_bytes().
 * The service sets header->alive afterwards, and lets readers in after that. */
void arena_format(void *control, const struct arena_shape *shape, u64 generation);

/* arena_open() gives an arena in mapped memory its addresses; shared has arena_shared_bytes().
 * It believes nothing of the header that it has not looked at.
 * false: this is not an arena, or not one of control_bytes and data_bytes. */
bool arena_open(struct arena *a, void *control, u64 control_bytes, void *data,
                u64 data_bytes, void *shared);
/* Does the shared segment of such an arena have so many bytes? A process that has not made the
 * segment must ask. */
bool arena_shared_fits(const struct arena *a, u64 shared_bytes);
/* The bytes of the shared counters, which are a part of the shared segment. */
u64 arena_count_bytes(const struct arena_shape *shape);

static inline void *arena_frame_bytes(const struct arena *a, u32 frame)
{
	return a->data + ((u64)frame << BLOCK_SHIFT);
}

/* Where the parts of a context's memory are. */
void arena_context_table(struct context_table *t, void *memory);

/* The service's side. One thread calls these.
 *
 * arena_join() puts a context on the walk list, before its reader has its memory (K2). It
 * returns the context's place, or FRAME_NONE when ARENA_MAX_CONTEXTS are there. A place that
 * a context has left is used again.
 * arena_leave() takes a context off: when its reader says so, or after it died (reap). Under
 * lodic and hazard, what it had pinned is free from then on. Under atomic and frozen a dead
 * reader's pins stay for ever, because a shared word does not record who holds it. */
u32 arena_join(struct arena *a, const struct context_table *t);
void arena_leave(struct arena *a, u32 place);

/* Filling: frame is nobody's (fresh, or taken). Between arena_fill_begin() and
 * arena_publish() its bytes may be written. arena_publish() says whose they are and lets
 * readers in. false: the translation has no room for the block, and the frame is FREE. */
void arena_fill_begin(struct arena *a, u32 frame);
bool arena_publish(struct arena *a, u32 frame, u64 block);
void arena_fill_cancel(struct arena *a, u32 frame);

/* Taking frames away. Under lodic and hazard: core/cache/batch.h. arena_take() is for atomic
 * and frozen, whose shared words can be frozen at once. true: the frame is nobody's and
 * FREE. false: nothing has changed, because a reader has it pinned. */
bool arena_take(struct arena *a, u32 frame);
/* The first half of arena_take(): true, and nobody gets a reference to the frame any more. Then
 * arena_thaw() ends a fill: readers get references. It does nothing under lodic and hazard. */
bool arena_freeze(struct arena *a, u32 frame);
void arena_thaw(struct arena *a, u32 frame);

/* Clears the translation of a CACHED frame that nobody has pinned or can pin, and the frame
 * (K1). */
void arena_clear(struct arena *a, u32 frame);

/* arena_query(): has anybody pinned the frame? The answer may be out of date at once. It
 * stops at the first pin (LODIC s.4.5, eq. 1). Cost: a cache line per context. */
bool arena_query(const struct arena *a, u32 frame);

/* arena_visits() collects and clears what readers noted about nr frames from first on: 0 to
 * FRAME_VISITS_MAX for each. nr is 1; or first is a multiple of ARENA_LINE_FRAMES, and nr is
 * at most that. Cost: a cache line, which readers of these frames then load again. */
void arena_visits(struct arena *a, u32 first, u32 nr, u8 *ret_visits);

/* arena_posted(): has the context in place posted hints since the last time it was true? Then
 * arena_hint() must be called until it says no, or HINT_MAX times.
 * arena_hint() takes one hint from the context in place; false when there is none.
 * arena_kept() takes what the reader keeps beside its ring: how many ranges. The caller asks after
 * each arena_posted(), and once more before the context leaves.
 * The caller must check that the file exists and that the blocks lie in it (hint.h). */
bool arena_posted(struct arena *a, u32 place);
bool arena_hint(struct arena *a, u32 place, u64 *ret_block, u64 *ret_nr);
u32 arena_kept(struct arena *a, u32 place, u64 ret_ranges[HINT_KEPT][2]);

/* arena_sleep() announces that the service is about to wait (H4). true: from now on a hint
 * asks for a wake-up. false: hints are there already. arena_wake() undoes the announcement. */
bool arena_sleep(struct arena *a);
void arena_wake(struct arena *a);

/* The orderly end (O21): when it returns, no read or pin that begins later believes the
 * cache. Afterwards the service may give its leases back. Any thread may call it. */
static inline void arena_end(struct arena_header *h)
{
	host_store_relaxed(&h->alive, ARENA_DEAD);
	host_fence_full(); /* O21 */
}

/* Asserts the rules of frames, translation and walk list; nothing may move meanwhile. */
void arena_check(const struct arena *a);

#endif
