/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A page-table entry (pte) with a reference counter in bits it does not need (LODIC
 * s.4.3, Fig. 6). This is the one place that knows where and how wide the counter is.
 *
 *   bit  0        present
 *   bits 1..32    frame number
 *   bits 33..51   tag: free for the table that holds the entry
 *   bits 52..58   count: references taken through this entry
 *
 * The paper has 7 bits. A host with fewer to spare (5 on x86-64 Linux 6.12) sets
 * PTE_COUNT_BITS; nothing else changes.
 */
#ifndef LODIC_PTE_COUNT_H
#define LODIC_PTE_COUNT_H

#include "core/check.h"

#ifndef PTE_COUNT_BITS
#define PTE_COUNT_BITS 7
#endif
#define PTE_COUNT_SHIFT 52
#define PTE_COUNT_MAX (((u64)1 << PTE_COUNT_BITS) - 1)
#define PTE_COUNT_ONE ((u64)1 << PTE_COUNT_SHIFT)
#define PTE_COUNT_MASK (PTE_COUNT_MAX << PTE_COUNT_SHIFT)

#define PTE_EMPTY ((u64)0)
#define PTE_PRESENT ((u64)1)
#define PTE_FRAME_SHIFT 1
#define PTE_TAG_SHIFT 33
#define PTE_TAG_BITS 19
#define PTE_TAG_MASK ((((u64)1 << PTE_TAG_BITS) - 1) << PTE_TAG_SHIFT)

_Static_assert(PTE_TAG_SHIFT + PTE_TAG_BITS <= PTE_COUNT_SHIFT, "tag below count");
_Static_assert(PTE_COUNT_SHIFT + PTE_COUNT_BITS <= 64, "count fits");

static inline u64 pte_make(u32 frame)
{
	return PTE_PRESENT | (u64)frame << PTE_FRAME_SHIFT;
}

static inline bool pte_present(u64 pte)
{
	return pte & PTE_PRESENT;
}

static inline u32 pte_frame(u64 pte)
{
	return (u32)(pte >> PTE_FRAME_SHIFT);
}

static inline u64 pte_count(u64 pte)
{
	return (pte & PTE_COUNT_MASK) >> PTE_COUNT_SHIFT;
}

static inline bool pte_maps(u64 pte, u32 frame)
{
	return pte_present(pte) && pte_frame(pte) == frame;
}

#endif
