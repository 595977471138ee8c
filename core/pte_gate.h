/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owned gate on one pte (LODIC s.4.3; LODIC is Park et al., USENIX ATC'21). It takes a
 * sub-reference of the pte's own reference, gives it back, and clears the pte without
 * losing a count. This text is shared: a model checker searches the same loops, with
 * process spaces of its own around them. The includer decides where ptes lie, how they are
 * found and what a frame is.
 *
 * Words
 *   pte      one process's entry for a frame. It is present or not; when it is present, the
 *            threads of that process change its count by compare-and-swap, without a lock.
 *            A present pte becomes not present only under a lock that the caller holds.
 *   global   the frame's word, which all processes share: 0 while the frame is frozen.
 *            Otherwise it holds base, one per present pte, and one per reference that is
 *            not counted in a pte. Base is what the frame's owner itself holds. In Linux
 *            this word is the folio's _refcount.
 *
 * A freeze changes global from base to 0, and only while global is exactly base. No
 * reference can be taken on a frozen frame, so its owner may refill it or free it.
 *
 * Invariants
 * I1 A pte's count is never below 0 and never above the number of references that were
 *    taken there and are not yet returned.
 * I2 global + the counts of the frame's ptes >= base + one per present pte + one per
 *    reference not yet returned. The two sides are equal when no clear is in progress.
 * I3 A count that is not 0 implies a present pte, hence a global word above base. So no
 *    freeze succeeds under a reference.
 * I4 A frame without ptes has an exact global word. So a freeze needs no sum: the freezer
 *    clears every pte, or gives up at one, and then does one cas(base -> frozen).
 *
 * Order
 * O11 Clear: the count goes into global before the pte becomes empty. The other way round:
 *
 *       unmapper                    readers A, B hold references   freezer
 *       xchg(pte -> empty), count 2
 *                                   A returns: pte is empty,
 *                                      so global 2 -> 1 (= base)
 *                                                                  cas(base -> frozen)
 *                                   B reads what is being refilled
 *       global += 2
 *
 *     The add and the cas are full fences. An unref may see the pte empty, or with another
 *     frame. It then also sees the add, because its own add on the same word comes after
 *     that load (coherence, and the acquire in pte_gate_unref()).
 * O12 Ref: the cas on the pte proves translation and reference at once. The caller must
 *     look at what the frame holds after the cas. If it looks before, the frame can be
 *     refilled in between, with its pte back at the same value (ABA).
 * O13 The pte's own reference is dropped last, because until then it stands for the counts.
 *     Dropped before the fold, it would allow this, and the last step would even thaw:
 *
 *       reader's process             unmapper                   freezer
 *                                                               sees no pte
 *       maps here, global = base + 1
 *       ref here: count 1
 *                                    global -= 1 (= base)
 *                                                               cas(base -> frozen)
 *       reads as it is refilled
 *                                    global += 1
 *
 * The includer must define before this text:
 *
 *   struct gate_frame       what a reference is on; passed by value
 *   struct gate_words       where global words are found; passed by value
 *   gate_present(pte)       is the entry present, and of a kind that may count?
 *   gate_maps(pte, frame)   is it present, and does it lead to frame?
 *   gate_add(words, pte, n) adds n to the global word of what pte leads to, and is a full
 *                           fence on both sides
 *
 * It also defines pte_count(), the PTE_COUNT_ constants, the host_load_*() functions,
 * host_cas() and host_xchg(). The last two are full fences, but a failed cas orders nothing.
 */
#ifndef LODIC_CORE_PTE_GATE_H
#define LODIC_CORE_PTE_GATE_H

/*
 * Ours. A try fails when another thread of the process has counted on this pte. After so
 * many failures the pte is as contended as the global word would be.
 */
#ifndef GATE_REF_TRIES
#define GATE_REF_TRIES 8u
#endif
/* Ours: a cas on a pte fails only if a ref or unref came since the load just before. */
#ifndef GATE_CLEAR_TRIES
#define GATE_CLEAR_TRIES 4u
#endif

/* Ours, as GATE_REF_TRIES. The caller may stand where it must not stay long. */
#ifndef GATE_UNREF_TRIES
#define GATE_UNREF_TRIES 8u
#endif

enum gate_unref {
	GATE_GLOBAL, /* the count is in the global word: the caller must subtract one there */
	GATE_LOCAL,  /* returned */
	GATE_AGAIN   /* not returned: the caller must call once more */
};

/* May a reader of frame count in a pte that is v? */
static inline bool pte_gate_admits(u64 v, struct gate_frame frame)
{
	if (!gate_maps(v, frame))
		return false;
	return pte_count(v) != PTE_COUNT_MAX;
}

/*
 * One try of pte_gate_ref(), for a caller with another way if it fails. *ret_seen becomes
 * what the pte was, also then. Wait-free.
 */
static inline bool pte_gate_ref_once(u64 *pte, struct gate_frame frame, u64 *ret_seen)
{
	u64 v;

	v = host_load_dep(pte);
	*ret_seen = v;
	/*
	 * Success: the pte stood, so its own reference did too. Acquire, partner: the
	 * release with which the pte was made present. So the caller sees the frame's
	 * contents.
	 */
	return likely(pte_gate_admits(v, frame)) &&
	       likely(host_cas(pte, v, v + PTE_COUNT_ONE));
}

/*
 * Takes a reference on frame in *pte. The pte is a guess: it may be empty, or lead to
 * another frame. true: the caller has a reference on frame and must return it by
 * pte_gate_unref() with the same pte. It must still look at what frame holds (O12).
 * *ret_seen becomes what the pte was before. false: the caller must count in the global
 * word. Lock-free, at most GATE_REF_TRIES tries.
 */
static inline bool pte_gate_ref(u64 *pte, struct gate_frame frame, u64 *ret_seen)
{
	u32 tries;

	for (tries = 0; tries < GATE_REF_TRIES; tries++) {
		if (likely(pte_gate_ref_once(pte, frame, ret_seen)))
			return true;
		if (!pte_gate_admits(*ret_seen, frame))
			return false;
	}
	return false;
}

/*
 * Returns a reference as pte_gate_unref() does, if the pte is what pte_gate_ref() has
 * seen, and one more. Such a pte leads to the frame and has a count. Most ptes are so:
 * nobody else counts there, and the hardware has set its flags long ago. One try.
 */
static inline bool pte_gate_unref_seen(u64 *pte, u64 seen)
{
	/* A full fence, as in pte_gate_unref(). A failed cas says nothing. */
	return likely(host_cas(pte, seen + PTE_COUNT_ONE, seen));
}

/*
 * Returns a reference of pte_gate_ref() where it was taken, or says what else to do. Another
 * thread of the same process that counts on the same pte makes it retry, and so does one
 * clear. Wait-free: GATE_UNREF_TRIES tries, then GATE_AGAIN. The caller may call again
 * at once, or let others run first.
 */
static inline enum gate_unref pte_gate_unref(u64 *pte, struct gate_frame frame)
{
	u32 tries;

	for (tries = 0; tries < GATE_UNREF_TRIES; tries++) {
		/*
		 * Acquire, partner: the cas of pte_gate_clear(). If the pte no longer
		 * leads to frame, the count is in global already (O11). The same holds
		 * if the count is 0 or the pte was mapped anew. A count found here may
		 * be another reference on the same frame. That does no harm: all of
		 * them fold and drop alike.
		 */
		u64 v = host_load_acquire(pte);

		if (!gate_maps(v, frame) || pte_count(v) == 0)
			return GATE_GLOBAL;
		/* A full fence: the caller's reads of the frame come before the return. */
		if (likely(host_cas(pte, v, v - PTE_COUNT_ONE)))
			return GATE_LOCAL;
	}
	/* Neither a lost count nor a global one: the reference is still in the pte. */
	return GATE_AGAIN;
}

/*
 * Empties a present pte, after its count has gone into the global word (O11). The caller
 * must hold the lock under which ptes are made present or cleared: only the count may
 * change meanwhile. The pte's own reference stays, and the caller must drop it after this
 * (O13) or pass it on.
 * Returns what the pte was. Wait-free: GATE_CLEAR_TRIES, then two adds and an exchange.
 */
static inline u64 pte_gate_clear(struct gate_words words, u64 *pte)
{
	u64 v = host_load_relaxed(pte);
	u64 added = 0; /* how much of this pte's count is in global so far */
	u32 tries;

	/* A failed cas: a thread of the process has counted in between. */
	for (tries = 0; tries < GATE_CLEAR_TRIES; tries++) {
		if (pte_count(v) != added)
			gate_add(words, v, pte_count(v) - added); /* O11 */
		added = pte_count(v);
		if (likely(host_cas(pte, v, 0)))
			return v;
		v = host_load_relaxed(pte);
	}
	/* Add as much as the count can ever be, and take the difference back afterwards. */
	gate_add(words, v, PTE_COUNT_MAX - added); /* O11 */
	added = PTE_COUNT_MAX;
	v = host_xchg(pte, 0);
	gate_add(words, v, pte_count(v) - added);
	return v;
}

#endif
