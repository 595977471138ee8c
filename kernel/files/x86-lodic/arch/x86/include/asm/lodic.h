/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_LODIC_H
#define _ASM_X86_LODIC_H

#include <linux/mm.h>

/* No other mm has this number, or had it. */
static inline u64 lodic_mm_id(struct mm_struct *mm)
{
	return mm->context.ctx_id;
}

/**
 * lodic_tables - the generation of an mm's page tables
 * @mm: current's
 *
 * Context: interrupts off. Read it before the walk that finds a table. The table is
 * still there in a later section in which it has not changed.
 */
static inline unsigned long lodic_tables(struct mm_struct *mm)
{
	/*
	 * Acquire, partner: the increment in lodic_tables_change(). A reader that sees
	 * the new generation also sees that no pmd leads to the table any more.
	 */
	return atomic64_read_acquire(&mm->context.lodic_tables);
}

static inline void lodic_tables_change(struct mm_struct *mm)
{
	/* After the pmd's clear: a walk that has the new value must not find the table. */
	smp_mb__before_atomic();
	atomic64_inc(&mm->context.lodic_tables);
	/* Before the IPI or the grace period, which waits for readers of the old value. */
	smp_mb__after_atomic();
}

/*
 * Makes *entry the one for addr in the table that it leads to, where an entry maps
 * 1 << shift bytes. Returns false if it leads to none.
 */
static __always_inline bool lodic_descend(u64 **entry, unsigned long addr,
					  unsigned int shift)
{
	u64 v = READ_ONCE(**entry) & (PTE_PFN_MASK | _PAGE_PRESENT | _PAGE_PSE);
	unsigned long offset = addr >> (shift - 3) & (PTRS_PER_PTE - 1) << 3;

	/* Its lowest byte holds both flags. */
	if (unlikely((u8)v != _PAGE_PRESENT))
		return false;
	*entry = __va(v - _PAGE_PRESENT + offset);
	return true;
}

/**
 * lodic_pte - find the page table entry for a user address
 * @mm: current's
 * @addr: below TASK_SIZE_MAX
 * @ret: where to store it
 *
 * It is short, because each reference walks the tables twice. p4d_offset() and its
 * kin look for what cannot be in a user's table.
 *
 * Context: interrupts off until the caller no longer uses the entry. Code that frees
 * a table, or moves it, waits for an interrupt of this CPU or for RCU.
 * Return: false where there is no table, or a huge page.
 */
static __always_inline bool lodic_pte(struct mm_struct *mm, unsigned long addr, u64 **ret)
{
	if (pgtable_l5_enabled()) {
		*ret = (u64 *)pgd_offset(mm, addr);
		if (!lodic_descend(ret, addr, P4D_SHIFT))
			return false;
	} else {
		*ret = (u64 *)mm->pgd + (addr >> P4D_SHIFT & (PTRS_PER_PGD - 1));
	}
	return lodic_descend(ret, addr, PUD_SHIFT) &&
	       lodic_descend(ret, addr, PMD_SHIFT) &&
	       lodic_descend(ret, addr, PAGE_SHIFT);
}

#endif /* _ASM_X86_LODIC_H */
