/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a fork must copy of a process that has more than one page, for the schemes that count in
 * ptes. Forks of one page are in check/count_owned_cases.c.
 *
 *   fork-far  two mappings, and one has a chunk without ptes. A thread of the parent holds a frame,
 *             and a task freezes that one. One call for memory may be refused
 */
#include "check/count_world.h"

#define CHILD WORLD_SHARERS

/* Block FAR is in frame 2, and one whole chunk of ptes after block 0's is not there. Block 1 has a
 * mapping of its own. */
#define FAR (2 * PTE_CHUNK)

static void far_mapping(void)
{
	u64 page;

	CHECK_ASSERT(count_world_freeze(2), "nobody has the frame");
	count_world_refill(2, FAR);
	count_world_map_begin(0);
	CHECK_ASSERT(count_owned_mmap(&counted->count, 0, WORLD_FILE, 0,
	                              FAR + PTE_CHUNK, &counted->pages[0]) == 0 &&
	                     counted->pages[0] % PTE_CHUNK == 0,
	             "whole chunks");
	CHECK_ASSERT(count_owned_mmap(&counted->count, 0, WORLD_FILE, 1, 1, &page) == 0,
	             "room for a mapping");
	count_owned_map_block(&counted->count, 0, counted->pages[0], 0);
	count_owned_map_block(&counted->count, 0, counted->pages[0] + FAR, 2);
	count_owned_map_block(&counted->count, 0, page, 1);
	count_world_map_end(0);
}

/* Also what a fork has left that had no memory. */
static void leave_all(u32 user)
{
	const struct process_space *space = count_owned_space(&counted->count, user);
	u64 nr, page;

	while ((nr = host_load_relaxed(&space->nr_vmas)) > 0) {
		page = vma_start(&space->vmas[host_load_relaxed(&space->order[0])]);
		if (nr > 1)
			count_owned_munmap(&counted->count, user, page);
		else
			count_world_leave(user, page);
	}
}

static void far_forker(void *arg)
{
	u32 i, held;
	int err;

	(void)arg;
	count_world_map_begin(CHILD);
	err = count_owned_fork(&counted->count, 0, CHILD);
	count_world_map_end(CHILD);
	check_tell(); /* its stores are in memory for the look below */
	CHECK_ASSERT(err || (count_world_is_mapped(CHILD, 1) &&
	                     count_world_is_mapped(CHILD, 2)),
	             "X2: a child gets all of its parent's mappings");
	for (i = 1; i < WORLD_FRAMES && !err; i++) {
		if (!count_world_ref(i, CHILD, &held))
			continue;
		count_world_look(held);
		count_world_unref(held);
	}
	leave_all(CHILD);
}

/* Takes two references and looks at the second when the first has gone. */
static void reader(void *arg)
{
	u32 a, b;
	bool first = count_world_ref(0, 0, &a);
	bool second = count_world_ref(0, 0, &b);

	(void)arg;
	if (first)
		count_world_unref(a);
	if (second)
		count_world_look(b);
}

static void taker(void *arg)
{
	(void)arg;
	count_world_freeze(0);
}

static void fork_far_setup(const void *arg)
{
	count_world_setup_shared(arg, 0, 0);
	count_owned_set_share_min(&counted->count, 1);
	far_mapping();
	check_task("reader", 0, reader, NULL);
	check_task("forker", 1, far_forker, NULL);
	check_task("reclaimer", 2, taker, NULL);
	check_refuse(CHECK_NO_MEMORY, 1);
}

void check_cases_fork(struct check_list *list)
{
	static const struct count_case one_each;
	u32 s;

	for (s = 0; s < count_nr_schemes; s++)
		if (count_schemes[s]->has_ptes && !count_schemes[s]->table)
			count_world_add(list, "fork-far", count_schemes[s], &one_each,
			                3, fork_far_setup);
}
