/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/lodic_gate.h needs of its surroundings: loads and compare-and-swaps with
 * stated order, what a page table entry leads to, and where a folio is counted.
 * The other surroundings of the same text are lodic's model checker and library.
 */
#ifndef _MM_LODIC_HOST_H
#define _MM_LODIC_HOST_H

#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/page_ref.h>
#include <linux/pgtable.h>

/* Bits 52 to 56: 57 is _PAGE_DEVMAP, 58 _PAGE_SAVED_DIRTY, 59 to 62 keys. */
#define PTE_COUNT_BITS 5

/* Wrong orders on purpose, to show that the tests see them: debugfs lodic/mutant. */
enum lodic_mutant {
	MUTANT_NONE,
	MUTANT_CLEAR_BEFORE_FOLD,
	MUTANT_UNMAP_DROPS_COUNT,
	MUTANT_UNREF_ANY_FRAME,
	MUTANT_REF_ANY_FRAME,
	MUTANT_TABLE_MOVES,
	MUTANT_TABLE_STAYS,
	MUTANT_GET_SHOWS,
	MUTANT_SET_DROPS,
	MUTANT_NO_SECOND_LOOK,
	MUTANT_REFS_BEFORE_PTES,
	MUTANT_OFF_TOO_EARLY,
	NR_MUTANTS,
	/* Only the model checker sets these. */
	MUTANT_CLEAR_LAST_LATE,
	MUTANT_REF_PAST_MAX,
	MUTANT_UNREF_GIVES_UP
};

#ifdef CONFIG_LODIC_DEBUG
extern unsigned int lodic_mutant;
extern unsigned int lodic_window;
extern unsigned int lodic_look_window;

/* What no counter of /proc/vmstat tells. The tests show that these paths ran. */
struct lodic_witness {
	atomic_t undone;	/* references on a page of another folio */
	atomic_t most;		/* clears that added as much as a count can be */
	atomic_long_t added;	/* to folios by clears; equals lodic_folded */
};

extern struct lodic_witness lodic_witness;

static inline void lodic_witness_add(u64 pte, u64 n)
{
	atomic_long_add((long)n, &lodic_witness.added);
	/* No clear adds more than it has found, but the one that gives up trying. */
	if ((s64)n > (s64)((pte & _PAGE_LODIC) >> _PAGE_BIT_LODIC))
		atomic_inc(&lodic_witness.most);
}

static inline void lodic_witness_undo(void)
{
	atomic_inc(&lodic_witness.undone);
}

static inline void lodic_spin(unsigned int turns)
{
	while (turns--)
		cpu_relax();
}

static inline void lodic_wait(void)
{
	lodic_spin(READ_ONCE(lodic_window));
}

/*
 * Between the look at the page cache and the count, where a folio may be split. It ends
 * early when the window is set to 0.
 */
static inline void lodic_wait_look(void)
{
	unsigned int turns = READ_ONCE(lodic_look_window);

	while (turns-- && READ_ONCE(lodic_look_window))
		cpu_relax();
}

#define MUTANT(name) unlikely(READ_ONCE(lodic_mutant) == MUTANT_##name)
#else
static inline void lodic_witness_add(u64 pte, u64 n)
{
}

static inline void lodic_witness_undo(void)
{
}

static inline void lodic_wait(void)
{
}

static inline void lodic_wait_look(void)
{
}

#define MUTANT(name) (false && MUTANT_##name)
#endif

/* A window of the gate: wait here in every run, whether a rule is broken or not. */
#define MUTANT_WINDOW(name)		\
	do {				\
		if (MUTANT_##name)	\
			lodic_wait();	\
	} while (0)

static inline u64 host_load_relaxed(const u64 *p)
{
	return READ_ONCE(*p);
}

static inline u64 host_load_dep(const u64 *p)
{
	return READ_ONCE(*p);
}

static inline u64 host_load_acquire(const u64 *p)
{
	/* The caller says whose release this pairs with. */
	return smp_load_acquire(p);
}

static inline bool host_cas(u64 *p, u64 old, u64 new)
{
	return try_cmpxchg(p, &old, new);
}

static inline u64 host_xchg(u64 *p, u64 new)
{
	return xchg(p, new);
}

/* Pages of one folio: page frames in a row. */
struct gate_frame {
	unsigned long pfn;
	unsigned long nr;
};

/* Global words are the folios' own _refcount, found from the entry. */
struct gate_words {
};

/*
 * Only what the hardware calls present: an entry for PROT_NONE has its frame
 * inverted, and nobody counts there.
 */
static inline bool gate_present(u64 pte)
{
	return (pte & (_PAGE_PRESENT | _PAGE_SPECIAL | _PAGE_DEVMAP)) == _PAGE_PRESENT;
}

/* For a present entry, of which pte_pfn() need not look whether it is inverted. */
static inline unsigned long gate_pfn(u64 pte)
{
	return (pte & PTE_PFN_MASK) >> PAGE_SHIFT;
}

static inline bool gate_maps(u64 pte, struct gate_frame frame)
{
	const u64 mask = PTE_PFN_MASK | _PAGE_PRESENT | _PAGE_SPECIAL | _PAGE_DEVMAP;

	/* How many pages on, if all flags are right. Else it is far too many. */
	return ror64((pte & mask) - (frame.pfn << PAGE_SHIFT | _PAGE_PRESENT),
		     PAGE_SHIFT) < frame.nr;
}

static inline void gate_add(struct gate_words words, u64 pte, u64 n)
{
	folio_ref_add(pfn_folio(gate_pfn(pte)), (int)n);
	/* The count is in _refcount before the entry goes: O11 of lodic_gate.h. */
	smp_mb__after_atomic();
	lodic_witness_add(pte, n);
	lodic_wait();
}

#endif /* _MM_LODIC_HOST_H */
