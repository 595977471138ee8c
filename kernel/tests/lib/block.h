/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks of memory that go and come back: Linux's memory hot-remove. */
#ifndef LODIC_TESTS_BLOCK_H
#define LODIC_TESTS_BLOCK_H

#include "base.h"

/* Lists the blocks of a node; returns how many. 0: this kernel cannot remove any. */
u32 block_list(u32 node, u32 *ret_ids, u32 most);

/* The block in which a page frame is. */
u32 block_of(u64 frame);

/*
 * Takes the block offline. Returns 0 or -errno; -EBUSY: it has pages that cannot move. Fails the
 * subtest if that has no end.
 */
int block_offline(u32 id);

/* Brings it back for programs and page cache alone (ZONE_MOVABLE), or for the kernel, too. */
int block_online(u32 id, bool movable);

/* Whether the block is online for programs and page cache alone. */
bool block_is_movable(u32 id);

#endif
