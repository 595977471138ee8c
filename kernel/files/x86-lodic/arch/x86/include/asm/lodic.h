/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_LODIC_H
#define _ASM_X86_LODIC_H

#include <linux/mm.h>

/*
 * *entry becomes the one for addr in the table that it leads to, where an entry maps
 * 1 << shift bytes. False: it leads to none.
 */
static __always_inline bool lodic_descend(u64 **entry, unsigned long addr,
					  unsigned int shift)
{
	u64 v = READ_ONCE(**entry);
	unsigned long offset = addr >> (shift - 3) & (PTRS_PER_PTE - 1) << 3;

	*entry = __va((v & PTE_PFN_MASK) + offset);
	return (v & (_PAGE_PRESENT | _PAGE_PSE)) == _PAGE_PRESENT;
}

/**
 * lodic_pte - the page table entry for a user address
 * @mm: current's
 * @addr: below TASK_SIZE_MAX
 *
 * Short, as it is walked twice for each reference: p4d_offset() and its kin look
 * for what cannot be in a user's table.
 *
 * Context: interrupts off until the entry is no longer used: who frees a table, or
 * gives it another place, waits for an interrupt of this CPU or for RCU.
 * Return: NULL where there is no table, or a huge page.
 */
static __always_inline u64 *lodic_pte(struct mm_struct *mm, unsigned long addr)
{
	u64 *entry = (u64 *)pgd_offset(mm, addr);

	if (pgtable_l5_enabled() && unlikely(!lodic_descend(&entry, addr, P4D_SHIFT)))
		return NULL;
	if (unlikely(!lodic_descend(&entry, addr, PUD_SHIFT)))
		return NULL;
	if (unlikely(!lodic_descend(&entry, addr, PMD_SHIFT)))
		return NULL;
	if (unlikely(!lodic_descend(&entry, addr, PAGE_SHIFT)))
		return NULL;
	return entry;
}

#endif /* _ASM_X86_LODIC_H */
