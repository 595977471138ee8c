// SPDX-License-Identifier: GPL-2.0
/*
 * A reader takes a local reference, and gives it back: see mm/lodic.c.
 *
 * The usual way needs one hint, one look at the generation of the mm's tables and one
 * compare-and-swap, each time with interrupts off. What is rare is in functions of its
 * own, which are called last, so that the usual way saves few registers.
 */
#include <linux/lodic.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include "lodic.h"
#include "lodic_host.h"
#include "lodic_count.h"
#include "lodic_gate.h"

#include <trace/events/lodic.h>

/* So many mappings must a page have, on average over its folio. */
unsigned int lodic_mappers __read_mostly = 4;

static bool lodic_mm_mark(struct mm_struct *mm)
{
	if (test_bit(MMF_LODIC, &mm->flags))
		return true;
	if (!mmap_read_trylock(mm))
		return false;
	set_bit(MMF_LODIC, &mm->flags);
	mmap_read_unlock(mm);
	return true;
}

/*
 * What tells whether many read a folio, and nobody who could drop the reference, as
 * filemap_update_page() does. The caller does not hold the folio, and it may be a tail
 * page by now. So no function that checks what it is given may be used here.
 */
static __always_inline unsigned long lodic_flags(struct folio *folio)
{
	return READ_ONCE(folio->flags) &
	       (BIT(PG_uptodate) | BIT(PG_readahead) | BIT(PG_head));
}

/* So many mappings a page of a large folio has, on average. */
static __always_inline int lodic_large_mappers(struct folio *folio)
{
	return (atomic_read(&folio->_large_mapcount) + 1) >>
	       /* Its order, or a number of somebody else's. */
	       (data_race(folio->_flags_1) & 31);
}

static __always_inline bool lodic_suffices(int mappers)
{
	return mappers >= (int)READ_ONCE(lodic_mappers);
}

/* The reference is taken: what is rarely left to do. Always true. */
static noinline bool lodic_counted(struct folioref_batch *refs, pgoff_t index,
				   struct folio *folio)
{
	trace_lodic_ref(folio, refs->lodic.base + (index << PAGE_SHIFT));
	return true;
}

/* Gives back what was counted in pte, in whatever place. Interrupts are off. */
static noinline bool lodic_unref_page(u64 *pte, struct page *page)
{
	struct gate_frame frame = { page_to_pfn(page), 1 };
	enum gate_unref how;

	do {
		how = pte_gate_unref(pte, frame);
	} while (unlikely(how == GATE_AGAIN));
	return how == GATE_LOCAL;
}

/* The page that was counted is not the one that the caller asked for. */
static noinline bool lodic_undo(u64 *pte, struct page *page, struct folio *folio)
{
	bool local = lodic_unref_page(pte, page);

	lodic_witness_undo();
	local_irq_enable();
	count_vm_event(LODIC_FALLBACK);
	if (local) {
		count_vm_event(LODIC_UNREF);
	} else {
		count_vm_event(LODIC_UNREF_GLOBAL);
		put_page(page);
	}
	return folio_try_get(folio);
}

/*
 * Counts on index's page of folio in *pte, if that maps the page. Interrupts are off and
 * become on if this returns true: then *ret is whether the caller has a reference. The
 * folio may have been freed and used for anything meanwhile.
 */
static __always_inline bool
lodic_count(struct folioref_batch *refs, unsigned int i, struct address_space *mapping,
	    pgoff_t index, struct folio *folio, unsigned long base, u64 *pte,
	    unsigned long tables, bool once, bool *ret)
{
	struct page *page = folio_page(folio, index - folio->index);
	struct gate_frame frame = { page_to_pfn(page), 1 };
	u64 seen;

	/* The first one says where all others are. Nobody looks at it before a bit is set. */
	if (likely(!refs->counted)) {
		refs->lodic.base = base;
		refs->lodic.index = index;
	} else if (base != refs->lodic.base) {
		return false;
	}
	if (unlikely(!(once ? pte_gate_ref_once(pte, frame, &seen) :
			      pte_gate_ref(pte, frame, &seen))))
		return false;
	refs->lodic.pte = pte;
	refs->lodic.seen = seen;
	refs->lodic.tables = tables;
	refs->lodic.nr = i;
	__count_vm_event(LODIC_REF);
	/*
	 * We hold the page now, so its folio stands still. Is that the one? A tail
	 * page's word for the mapping holds something else. A count in the entry of
	 * another kind of page must be gone before interrupts are on. khugepaged takes
	 * tables of anonymous pages away with their entries, and waits for no more.
	 */
	if (!MUTANT(NO_SECOND_LOOK) &&
	    (unlikely(READ_ONCE(folio->mapping) != mapping) ||
	     unlikely(page != &folio->page && page_folio(page) != folio))) {
		*ret = lodic_undo(pte, page, folio);
		return true;
	}
	local_irq_enable();
	refs->counted |= 1u << i;
	*ret = trace_lodic_ref_enabled() ? lodic_counted(refs, index, folio) : true;
	return true;
}

/*
 * Counts where hint says, through a table that it finds anew. Returns what
 * lodic_count() does. Interrupts are off.
 */
static __always_inline bool
lodic_get_hinted(struct folioref_batch *refs, unsigned int i,
		 struct address_space *mapping, pgoff_t index, struct folio *folio,
		 struct mm_struct *mm, struct lodic_hint *hint, bool *ret)
{
	unsigned long tables = lodic_tables(mm);
	u64 *pte;

	if (!lodic_pte(mm, hint->base + (index << PAGE_SHIFT), &pte))
		return false;
	lodic_hint_table(hint, index, pte, tables);
	return lodic_count(refs, i, mapping, index, folio, hint->base, pte, tables, false,
			   ret);
}

/* Walks, and tries what it found. */
static noinline bool
lodic_get_by_walk(struct folioref_batch *refs, unsigned int i,
		  struct address_space *mapping, pgoff_t index, struct folio *folio,
		  struct mm_struct *mm, unsigned long rest, struct lodic_hint *old)
{
	struct lodic_hint found = *old;
	bool ret;

	found.rest = rest;
	if (lodic_walk(mm, mapping, index, &found) && !lodic_mm_mark(mm)) {
		/* A writer has the mmap_lock. Later, and not at each turn: as a gap. */
		found.maps = false;
		found.first = index;
		found.nr = 1;
		found.seq = lodic_seq(mm) - 1;
	}
	local_irq_disable();
	lodic_remember(&found);
	if (found.maps && lodic_get_hinted(refs, i, mapping, index, folio, mm,
					   this_cpu_read(lodic_last), &ret))
		return ret;
	local_irq_enable();
	count_vm_event(LODIC_FALLBACK);
	return folio_try_get(folio);
}

/*
 * The last hint is another one, or it leads to no table. Or the entry says no, or has
 * changed meanwhile: the usual way tries once.
 */
static noinline bool
lodic_get_slowly(struct folioref_batch *refs, unsigned int i,
		 struct address_space *mapping, pgoff_t index, struct folio *folio)
{
	struct mm_struct *mm = current->mm;
	struct lodic_hint *hint, old = { };
	bool ret;

	if (!mm)
		goto global;
	local_irq_disable();
	hint = this_cpu_read(lodic_last);
	if (!lodic_hint_fits(hint, lodic_mm_id(mm), mapping, index)) {
		hint = lodic_find(lodic_mm_id(mm), mapping, index);
		if (!hint) {
			old.mm_id = lodic_mm_id(mm);
			old.mapping = mapping;
			goto walk;
		}
		this_cpu_write(lodic_last, hint);
	}
	if (hint->maps) {
		if (lodic_get_hinted(refs, i, mapping, index, folio, mm, hint, &ret))
			return ret;
	} else if (hint->rest) {
		old = *hint;
		goto walk;
	}
	/* The hint is right while the mappings of this mm are what they were. */
	if (hint->seq != lodic_seq(mm) && !hint->skip) {
		old = *hint;
		old.rest = 0;
		goto walk;
	}
	if (hint->seq != lodic_seq(mm))
		hint->skip--;
	local_irq_enable();
global:
	count_vm_event(LODIC_FALLBACK);
	return folio_try_get(folio);
walk:
	local_irq_enable();
	return lodic_get_by_walk(refs, i, mapping, index, folio, mm,
				 old.maps ? 0 : old.rest, &old);
}

/* Tries the last hint first. */
static noinline bool
lodic_get(struct folioref_batch *refs, unsigned int i, struct address_space *mapping,
	  pgoff_t index, struct folio *folio)
{
	struct mm_struct *mm = current->mm;
	struct lodic_hint *hint;
	pgoff_t n;
	bool ret;

	lodic_wait_look();
	if (unlikely(!mm))
		goto slowly;
	local_irq_disable();
	hint = this_cpu_read(lodic_last);
	if (unlikely(hint->mm_id != lodic_mm_id(mm) || hint->mapping != mapping))
		goto on;
	n = index - hint->first;
	if (unlikely(n >= hint->here))
		goto on;
	if (likely(hint->maps)) {
		if (likely(lodic_tables(mm) == hint->tables) &&
		    likely(lodic_count(refs, i, mapping, index, folio, hint->base,
				       hint->pte + n, hint->tables, true, &ret)))
			return ret;
	} else if (likely(hint->seq == lodic_seq(mm))) {
		__count_vm_event(LODIC_FALLBACK);
		local_irq_enable();
		return folio_try_get(folio);
	}
on:
	local_irq_enable();
slowly:
	return lodic_get_slowly(refs, i, mapping, index, folio);
}

/* A large folio, or one with a mark for readahead or not up to date. */
static noinline bool
lodic_get_rare(struct folioref_batch *refs, unsigned int i, struct address_space *mapping,
	       pgoff_t index, struct folio *folio, unsigned long flags)
{
	if (flags == (BIT(PG_uptodate) | BIT(PG_head)) &&
	    lodic_suffices(lodic_large_mappers(folio)))
		return lodic_get(refs, i, mapping, index, folio);
	return folio_try_get(folio);
}

/* folioref_try_get() */
bool lodic_try_get(struct folioref_batch *refs, unsigned int i,
		   struct address_space *mapping, pgoff_t index, struct folio *folio)
{
	unsigned long flags = lodic_flags(folio);

	if (unlikely(flags != BIT(PG_uptodate)))
		return lodic_get_rare(refs, i, mapping, index, folio, flags);
	if (likely(lodic_suffices(atomic_read(&folio->_mapcount) + 1)))
		return lodic_get(refs, i, mapping, index, folio);
	return folio_try_get(folio);
}

static noinline void lodic_put_traced(struct folio *folio, bool local)
{
	trace_lodic_unref(folio, local);
}

/* The entry was cleared, and the count folded: the reference is in _refcount. */
static noinline void lodic_put_folded(struct folio *folio)
{
	trace_lodic_unref(folio, false);
	count_vm_event(LODIC_UNREF_GLOBAL);
	folio_put(folio);
}

/* Not the last folio, or another table, or the entry has changed since. */
static noinline void lodic_put_slowly(struct folioref_batch *refs, unsigned int i,
				      struct folio *folio)
{
	struct gate_frame frame = { folio_pfn(folio), folio_nr_pages(folio) };
	/* A read may begin within the first folio of all, and the bits stay set. */
	pgoff_t index = i == __ffs(refs->counted) ? refs->lodic.index : folio->index;
	unsigned long addr = refs->lodic.base + (index << PAGE_SHIFT);
	enum gate_unref how;
	u64 *pte;

	/* Interrupts become on between the turns, as others may keep us busy here. */
	do {
		how = GATE_GLOBAL;
		local_irq_disable();
		if (lodic_pte(current->mm, addr, &pte))
			how = pte_gate_unref(pte, frame);
		local_irq_enable();
	} while (unlikely(how == GATE_AGAIN));
	if (unlikely(how == GATE_GLOBAL)) {
		lodic_put_folded(folio);
		return;
	}
	count_vm_event(LODIC_UNREF);
	if (trace_lodic_unref_enabled())
		lodic_put_traced(folio, true);
}

/* folioref_put() */
void lodic_put(struct folioref_batch *refs, unsigned int i, struct folio *folio)
{
	if (likely(i == refs->lodic.nr)) {
		local_irq_disable();
		if (likely(lodic_tables(current->mm) == refs->lodic.tables) &&
		    likely(pte_gate_unref_seen(refs->lodic.pte, refs->lodic.seen))) {
			__count_vm_event(LODIC_UNREF);
			local_irq_enable();
			if (trace_lodic_unref_enabled())
				lodic_put_traced(folio, true);
			return;
		}
		local_irq_enable();
	}
	lodic_put_slowly(refs, i, folio);
}
