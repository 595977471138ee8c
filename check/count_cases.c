/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What every scheme must stand:
 *
 *   reclaim    two readers ref, look and unref; a third task freezes the frame, fills it
 *              with another block and thaws it
 *   reclaim4   the same with four readers
 *   threads    the same, the readers being threads of one user (LODIC s.5.2.4: they count
 *              in one place)
 *   one-cpu    the same, the readers taking turns on one CPU (they share its counters)
 *   collide    three readers of one CPU, each with a frame of its own, whose counts meet in
 *              one place of the CPU's table; all frames are reclaimed
 *   epochs     two readers. Each CPU has a clock of its own, which ticks, and which tries to
 *              freeze after each tick (refcache).
 *   epochs-two the same, both readers holding two frames at a time.
 *   epochs-far a reference is held to the end, and its CPU has ticked already. The freezer is
 *              alone on its CPU, so that nothing else orders what it reads.
 *   epochs-away  a reader's CPU is ticked for by another CPU.
 *   epochs-late  enough epochs have passed since a first freeze, and then readers come
 *   ask-far    a reference is held to the end while its CPU ticks, a task asks, and a reader
 *              is moved away with what it has counted there
 *   ask-flush  the same, after the clock has brought in two references. One of them goes back on
 *              another CPU, and that CPU's tick brings in the return
 *   ask-two    a reference is held to the end, and another one went back where it did not come
 *              from. Two CPUs tick while a task asks
 *   ask-epochs  the same, after a first freeze, while two epochs pass
 *   query      readers, and a task that asks whether the frame is used
 *   keep       three readers of one CPU take two frames each and keep one to the end: then
 *              each reference must be counted where its token says
 *   hoard      after many references at once, of which one is left (sloppy: a CPU with as
 *              many spares as it may have)
 *   batch      the same, but as many as a batch are left, and one of them is given back
 *   collect    a user holds all frames (hazard: in all of its slots), while another thread
 *              of it comes and goes
 *   stay       one reference is held to the end, while a reader of its CPU comes: a freeze
 *              that succeeds then was deceived by the reader. With movers it may be moved
 */
#include "check/count_world.h"

#define TURNS 2u       /* refs of each reader */
#define EPOCH_TICKS 5u /* of each clock */
#define LATE_EPOCHS 3u /* after them a frame at rest can be frozen (count_tick()) */
#define FAR_TRIES 6u   /* of the freezer that is alone */
/* Leaves sloppy 16 spares: 16 more, and every ninth time eight less. */
#define HOARD 35u
/* Sloppy's: a batch, less the one that is given back. */
#define BATCH_OTHERS 8u

static void reader(void *arg)
{
	u32 user = counted->c->one_user ? 0 : (u32)(uintptr_t)arg;
	u32 turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		if (!count_world_ref(0, user, &i)) {
			/* As after a fault: the frame may have another name now. */
			count_world_share(user, 0);
			continue;
		}
		count_world_look(i);
		count_world_unref(i);
	}
}

static void reclaimer(void *arg)
{
	(void)arg;
	count_world_reclaim(WORLD_FRAMES);
}

static void asker(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < 3; i++)
		count_world_query(0);
}

static void add_readers(const struct count_case *c)
{
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", c->one_cpu ? 0 : i, reader, (void *)(uintptr_t)i);
}

static void reclaim_setup(const void *arg)
{
	const struct count_case *c = arg;

	count_world_setup(c);
	add_readers(c);
	check_task("reclaimer", c->nr_readers, reclaimer, NULL);
	count_world_ticks();
}

static void collider(void *arg)
{
	u32 frame = (u32)(uintptr_t)arg, turn, i;

	for (turn = 0; turn < TURNS; turn++)
		if (count_world_ref(frame, frame, &i)) {
			count_world_look(i);
			count_world_unref(i);
		}
}

static void reclaim_both(void *arg)
{
	u32 f;

	(void)arg;
	for (f = 0; f < WORLD_FRAMES; f++)
		if (count_world_freeze(f))
			count_world_refill(f, WORLD_FRAMES + f);
}

static void collide_setup(const void *arg)
{
	u32 f;

	count_world_setup(arg);
	for (f = 0; f < WORLD_FRAMES; f++)
		check_task("reader", 0, collider, (void *)(uintptr_t)f);
	check_task("reclaimer", 1, reclaim_both, NULL);
	count_world_ticks();
}

/* The frame that comes second is kept; they meet in one place, as in collide. */
static void keeper(void *arg)
{
	u32 me = (u32)(uintptr_t)arg, a, b;
	bool first = count_world_ref((me + 1) % WORLD_FRAMES, me, &a);

	if (count_world_ref(me, me, &b))
		count_world_look(b);
	if (first) {
		count_world_look(a);
		count_world_unref(a);
	}
}

static void keep_setup(const void *arg)
{
	u32 i;

	count_world_setup(arg);
	for (i = 0; i < WORLD_FRAMES; i++)
		check_task("reader", 0, keeper, (void *)(uintptr_t)i);
	check_task("reclaimer", 1, reclaim_both, NULL);
	count_world_ticks();
}

/* Gives back what setup left. */
static void giver(void *arg)
{
	(void)arg;
	count_world_look(0);
	count_world_unref(0);
}

static void hoard_setup(const void *arg)
{
	count_world_setup(arg);
	count_world_hoard(0, 0, HOARD, 1);
	check_task("giver", 0, giver, NULL);
	check_task("reader", 0, reader, (void *)1);
	check_task("reader", 1, reader, (void *)2);
	check_task("reclaimer", 2, reclaimer, NULL);
	count_world_ticks();
}

/* So many references are held besides that a batch taken off too early hides them all. */
static void batch_setup(const void *arg)
{
	count_world_setup(arg);
	count_world_hoard(0, 0, HOARD + BATCH_OTHERS, 1 + BATCH_OTHERS);
	check_task("giver", 0, giver, NULL);
	check_task("reclaimer", 1, reclaimer, NULL);
	count_world_ticks();
}

/* Holds all frames, the first one last. */
static void collector(void *arg)
{
	bool held[WORLD_FRAMES];
	u32 i[WORLD_FRAMES], f;

	(void)arg;
	for (f = WORLD_FRAMES; f-- > 0;)
		held[f] = count_world_ref(f, 0, &i[f]);
	for (f = 0; f < WORLD_FRAMES; f++) {
		if (!held[f])
			continue;
		count_world_look(i[f]);
		count_world_unref(i[f]);
	}
}

static void collect_setup(const void *arg)
{
	count_world_setup(arg);
	check_task("collector", 0, collector, NULL);
	check_task("reader", 1, reader, NULL);
	check_task("reclaimer", 2, reclaimer, NULL);
	count_world_ticks();
}

static void stay_setup(const void *arg)
{
	const struct count_case *c = arg;

	count_world_setup(c);
	count_world_hoard(0, WORLD_SHARERS - 1, HOARD, 1);
	add_readers(c);
	check_task("reclaimer", host_nr_cpus() - 1, reclaimer, NULL);
	count_world_ticks();
}

/* A CPU's clock goes on by itself, so that clocks run apart. After a tick it tries to freeze,
 * unless another CPU's clock is about it: one at a time may. */
static void clock_and_freezer(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;
	u32 i;

	for (i = 0; i < EPOCH_TICKS && !counted->owned_once; i++) {
		count_tick(&counted->count, check_cpu(cpu));
		if (counted->freezing)
			continue;
		counted->freezing = true;
		if (!counted->owned_once && count_world_freeze(0)) {
			counted->owned_once = true;
			count_world_refill(0, WORLD_FRAMES);
		}
		counted->freezing = false;
	}
}

static void add_clocks(void)
{
	u32 cpu;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		check_task("clock", cpu, clock_and_freezer, (void *)(uintptr_t)cpu);
}

static void epochs_setup(const void *arg)
{
	const struct count_case *c = arg;

	count_world_setup(c);
	add_readers(c);
	add_clocks();
}

/* Holds both frames, whose differences push each other out of one slot. */
static void pusher(void *arg)
{
	u32 me = (u32)(uintptr_t)arg, turn, a, b;
	bool first, second;

	for (turn = 0; turn < TURNS; turn++) {
		first = count_world_ref((me + turn) % 2, me, &a);
		second = count_world_ref((me + turn + 1) % 2, me, &b);
		if (first) {
			count_world_look(a);
			count_world_unref(a);
		}
		if (second) {
			count_world_look(b);
			count_world_unref(b);
		}
	}
}

static void epochs_two_setup(const void *arg)
{
	u32 i;

	count_world_setup(arg);
	for (i = 0; i < 2; i++)
		check_task("reader", i, pusher, (void *)(uintptr_t)i);
	add_clocks();
}

static void ticks_of(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;

	/* Of CPU 1, which has counted nothing, from CPU 0. */
	count_tick(&counted->count, check_cpu(cpu));
	count_tick(&counted->count, check_cpu(cpu));
}

static void freezer_alone(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < FAR_TRIES && !count_world_freeze(0); i++)
		host_relax();
}

static void epochs_far_setup(const void *arg)
{
	u32 cpu;

	count_world_setup(arg);
	count_tick(&counted->count, check_cpu(0));
	count_world_hoard(0, 0, 1, 1);
	for (cpu = 0; cpu < 2; cpu++)
		check_task("ticks", 0, ticks_of, (void *)(uintptr_t)cpu);
	check_task("freezer", 1, freezer_alone, NULL);
}

/* Its CPU has no clock of its own: another one ticks for it. */
static void epochs_away_setup(const void *arg)
{
	u32 cpu;

	count_world_setup(arg);
	check_task("reader", 1, reader, (void *)0);
	for (cpu = 0; cpu < 2; cpu++)
		check_task("ticks", 0, ticks_of, (void *)(uintptr_t)cpu);
	check_task("freezer", 0, freezer_alone, NULL);
}

static void epochs_late_setup(const void *arg)
{
	u32 i, cpu;

	count_world_setup(arg);
	CHECK_ASSERT(!count_freeze(&counted->count, 0), "a freeze waits for epochs");
	for (i = 0; i < LATE_EPOCHS; i++)
		for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
			check_alone_on(cpu);
			count_tick(&counted->count, check_cpu(cpu));
		}
	check_alone_on(0);
	add_readers(arg);
	check_task("freezer", host_nr_cpus() - 1, freezer_alone, NULL);
}

static void far_asker(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < TURNS + 1; i++)
		count_world_query(0);
}

/* Counts where the holder does, and gives back where no tick comes. */
static void wanderer(void *arg)
{
	u32 turn, i;

	(void)arg;
	for (turn = 0; turn < TURNS; turn++) {
		if (!count_world_ref(0, 1, &i))
			return;
		check_migrate(check_self(), 1);
		count_world_unref(i);
		check_migrate(check_self(), 0);
	}
}

static void ask_far_setup(const void *arg)
{
	count_world_setup(arg);
	count_world_hoard(0, 0, 1, 1);
	if (counted->c->scheme->tick)
		check_task("ticks", 0, ticks_of, (void *)0);
	check_task("wanderer", 0, wanderer, NULL);
	check_task("asker", 2, far_asker, NULL);
}

static void flusher(void *arg)
{
	giver(arg);
	count_tick(&counted->count, check_cpu(1));
}

static void ask_flush_setup(const void *arg)
{
	count_world_setup(arg);
	count_world_hoard(0, 0, 2, 2);
	count_tick(&counted->count, check_cpu(0));
	check_task("giver", 1, flusher, NULL);
	check_task("asker", 0, far_asker, NULL);
}

static void tick_once(void *arg)
{
	count_tick(&counted->count, check_cpu((u32)(uintptr_t)arg));
}

/* One reference stays. The other one came on CPU 1, and went back on CPU 2. A query looks twice
 * where nobody is seen, so both CPUs' ticks must disturb it. */
static void ask_two_setup(const void *arg)
{
	u32 cpu, i;

	count_world_setup(arg);
	count_world_hoard(0, 0, 1, 1);
	check_alone_on(1);
	CHECK_ASSERT(count_world_ref(0, 1, &i), "a reference");
	check_alone_on(2);
	count_world_unref(i);
	check_alone_on(0);
	for (cpu = 0; cpu < 2; cpu++)
		check_task("ticks", cpu, tick_once, (void *)(uintptr_t)cpu);
	check_task("asker", 2, asker, NULL);
}

/* The reference is in a slot, and global is 0, when the watch is set. */
static void ask_epochs_setup(const void *arg)
{
	u32 cpu;

	count_world_setup(arg);
	count_world_hoard(0, 0, 1, 1);
	CHECK_ASSERT(!count_freeze(&counted->count, 0), "what is held is not frozen");
	for (cpu = 0; cpu < 2; cpu++)
		check_task("ticks", cpu, ticks_of, (void *)(uintptr_t)cpu);
	check_task("asker", 1, asker, NULL);
}

static void query_setup(const void *arg)
{
	const struct count_case *c = arg;

	count_world_setup(c);
	add_readers(c);
	check_task("asker", c->nr_readers, asker, NULL);
	count_world_ticks();
}

static const struct count_case two = { .nr_readers = 2 };
static const struct count_case one = { .nr_readers = 1, .one_cpu = true };
static const struct count_case four = { .nr_readers = 4 };
static const struct count_case threads = { .nr_readers = 2, .one_user = true };
static const struct count_case one_cpu = { .nr_readers = 2, .one_cpu = true };

void check_cases_owned(struct check_list *list);
void check_cases_entry(struct check_list *list);

void check_cases_count(struct check_list *list)
{
	u32 i;

	for (i = 0; i < count_nr_schemes; i++) {
		const struct count_scheme *s = count_schemes[i];

		count_world_add(list, "query", s, &two, 3, query_setup);
		if (!s->counts)
			continue; /* never freezes: nothing can be reclaimed */
		count_world_add(list, "reclaim", s, &two, 3, reclaim_setup);
		count_world_add(list, "reclaim4", s, &four, 5, reclaim_setup);
		count_world_add(list, "threads", s, &threads, 3, reclaim_setup);
		count_world_add(list, "one-cpu", s, &one_cpu, 3, reclaim_setup);
		count_world_add(list, "collide", s, &one_cpu, 2, collide_setup);
		count_world_add(list, "keep", s, &one_cpu, 2, keep_setup);
		count_world_add(list, "hoard", s, &two, 3, hoard_setup);
		count_world_add(list, "batch", s, &two, 2, batch_setup);
		count_world_add(list, "collect", s, &threads, 3, collect_setup);
		count_world_add(list, "stay", s, &one, 3, stay_setup);
		count_world_add(list, "ask-far", s, &one, 3, ask_far_setup);
		if (!s->tick)
			continue;
		count_world_add(list, "ask-flush", s, &one, 2, ask_flush_setup);
		count_world_add(list, "ask-two", s, &one, 3, ask_two_setup);
		count_world_add(list, "ask-epochs", s, &one, 2, ask_epochs_setup);
		count_world_add(list, "epochs", s, &two, 2, epochs_setup);
		count_world_add(list, "epochs-two", s, &two, 2, epochs_two_setup);
		if (s->table)
			continue; /* nothing of it waits for a second epoch */
		count_world_add(list, "epochs-far", s, &one, 2, epochs_far_setup);
		count_world_add(list, "epochs-away", s, &one, 2, epochs_away_setup);
		count_world_add(list, "epochs-late", s, &two, 3, epochs_late_setup);
	}
	check_cases_owned(list);
	check_cases_entry(list);
}
