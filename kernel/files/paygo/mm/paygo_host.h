/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/paygo_gate.h needs of its surroundings: loads, stores and an atomic add with
 * stated order, and where a folio is counted. The other surroundings of the same text
 * are lodic's model checker and timing model.
 */
#ifndef _MM_PAYGO_HOST_H
#define _MM_PAYGO_HOST_H

#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/mmdebug.h>
#include <linux/page_ref.h>
#include <linux/swap.h>

/* Wrong orders on purpose, to show that the tests see them: debugfs paygo/mutant. */
enum paygo_mutant {
	MUTANT_NONE,
	MUTANT_ENTRY_CLOSED_FIRST,
	MUTANT_ENTRY_OWN_FIRST,
	MUTANT_ENTRY_SURPLUS_KEPT,
	MUTANT_ENTRY_AWAY_BLIND,
	MUTANT_ENTRY_AWAY_LOOK_FIRST,
	MUTANT_ENTRY_REUSED_EARLY,
	MUTANT_ENTRY_BESIDE_TOMBSTONE,
	MUTANT_ENTRY_HIT_CLOSED,
	MUTANT_ENTRY_INSTALL_DISABLED,
	NR_MUTANTS,
	/* Only the model checker sets these. */
	MUTANT_ENTRY_AWAY_PLAIN,
	MUTANT_ENTRY_HIT_DISABLED
};

#ifdef CONFIG_PAYGO_DEBUG
extern unsigned int paygo_mutant;
extern unsigned int paygo_window;

static inline void paygo_wait(void)
{
	unsigned int spins = READ_ONCE(paygo_window);

	while (spins--)
		cpu_relax();
}

#define MUTANT(name) unlikely(READ_ONCE(paygo_mutant) == MUTANT_##name)
#define DCHECK(cond, text) WARN_ONCE(!(cond), "paygo: %s\n", text)
#else
static inline void paygo_wait(void)
{
}

#define MUTANT(name) (false && MUTANT_##name)
#define DCHECK(cond, text) VM_WARN_ONCE(!(cond), "paygo: %s\n", text)
#endif

/* A window of the gate: wait here in every run, whether a rule is broken or not. */
#define MUTANT_WINDOW(name)		\
	do {				\
		if (MUTANT_##name)	\
			paygo_wait();	\
	} while (0)

static inline u64 host_load_relaxed(const u64 *p)
{
	return READ_ONCE(*p);
}

static inline void host_store_relaxed(u64 *p, u64 v)
{
	WRITE_ONCE(*p, v);
}

static inline u64 host_fetch_add(u64 *p, u64 n)
{
	return atomic64_fetch_add(n, (atomic64_t *)p);
}

/* Global words are the folios' own _refcount: a key is a folio's address. */
struct paygo_words {
	u64 *added;	/* the sum of paygo_add() */
};

static inline bool paygo_disabled(struct paygo_words words)
{
	return lru_cache_disabled();
}

static inline void paygo_add(struct paygo_words words, u64 key, u64 n)
{
	struct folio *folio = (struct folio *)key;

	/* Only a broken fold subtracts here. */
	if (MUTANT(ENTRY_OWN_FIRST) && (s64)n < 0) {
		folio_put(folio);
		paygo_wait();
		return;
	}
	*words.added += n;
	/* What home has seen of returns is older than this: PG2 of paygo_gate.h. */
	smp_mb__before_atomic();
	folio_ref_add(folio, (int)n);
	/* The count is in _refcount before the entry closes: O31 of paygo_gate.h. */
	smp_mb__after_atomic();
	paygo_wait();
}

#endif /* _MM_PAYGO_HOST_H */
