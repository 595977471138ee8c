/* SPDX-License-Identifier: GPL-2.0 */
/*
 * References that a reader of the page cache takes and drops within one call. They are
 * counted in _refcount, or where a scheme keeps them. Then readers on many CPUs do not wait
 * for one cache line. See Documentation/mm/folioref.rst.
 */
#ifndef _LINUX_FOLIOREF_H
#define _LINUX_FOLIOREF_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/pagevec.h>
#include <linux/static_call.h>
#include <linux/types.h>

struct address_space;

/* In folioref_batch.home: counted in a page table entry, not in a CPU's table. */
#define FOLIOREF_PTE U16_MAX

/**
 * struct folioref_batch - how the folios of a folio_batch are counted
 * @counted: bit i says that the scheme counts folio i, and _refcount does not.
 * @home: the CPU that counts a folio, or FOLIOREF_PTE.
 *
 * It is on the reader's stack, beside the folios.
 */
struct folioref_batch {
#ifdef CONFIG_FOLIOREF
	u32 counted;
#ifdef CONFIG_PAYGO
	u16 home[PAGEVEC_SIZE];
#endif
#endif
};

#ifdef CONFIG_FOLIOREF
/**
 * struct folioref_scheme - one way to count
 * @name: its name on the kernel's command line
 * @try_get: as folioref_try_get(). It takes a reference of either kind.
 * @put: drops a reference whose bit in folioref_batch.counted is set.
 * @start: makes the kernel ready for counts; returns 0 or -errno. May sleep.
 * @stop: no reader calls @try_get any more, but some may still hold what they took.
 */
struct folioref_scheme {
	const char *name;
	bool (*try_get)(struct folioref_batch *refs, unsigned int i,
			struct address_space *mapping, pgoff_t index,
			struct folio *folio);
	void (*put)(struct folioref_batch *refs, unsigned int i, struct folio *folio);
	int (*start)(void);
	void (*stop)(void);
};

DECLARE_STATIC_KEY_FALSE(folioref_counts);
bool __folioref_try_get(struct folioref_batch *refs, unsigned int i,
			struct address_space *mapping, pgoff_t index,
			struct folio *folio);
void __folioref_put(struct folioref_batch *refs, unsigned int i, struct folio *folio);
DECLARE_STATIC_CALL(folioref_try_get, __folioref_try_get);
DECLARE_STATIC_CALL(folioref_put, __folioref_put);

/* Does a scheme count? Then use a folioref_batch. */
static inline bool folioref_counting(void)
{
	return static_branch_unlikely(&folioref_counts);
}

static inline void folioref_batch_init(struct folioref_batch *refs)
{
	if (refs)
		refs->counted = 0;
}

static inline bool folioref_is_counted(struct folioref_batch *refs, unsigned int i)
{
	return refs && refs->counted & BIT(i);
}

/**
 * folioref_try_get - take a reference for this call of the task
 * @refs: where to remember how folio @i is counted; NULL: in _refcount.
 * @i: its number; bit i of folioref_batch.counted is 0.
 * @mapping: the mapping in which the caller found @folio.
 * @index: its index there; for a large folio, of the page that is read first.
 * @folio: the folio, which may be freed and reused before this returns true.
 *
 * Of a batch that has folios already, folio @i follows the one before it, and @index is
 * that of its first page. The task may sleep while it holds the reference. Success
 * proves that @folio is alive. The caller must still check that @mapping holds it at
 * @index, as after folio_try_get().
 *
 * Context: process context, interrupts on, RCU read lock held.
 * Return: false if the folio is being freed.
 */
static __always_inline bool
folioref_try_get(struct folioref_batch *refs, unsigned int i,
		 struct address_space *mapping, pgoff_t index, struct folio *folio)
{
	if (!refs)
		return folio_try_get(folio);
	return static_call(folioref_try_get)(refs, i, mapping, index, folio);
}

/**
 * folioref_put - drop the reference on folio @i of a batch, of either kind
 * @refs: as in folioref_try_get()
 * @i: its number
 * @folio: the folio
 *
 * It leaves the bit of a counted folio set. Nobody may use slot @i again before
 * folioref_batch_init() or folioref_forget().
 */
static __always_inline void folioref_put(struct folioref_batch *refs, unsigned int i,
					 struct folio *folio)
{
	if (folioref_is_counted(refs, i))
		static_call(folioref_put)(refs, i, folio);
	else
		folio_put(folio);
}

/* Slot i is free for another folio, or its folio is counted in _refcount by now. */
static inline void folioref_forget(struct folioref_batch *refs, unsigned int i)
{
	if (refs)
		refs->counted &= ~BIT(i);
}

/**
 * folioref_globalize - make the reference on folio @i of a batch one in _refcount
 * @refs: as in folioref_try_get()
 * @i: its number
 * @folio: the folio
 *
 * Call it before code that may drop the reference or hand it to somebody else.
 */
static inline void folioref_globalize(struct folioref_batch *refs, unsigned int i,
				      struct folio *folio)
{
	if (folioref_is_counted(refs, i)) {
		folio_get(folio);
		folioref_put(refs, i, folio);
		folioref_forget(refs, i);
	}
}

/**
 * folioref_try_get_global - as folio_try_get(), for schemes
 * @folio: the folio, which may be freed and reused before this returns true.
 * @contended: becomes true if another CPU changed _refcount at the same time.
 *
 * Context: RCU read lock held.
 * Return: false if the folio is being freed.
 */
static __always_inline bool folioref_try_get_global(struct folio *folio, bool *contended)
{
	int old;

	*contended = false;
	/* As folio_try_get(): the page may be a huge one's by now, and read-only. */
	if (page_is_fake_head(&folio->page))
		return false;
	old = folio_ref_count(folio);
	while (likely(old)) {
		/* A full fence, as in folio_try_get(). */
		if (likely(atomic_try_cmpxchg(&folio->_refcount, &old, old + 1))) {
			if (page_ref_tracepoint_active(page_ref_mod_unless))
				__page_ref_mod_unless(&folio->page, 1, 1);
			return true;
		}
		*contended = true;
	}
	return false;
}
#else
static inline bool folioref_counting(void)
{
	return false;
}

static inline void folioref_batch_init(struct folioref_batch *refs)
{
}

static __always_inline bool
folioref_try_get(struct folioref_batch *refs, unsigned int i,
		 struct address_space *mapping, pgoff_t index, struct folio *folio)
{
	return folio_try_get(folio);
}

static __always_inline void folioref_put(struct folioref_batch *refs, unsigned int i,
					 struct folio *folio)
{
	folio_put(folio);
}

static inline void folioref_forget(struct folioref_batch *refs, unsigned int i)
{
}

static inline void folioref_globalize(struct folioref_batch *refs, unsigned int i,
				      struct folio *folio)
{
}
#endif

#endif /* _LINUX_FOLIOREF_H */
