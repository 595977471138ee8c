/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A reference counter in bits that a page-table entry does not need (LODIC s.4.3, Fig. 6).
 * Only this text knows where it lies and how wide it is. The code that walks the table
 * defines the rest of an entry: the library's pte.h, or the architecture in Linux.
 *
 *   bits 52..58   count: references taken through this entry
 *
 * The paper has 7 bits. A host with fewer to spare (5 on x86-64 Linux 6.12) must define
 * PTE_COUNT_BITS before this text; nothing else changes.
 */
#ifndef LODIC_CORE_PTE_COUNT_H
#define LODIC_CORE_PTE_COUNT_H

#ifndef PTE_COUNT_BITS
#define PTE_COUNT_BITS 7
#endif
#define PTE_COUNT_SHIFT 52
#define PTE_COUNT_MAX (((u64)1 << PTE_COUNT_BITS) - 1)
#define PTE_COUNT_ONE ((u64)1 << PTE_COUNT_SHIFT)
#define PTE_COUNT_MASK (PTE_COUNT_MAX << PTE_COUNT_SHIFT)

#if PTE_COUNT_SHIFT + PTE_COUNT_BITS > 64
#error "the count does not fit"
#endif

static inline u64 pte_count(u64 pte)
{
	return (pte & PTE_COUNT_MASK) >> PTE_COUNT_SHIFT;
}

#endif
