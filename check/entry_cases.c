/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What schemes with a table of entries (core/count/paygo_table.h) must stand besides. The
 * first CPU's table has an entry of frame 0 from the beginning, and some tokens of it are
 * out.
 *
 *   away        a fold, while two tokens come back from other CPUs and a third one stays; a
 *               task tries to freeze the frame
 *   hit         tasks of one CPU hit, that CPU folds, and another one freezes and refills
 *   refill      the same, while a token comes back late: the key comes to mean another block
 *   tombstone   the entry is closed and a token is out; tasks of that CPU count on, in this
 *               frame and in another one
 *   full        three frames, one way: entries go and others come in their place
 *   disable     entries are disabled and folded everywhere: then there must be none
 *   dead        tasks are moved off a CPU, and another one folds its table; then it comes back
 *   elsewhere   another CPU ticks for the one that counts, which must do nothing
 *   truncate    a block leaves the page cache, and its frame is refilled with another one,
 *               while readers look both blocks up
 *   put         an open entry on two CPUs, and a token of the first comes back on the second
 *   contend     entries come only where a compare-and-swap fails
 *   both        a pte of the frame is cleared and an entry folds at once, while tokens of both
 *               come back (schemes that also count in ptes)
 *   meet        threads of one user, which meet in its pte and install; it is unmapped
 *
 * In x-ways a bucket has four ways, as in the timing model; otherwise it has two, or one.
 */
#include "check/count_world.h"

#define NR_ENTRY(cases) (sizeof(cases) / sizeof((cases)[0]))
#define TURNS 2u
#define CPUS 4u
#define MORE_WAYS PAYGO_TABLE_WAYS

/* The page cache: which frame holds a block, plus one; 0: none. */
static u64 *slots;

static void use(u32 frame, u32 user)
{
	u32 turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		if (!count_world_ref(frame, user, &i))
			continue;
		count_world_look(i);
		count_world_unref(i);
	}
}

static void reader(void *arg)
{
	use(0, (u32)(uintptr_t)arg);
}

static void other_reader(void *arg)
{
	use(1, (u32)(uintptr_t)arg);
}

/* Each user reads the frame of its own number first. */
static void wanderer(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	use(user % WORLD_FRAMES, user);
	use((user + 1) % WORLD_FRAMES, user);
}

/* Gives back what the setup took. */
static void giver(void *arg)
{
	count_world_look((u32)(uintptr_t)arg);
	count_world_unref((u32)(uintptr_t)arg);
}

static void folder(void *arg)
{
	paygo_table_fold(count_world_table(), check_cpu((u32)(uintptr_t)arg));
}

static void folder_twice(void *arg)
{
	folder(arg);
	folder(arg);
}

static void freezer(void *arg)
{
	(void)arg;
	count_world_reclaim(WORLD_FRAMES);
}

/* Keeps what it has frozen: its bytes stay poisoned to the end. */
static void taker(void *arg)
{
	(void)arg;
	if (!count_world_freeze(0))
		count_world_freeze(0);
}

static bool others_are_done(void *arg)
{
	u32 i;

	for (i = 1; i < (u32)(uintptr_t)arg; i++)
		if (!check_is_done(i))
			return false;
	return true;
}

/* The first task. It holds the setup's first token, and looks when the tasks below arg are
 * done. If one of them took the frame, that is a use after free. */
static void stayer(void *arg)
{
	check_wait(others_are_done, arg);
	count_world_look(0);
}

/* No frame is mapped. Users take nr references of frame 0 on cpu. */
static void begin(const struct count_case *c, u32 cpu, u32 nr)
{
	u32 i, at;

	count_world_setup_shared(c, 0, 0);
	check_alone_on(cpu);
	for (i = 0; i < nr; i++)
		CHECK_ASSERT(count_world_ref(0, i, &at) && at == i, "a reference");
	check_alone_on(0);
}

static u32 task(const char *name, u32 cpu, void (*body)(void *), u32 arg)
{
	return check_task(name, cpu, body, (void *)(uintptr_t)arg);
}

static void away_setup(const void *arg)
{
	begin(arg, 0, 3);
	task("stayer", 3, stayer, 5);
	task("giver", 1, giver, 1);
	task("giver", 2, giver, 2);
	task("folder", 0, folder, 0);
	task("taker", 3, taker, 0);
}

static void hit_setup(const void *arg)
{
	begin(arg, 0, 1);
	count_world_unref(0);
	task("reader", 0, reader, 0);
	task("reader", 0, reader, 1);
	task("reader", 1, reader, 2);
	task("folder", 0, folder_twice, 0);
	task("reclaimer", 2, freezer, 0);
}

static void refill_setup(const void *arg)
{
	begin(arg, 0, 1);
	task("giver", 1, giver, 0);
	task("reader", 0, reader, 1);
	task("reader", 1, reader, 2);
	task("folder", 0, folder_twice, 0);
	task("folder", 1, folder_twice, 1);
	task("reclaimer", 2, freezer, 0);
}

static void tombstone_setup(const void *arg)
{
	begin(arg, 0, 1);
	paygo_table_fold(count_world_table(), check_cpu(0));
	task("giver", 1, giver, 0);
	task("reader", 0, reader, 1);
	task("reader", 0, other_reader, 2);
	task("taker", 2, taker, 0);
	task("folder", 0, folder, 0);
}

static void full_setup(const void *arg)
{
	u32 i;

	begin(arg, 0, 1);
	for (i = 0; i < 3; i++)
		task("reader", i == 2 ? 1 : 0, wanderer, i + 1);
	task("giver", 1, giver, 0);
	task("folder", 0, folder_twice, 0);
	task("reclaimer", 2, freezer, 0);
}

/* What lru_cache_disable() is for: afterwards no entry holds anything. */
static void disabler(void *arg)
{
	struct paygo_table *t = count_world_table();
	u32 cpu, f, i;

	(void)arg;
	paygo_table_disable(t, true);
	for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
		check_migrate(check_self(), cpu);
		paygo_table_fold(t, check_cpu(cpu));
	}
	for (i = 0; i < 2; i++)
		for (f = 0; f < WORLD_FRAMES; f++)
			CHECK_ASSERT(paygo_table_nr_open(t, f) == 0,
			             "O35: disabled and folded, so none is open");
	freezer(NULL);
	paygo_table_disable(t, false);
}

static void disable_setup(const void *arg)
{
	begin(arg, 0, 1);
	task("giver", 1, giver, 0);
	task("reader", 0, reader, 1);
	task("reader", 1, reader, 2);
	/* Linux queues this work on each CPU, and a queue's worker does not leave its CPU. */
	check_pin_task(task("disabler", 2, disabler, 0));
}

/* Tasks 1 and 2 have left the first CPU, or are done. */
static bool is_empty(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 1; i <= 2; i++)
		if (!check_is_done(i) && check_cpu_of(i) == check_cpu(0))
			return false;
	return true;
}

/* As Linux takes a CPU away: its tasks go, as soon as they let themselves be moved, and then
 * it executes its last fence (O37). */
static void undertaker(void *arg)
{
	(void)arg;
	check_migrate(1, 1);
	check_migrate(2, 2);
	check_wait(is_empty, NULL);
	host_fence_heavy();
	paygo_table_fold_dead(count_world_table(), check_cpu(0));
}

static bool is_buried(void *arg)
{
	return check_is_done((u32)(uintptr_t)arg);
}

static void late_reader(void *arg)
{
	check_wait(is_buried, (void *)(uintptr_t)3);
	reader(arg);
}

static void dead_setup(const void *arg)
{
	begin(arg, 0, 2);
	task("stayer", 3, stayer, 6);
	/* No scheduler brings them back to a CPU that goes offline; the undertaker moves them. */
	check_pin_task(task("giver", 0, giver, 1));
	check_pin_task(task("reader", 0, reader, 2));
	task("undertaker", 1, undertaker, 0);
	task("late reader", 0, late_reader, 3);
	task("taker", 3, taker, 0);
}

static void ticks_elsewhere(void *arg)
{
	(void)arg;
	count_tick(&counted->count, check_cpu(0));
	paygo_table_fold(count_world_table(), check_cpu(0));
}

static void elsewhere_setup(const void *arg)
{
	begin(arg, 0, 1);
	task("giver", 0, giver, 0);
	task("reader", 0, reader, 1);
	task("ticks", 1, ticks_elsewhere, 0);
	task("reclaimer", 2, freezer, 0);
}

/* Looks block index up, holds its frame, and looks again, as the page cache does. */
static void look_up(u32 index, u32 user)
{
	u64 lead = host_load_acquire(&slots[index]);
	u32 i;

	if (lead == 0 || !count_world_ref((u32)lead - 1, user, &i))
		return;
	if (host_load_acquire(&slots[index]) == lead) {
		CHECK_ASSERT(host_load_relaxed(&counted->frames[lead - 1].block) ==
		                     block_id(WORLD_FILE, index),
		             "the frame holds the block that was looked up");
		count_world_look(i);
	}
	count_world_unref(i);
}

static void page_reader(void *arg)
{
	u32 turn;

	for (turn = 0; turn < 2 * TURNS; turn++)
		look_up((turn + counted->late_first) % 2 ? WORLD_FRAMES : 0,
		        (u32)(uintptr_t)arg);
}

static void truncater(void *arg)
{
	(void)arg;
	host_store_relaxed(&slots[0], 0);
	if (count_world_reclaim(WORLD_FRAMES))
		host_store_release(&slots[WORLD_FRAMES], 1);
}

static void truncate_setup(const void *arg)
{
	begin(arg, 0, 1);
	count_world_unref(0);
	slots = host_alloc((WORLD_FRAMES + 1) * sizeof(*slots), 64);
	CHECK_ASSERT(slots, "memory for the page cache");
	check_name(slots, (WORLD_FRAMES + 1) * sizeof(*slots), "slots");
	host_store_relaxed(&slots[0], 1);
	check_draw(&counted->late_first, 2);
	task("reader", 0, page_reader, 0);
	task("reader", 0, page_reader, 1);
	task("folder", 0, folder_twice, 0);
	task("truncater", 1, truncater, 0);
}

static void put_setup(const void *arg)
{
	u32 i;

	begin(arg, 0, 1);
	check_alone_on(1);
	CHECK_ASSERT(count_world_ref(0, 1, &i), "a reference");
	count_world_unref(i);
	check_alone_on(0);
	task("giver", 1, giver, 0);
	task("reader", 0, reader, 2);
	task("folder", 1, folder, 1);
	task("taker", 2, taker, 0);
}

static void contend_setup(const void *arg)
{
	count_world_setup_shared(arg, 0, 0);
	task("reader", 0, reader, 0);
	task("reader", 1, reader, 1);
	task("reader", 1, reader, 2);
	task("folder", 0, folder_twice, 0);
	task("reclaimer", 2, freezer, 0);
}

static void unmapper(void *arg)
{
	u32 user = (u32)(uintptr_t)arg;

	count_world_unshare(user, 0);
	count_world_share(user, 0);
	count_world_unshare(user, 0);
}

static void unmap_once(void *arg)
{
	count_world_unshare((u32)(uintptr_t)arg, 0);
}

/* Tokens 0 and 1 are of the first CPU's entry, and 2 is of the first user's pte. */
static void both_setup(const void *arg)
{
	u32 at;

	count_world_setup_shared(arg, 0, 1);
	count_owned_set_share_min(&counted->count, WORLD_USERS);
	CHECK_ASSERT(count_world_ref(0, 1, &at) && count_world_ref(0, 2, &at),
	             "references in the table");
	count_owned_set_share_min(&counted->count, 1);
	check_alone_on(1);
	CHECK_ASSERT(count_world_ref(0, 0, &at), "a reference in the pte");
	check_alone_on(0);
	task("stayer", 3, stayer, 6);
	task("giver", 1, giver, 1);
	task("giver", 0, giver, 2);
	task("unmapper", 2, unmap_once, 0);
	task("folder", 0, folder, 0);
	task("taker", 3, taker, 0);
}

static void meet_setup(const void *arg)
{
	count_world_setup_shared(arg, 0, 1);
	count_owned_set_share_min(&counted->count, 1);
	task("reader", 0, reader, 0);
	task("reader", 1, reader, 0);
	task("reader", 1, reader, 0);
	task("unmapper", 2, unmapper, 0);
	task("folder", 1, folder, 1);
	task("reclaimer", 3, freezer, 0);
}

static const struct count_case plain;
static const struct count_case more_ways = { .ways = MORE_WAYS };
static const struct count_case one_way = { .ways = 1 };
static const struct count_case lazy = { .lazy = true };

void check_cases_entry(struct check_list *list);

void check_cases_entry(struct check_list *list)
{
	static const struct {
		const char *name;
		void (*setup)(const void *);
		const struct count_case *like;
		bool ptes;
	} cases[] = {
		{ "away", away_setup, &plain, false },
		{ "hit", hit_setup, &plain, false },
		{ "refill", refill_setup, &plain, false },
		{ "refill-ways", refill_setup, &more_ways, false },
		{ "tombstone", tombstone_setup, &plain, false },
		{ "tombstone-ways", tombstone_setup, &more_ways, false },
		{ "full", full_setup, &one_way, false },
		{ "disable", disable_setup, &plain, false },
		{ "dead", dead_setup, &plain, false },
		{ "elsewhere", elsewhere_setup, &plain, false },
		{ "truncate", truncate_setup, &plain, false },
		{ "put", put_setup, &plain, false },
		{ "contend", contend_setup, &lazy, false },
		{ "both", both_setup, &plain, true },
		{ "meet", meet_setup, &lazy, true },
	};
	u32 s, i;

	for (s = 0; s < count_nr_schemes; s++)
		for (i = 0; count_schemes[s]->table && i < NR_ENTRY(cases); i++)
			if (count_schemes[s]->has_ptes || !cases[i].ptes)
				count_world_add(list, cases[i].name, count_schemes[s],
				                cases[i].like, CPUS, cases[i].setup);
}
