/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PAYGO whose entries own a reference. Source: PAYGO s.3 (a small hash of counts on each
 * CPU, an anchor for tasks that moved). The gate is not the paper's: there is no query flag
 * and no READ-ALL. An open entry of a CPU's table owns one reference in the frame's global
 * word, as a present pte does (core/pte_gate.h). This text is shared: a model checker
 * searches the same functions, with tables of its own around them. The includer decides
 * where tables lie, how a key finds its bucket, what a key means, and when entries fold.
 *
 * Idea. A task that reads counts in an entry of its CPU, by plain loads and stores with
 * preemption off. Its token is that CPU, the entry's home. If it has moved by the time that
 * it returns the reference, it adds to a second word of the entry instead. To take an entry
 * away, its CPU first adds what is live in it to the global word. The tokens are then
 * references in the global word, and their holders drop them there.
 *
 * Words of an entry
 *   key     what is counted here; 0: nothing yet. Home writes it, everybody reads it.
 *   local   refs less returns at home. Home alone, by plain loads and stores.
 *   away    returns from elsewhere; it only grows while the key stays. Any CPU, by
 *           fetch_add. Its top bit is CLOSED, which home sets. Home sets all to 0 in a
 *           reuse.
 *   mark    the includer's, for home alone: how long ago the entry was hit.
 * Words of a frame
 *   global  0 while it is frozen. Otherwise it holds base, one per open entry, one per
 *           token that no open entry counts, and one per pte. In Linux this word is the
 *           folio's _refcount.
 * "Home" is a task that runs on the table's CPU with preemption off. It is never an interrupt
 * of that CPU, which would come between home's load and home's store. For a CPU that is
 * offline, home is a task elsewhere that keeps the CPU from coming back meanwhile. Such a
 * task must come after all that the CPU did (O37).
 *
 * live = local - returns, where returns is away without CLOSED.
 *
 *                install            hit, unref
 *     EMPTY ---------------> OPEN <------------> OPEN      owns one reference in global
 *                             ^ |
 *                     install | | fold             unref (home counts, elsewhere counts;
 *                             | v                         each then drops one in global)
 *            CLOSED, live 0: REUSABLE <------- CLOSED, live > 0: TOMBSTONE
 *
 * Invariants
 * PG1 An entry's live is the number of tokens that name it, open or closed. So it is never
 *    below 0, and local is never below returns.
 * PG2 global + live of the frame's open entries >= base + one per pte + one per open entry
 *    + one per token, wherever it is counted. The two sides are equal when no fold is in
 *    progress.
 * PG3 A frame without open entries has an exact global word when no fold is in progress. So a
 *    freeze needs no sum: it is one cas(base -> frozen), and it fails while an entry is
 *    open.
 * PG4 No two entries of a bucket have the same key, whatever their state. So a task elsewhere
 *    finds a token's entry by its key alone.
 * PG5 An entry keeps its key until it is REUSABLE. A token therefore finds its entry, however
 *    late it comes back. And an open entry's key cannot come to mean another frame, because
 *    the entry's own reference keeps the frame from being frozen.
 *
 * A hit proves that the frame is not frozen. It says nothing of what the frame holds: a
 * block may have been taken out of the cache, while an entry keeps its frame. So the caller
 * must look, after the hit, whether the frame is still the one of the block that it looked
 * up. The page cache makes this look anyway.
 *
 * Order
 * O31 Fold: the live count goes into global before the entry is closed. The other way round:
 *
 *       home of A, B's tokens       A, elsewhere                    freezer
 *       away |= CLOSED, live 2
 *                                   returns: away says CLOSED,
 *                                      so global 2 -> 1 (= base)
 *                                                                   cas(base -> frozen)
 *       global += 2                 (B reads what is being refilled)
 *
 *     The add, the close and the return are full fences. A task that sees CLOSED therefore
 *     sees the add, and finds its reference in global. Returns that came between home's look
 *     at away and the close were added to global as well. The fold takes these back, so
 *     global is too high for a moment, and never too low.
 * O32 Return from elsewhere: the add to away and the look at CLOSED are one step. If the look
 *     came first, a fold could close the entry in between. The fold has then put the
 *     reference into global, and nobody ever drops it there. Two tasks that load and store
 *     instead of adding lose a return.
 * O33 Fold: the entry's own reference is dropped last, together with what O31 added too
 *     much. Until then it stands for the live count:
 *
 *       home                        B, elsewhere           freezer
 *       global -= 1 (= base), live 1
 *                                   reads                  cas(base -> frozen)
 *       global += 1
 * O34 Reuse: an entry is used again only at live 0. A token that is still out would return
 *     to an entry that counts another key, or find no entry at all. If an open entry of the
 *     same key stood beside a tombstone, a token of either could return to the other one.
 *     That drops in global what was counted in the open entry, so that global is too low.
 * O35 Disabled: a task that wants no entries sets the flag first, and then folds each table
 *     at its home. Home looks at the flag in the same section with preemption off in which
 *     it installs. Each such section of that CPU comes before the fold, which then closes
 *     its entry, or after it. One that comes after it sees the flag, because the flag was
 *     set before the fold. So nothing else orders the two. A hit need not look at the flag:
 *     before the fold it does no harm, and after it there is nothing to hit.
 * O37 Offline: a CPU's last stores to its entries may still be in its store buffer when its
 *     last task has gone. Taking a CPU offline is a full fence on that CPU, and the fold in
 *     its place must come after it. Otherwise the fold takes an old live count along.
 *
 * All other accesses of home need no order. Each comes after the one before it in program
 * order, or a switch of tasks lies between them, which is a full fence. A token carries the
 * entry's words to another CPU, because a task that moves passes through the scheduler.
 * What a holder did with the frame comes before its return, which comes before the fold's
 * add or drop, which the freezer's cas sees (N2).
 *
 * Progress: wait-free. hit, unref and install take one step for each way, a return from
 * elsewhere one atomic, a fold two and the drop. Locks: none.
 * Not here: when to install; a failed cas on the global word is a good sign. Nor who folds
 * and how soon, nor what a freezer does that meets an open entry.
 *
 * The includer must define before this text:
 *
 *   struct paygo_words         where global words are found; passed by value
 *   paygo_add(words, key, n)   adds n to the global word of key, and is a full fence on both
 *                              sides
 *   paygo_disabled(words)      are installs forbidden (O35)?
 *
 * It also defines host_load_relaxed(), host_store_relaxed(), host_fetch_add() and DCHECK().
 * host_fetch_add() is a full fence.
 */
#ifndef LODIC_CORE_PAYGO_GATE_H
#define LODIC_CORE_PAYGO_GATE_H

/* In away: the entry's live count is in the global word, and tokens drop there. */
#define PAYGO_CLOSED ((u64)1 << 63)

struct paygo_entry {
	u64 key;
	u64 local;
	u64 away;
	u64 mark;
};

/* Where a key is counted on one CPU; passed by value. */
struct paygo_bucket {
	struct paygo_words words;
	struct paygo_entry *entries;
	u32 ways;
};

/* For home, and for a check when nothing moves. */
static inline bool paygo_gate_is_open(const struct paygo_entry *e)
{
	return host_load_relaxed(&e->key) &&
	       !(host_load_relaxed(&e->away) & PAYGO_CLOSED);
}

/*
 * How many tokens name the entry (PG1). From elsewhere the answer may be old, and too high:
 * away only grows, and is loaded first.
 */
static inline u64 paygo_gate_live(const struct paygo_entry *e)
{
	u64 away = host_load_relaxed(&e->away);

	return host_load_relaxed(&e->local) - (away & ~PAYGO_CLOSED);
}

/* Home: may the entry count another key (O34)? */
static inline bool paygo_gate_is_reusable(const struct paygo_entry *e)
{
	return !paygo_gate_is_open(e) && paygo_gate_live(e) == 0;
}

/*
 * The entry of key, or NULL. For home, and for a task with a token of that entry (PG4, PG5).
 * Relaxed: the token's entry stands still, and other entries never get its key.
 */
static inline struct paygo_entry *paygo_gate_find(struct paygo_bucket b, u64 key)
{
	u32 i;

	for (i = 0; i < b.ways; i++)
		if (host_load_relaxed(&b.entries[i].key) == key)
			return &b.entries[i];
	return NULL;
}

/*
 * Home: takes a reference in the open entry of key, and returns the entry. The caller must
 * then look what the frame holds, and return the reference if that is another block. NULL:
 * the caller must count in the global word.
 */
static inline struct paygo_entry *paygo_gate_hit(struct paygo_bucket b, u64 key)
{
	struct paygo_entry *e = paygo_gate_find(b, key);

	if (!e)
		return NULL;
	/* Only home sets CLOSED, and this is home. */
	if (host_load_relaxed(&e->away) & PAYGO_CLOSED)
		return NULL;
	host_store_relaxed(&e->local, host_load_relaxed(&e->local) + 1);
	return e;
}

/*
 * Home: the caller holds a reference in the global word. That becomes the new entry's own,
 * and the caller's token is now this CPU. NULL: nothing has changed. Then entries are
 * disabled, the bucket is full, or key has an entry already, open or a tombstone (PG4).
 */
static inline struct paygo_entry *paygo_gate_install(struct paygo_bucket b, u64 key)
{
	struct paygo_entry *e = paygo_gate_find(b, key);
	u32 i;

	if (paygo_disabled(b.words)) /* O35 */
		return NULL;
	if (e && !paygo_gate_is_reusable(e))
		return NULL;
	for (i = 0; i < b.ways && !e; i++)
		if (paygo_gate_is_reusable(&b.entries[i])) /* O34 */
			e = &b.entries[i];
	if (!e)
		return NULL;
	/*
	 * No token names the entry, so no other CPU changes it until this one gives out a
	 * token. Home has seen the last return, so the store of away comes after it.
	 */
	host_store_relaxed(&e->away, 0);
	host_store_relaxed(&e->local, 1);
	host_store_relaxed(&e->key, key);
	return e;
}

/*
 * Home: returns a reference whose token is this CPU. true: done. false: the caller must drop
 * one in the global word, with preemption on if it likes.
 */
static inline bool paygo_gate_unref_home(struct paygo_bucket b, u64 key)
{
	struct paygo_entry *e = paygo_gate_find(b, key);

	DCHECK(e, "PG5: a token finds its entry");
	if (unlikely(!e))
		return true; /* a frame that is never freed does less harm */
	host_store_relaxed(&e->local, host_load_relaxed(&e->local) - 1);
	return !(host_load_relaxed(&e->away) & PAYGO_CLOSED);
}

/* The same from elsewhere; the bucket is the one of the token's home. */
static inline bool paygo_gate_unref_away(struct paygo_bucket b, u64 key)
{
	struct paygo_entry *e = paygo_gate_find(b, key);
	u64 away;

	DCHECK(e, "PG5: a token finds its entry");
	if (unlikely(!e))
		return true;
	/* A full fence: the caller's reads of the frame come before the return. */
	away = host_fetch_add(&e->away, 1); /* O32 */
	return !(away & PAYGO_CLOSED);
}

/*
 * Home: closes an open entry. Its tokens are references in the global word from then on.
 * Returns how many references the caller must drop there: the entry's own, and those that
 * were added too much (O31). The caller must drop them all at once, and may switch preemption
 * on before. Until then the fold is in progress (PG2). The caller must load the key before
 * it calls, because by the time of the drop the entry may count another one.
 */
static inline u64 paygo_gate_fold(struct paygo_words words, struct paygo_entry *e)
{
	u64 key = host_load_relaxed(&e->key);
	u64 returns = host_load_relaxed(&e->away);
	u64 live = host_load_relaxed(&e->local) - returns;

	if (live)
		paygo_add(words, key, live); /* O31 */
	returns = host_fetch_add(&e->away, PAYGO_CLOSED) - returns;
	return 1 + returns; /* O33 */
}

#endif
