/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What knodes and tiers must stand (core/kloc/kloc.h):
 *
 *   kloc-close   a file is opened and closed by two users while two movers carry its objects
 *   kloc-pin     a reader pins what two movers want to carry away
 *   kloc-unlink  a file with objects under way is closed, unlinked and emptied, and others get the
 *                numbers
 *   kloc-doomed  it is unlinked while it is open
 *   kloc-full    both tiers are full
 *   kloc-limit   fast memory gets smaller
 *   kloc-app     the same for memory of programs, which is pinned meanwhile
 *   kloc-order   the same for two open files, of which one is closed. That one gives room first
 *   kloc-often   a file is opened and closed again and again
 *   kloc-age     an open file is not used, and then it is
 *   kloc-note    CPUs note uses in their lists, while files age and end
 *   kloc-copy    a node's copy comes and goes while its object is removed (replicate)
 *   kloc-follow  a task goes on to the other node (kloc-numa)
 *
 * A scheme is a policy. One caller at a time is in the room; movers are not (check/kloc_world.h).
 */
#include "check/kloc_world.h"

#define NO_FILE KLOC_WORLD_FILES

static void open_file(u32 file, u32 nr_frames)
{
	kloc_world_map(file, 0);
	kloc_world_open(file, 0);
	for (; nr_frames > 0; nr_frames--)
		kloc_world_add(file, KLOC_FRAME, 0);
}

static void mover(void *arg)
{
	u32 tries = (u32)(uintptr_t)arg;

	for (; tries > 0; tries--)
		kloc_world_move();
}

static void add_movers(u32 nr, u32 tries)
{
	u32 i;

	for (i = 0; i < nr; i++)
		check_task("mover", i % host_nr_cpus(), mover,
		           (void *)(uintptr_t)tries);
}

/* ---- kloc-close ---- */

static void close_begin(void)
{
	kloc_world_map(0, 0);
	kloc_world_add(0, KLOC_FRAME, 0);
	kloc_world_add(0, KLOC_SLAB, 0);
}

static void open_use_close(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;

	kloc_world_open(0, cpu);
	kloc_world_use(0, cpu);
	kloc_world_close(0, cpu);
}

static void close_tasks(void)
{
	check_task("user", 0, open_use_close, (void *)0);
	check_task("user", 1, open_use_close, (void *)1);
	add_movers(2, 3);
}

/* ---- kloc-pin ---- */

static void two_frames_begin(void)
{
	open_file(0, 2);
}

static void reader(void *arg)
{
	u32 object = (u32)(uintptr_t)arg;

	kloc_world_use(object, 1);
	kloc_world_use(object, 1);
}

static void closer(void *arg)
{
	kloc_world_close((u32)(uintptr_t)arg, 0);
}

static void pin_tasks(void)
{
	check_task("reader", 0, reader, (void *)0);
	check_task("reader", 1, reader, (void *)1);
	check_task("closer", 2, closer, (void *)0);
	add_movers(2, 2);
}

/* ---- kloc-unlink, kloc-doomed ---- */

static void unlinker(void *arg)
{
	(void)arg;
	kloc_world_unlink(0);
}

static void close_and_unlink(void *arg)
{
	(void)arg;
	kloc_world_close(0, 0);
	kloc_world_unlink(0);
	kloc_world_remove(1);
}

static void remover(void *arg)
{
	kloc_world_remove((u32)(uintptr_t)arg);
}

static void newcomer(void *arg)
{
	(void)arg;
	kloc_world_map(1, 0);
	kloc_world_open(1, 1);
	kloc_world_add(1, KLOC_FRAME, 1);
	kloc_world_add(1, KLOC_FRAME, 1);
}

static void unlink_tasks(void)
{
	check_task("unlinker", 0, close_and_unlink, NULL);
	check_task("remover", 1, remover, (void *)0);
	check_task("newcomer", 2, newcomer, NULL);
	check_task("reader", 1, reader, (void *)1);
	add_movers(1, 3);
}

static void doomed_tasks(void)
{
	check_task("unlinker", 0, unlinker, NULL);
	check_task("closer", 1, closer, (void *)0);
	check_task("user", 2, open_use_close, (void *)2);
	check_task("remover", 0, remover, (void *)1);
	add_movers(1, 3);
}

/* ---- kloc-full ---- */

static void full_begin(void)
{
	open_file(0, 2);
	kloc_world_add(NO_FILE, KLOC_APP, 0);
	kloc_world_add(NO_FILE, KLOC_APP, 0);
	kloc_world_add(NO_FILE, KLOC_APP, 0);
}

static void adder(void *arg)
{
	(void)arg;
	kloc_world_add(NO_FILE, KLOC_APP, 1);
	kloc_world_remove(3);
	kloc_world_add(NO_FILE, KLOC_APP, 1);
}

static void full_tasks(void)
{
	check_task("closer", 0, closer, (void *)0);
	check_task("adder", 1, adder, NULL);
	check_task("user", 2, open_use_close, (void *)2);
	add_movers(2, 3);
}

/* ---- kloc-limit ---- */

static void limiter(void *arg)
{
	(void)arg;
	kloc_world_limit(1);
}

static void limit_tasks(void)
{
	check_task("limiter", 0, limiter, NULL);
	check_task("reader", 1, reader, (void *)0);
	check_task("user", 2, open_use_close, (void *)2);
	add_movers(2, 2);
}

/* ---- kloc-app ---- */

static void app_begin(void)
{
	kloc_world_add(NO_FILE, KLOC_APP, 0);
	kloc_world_add(NO_FILE, KLOC_APP, 0);
}

static void tick_once(void *arg)
{
	(void)arg;
	kloc_world_tick();
}

static void app_tasks(void)
{
	check_task("limiter", 0, limiter, NULL);
	check_task("reader", 1, reader, (void *)0);
	check_task("reader", 2, reader, (void *)1);
	check_task("ticker", 0, tick_once, NULL);
	add_movers(2, 2);
}

/* ---- kloc-order ---- */

static void order_begin(void)
{
	open_file(0, 1);
	open_file(1, 1);
	kloc_world_add(NO_FILE, KLOC_APP, 0);
}

static void order_closer(void *arg)
{
	(void)arg;
	kloc_world_close((u32)kloc_world->ends, 0);
}

/* Long enough that need may take what is open as well. */
static void tick_and_limit(void *arg)
{
	u32 turn;

	for (turn = 0; turn < 2; turn++)
		kloc_world_tick();
	kloc_world_limit(2);
	kloc_world_tick();
	limiter(arg);
}

static void order_tasks(void)
{
	check_draw(&kloc_world->ends, KLOC_WORLD_FILES);
	check_task("closer", 0, order_closer, NULL);
	check_task("limiter", 1, tick_and_limit, NULL);
	check_task("reader", 2, reader, (void *)0);
	add_movers(2, 2);
}

/* ---- kloc-often ---- */

static void often(void *arg)
{
	u32 turn;

	(void)arg;
	for (turn = 0; turn < 2; turn++) {
		kloc_world_close(0, 0);
		kloc_world_move();
		kloc_world_open(0, 0);
		kloc_world_move();
	}
	kloc_world_close(0, 0);
}

static void often_tasks(void)
{
	check_task("user", 0, often, NULL);
	check_task("reader", 2, reader, (void *)0);
	add_movers(1, 3);
}

/* ---- kloc-age ---- */

static void ticker(void *arg)
{
	(void)arg;
	kloc_world_tick();
	kloc_world_tick();
	kloc_world_tick();
}

static void age_tasks(void)
{
	check_task("ticker", 0, ticker, NULL);
	check_task("reader", 1, reader, (void *)0);
	check_task("reader", 2, reader, (void *)1);
	add_movers(1, 4);
}

/* ---- kloc-note ---- */

static void note_begin(void)
{
	open_file(0, 1);
	open_file(1, 1);
}

static void noter(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;

	kloc_world_note(cpu, cpu);
	kloc_world_note(1 - cpu, cpu);
}

/* Object 0 is of file 0, and object 1 of file 1. */
static void tick_and_unlink(void *arg)
{
	u32 file = (u32)kloc_world->ends;

	(void)arg;
	kloc_world_tick();
	kloc_world_close(file, 2);
	kloc_world_unlink(file);
	kloc_world_remove(file);
	kloc_world_map(file, 0);
	kloc_world_open(file, 2);
	kloc_world_tick();
}

static void note_tasks(void)
{
	check_draw(&kloc_world->ends, KLOC_WORLD_FILES);
	check_task("noter", 0, noter, (void *)0);
	check_task("noter", 1, noter, (void *)1);
	check_task("manager", 2, tick_and_unlink, NULL);
	add_movers(1, 2);
}

/* ---- kloc-copy ---- */

static void copy_begin(void)
{
	kloc_world_map(0, KLOC_MAP_REPLICATE);
	kloc_world_open(0, 0);
	kloc_world_add(0, KLOC_FRAME, 0);
	kloc_world_add(0, KLOC_FRAME, 0);
}

static void far_reader(void *arg)
{
	u32 object = (u32)(uintptr_t)arg, turn;

	for (turn = 0; turn < 3; turn++)
		kloc_world_use(object, 3);
}

static void copy_tasks(void)
{
	check_task("reader", 0, far_reader, (void *)0);
	check_task("reader", 1, far_reader, (void *)1);
	check_task("remover", 2, remover, (void *)0);
	add_movers(2, 2);
}

/* ---- kloc-follow ---- */

static void scheduler(void *arg)
{
	(void)arg;
	kloc_world_task_moved(0, 2);
	kloc_world_task_moved(2, 1);
	kloc_world_task_moved(1, 3);
}

static void follow_tasks(void)
{
	check_task("scheduler", 0, scheduler, NULL);
	check_task("newcomer", 1, newcomer, NULL);
	check_task("remover", 2, remover, (void *)1);
	add_movers(2, 3);
}

static const struct {
	const char *name;
	struct kloc_case c;
} scenarios[] = {
	{ "kloc-close",
	  { close_begin,
	    close_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    true,
	    false } },
	{ "kloc-pin",
	  { two_frames_begin,
	    pin_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    true,
	    false } },
	{ "kloc-unlink",
	  { two_frames_begin,
	    unlink_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    true,
	    false } },
	{ "kloc-doomed",
	  { two_frames_begin,
	    doomed_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    true,
	    false } },
	{ "kloc-full",
	  { full_begin,
	    full_tasks,
	    KLOC_POLICY_KLOC,
	    { 3, 3 },
	    255,
	    0,
	    false,
	    false } },
	{ "kloc-full",
	  { full_begin,
	    full_tasks,
	    KLOC_POLICY_NIMBLE_PP,
	    { 3, 3 },
	    255,
	    0,
	    false,
	    false } },
	{ "kloc-limit",
	  { two_frames_begin,
	    limit_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    false,
	    false } },
	{ "kloc-app",
	  { app_begin, app_tasks, KLOC_POLICY_KLOC, { 4, 4 }, 255, 0, false, false } },
	{ "kloc-order",
	  { order_begin,
	    order_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    0,
	    false,
	    true } },
	{ "kloc-often",
	  { two_frames_begin,
	    often_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    2,
	    0,
	    true,
	    false } },
	{ "kloc-age",
	  { two_frames_begin,
	    age_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    1,
	    true,
	    false } },
	{ "kloc-note",
	  { note_begin,
	    note_tasks,
	    KLOC_POLICY_KLOC,
	    { 4, 4 },
	    255,
	    1,
	    false,
	    false } },
	{ "kloc-copy",
	  { copy_begin,
	    copy_tasks,
	    KLOC_POLICY_REPLICATE,
	    { 4, 4 },
	    255,
	    0,
	    false,
	    false } },
	{ "kloc-follow",
	  { two_frames_begin,
	    follow_tasks,
	    KLOC_POLICY_KLOC_NUMA,
	    { 4, 4 },
	    255,
	    0,
	    true,
	    false } },
};
#define NR_SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

void check_cases_kloc(struct check_list *list)
{
	u32 i;

	for (i = 0; i < NR_SCENARIOS; i++) {
		struct check_case one = {
			.scenario = scenarios[i].name,
			.scheme = kloc_policy_name(scenarios[i].c.policy),
			.run = { scenarios[i].name, 3, &scenarios[i].c,
			         kloc_world_setup, kloc_world_finish },
		};

		check_list_add(list, &one);
	}
	check_cases_kloc_list(list);
}
