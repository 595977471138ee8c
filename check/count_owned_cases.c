/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the schemes that count in ptes (core/owned/count_owned.h) must stand besides, while readers
 * hold references:
 *
 *   unmap       pages are unmapped and faulted in again
 *   fold        the same with one user, which holds two references
 *   fold-self   the same, and that user itself tries to freeze the frame
 *   fault       the same with one user, which begins without the page
 *   ask         the same, and a task asks whether the frame is used
 *   ask-global  a task asks, while a reference is held in the global word and ptes change
 *   ask-fold    the same, the reference being in a pte that is unmapped
 *   munmap      the whole mapping goes
 *   munmap-fault  it goes while a thread faults a page of it in
 *   reuse       it goes, and another block comes to its addresses, which others count in
 *   remap       it moves to other addresses; memory may be refused once
 *   fork        a child gets the mapping, and munmaps it
 *   fork-two    the same, while another process unmaps the frame and a task freezes it
 *   threshold   the number of sharers crosses share_min
 *   rename      a frame is taken from its readers and comes back as another block, while
 *               users fault and count: a late one must not count in what it finds now
 *   full        a pte counts as much as it can, and threads of its user go on; it is unmapped
 *   two-maps    the block is mapped a second time
 *   move        the block moves to another frame, as in migration
 *   move-two    the same, with two processes that have the frame
 *   map-late    a page fault by a user that holds nothing, against freeze and refill
 *
 * In x-threads all readers of x are threads of one user, which count in one pte.
 */
#include "check/count_world.h"

#define TURNS 2u
#define NR_OWNED(cases) (sizeof(cases) / sizeof((cases)[0]))
/* One more, and the others of its readers count globally. */
#define FULL ((u32)PTE_COUNT_MAX - 1)

/* Holds its reference over a few steps, in which others must find it. */
static void holder(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		if (!count_world_ref(0, user, &i)) {
			count_world_share(user, 0);
			continue;
		}
		count_world_look(i);
		count_world_look(i);
		count_world_unref(i);
	}
}

/* Takes two references and looks at the second when the first has gone. The second stays to
 * the end: then it must be counted where its token says. */
static void keeper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 a, b;
	bool first = count_world_ref(0, user, &a);

	bool second = count_world_ref(0, user, &b);

	if (first)
		count_world_unref(a);
	if (second) {
		count_world_look(b);
		count_world_look(b);
	}
}

/* Holds the frame that comes. */
static void newcomer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		if (!count_world_ref(1, user, &i))
			continue;
		count_world_look(i);
		count_world_look(i);
		count_world_unref(i);
	}
}

static void freezer(void *arg)
{
	count_world_reclaim(WORLD_FRAMES + (u32)(uintptr_t)arg);
}

static bool others_are_done(void *arg)
{
	(void)arg;
	return check_is_done(1) && check_is_done(2);
}

/* Gives one of two references back. Looks at the frame once more when tasks 1 and 2 are
 * done: if they took it, that look is a use after free. */
static void stayer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 a, b;
	bool first = count_world_ref(0, user, &a);
	bool second = count_world_ref(0, user, &b);

	if (first)
		count_world_unref(a);
	check_wait(others_are_done, NULL);
	if (second)
		count_world_look(b);
}

/* The same alone: it tries to freeze the frame that it still holds. */
static void self_stayer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 a, b;
	bool first = count_world_ref(0, user, &a);
	bool second = count_world_ref(0, user, &b);

	if (first)
		count_world_unref(a);
	count_world_freeze(0);
	if (second)
		count_world_look(b);
}

/* The same with one reference, by a user that has to fault the page in first. */
static void late_stayer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 i;
	bool held;

	count_world_share(user, 0);
	held = count_world_ref(0, user, &i);
	check_wait(others_are_done, NULL);
	if (held)
		count_world_look(i);
}

/* Keeps what it has frozen: its bytes stay poisoned to the end. */
static void taker(void *arg)
{
	(void)arg;
	count_world_freeze(0);
}

static void unmapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_world_unshare(user, 0);
	count_world_share(user, 0);
	count_world_unshare(user, 0);
}

static void late(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 i;

	count_world_share(user, 0);
	if (count_world_ref(0, user, &i)) {
		count_world_look(i);
		count_world_unref(i);
	}
}

static void unmap_once(void *arg)
{
	count_world_unshare((u32)(uintptr_t)arg, 0);
}

static void sharer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_world_unshare(user, 0);
	count_world_share(user, 0);
}

/* Where user has block 0 mapped, by a mapping of its own. */
static void map_block(u32 user)
{
	count_world_map_begin(user);
	CHECK_ASSERT(count_owned_mmap(&counted->count, user, WORLD_FILE, 0, 1,
	                              &counted->pages[user]) == 0,
	             "room for a mapping");
	count_owned_map_block(&counted->count, user, counted->pages[user], 0);
	count_world_map_end(user);
}

static void munmapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_world_leave(user, counted->pages[user]);
}

static void page_unmapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_owned_unmap_block(&counted->count, user, counted->pages[user]);
}

static void page_mapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_world_map_begin(user);
	count_owned_map_block(&counted->count, user, counted->pages[user], 0);
	count_world_map_end(user);
}

/* Another block, in another frame, where the first one was. */
static void reuser(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u64 page;

	count_owned_unmap_block(&counted->count, user, counted->pages[user]);
	count_world_leave(user, counted->pages[user]);
	count_world_map_begin(user);
	if (count_owned_mmap(&counted->count, user, WORLD_FILE, 1, 1, &page) != 0)
		return;
	CHECK_ASSERT(page == counted->pages[user], "the addresses are used again");
	count_owned_map_block(&counted->count, user, page, 1);
	count_world_map_end(user);
}

static void remapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	u64 page = counted->pages[user];
	int err;

	count_world_map_begin(user);
	err = count_owned_remap(&counted->count, user, page, &counted->pages[user]);
	if (err) {
		CHECK_ASSERT(counted->pages[user] == page,
		             "no memory: the mapping is where it was");
		err = count_owned_remap(&counted->count, user, page,
		                        &counted->pages[user]);
	}
	CHECK_ASSERT(err == 0, "there is place to move to");
	count_world_map_end(user);
}

static void forker(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;
	u32 i;
	int err;

	count_world_map_begin(WORLD_SHARERS);
	err = count_owned_fork(&counted->count, user, WORLD_SHARERS);
	count_world_map_end(WORLD_SHARERS);
	CHECK_ASSERT(err == 0, "X2: a child gets its parent's mappings");
	if (count_world_ref(0, WORLD_SHARERS, &i)) {
		count_world_look(i);
		count_world_unref(i);
	}
	count_world_leave(WORLD_SHARERS, counted->pages[user]);
}

static void mover(void *arg)
{
	u32 i;

	(void)arg;
	count_world_unmap_frame(0);
	if (!count_world_freeze(0))
		return;
	/* Frame 1 gives its block up for frame 0's. */
	for (i = 0; i < 2; i++) {
		count_world_unmap_frame(1);
		if (!count_world_freeze(1))
			continue;
		count_world_refill(1, 0);
		count_world_share(0, 1);
		return;
	}
	count_world_refill(0, 0);
}

/* ---- */

static void users(u32 nr, void (*body)(void *))
{
	u32 i;

	for (i = 0; i < nr; i++)
		check_task("reader", i, body,
		           (void *)(uintptr_t)(counted->c->one_user ? 0 : i));
}

static void unmap_setup(const void *arg)
{
	count_world_setup(arg);
	users(2, holder);
	check_task("unmapper", 2, unmapper, (void *)0);
	check_task("reclaimer", 3, freezer, NULL);
}

static void name_pte(void)
{
	u64 page;
	u64 *pte = rmap_self(count_owned_space(&counted->count, 0),
	                     block_id(WORLD_FILE, 0), &page);

	if (pte)
		check_name(pte, 8, "pte");
}

/* The first nr_sharers users have the frames, and count in their own ptes. */
static void alone(const void *arg, u32 nr_sharers)
{
	count_world_setup_shared(arg, 0, nr_sharers);
	count_owned_set_share_min(&counted->count, 1);
	name_pte();
}

/* By a mapping whose page is known. */
static void own_mapping(const void *arg)
{
	alone(arg, 0);
	map_block(0);
	name_pte();
}

static void fold_setup(const void *arg)
{
	alone(arg, 1);
	users(1, stayer);
	check_task("unmapper", 1, unmap_once, (void *)0);
	check_task("reclaimer", 2, taker, NULL);
}

static void fold_self_setup(const void *arg)
{
	own_mapping(arg);
	users(1, self_stayer);
	check_task("unmapper", 1, page_unmapper, (void *)0);
}

static void fault_setup(const void *arg)
{
	alone(arg, 0);
	users(1, late_stayer);
	check_task("unmapper", 1, unmap_once, (void *)0);
	check_task("reclaimer", 2, taker, NULL);
}

static void ask(void *arg)
{
	(void)arg;
	count_world_query(0);
	count_world_query(0);
}

static void ask_setup(const void *arg)
{
	alone(arg, 1);
	users(1, holder);
	check_task("unmapper", 1, unmapper, (void *)0);
	check_task("asker", 2, ask, NULL);
}

/* A reference in the global word is held all the while, and a pte goes, comes and goes. */
static void ask_global_setup(const void *arg)
{
	count_world_setup_shared(arg, 0, 2);
	count_world_hoard(0, 0, 1, 1);
	check_task("unmapper", 0, unmapper, (void *)1);
	check_task("asker", 1, ask, NULL);
}

/* The same with a reference in a pte, which folds. */
static void ask_fold_setup(const void *arg)
{
	own_mapping(arg);
	count_world_hoard(0, 0, 1, 1);
	check_task("unmapper", 0, page_unmapper, (void *)0);
	check_task("asker", 1, ask, NULL);
}

static void munmap_setup(const void *arg)
{
	own_mapping(arg);
	users(2, holder);
	check_task("munmapper", 2, munmapper, (void *)0);
	check_task("reclaimer", 3, freezer, NULL);
}

/* A fault of a thread while another one takes the mapping away. */
static void munmap_fault_setup(const void *arg)
{
	own_mapping(arg);
	check_task("unmapper", 0, page_unmapper, (void *)0);
	check_task("faulter", 1, page_mapper, (void *)0);
	check_task("munmapper", 2, munmapper, (void *)0);
}

static void new_taker(void *arg)
{
	(void)arg;
	if (count_world_freeze(1))
		count_world_refill(1, WORLD_FRAMES);
}

static void reuse_setup(const void *arg)
{
	own_mapping(arg);
	check_task("reader", 0, holder, (void *)0);
	check_task("newcomer", 1, newcomer, (void *)0);
	check_task("reuser", 2, reuser, (void *)0);
	check_task("reclaimer", 3, new_taker, NULL);
}

/* The mapping begins a chunk of ptes. The place below it, where it moves to, has none yet. */
static void remap_mapping(const void *arg)
{
	u64 page;

	alone(arg, 0);
	CHECK_ASSERT(count_owned_mmap(&counted->count, 0, WORLD_FILE, WORLD_FRAMES,
	                              PTE_CHUNK - 1, &page) == 0,
	             "room for a mapping");
	map_block(0);
	name_pte();
}

static void remap_setup(const void *arg)
{
	remap_mapping(arg);
	users(1, keeper);
	check_task("remapper", 2, remapper, (void *)0);
	check_refuse(CHECK_NO_MEMORY, 1);
	check_task("reclaimer", 3, freezer, NULL);
}

static void remap_threads_setup(const void *arg)
{
	remap_mapping(arg);
	users(2, holder);
	check_task("remapper", 2, remapper, (void *)0);
	check_refuse(CHECK_NO_MEMORY, 1);
	check_task("reclaimer", 3, freezer, NULL);
}

static void fork_setup(const void *arg)
{
	own_mapping(arg);
	users(1, keeper);
	check_task("forker", 2, forker, (void *)0);
}

/* Another process has the frame too, and unmaps it. */
static void fork_two_setup(const void *arg)
{
	own_mapping(arg);
	map_block(1);
	users(1, keeper);
	check_task("unmapper", 1, unmapper, (void *)1);
	check_task("forker", 2, forker, (void *)0);
	check_task("reclaimer", 3, taker, NULL);
}

/* Two threads of one user: one may count globally and one locally. */
static void threshold_setup(const void *arg)
{
	count_world_setup_shared(arg, 0, 1);
	count_owned_set_share_min(&counted->count, 2);
	check_task("reader", 0, holder, (void *)0);
	check_task("reader", 1, holder, (void *)0);
	check_task("sharer", 2, sharer, (void *)1);
}

static void rename_setup(const void *arg)
{
	count_world_setup(arg);
	users(2, holder);
	check_task("reclaimer", 2, freezer, NULL);
	check_task("sharer", 3, sharer, (void *)0);
}

static void full_setup(const void *arg)
{
	alone(arg, 1);
	count_world_hoard(0, 0, FULL, FULL);
	users(3, holder);
	check_task("unmapper", 3, unmap_once, (void *)0);
}

static void mapper(void *arg)
{
	map_block((u32)(uintptr_t)arg);
}

/* A later look finds the second mapping's page, which is not the one that counts. */
static void two_maps_setup(const void *arg)
{
	alone(arg, 1);
	users(1, keeper);
	check_task("mapper", 1, mapper, (void *)0);
}

static void move_setup(const void *arg)
{
	alone(arg, 1);
	users(2, holder);
	check_task("mover", 2, mover, NULL);
}

static void move_two_setup(const void *arg)
{
	alone(arg, 2);
	users(2, holder);
	check_task("mover", 2, mover, NULL);
}

static void map_late_setup(const void *arg)
{
	count_world_setup(arg);
	count_world_unshare(0, 0);
	users(1, late);
	check_task("reclaimer", 1, freezer, NULL);
}

static const struct count_case one_each;
static const struct count_case threads = { .one_user = true };
/* Three must meet: a reader, the task that folds its count, and the one that freezes. */
static const struct count_case one_each_deep = { .deep = true };

void check_cases_owned(struct check_list *list);

void check_cases_owned(struct check_list *list)
{
	static const struct {
		const char *name;
		void (*setup)(const void *);
		const struct count_case *like;
	} cases[] = {
		{ "unmap", unmap_setup, &one_each },
		{ "unmap-threads", unmap_setup, &threads },
		{ "fold", fold_setup, &one_each_deep },
		{ "fold-self", fold_self_setup, &one_each },
		{ "fault", fault_setup, &one_each_deep },
		{ "ask", ask_setup, &one_each },
		{ "ask-global", ask_global_setup, &one_each },
		{ "ask-fold", ask_fold_setup, &one_each },
		{ "munmap", munmap_setup, &one_each },
		{ "munmap-threads", munmap_setup, &threads },
		{ "munmap-fault", munmap_fault_setup, &one_each },
		{ "reuse", reuse_setup, &threads },
		{ "remap", remap_setup, &one_each },
		{ "remap-threads", remap_threads_setup, &threads },
		{ "fork", fork_setup, &one_each },
		{ "fork-two", fork_two_setup, &one_each },
		{ "threshold", threshold_setup, &threads },
		{ "rename", rename_setup, &one_each },
		{ "rename-threads", rename_setup, &threads },
		{ "full", full_setup, &threads },
		{ "two-maps", two_maps_setup, &one_each },
		{ "move", move_setup, &one_each },
		{ "move-threads", move_setup, &threads },
		{ "move-two", move_two_setup, &one_each },
		{ "map-late", map_late_setup, &one_each },
	};
	u32 s, i;

	for (s = 0; s < count_nr_schemes; s++)
		for (i = 0; count_schemes[s]->has_ptes && i < NR_OWNED(cases); i++)
			/* Where no threads meet in a pte, a table stays empty. The scheme is
			 * then lodic, to the letter. */
			if (!count_schemes[s]->table || cases[i].like->one_user)
				count_world_add(list, cases[i].name, count_schemes[s],
				                cases[i].like, 4, cases[i].setup);
}
