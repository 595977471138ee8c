/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files that others change in each way that doc/proofs.md knows. They rewrite, cut, replace and
 * remove them, and close them to their readers for a while. Some cuts break no lease.
 */
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"

static void changer_closes(const char *path)
{
	program_set_rights(path, 0);
	task_wait(NULL, machine.now_ns + machine_draw(500) * (u64)1000000);
	program_set_rights(path, 0644);
}

static void changer_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		const char *path = world_paths[machine_draw(WORLD_FILES)];

		switch (machine_draw(7)) {
		case 0: world_rewrite(path, true); break;
		case 1: world_rewrite(path, false); break;
		case 2: world_cut(path); break;
		case 3: world_replace(path); break;
		case 4:
			program_remove(path);
			task_wait(NULL, machine.now_ns + machine_draw(500) * (u64)1000000);
			world_replace(path);
			break;
		case 5: changer_closes(path); break;
		default: break;
		}
		task_wait(NULL, machine.now_ns + machine_draw(1000) * (u64)1000000);
	}
}

/* Reads what stands at the paths now, and what stood there before. */
static void reopener_reads(struct lodic *lodic, u32 nr_rounds)
{
	struct world_open open[2 * WORLD_FILES];
	struct lodic_context *context;
	u32 nr = 0;

	if (world_context_open(lodic, &context) != 0)
		return;
	for (u32 i = 0; i < nr_rounds; i++) {
		if (nr == 2 * WORLD_FILES || (nr > 0 && machine_draw(4) == 0)) {
			u32 which = machine_draw(nr);

			world_close(&open[which]);
			open[which] = open[--nr];
		}
		nr += world_open(lodic, world_paths[machine_draw(WORLD_FILES)], &open[nr]);
		world_rounds(context, open, nr, 20);
	}
	settle_here();
	for (u32 i = 0; i < nr; i++)
		settle_file(context, &open[i]);
	for (u32 i = 0; i < nr; i++)
		world_close(&open[i]);
	world_context_close(context);
}

static void reopener_run(void *arg)
{
	world_works(reopener_reads, arg);
}

void scenario_files(void)
{
	struct process *p;

	for (u32 i = 1 + machine_draw(3); i > 0; i--) {
		p = process_start("reopener", WORLD_USER, reopener_run,
		                  (void *)(uintptr_t)(2 + machine_draw(20)));
		p->mortal = true;
		settle_expect(p);
	}
	settle_expect(process_start("changer", WORLD_USER, changer_run,
	                            (void *)(uintptr_t)(1 + machine_draw(20))));
}
