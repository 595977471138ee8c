/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs that include lodic/inline.h have the layout of these structs in them. A change of
 * one of them must raise LODIC_INLINE_LAYOUT, and change inline.h. What does not fit does not
 * compile.
 */
#ifndef LODIC_LIB_CLIENT_LAYOUT_H
#define LODIC_LIB_CLIENT_LAYOUT_H

#include "lib/client/file.h"

#define SAME_PLACE(inlined, member, ours, place) \
	_Static_assert(offsetof(struct inlined, member) == \
	                       offsetof(struct ours, place), \
	               "inline.h: " #inlined "." #member); \
	_Static_assert(sizeof(((struct inlined *)0)->member) == \
	                       sizeof(((struct ours *)0)->place), \
	               "inline.h: the width of " #inlined "." #member)

SAME_PLACE(lodic_inline_frame, seq, frame, seq);
SAME_PLACE(lodic_inline_frame, block, frame, block);
SAME_PLACE(lodic_inline_frame, pins, frame, pins);
_Static_assert(sizeof(struct lodic_inline_frame) == sizeof(struct frame),
               "inline.h: frames");

SAME_PLACE(lodic_inline_core, frames, context, frames);
SAME_PLACE(lodic_inline_core, data, context, data);
SAME_PLACE(lodic_inline_core, words, context, translation.words);
SAME_PLACE(lodic_inline_core, word_shift, context, translation.shift);
SAME_PLACE(lodic_inline_core, nr_frames, context, translation.nr_frames);
SAME_PLACE(lodic_inline_core, entries, context, entries);
SAME_PLACE(lodic_inline_core, visits, context, visits);
SAME_PLACE(lodic_inline_core, memory, context, memory);
SAME_PLACE(lodic_inline_core, alive, context, alive);
SAME_PLACE(lodic_inline_core, alive_value, context, alive_value);
SAME_PLACE(lodic_inline_core, home_shift, context, home_shift);
SAME_PLACE(lodic_inline_core, quota, context, quota);
SAME_PLACE(lodic_inline_core, light, context, light);

SAME_PLACE(lodic_inline_seat, generation, seat, generation);
SAME_PLACE(lodic_inline_seat, pin_generation, seat, pin_generation);
_Static_assert(offsetof(struct lodic_inline_seat, core) == offsetof(struct seat, core),
               "inline.h: seat.core");

SAME_PLACE(lodic_inline_claim, generation, claim, generation);
SAME_PLACE(lodic_inline_claim, first, claim, first);
SAME_PLACE(lodic_inline_claim, size, claim, size);
SAME_PLACE(lodic_inline_claim, live, claim, core.proof);
SAME_PLACE(lodic_inline_claim, id, claim, core.id);
_Static_assert(offsetof(struct file_proof, live) == 0, "inline.h: claim.live");

SAME_PLACE(lodic_inline_file, claim, lodic_file, claim);
SAME_PLACE(lodic_inline_context, seats, lodic_context, inline_seats);
/* What all layouts have in common: the first words, and sizes. By these a program of another
 * layout finds out, and what it copies is there. */
_Static_assert(offsetof(struct lodic_context, inline_seats) == 0 &&
                       offsetof(struct lodic_file, claim) == 0 &&
                       offsetof(struct seat, generation) == 0 &&
                       offsetof(struct claim, generation) == 0,
               "inline.h: first words");
_Static_assert(sizeof(struct lodic_inline_claim) <= 64 && sizeof(struct claim) >= 64 &&
                       sizeof(struct lodic_inline_seat) <= 128 &&
                       sizeof(struct seat) >= 128,
               "inline.h: what is copied");
SAME_PLACE(lodic_inline_context, retired, lodic_context, retired);

_Static_assert(LODIC_INLINE_BLOCK == BLOCK_BYTES, "inline.h: blocks");
_Static_assert(LODIC_INLINE_COUNTERS_AT == offsetof(struct context_memory, counters),
               "inline.h: counters");
_Static_assert(offsetof(struct context_memory, nr_pinned) -
                               offsetof(struct context_memory, counters) ==
                       LODIC_INLINE_NR_PINNED * 8,
               "inline.h: nr_pinned");
_Static_assert(LODIC_INLINE_HITS == CONTEXT_HITS && LODIC_INLINE_SOFT == CONTEXT_SOFT,
               "inline.h: which counter");
_Static_assert(LODIC_INLINE_VISITS_MAX == FRAME_VISITS_MAX, "inline.h: visits");
_Static_assert(LODIC_INLINE_ONE == PTE_COUNT_ONE &&
                       LODIC_INLINE_COUNT == PTE_COUNT_MASK &&
                       LODIC_INLINE_PRESENT == PTE_PRESENT &&
                       LODIC_INLINE_TAG == PTE_TAG_MASK,
               "inline.h: entries");

#endif
