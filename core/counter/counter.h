/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PAYGO for a program's own objects: an object counts in one word of its own, and in a table of
 * each CPU. A killed object counts exactly, in its word alone, down to 0.
 * Source: PAYGO (PAYGO s.3 and s.5), as in core/count/count_paygo.c; the kill is ours (ADR-0026).
 *
 * Idea. A reader counts in an entry of its CPU's table by a restartable sequence (local). It
 * gives the reference back there, or from another CPU by an atomic (away). A reader without such
 * sequences has a word of its own in the entry, which everybody changes by atomics (packed). A
 * kill closes the object's word and gates its entries' keys. Then it folds all entries into the
 * word, and from then on that word counts. A reader whose object has an entry looks at that entry
 * alone, and at nothing of the object's (ADR-0032).
 *
 * Words
 *   word     one per object, in it. Top bit: closed. Below: overflow references while it is
 *            open; all references, exactly, when it is closed and folded. Atomics.
 *   key      one per entry: whose local it is, the address of the object's word. That CPU, by
 *            sequences. A kill sets the top bit (gated) of its object's keys by compare-and-swap.
 *   local    one per entry: references taken here, less those given back here. The same.
 *   away     one per entry. Open: what was given back elsewhere, as a negative number. Closed:
 *            MARK + the references still out. Atomics, by anybody with a token of the entry.
 *   packed   one per entry: another object's address (44 bits), a mark, a count. Atomics, by
 *            anybody.
 *
 *                          ref                   kill: the fold
 *   garbage: K, sum 0 <---------> K, sum n ------------------------> MARK + n
 *      ^  |                unref                                      | unref, n times
 *      |  '--- another object's ref: only the key changes             v
 *      '------------------------- the last of them ---------------- MARK + 0
 *
 *   word:  OPEN --kill--> closed + BIAS --all entries folded--> closed + n --unref--> closed + 0
 *
 * Invariants
 * M21 A sequence looks at the entry's key and commits, and a kill gates the key, aborts all
 *    sequences, and only then looks at locals. So no sequence changes them any more:
 *
 *       reader on CPU 0             killer
 *       the key is the object's
 *                                   key := gated
 *                                   local is 0: nobody
 *       local := 1
 *
 *    With a fence that only orders memory both would go on. With one that aborts, the reader
 *    begins again and finds the key gated.
 * M22 The fold marks an entry (away, packed) in the same atomic step that takes its count. A
 *    return to a marked entry counts down there, and then in the word. Without the look at the
 *    mark, a return after the fold is in no count, and the object never comes free.
 * M23 packed: a reader counts, and then looks at the word; a kill closes the word, and then looks
 *    at packed words. Both are full fences. One of them sees the other (shape SB). A
 *    reader that finds the word closed gives its count back as any reference (M22). That may be
 *    the last one.
 * M24 A look at an entry reads away first and local afterwards, as A4 of count_paygo.c. So it
 *    sees the reference of each return that it sees, and no sum is too low.
 * M25 The fold reads an entry's key last. No entry gets a closed word's key any more (M30). So the
 *    entry had it all the while, and the local that was read is this object's.
 * M26 While entries fold the word is higher by BIAS. So returns that come meanwhile cannot bring
 *    it to 0. After that the word only falls, but for readers that hold a reference. One step
 *    alone brings it to 0, and the caller that makes it releases the object.
 * M27 The last return to a marked entry takes the mark away before it counts down in the word.
 *    So a released object has left no trace but keys of entries whose sum is 0, and its address
 *    may be another object's at once.
 * M28 A new key comes by one commit, which finds local and the old key as they were when local
 *    and away added up to 0. Away only sinks while its entry is open, and to set it to -local
 *    at the last return leaves the sum at 0. So there is no token of it (A3 of count_paygo.c).
 *    A fold cannot have marked it: it marks only what is above 0.
 * M29 A commit has release order (host_percpu_step()), and the other steps are full fences. So a
 *    return releases what its holder did. A fold that sees a count sees the key that it is of.
 * M30 A sequence that brings a key looks at the word, and a kill closes the word, gates keys and
 *    aborts. One that saw the word open may have brought the key after the kill had looked there.
 *    So the kill looks once more. If it finds such a key, it gates that one, too, and aborts
 *    again: others may have counted there meanwhile. No key comes later.
 * M31 A gate is set by compare-and-swap, and a new key is stored. Between a sequence's look at the
 *    old key and its store the old one may be gated. The store then takes a gate away with an
 *    entry whose sum is 0, so nothing is lost. A gate by a store could undo a new key, and
 *    with it an object whose references are out.
 * M32 A reader sees what was made of the object before its word said open. The look at the word
 *    that comes with a new key, and the one after a packed count, are acquire loads. A reader that
 *    finds the key is on the CPU of that look, and a switch of tasks is a full fence.
 * M33 A query loads by acquire, and returns release (M29). Of a reference that the caller knew of,
 *    a false answer has loaded the return. So the caller sees what was done with it.
 * M34 A get fails only for a killed object. An entry that had the key may have another one when the
 *    sequence looks, and be gated for that one's sake. So a reader that finds it gated compares. If
 *    its own object's gate has gone meanwhile, the next look is at the word, which is closed.
 * M35 A kill whose fence is refused takes its gates away, and opens the word last. Another kill
 *    closes the word only then. So no gate that is taken away is that one's.
 *
 * Progress: ref and unref are lock-free. A retry means that the task was moved or disturbed, or
 * that another one changed the same word. A kill takes one step per entry of one bucket of each
 * CPU, and one fence. Locks: none. No step sleeps but the fence.
 * Not here: memory safety of the word. What the caller gives to counter_try_ref() must stay
 * readable: by a lock, by a grace period, or because it is never unmapped.
 */
#ifndef LODIC_CORE_COUNTER_COUNTER_H
#define LODIC_CORE_COUNTER_COUNTER_H

#include "core/check.h"

/* Two entries fill a cache line. */
#define COUNTER_WAYS 2u
/* Fibonacci's multiplier: high bits of the product depend on all lower bits of an address. */
#define COUNTER_HASH 0x9e3779b97f4a7c15ull
#define COUNTER_HASH_SHIFT 39
#define COUNTER_LINE 64u

#define COUNTER_CLOSED HOST_STEP_CLOSED
/* In a key. No address has it. */
#define COUNTER_GATED HOST_STEP_CLOSED
/* More than a program can hold references, and far from the bit above. */
#define COUNTER_BIAS ((u64)1 << 61)
#define COUNTER_COUNT (COUNTER_CLOSED - 1)

/* In away. An open one is 0 or negative, so its top two bits are equal. */
#define COUNTER_MARK ((u64)1 << 62)

/* packed: the address without its three lowest bits, the mark, the count. */
#define COUNTER_PACKED_MARK ((u64)1 << 19)
#define COUNTER_PACKED_COUNT (COUNTER_PACKED_MARK - 1)
#ifndef COUNTER_PACKED_MAX
#define COUNTER_PACKED_MAX COUNTER_PACKED_COUNT
#endif
/* Higher addresses count in the overflow, where threads have no sequences. */
#define COUNTER_PACKED_ADDRESSES ((u64)1 << 47)

/* A token: the home CPU below (16 bits), so that it is compared with no step to take it out.
 * Above it the address of the entry, whose lowest bits are the kind. */
#define COUNTER_TOKEN_CPU_BITS 16
#define COUNTER_TOKEN_ADDRESS_BITS 48
#define COUNTER_TOKEN_CPU (((u64)1 << COUNTER_TOKEN_CPU_BITS) - 1)
#define COUNTER_TOKEN_KIND ((u64)3)
#define COUNTER_TOKEN_WORD ((u64)0)
#define COUNTER_TOKEN_LOCAL ((u64)1)
#define COUNTER_TOKEN_PACKED ((u64)2)

struct counter_entry {
	u64 key;
	u64 local;
	u64 away;
	u64 packed;
};

enum counter_scheme {
	COUNTER_PAYGO,  /* as above */
	COUNTER_PERCPU, /* packed words alone: a per-CPU atomic */
	COUNTER_ATOMIC, /* the word alone, by compare-and-swap, as Linux's page_ref */
};

/* One process's, for any number of objects. Nothing of it changes after it was made, but the
 * entries. */
struct counter_domain {
	struct counter_entry *entries; /* CPU 0's; at a cache line */
	u64 stride;                    /* bytes from one CPU's to the next one's */
	u32 nr_cpus;
	u32 mask; /* of a bucket's place in bytes: the number of buckets less 1, times a line */
	u32 scheme;
};

enum counter_ref {
	COUNTER_TAKEN,
	COUNTER_REFUSED,      /* killed */
	COUNTER_REFUSED_LAST, /* killed, and the caller must release the object */
};

enum counter_kill {
	COUNTER_KILLED,      /* references are out: the last unref will say so */
	COUNTER_KILLED_LAST, /* there are none: the caller must release the object */
	COUNTER_KILLED_BEFORE,
	COUNTER_NO_FENCE, /* nothing has changed */
};

static inline u32 counter_bucket(const struct counter_domain *d, u64 key)
{
	return (u32)(key * COUNTER_HASH >> COUNTER_HASH_SHIFT & d->mask) /
	       (u32)sizeof(struct counter_entry);
}

static inline struct counter_entry *counter_entry(const struct counter_domain *d,
                                                  u32 cpu, u32 index)
{
	return (struct counter_entry *)((u8 *)d->entries + cpu * d->stride) + index;
}

/* Takes a reference, unless the object was killed. sequences: this thread has them. The caller
 * must give ret_token to counter_unref(). Cost at home: a line of the CPU's own. */
enum counter_ref counter_try_ref(const struct counter_domain *d, u64 *word,
                                 bool sequences, u64 *ret_token);

/* The same for a caller that holds a reference already: it cannot fail. Returns the token. */
u64 counter_ref(const struct counter_domain *d, u64 *word, bool sequences);

/* Gives a reference back, on any CPU and thread. true: it was a killed object's last one, and
 * the caller must release the object. It never looks at the word after that step. */
bool counter_unref(const struct counter_domain *d, u64 *word, u64 token,
                   bool sequences);

/* From now on counter_try_ref() fails. Cost: a line per CPU, and a fence that interrupts every
 * CPU that runs this process; two if a key came meanwhile (M30). Among several callers one gets
 * COUNTER_KILLED or _LAST, and counter_try_ref() fails when that one's call is over. */
enum counter_kill counter_kill(const struct counter_domain *d, u64 *word);

/* Does anybody hold a reference? true may be wrong. false is wrong only of references that were
 * taken or given back during the call. What was done with one that the caller knew of happens
 * before a false (M33). */
bool counter_query(const struct counter_domain *d, u64 *word);

/* The number of references; exact when nothing moves. */
u64 counter_sum(const struct counter_domain *d, u64 *word);

/* Asserts, when nothing moves, that the entries count nr_tokens tokens in all. */
void counter_check(const struct counter_domain *d, u64 nr_tokens);

#endif
