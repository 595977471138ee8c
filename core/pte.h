/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A page-table entry (pte) of core's own tables: contexts and process spaces.
 *
 *   bits 0..31    frame number
 *   bit  32       present
 *   bits 33..51   tag: free for the table that holds the entry
 *   bits 52..     count: core/pte_count.h
 *
 * All but the frame is in the upper half. So one comparison there says whether an entry is
 * present, has the right tag, and has no count.
 */
#ifndef LODIC_CORE_PTE_H
#define LODIC_CORE_PTE_H

#include "core/check.h"
#include "core/pte_count.h"

#define PTE_EMPTY ((u64)0)
#define PTE_PRESENT ((u64)1 << 32)
#define PTE_TAG_SHIFT 33
#define PTE_TAG_BITS 19
#define PTE_TAG_MASK ((((u64)1 << PTE_TAG_BITS) - 1) << PTE_TAG_SHIFT)

_Static_assert(PTE_TAG_SHIFT + PTE_TAG_BITS <= PTE_COUNT_SHIFT, "tag below count");

static inline u64 pte_make(u32 frame)
{
	return PTE_PRESENT | frame;
}

static inline bool pte_present(u64 pte)
{
	return pte & PTE_PRESENT;
}

static inline u32 pte_frame(u64 pte)
{
	return (u32)pte;
}

static inline bool pte_maps(u64 pte, u32 frame)
{
	return pte_present(pte) && pte_frame(pte) == frame;
}

#endif
