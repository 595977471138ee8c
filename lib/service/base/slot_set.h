/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A set of slots between two threads. One adds to it, and the other takes out what is there. Each
 * word is atomic, and relaxed is enough: a slot says only that there is something to look at.
 */
#ifndef LODIC_LIB_SERVICE_BASE_SLOT_SET_H
#define LODIC_LIB_SERVICE_BASE_SLOT_SET_H

#include <errno.h>

#include "lib/service/base/base.h"

struct slot_set {
	u64 *words; /* a bit for each slot */
	u32 nr_words;
};

/* 0 or -ENOMEM. */
static inline int slot_set_make(struct slot_set *set, u32 nr_slots)
{
	set->nr_words = (nr_slots + 63) / 64;
	set->words = port_alloc(set->nr_words * sizeof(*set->words));
	return set->words ? 0 : -ENOMEM;
}

static inline void slot_set_free(struct slot_set *set)
{
	port_free(set->words);
}

/* Only the thread that takes can make it try again, and does so once in each walk. */
static inline void slot_set_add(struct slot_set *set, u32 slot)
{
	u64 *word = &set->words[slot / 64];
	u64 old;

	do
		old = host_load_relaxed(word);
	while (!host_cas(word, old, old | (u64)1 << slot % 64));
}

/* Calls each() for the slots that are there, most of them at most, and takes each out before. most
 * is 64 at least. Returns how many there were. */
static inline u32 slot_set_take(struct slot_set *set, void *arg, u32 most,
                                void (*each)(void *arg, u32 slot))
{
	u32 nr = 0;

	for (u32 i = 0; i < set->nr_words && most - nr >= 64; i++) {
		u64 bits = host_load_relaxed(&set->words[i]);

		if (bits)
			bits = host_xchg(&set->words[i], 0);
		nr += (u32)__builtin_popcountll(bits);
		for (; bits; bits &= bits - 1)
			each(arg, i * 64 + (u32)__builtin_ctzll(bits));
	}
	return nr;
}

#endif
