/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owned gate on one pte (LODIC s.4.3; ADR-0001): take a sub-reference of the pte's own
 * reference, give it back, and clear the pte so that no count is lost. Where ptes lie, how
 * they are found, and what a frame is, is somebody else's: core/owned/count_owned.c's, with
 * process spaces; in Linux mm/lodic.c's, with page tables. Both include this text, so what
 * the checker searches there is what runs here. Invariants and orders (I1-I4, O11-O13):
 * core/owned/count_owned.c.
 *
 * Who includes it has defined before:
 *
 *   struct gate_frame       what a reference is on; passed by value
 *   struct gate_words       where global words are found; passed by value
 *   gate_present(pte)       is the entry present, and of a kind that may count?
 *   gate_maps(pte, frame)   is it present, and does it lead to frame?
 *   gate_add(words, pte, n) adds n to the global word of what pte leads to; a full fence
 *                           on both sides, as host_fetch_add()
 *
 * and host_load_*(), host_cas(), host_xchg() and MUTANT() with the meaning of host/host.h
 * and core/mutant.h.
 */
#ifndef LODIC_CORE_PTE_GATE_H
#define LODIC_CORE_PTE_GATE_H

/*
 * Ours. On failure another thread of the process has counted on this pte; when it keeps
 * happening the pte is as contended as the global word would be.
 */
#ifndef GATE_REF_TRIES
#define GATE_REF_TRIES 8u
#endif
/* Ours: a cas on a pte fails only under a ref or unref in its few instructions. */
#ifndef GATE_CLEAR_TRIES
#define GATE_CLEAR_TRIES 4u
#endif

/*
 * Takes a reference on frame in *pte, a guess: the entry may be empty, or lead elsewhere.
 * true: the caller has a reference on frame, to be given back by pte_gate_unref() with the
 * same pte. What frame holds has still to be looked at (O12). false: count globally.
 * Lock-free; at most GATE_REF_TRIES tries.
 */
static inline bool pte_gate_ref(u64 *pte, struct gate_frame frame)
{
	u32 tries;

	MUTANT_WINDOW(REF_ANY_FRAME);
	for (tries = 0; tries < GATE_REF_TRIES; tries++) {
		u64 v = host_load_dep(pte);

		if (MUTANT(REF_ANY_FRAME) ? !gate_present(v) : !gate_maps(v, frame))
			return false;
		if (pte_count(v) == PTE_COUNT_MAX && !MUTANT(REF_PAST_MAX))
			return false;
		/*
		 * Success: the pte stood, so its own reference did too. Acquire, partner:
		 * the release of who made the pte present: the frame's contents.
		 */
		if (likely(host_cas(pte, v, v + PTE_COUNT_ONE)))
			return true;
	}
	return false;
}

/*
 * Gives a reference of pte_gate_ref() back where it was taken. false: the pte was cleared
 * since, the count is in the global word, and the caller must drop one there.
 * Lock-free: another thread of the same process that counts on the same pte makes it
 * retry, or one clear.
 */
static inline bool pte_gate_unref(u64 *pte, struct gate_frame frame)
{
	u64 v;

	do {
		/*
		 * Acquire, partner: the cas of pte_gate_clear(): not ours any more, so
		 * the count is in global already (O11). The same when the count is 0 or
		 * the pte was mapped anew. That the other references on this frame's
		 * pte are not ours does not matter: they fold and drop alike.
		 */
		v = host_load_acquire(pte);
		if ((!MUTANT(UNREF_ANY_FRAME) && !gate_maps(v, frame)) ||
		    pte_count(v) == 0)
			return false;
	} while (unlikely(!host_cas(pte, v, v - PTE_COUNT_ONE))); /* W1 */
	return true;
}

static inline u64 pte_gate_clear_wrongly(struct gate_words words, u64 *pte)
{
	u64 v = host_xchg(pte, 0);

	MUTANT_WINDOW(CLEAR_BEFORE_FOLD);
	if (MUTANT(CLEAR_BEFORE_FOLD))
		gate_add(words, v, pte_count(v));
	return v;
}

/* The same when the tries have run out. A long window: unref and freeze fit into it. */
static inline u64 pte_gate_clear_late(struct gate_words words, u64 *pte, u64 added)
{
	u64 v = host_xchg(pte, 0);
	u32 i;

	for (i = 0; i < 5; i++)
		MUTANT_WINDOW(CLEAR_LAST_LATE);
	gate_add(words, v, pte_count(v) - added);
	return v;
}

/*
 * Empties a pte that is present and that nobody else clears or changes but by its count
 * (the caller has the lock for that); its count is in the global word first (O11). The
 * pte's own reference stays, for the caller to drop after this (O13) or to pass on.
 * Returns what the pte was. Wait-free: GATE_CLEAR_TRIES, then two adds and an exchange.
 */
static inline u64 pte_gate_clear(struct gate_words words, u64 *pte)
{
	u64 v = host_load_relaxed(pte);
	u64 added = 0; /* what is in global for this pte's count so far */
	u32 tries;

	if (MUTANT(CLEAR_BEFORE_FOLD) || MUTANT(UNMAP_DROPS_COUNT))
		return pte_gate_clear_wrongly(words, pte);
	/* A failed cas: a thread of the process has counted in between. */
	for (tries = 0; tries < GATE_CLEAR_TRIES; tries++) {
		if (pte_count(v) != added)
			gate_add(words, v, pte_count(v) - added); /* O11 */
		added = pte_count(v);
		if (likely(host_cas(pte, v, 0)))
			return v;
		v = host_load_relaxed(pte);
	}
	/* As much as there can be, first; then the rest out again. */
	if (MUTANT(CLEAR_LAST_LATE))
		return pte_gate_clear_late(words, pte, added);
	gate_add(words, v, PTE_COUNT_MAX - added); /* O11 */
	v = host_xchg(pte, 0);
	gate_add(words, v, pte_count(v) - PTE_COUNT_MAX);
	return v;
}

#endif
