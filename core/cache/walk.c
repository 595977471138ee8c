/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service's walk over the contexts' tables. See core/cache/walk.h. */
#include "core/cache/walk.h"

#include "core/mutant.h"
#include "core/pte.h"

/* Ours. An owner that pins and unpins an entry makes the walk try it again. After so many
 * tries the walk calls the frame used. */
#ifndef TAKE_TRIES
#define TAKE_TRIES 4u
#endif

static bool walk_uses(const struct arena *a, u64 v, u32 frame)
{
	if (a->scheme == ARENA_HAZARD)
		return v == (u64)frame + 1;
	return pte_maps(v, frame) && pte_count(v) > 0;
}

/* The entries of context t in which frame may stand: *ret_nr of them. K4: none of a context that
 * may not pin. */
static u64 *walk_entries(const struct arena *a, const struct context_table *t,
                         u32 frame, u32 *ret_nr)
{
	u64 block = host_load_relaxed(&a->frames[frame].block);
	u64 hash = block_hash(block);

	*ret_nr = 0;
	if (!t->entries)
		return NULL;
	if (a->scheme == ARENA_HAZARD) {
		*ret_nr = ARENA_HAZARD_SLOTS;
		return t->entries;
	}
	/* The set of the block's home: the high bits of the hash, as context_home() has
	 * it; nr_entries is a power of two. */
	*ret_nr = CONTEXT_WAYS - MUTANT(WALK_SKIPS_LAST_WAY);
	if (MUTANT(WALK_OTHER_SET))
		hash = ~hash;
	return t->entries +
	       ((hash >> 32) * a->nr_entries >> 32) / CONTEXT_WAYS * CONTEXT_WAYS;
}

static bool walk_query_one(const struct arena *a, const struct context_table *t,
                           u32 frame)
{
	u32 nr, i;
	u64 *entries = walk_entries(a, t, frame, &nr);

	for (i = 0; i < nr; i++)
		/* Acquire, partner: the release store of an unpin. The reader's last look
		 * at the bytes comes before whatever the service does to them. */
		if (walk_uses(a, host_load_acquire(&entries[i]), frame))
			return true;
	return false;
}

bool walk_query(const struct arena *a, u32 frame)
{
	u32 place;

	for (place = 0; place < a->nr_contexts; place++)
		if (a->contexts[place].memory &&
		    walk_query_one(a, &a->contexts[place], frame))
			return true;
	return false;
}

static bool walk_empty(u64 *entry, u64 v)
{
	if (MUTANT(TAKE_STORES)) {
		host_store_relaxed(entry, PTE_EMPTY);
		return true;
	}
	return host_cas(entry, v, PTE_EMPTY) || MUTANT(TAKE_FAILED_BELIEVED);
}

/* Clears t's entry for frame, or refuses. K3: only a count of 0 is ever written. */
static bool walk_clear_one(struct arena *a, struct context_table *t, u32 frame)
{
	u32 nr, i, tries;
	u64 *entries = walk_entries(a, t, frame, &nr);

	if (a->scheme == ARENA_HAZARD)
		return !walk_query_one(a, t, frame);
	for (i = 0; i < nr; i++) {
		u64 v = host_load_acquire(&entries[i]);

		for (tries = 0; pte_maps(v, frame); tries++) {
			if (tries == TAKE_TRIES || pte_count(v) > 0)
				return false;
			if (walk_empty(&entries[i], v))
				break;
			v = host_load_acquire(&entries[i]);
		}
	}
	return true;
}

bool walk_clear(struct arena *a, u32 frame)
{
	u32 nr = a->nr_contexts - (MUTANT(WALK_SKIPS_NEWEST) && a->nr_contexts > 0);
	u32 place;

	for (place = 0; place < nr; place++)
		if (a->contexts[place].memory &&
		    !walk_clear_one(a, &a->contexts[place], frame))
			return false;
	return true;
}

/* A byte of a word is one frame's visits. */
#define EACH_BYTE(value) ((value)*0x0101010101010101u)

/* The visits in context t of the frame that p belongs to, which are then forgotten. */
static u32 walk_visits_byte(u8 *p)
{
	u32 visits = host_load_byte(p);

	if (visits)
		host_store_byte(p, 0);
	/* The byte is the reader's to write: it may say anything. */
	return visits < FRAME_VISITS_MAX ? visits : FRAME_VISITS_MAX;
}

/* The same for eight frames. The store may lose a visit that any of them just got. */
static u64 walk_visits_word(u64 *p)
{
	u64 visits = host_load_relaxed(p);
	u64 more = visits & ~EACH_BYTE(FRAME_VISITS_MAX);

	if (visits)
		host_store_relaxed(p, 0);
	if (!more)
		return visits;
	more |= more >> 4; /* upper bits of a byte into its bits 0 to 3 */
	more |= more >> 2;
	more |= more >> 1;
	return (visits | (more & EACH_BYTE(1)) * FRAME_VISITS_MAX) &
	       EACH_BYTE(FRAME_VISITS_MAX);
}

/* Adds two words of visits. A sum in a byte is six at most, and stops at three. */
static u64 walk_add_visits(u64 a, u64 b)
{
	u64 sum = a + b;
	u64 over = sum >> 2 & EACH_BYTE(1);

	return (sum | over * FRAME_VISITS_MAX) & EACH_BYTE(FRAME_VISITS_MAX);
}
_Static_assert(FRAME_VISITS_MAX == 3, "two bits");

/* WORDS words hold the visits of a line's frames. */
#define WORDS (ARENA_LINE_FRAMES / 8)

static void walk_visits_line(struct arena *a, u32 first, u64 *ret_words)
{
	for (u32 i = 0; i < WORDS; i++)
		ret_words[i] = 0;
	for (u32 place = 0; place < a->nr_contexts; place++) {
		u64 *line;

		if (!a->contexts[place].memory)
			continue;
		line = (u64 *)&a->contexts[place].visits[first];
		for (u32 i = 0; i < WORDS; i++)
			ret_words[i] = walk_add_visits(ret_words[i],
			                               walk_visits_word(&line[i]));
	}
}

static u32 walk_visits_one(struct arena *a, u32 frame)
{
	u32 sum = 0;

	for (u32 place = 0; place < a->nr_contexts; place++)
		if (a->contexts[place].memory)
			sum += walk_visits_byte(&a->contexts[place].visits[frame]);
	return sum < FRAME_VISITS_MAX ? sum : FRAME_VISITS_MAX;
}

void walk_visits(struct arena *a, u32 first, u32 nr, u8 *ret_visits)
{
	u64 words[WORDS];

	if (nr == 1) {
		*ret_visits = (u8)walk_visits_one(a, first);
		return;
	}
	CHECK(first % ARENA_LINE_FRAMES == 0 && nr <= ARENA_LINE_FRAMES, "one line");
	walk_visits_line(a, first, words);
	for (u32 i = 0; i < nr; i++)
		ret_visits[i] = (u8)(words[i / 8] >> i % 8 * 8);
}
