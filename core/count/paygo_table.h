/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The tables of entries that own a reference: what the schemes paygo_fold and hybrid have
 * in common. Each CPU has a table of buckets. Objects are keys, and each object's global word
 * is the caller's. The protocol of one entry, its rules and its words are in
 * core/paygo_gate.h. Linux has tables of its own around the same text.
 *
 * Words of a table besides
 *   open       one per CPU: how many of its entries are open. Home's own.
 *   disabled   one: is not 0 while nobody may install (O35).
 */
#ifndef LODIC_CORE_COUNT_PAYGO_TABLE_H
#define LODIC_CORE_COUNT_PAYGO_TABLE_H

#include "core/count/count.h"

/* Ours. 512 entries are 16 KiB a CPU, and hold so many frames at most. */
#define PAYGO_TABLE_ENTRIES 512u
/* Ours: a bucket is two cache lines. */
#define PAYGO_TABLE_WAYS 4u
/* Only tests have so few objects. All of them share one bucket, to meet collisions. */
#define PAYGO_TABLE_FEW 16u
#ifndef PAYGO_TABLE_FEW_WAYS
#define PAYGO_TABLE_FEW_WAYS 1u
#endif
/* An entry that nobody has hit for so many ticks folds. Two: a tick may come just before a
 * hit that is due. */
#ifndef PAYGO_TABLE_IDLE
#define PAYGO_TABLE_IDLE 2u
#endif
/* Install at once, or only when a cas on the global word has failed? */
#ifndef PAYGO_TABLE_EAGER
#define PAYGO_TABLE_EAGER false
#endif

/* A token of a table is the home CPU, and this. A scheme's other tokens lack it. */
#define PAYGO_TOKEN ((u64)1 << 63)

struct paygo_entry;

struct paygo_table {
	struct paygo_entry *entries; /* per CPU: buckets of nr_ways */
	u64 *globals;                /* an object's word each, COUNT_LINE_WORDS apart */
	u64 *open;                   /* a CPU's word each, as far apart */
	u64 *disabled;
	u32 nr_cpus;
	u32 nr_buckets, nr_ways; /* per CPU */
	u32 stride;              /* entries from one CPU to the next: whole lines */
	u32 idle;                /* as PAYGO_TABLE_IDLE; constant while anything runs */
	bool eager;              /* as PAYGO_TABLE_EAGER; the same */
};

/* globals: the words of nr_objects objects. -ENOMEM. */
int paygo_table_init(struct paygo_table *t, u64 *globals, u32 nr_objects);
void paygo_table_fini(struct paygo_table *t);

/* Another size, for tests and models, before anything is counted. -ENOMEM: there is no
 * table any more, and the caller may only call paygo_table_fini(). */
int paygo_table_shape(struct paygo_table *t, u32 nr_buckets, u32 nr_ways);

/* A CPU's table, in bytes. */
u64 paygo_table_cpu_bytes(const struct paygo_table *t);

/* Takes a reference in the open entry of object on the caller's CPU. It proves that object
 * is not frozen, and nothing else. false: there is none, and the caller must count
 * elsewhere. Cost: no atomic, and a bucket of the CPU's own. */
bool paygo_table_ref(struct paygo_table *t, u32 object, u64 *ret_token);

/* The caller holds a reference in object's global word. It becomes a new entry's own, and the
 * caller's is counted in that entry. false: nothing has changed. */
bool paygo_table_install(struct paygo_table *t, u32 object, u64 *ret_token);

/* Returns a reference of one of the two. If the entry is closed by now, that is one in the
 * global word. Cost: as ref on the token's CPU, one atomic on another. */
void paygo_table_unref(struct paygo_table *t, u32 object, u64 token);

/* On cpu: folds the entries that nobody has hit for some ticks. From elsewhere it does
 * nothing. */
void paygo_table_tick(struct paygo_table *t, u32 cpu);

/* On cpu: folds all entries. From elsewhere it does nothing. */
void paygo_table_fold(struct paygo_table *t, u32 cpu);

/* The same for a CPU on which no task runs, nor can while the call lasts. */
void paygo_table_fold_dead(struct paygo_table *t, u32 cpu);

/* Forbids installs, or allows them again. To be rid of entries, the caller must forbid them
 * and then fold on every CPU (O35). Full fence. */
void paygo_table_disable(struct paygo_table *t, bool disable);

/* When nothing moves: how many open entries object has, and their live counts. */
u32 paygo_table_nr_open(struct paygo_table *t, u32 object);
u64 paygo_table_live(struct paygo_table *t, u32 object);

/* Asserts the rules of core/paygo_gate.h that need no global word, when nothing moves. held
 * must list all references that are held. */
void paygo_table_check(struct paygo_table *t, const struct count_held *held,
                       u32 nr_held);

#endif
