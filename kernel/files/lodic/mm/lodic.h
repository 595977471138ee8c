/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of LODIC have of each other: see mm/lodic.c. */
#ifndef _MM_LODIC_H
#define _MM_LODIC_H

#include <linux/folioref.h>
#include <linux/mm.h>

#include <asm/lodic.h>

/* Hints of one CPU: so many sets of so many. kernel/README.md has what others give. */
#define LODIC_SET_BITS 8
#define LODIC_WAYS 4
/* A walk stops after so many VMAs: the next reader goes on from there. */
#define LODIC_WALK_MAX 256
/* At most 1 << this readers do without a walk after one that was in vain. */
#define LODIC_BACKOFF_MAX 10

/*
 * Of one CPU, which reads and writes it with interrupts off. A reader compares mapping
 * and never follows it: it may be gone, and another at its place.
 */
struct lodic_hint {
	u64 mm_id;		/* 0: an empty hint */
	struct address_space *mapping;
	unsigned long base;	/* address of the file's first page, mapped or not */
	pgoff_t first;		/* page whose entry pte is */
	union {
		u64 *pte;
		unsigned long rest;	/* of a gap: the walk goes on below this; 0: ended */
	};
	unsigned long tables;	/* generation from before the table was found */
	u32 before;		/* so many pages before first belong to the hint, */
	u32 nr;			/* and so many in all */
	u32 seq;		/* the mm's mm_lock_seq from before the walk */
	/*
	 * Pages from first on that need no walk: their entries are in one table, or they
	 * are of a gap whose walk has ended.
	 */
	u16 here;
	u16 skip:11;		/* so many readers more do without a walk */
	u16 vain:4;		/* so many walks in a row found nothing new */
	u16 maps:1;		/* 0: a gap, the mm maps none of these pages */
} ____cacheline_aligned;

/* The last one that was used; never NULL while a reader may ask. */
DECLARE_PER_CPU(struct lodic_hint *, lodic_last);

static __always_inline bool lodic_hint_fits(struct lodic_hint *hint, u64 mm_id,
					    struct address_space *mapping, pgoff_t index)
{
	return hint->mm_id == mm_id && hint->mapping == mapping &&
	       index - hint->first + hint->before < hint->nr;
}

static inline unsigned int lodic_seq(struct mm_struct *mm)
{
	return READ_ONCE(mm->mm_lock_seq.sequence);
}

/* lodic_hint.c; all but the first and the second with interrupts off. */
int lodic_hints_make(void);
void lodic_hint_table(struct lodic_hint *hint, pgoff_t index, u64 *pte,
		      unsigned long tables);
bool lodic_walk(struct mm_struct *mm, struct address_space *mapping, pgoff_t index,
		struct lodic_hint *hint);
struct lodic_hint *lodic_find(u64 mm_id, struct address_space *mapping, pgoff_t index);
void lodic_remember(struct lodic_hint *found);

/* lodic_read.c */
extern unsigned int lodic_mappers;
bool lodic_try_get(struct folioref_batch *refs, unsigned int i,
		   struct address_space *mapping, pgoff_t index, struct folio *folio);
void lodic_put(struct folioref_batch *refs, unsigned int i, struct folio *folio);

#endif /* _MM_LODIC_H */
