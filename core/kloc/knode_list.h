/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Per-CPU lists: the knodes that a CPU used lately, so that most uses need no look into the kmap.
 * Source: KLOCs s.4.3. There a scan increments an entry's age. Here a CPU stamps its entry with the
 * tick of its use. So nobody but the CPU writes its list (ADR-0030).
 *
 * Words
 *   inode       one per knode. Only the manager writes it.
 *   generation  one per knode, how often it was forgotten. Only the manager writes it.
 *   tick        one for all. Only the manager writes it.
 *   entry       length of them for each CPU: knode (24 bits), generation (24), stamp (16), from the
 *               top. 0: empty. Only a task on that CPU writes it. The manager reads it.
 *   turn        one for each CPU, private to it: which entries were hit since the hand came by,
 *               and the hand.
 *
 *   entry:  empty --use--> (knode, g, now) --use--> (knode, g, later)
 *                              |   ^
 *                 forget(knode)|   |another knode's use takes its place
 *                              v   |
 *                          stale: generation of the knode is above g
 *
 * Rules
 * KL20 A find serves an entry only if it read the inode from the knode and, after that, the
 *      entry's generation. So at the moment of the first look the knode was that inode's.
 * KL21 The manager raises the generation when a knode ends, before anybody else can get it, and
 *      by an atomic operation. With a plain store a CPU could still serve it afterwards:
 *
 *         manager                         CPU 1
 *         generation := g + 1 (buffered)
 *         forget returns; the file is gone
 *                                         finds A: inode is A, generation is g: serves it
 *
 * KL22 An entry has the generation that the caller got with the knode (a token), not the one of
 *      the moment when it is written. So a use that comes too late is no use of the next file.
 * KL23 The manager counts an entry as a use only if its generation is the knode's.
 * KL24 A use is counted at the tick of its stamp, also when its store came after that tick's
 *      collection. So no use is lost.
 *
 * A generation has 24 bits. An entry that stays while its knode ends 2^24 times would seem alive.
 * It would count as a use of another file; a find still compares the inode. A stamp has 16 bits: an
 * entry that its CPU has not touched for 2^16 ticks seems used once more.
 *
 * Progress: wait-free; a call looks at one list. Locks: none.
 * Not here: which knode is active. The manager's half of a knode is in knode.c.
 */
#ifndef LODIC_CORE_KLOC_KNODE_LIST_H
#define LODIC_CORE_KLOC_KNODE_LIST_H

#include "core/check.h"

#define KNODE_NONE 0xffffffffu
#define KNODE_LIST_GENERATIONS ((u64)0xffffff)
#define KNODE_LIST_MAX_KNODES 0x1000000u
#define KNODE_LIST_MAX_LENGTH 32u
#define KNODE_LIST_STAMPS ((u64)0xffff)

/* What the CPUs read of a knode. */
struct knode_name {
	u64 inode;
	u64 generation;
};

struct knode_token {
	u32 knode; /* KNODE_NONE: none */
	u32 generation;
};

struct knode_lists {
	struct knode_name *names;
	u64 *entries; /* length + 1 words a CPU, up to whole cache lines; the last is its turn */
	u64 tick;
	u32 nr_knodes, nr_cpus, length, stride;
};

/* What a use found. */
enum knode_found {
	KNODE_MISS,
	KNODE_HIT,
	KNODE_STALE /* a miss, where a stale entry stood */
};

/* false: no memory. 1 <= length <= KNODE_LIST_MAX_LENGTH. */
bool knode_list_init(struct knode_lists *l, u32 nr_knodes, u32 nr_cpus, u32 length);
void knode_list_fini(struct knode_lists *l);

/* A CPU's half: for a task that runs on cpu, and stays there. */
/* The knode of inode, if it is in cpu's list. It is not a use. nr_stale may be NULL. */
struct knode_token knode_list_find(struct knode_lists *l, u32 cpu, u64 inode,
                                   u64 *nr_stale);
/* The token's knode is used, now. It enters the list if it is not there (KL22). */
enum knode_found knode_list_use(struct knode_lists *l, u32 cpu,
                                struct knode_token token);

/* The manager's half: one task at a time. */
/* A free knode gets an inode. */
void knode_list_name(struct knode_lists *l, u32 knode, u64 inode);
/* The knode ends (KL21). */
void knode_list_forget(struct knode_lists *l, u32 knode);
struct knode_token knode_list_token(const struct knode_lists *l, u32 knode);
/* The knode of the i-th entry of cpu's list; KNODE_NONE: it is empty or stale (KL23). ret_age: how
 * many ticks ago the CPU used it. */
u32 knode_list_collect(const struct knode_lists *l, u32 cpu, u32 i, u32 *ret_age);
void knode_list_tick(struct knode_lists *l);

#endif
