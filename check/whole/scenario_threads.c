/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Readers with several threads, a context each. They pin blocks and keep them, look at views,
 * prefetch. What they have open goes on after lodic_detach(), and closes in any order.
 */
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"

#define MOST_THREADS 4u
#define MOST_PINS 4u

struct kept_pin {
	struct lodic_pin pin;
	u8 bytes[LODIC_BLOCK_BYTES];
	bool there;
};

struct group {
	struct lodic *lodic;
	struct lodic_context *contexts[MOST_THREADS];
	struct world_open open[WORLD_FILES];
	u32 nr_contexts, nr_open;
};

struct thread_work {
	struct group *group;
	struct lodic_context *context;
};

static u64 threads_offset(void)
{
	return machine_draw(WORLD_FILE_BYTES / 512) * (u64)512;
}

static void threads_unpin(struct lodic_context *context, struct kept_pin *kept)
{
	if (!kept->there)
		return;
	if (memcmp(kept->pin.data, kept->bytes, kept->pin.bytes) != 0)
		machine_fail("a pinned block has changed");
	lodic_unpin(context, &kept->pin);
	kept->there = false;
	world.nr_pins++;
}

static void threads_pin(struct lodic_context *context, const struct world_open *open,
                        struct kept_pin *kept)
{
	u64 offset = threads_offset(), least = world_version(open);

	threads_unpin(context, kept);
	if (lodic_pin(context, open->file, (off_t)offset, &kept->pin) != 0)
		return;
	world_check(open, offset, kept->pin.data, kept->pin.bytes, least);
	memcpy(kept->bytes, kept->pin.data, kept->pin.bytes);
	kept->there = true;
}

static void threads_view(struct lodic_context *context, const struct world_open *open)
{
	u64 offset = threads_offset(), least = world_version(open);
	u8 bytes[LODIC_BLOCK_BYTES];
	struct lodic_view view;

	if (lodic_view_begin(context, open->file, (off_t)offset, &view) != 0)
		return;
	for (u64 at = 0; at < view.bytes; at += 512) {
		u64 n = view.bytes - at < 512 ? view.bytes - at : 512;

		memcpy(bytes + at, (const u8 *)view.data + at, n);
		machine_step();
	}
	if (lodic_view_valid(context, &view))
		world_check(open, offset, bytes, view.bytes, least);
}

static void threads_prefetch(struct lodic_context *context, const struct world_open *open)
{
	u64 offset = threads_offset();
	u64 bytes = machine_draw(2) * (u64)8192;
	u32 how = machine_draw(2) ? LODIC_WAIT : 0;

	machine_note("lodic_prefetch() = %d",
	             lodic_prefetch(context, open->file, (off_t)offset, bytes, how));
}

static void threads_run(void *arg)
{
	struct thread_work *work = arg;
	struct lodic_context *context = work->context;
	struct kept_pin pins[MOST_PINS];

	for (u32 i = 0; i < MOST_PINS; i++)
		pins[i].there = false;
	for (u32 i = 20 + machine_draw(100); i > 0; i--) {
		const struct world_open *open =
			&work->group->open[machine_draw(work->group->nr_open)];

		switch (machine_draw(8)) {
		case 0: threads_view(context, open); break;
		case 1: threads_pin(context, open, &pins[machine_draw(MOST_PINS)]); break;
		case 2: threads_unpin(context, &pins[machine_draw(MOST_PINS)]); break;
		case 3: threads_prefetch(context, open); break;
		case 4: port_sleep(machine_draw(50) * (u64)1000000); break;
		default: world_read(context, open); break;
		}
	}
	for (u32 i = 0; i < MOST_PINS; i++)
		threads_unpin(context, &pins[i]);
}

static void threads_work(struct group *g)
{
	struct thread_work work[MOST_THREADS];
	struct task *tasks[MOST_THREADS];

	for (u32 i = 0; i < g->nr_contexts; i++) {
		work[i] = (struct thread_work){ g, g->contexts[i] };
		tasks[i] = task_start(process_now(), "reads", threads_run, &work[i]);
	}
	if (machine_draw(2)) {
		lodic_detach(g->lodic); /* the threads go on */
		g->lodic = NULL;
	}
	for (u32 i = 0; i < g->nr_contexts; i++)
		while (tasks[i]->state != TASK_OVER)
			task_wait(&tasks[i]->over, NS_NEVER);
}

/* One of the things that are open, whichever. */
static bool threads_close_one(struct group *g)
{
	u32 nr = g->nr_open + g->nr_contexts + (g->lodic != NULL), which = machine_draw(nr);

	if (nr == 0)
		return false;
	if (which < g->nr_open) {
		world_close(&g->open[which]);
		g->open[which] = g->open[--g->nr_open];
	} else if (which < g->nr_open + g->nr_contexts) {
		which -= g->nr_open;
		world_context_close(g->contexts[which]);
		g->contexts[which] = g->contexts[--g->nr_contexts];
	} else {
		lodic_detach(g->lodic);
		g->lodic = NULL;
	}
	return true;
}

static void group_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct group g = { 0 };

	(void)arg;
	if (world_attach(&g.lodic) == 0) {
		for (u32 i = 1 + machine_draw(MOST_THREADS); i > 0; i--)
			g.nr_contexts += world_context_open(
						 g.lodic, &g.contexts[g.nr_contexts]) == 0;
		for (u32 i = 0; i < WORLD_FILES; i++)
			g.nr_open += world_open(g.lodic, world_paths[i],
			                        &g.open[g.nr_open]);
		if (g.nr_open > 0)
			threads_work(&g);
		settle_here();
		for (u32 i = 0; g.nr_contexts > 0 && i < g.nr_open; i++)
			settle_file(g.contexts[0], &g.open[i]);
		while (threads_close_one(&g))
			;
	}
	settle_given_back_but(&before, *world_closed());
	process_exit(0);
}

void scenario_threads(void)
{
	for (u32 i = 1 + machine_draw(2); i > 0; i--) {
		struct process *p = process_start("group", WORLD_USER, group_run, NULL);

		p->mortal = true;
		settle_expect(p);
	}
	if (machine_draw(2))
		world_reader(50 + machine_draw(100));
	if (machine_draw(2))
		world_writer(1 + machine_draw(10));
}
