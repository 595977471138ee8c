/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Local references: a reader counts a page cache folio in the page table entry
 * through which its own process maps the folio. See Documentation/mm/lodic.rst.
 */
#ifndef _LINUX_LODIC_H
#define _LINUX_LODIC_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/pagevec.h>
#include <linux/types.h>

struct address_space;

/**
 * struct lodic_batch - folios that may be referenced locally
 * @fbatch: the folios.
 * @addr: user address of the entry in which folios[i] is counted, in the mm that
 *        took the reference.
 *
 * Bit i of fbatch.lodic says that folios[i] is counted in a page table entry, not in
 * _refcount.
 *
 * The batch is on the reader's stack. Only lodic_batch_init() may initialise it.
 */
struct lodic_batch {
	struct folio_batch fbatch;
#ifdef CONFIG_LODIC
	unsigned long addr[PAGEVEC_SIZE];
#endif
};

#ifdef CONFIG_LODIC
DECLARE_STATIC_KEY_FALSE(lodic_ptes);
DECLARE_STATIC_KEY_FALSE(lodic_refs);

/* Set in fbatch.lodic of a lodic_batch only. Above the bits of the folios. */
#define LODIC_BATCH BIT(PAGEVEC_SIZE)

/* May new local references be taken? */
static inline bool lodic_enabled(void)
{
	return static_branch_unlikely(&lodic_refs);
}

static inline void lodic_batch_init(struct lodic_batch *batch)
{
	folio_batch_init(&batch->fbatch);
	batch->fbatch.lodic = LODIC_BATCH;
}

bool __lodic_try_get(struct folio_batch *fbatch, struct address_space *mapping,
		     pgoff_t index, struct folio *folio);
void __lodic_put(struct folio_batch *fbatch, unsigned int i, struct folio *folio);
bool lodic_mm_counts(struct mm_struct *mm);

static inline bool lodic_is_local(struct folio_batch *fbatch, unsigned int i)
{
	return static_branch_unlikely(&lodic_ptes) && fbatch->lodic & BIT(i);
}

/**
 * lodic_try_get - take a local reference for the next entry of a batch
 * @fbatch: the batch to which the caller may add @folio.
 * @mapping: the mapping in which the caller found @folio.
 * @index: its index there; for a large folio, of the page that is read first.
 * @folio: the folio, which may be freed and reused before this returns true.
 *
 * For reads that end within one call of the task, which may sleep meanwhile.
 * Success proves that @folio is alive. The caller must still check that @mapping
 * holds it at @index, as after folio_try_get().
 *
 * Context: process context, interrupts on, RCU read lock held.
 * Return: true if taken; false: take a reference by folio_try_get().
 */
static inline bool lodic_try_get(struct folio_batch *fbatch,
				 struct address_space *mapping, pgoff_t index,
				 struct folio *folio)
{
	return lodic_enabled() && __lodic_try_get(fbatch, mapping, index, folio);
}

/**
 * lodic_put - drop the reference of entry i of a batch, of either kind
 * @fbatch: any batch
 * @i: the entry
 * @folio: its folio
 */
static inline void lodic_put(struct folio_batch *fbatch, unsigned int i,
			     struct folio *folio)
{
	if (lodic_is_local(fbatch, i))
		__lodic_put(fbatch, i, folio);
	else
		folio_put(folio);
}

/**
 * lodic_globalize - make entry i's reference one in _refcount
 * @fbatch: any batch
 * @i: the entry
 * @folio: its folio
 *
 * Call it before code that may drop the reference or hand it to somebody else.
 */
static inline void lodic_globalize(struct folio_batch *fbatch, unsigned int i,
				   struct folio *folio)
{
	if (lodic_is_local(fbatch, i)) {
		folio_get(folio);
		__lodic_put(fbatch, i, folio);
	}
}
#else
static inline bool lodic_enabled(void)
{
	return false;
}

static inline void lodic_batch_init(struct lodic_batch *batch)
{
	folio_batch_init(&batch->fbatch);
}

static inline bool lodic_try_get(struct folio_batch *fbatch,
				 struct address_space *mapping, pgoff_t index,
				 struct folio *folio)
{
	return false;
}

static inline void lodic_put(struct folio_batch *fbatch, unsigned int i,
			     struct folio *folio)
{
	folio_put(folio);
}

static inline void lodic_globalize(struct folio_batch *fbatch, unsigned int i,
				   struct folio *folio)
{
}

static inline bool lodic_mm_counts(struct mm_struct *mm)
{
	return false;
}
#endif

#endif /* _LINUX_LODIC_H */
