/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files that another program cuts just as the service takes them in. No lease breaks by that, and
 * only a watch hears of it. What is left is less than a block, so a wrong size keeps it out.
 * In half of the runs a writer makes them longer instead, while they are read to their end.
 */
#include <stdio.h>
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define RACE_FILES 16u
#define BLOCK_BYTES 4096u
/* Turns of others between the word and the cut: an open takes some hundred. */
#define MOST_TURNS 600u
/* Reads of a file that grows. */
#define END_READS 8u

static struct {
	u32 next; /* the file that is being opened, counted from 1 */
	bool over;
	bool grow;
	struct waiters waiters;
} races;

static void race_path(char path[16], u32 i)
{
	snprintf(path, 16, "/race%u", i);
}

/* Less than a block. */
static u64 race_bytes(void)
{
	return 8 + machine_draw(BLOCK_BYTES / 8 - 1) * (u64)8;
}

static void racer_races(const char *path)
{
	for (u32 i = machine_draw(MOST_TURNS); i > 0; i--)
		machine_yield();
	if (races.grow) {
		world_rewrite(path, false);
		return;
	}
	world_unsure(path);
	program_cut_unheard(path, race_bytes(), false);
}

static void racer_run(void *arg)
{
	char path[16];

	(void)arg;
	for (u32 seen = 0; !races.over;) {
		if (races.next == seen) {
			task_wait(&races.waiters, NS_NEVER);
			continue;
		}
		seen = races.next;
		race_path(path, seen - 1);
		racer_races(path);
	}
}

static void races_tell(u32 next, bool over)
{
	races.next = next;
	races.over = over;
	waiters_wake(&races.waiters);
}

static void opener_reads(struct lodic_context *context, const struct world_open *open)
{
	for (u32 left = races.grow ? END_READS : 0; left > 0; left--)
		world_read_at(context, open, 0, BLOCK_BYTES);
	world_rounds(context, open, 1, machine_draw(4));
}

static void opener_opens(struct lodic *lodic, struct lodic_context *context)
{
	struct world_open open[RACE_FILES];
	char path[16];
	u32 nr = 0;

	for (u32 i = 0; i < RACE_FILES; i++) {
		race_path(path, i);
		races_tell(i + 1, false);
		nr += world_open(lodic, path, &open[nr]);
		if (nr > 0)
			opener_reads(context, &open[nr - 1]);
		port_sleep(machine_draw(50) * (u64)1000000);
	}
	races_tell(RACE_FILES, true);
	settle_here();
	for (u32 i = 0; i < nr; i++) {
		settle_file(context, &open[i]);
		world_close(&open[i]);
	}
}

static void opener_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;

	(void)arg;
	if (world_attach(&lodic) == 0) {
		if (world_context_open(lodic, &context) == 0) {
			opener_opens(lodic, context);
			lodic_context_close(context);
		}
		lodic_detach(lodic);
	}
	races_tell(races.next, true);
	settle_given_back_but(&before, *world_closed());
}

static void races_adjust(struct service_options *options)
{
	options->keeping.nr_files = 64;
}

void scenario_races(void)
{
	char path[16];

	memset(&races, 0, sizeof(races));
	world.adjust = races_adjust;
	world_no_faults();
	races.grow = machine_draw(2);
	for (u32 i = 0; i < RACE_FILES; i++) {
		race_path(path, i);
		world_make(path, races.grow ? race_bytes() : WORLD_FILE_BYTES);
	}
	settle_expect(process_start("opener", WORLD_USER, opener_run, NULL));
	settle_expect(process_start("racer", WORLD_USER, racer_run, NULL));
}
