/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Local references: a reader counts a page cache folio in the page table entry
 * through which its own process maps the folio. See Documentation/mm/lodic.rst.
 * This is what the code that changes page tables needs to know; readers use folioref.h.
 */
#ifndef _LINUX_LODIC_H
#define _LINUX_LODIC_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct mm_struct;

#ifdef CONFIG_LODIC
DECLARE_STATIC_KEY_FALSE(lodic_ptes);
bool lodic_mm_counts(struct mm_struct *mm);
void __lodic_table_gone(struct mm_struct *mm);

/**
 * lodic_table_gone - a page table is about to go away, or to another address
 * @mm: whose table it is
 *
 * Call it when the pmd no longer leads to the table. Only then wait for those who may still
 * use it, by an IPI or by RCU.
 */
static inline void lodic_table_gone(struct mm_struct *mm)
{
	if (static_branch_unlikely(&lodic_ptes))
		__lodic_table_gone(mm);
}
#else
static inline bool lodic_mm_counts(struct mm_struct *mm)
{
	return false;
}

static inline void lodic_table_gone(struct mm_struct *mm)
{
}
#endif

#endif /* _LINUX_LODIC_H */
