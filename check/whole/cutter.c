/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See world.h: a program that cuts files, and breaks no lease by that. Only watches hear of it. */
#include "check/whole/settle.h"
#include "check/whole/world.h"

#define PIECE_BYTES 512u
/* More than the queue of news has room for. */
#define MANY 40u

/* Two files in turn, so that the news are not joined. No other program runs meanwhile. */
static void cutter_fills_queue(u32 but)
{
	machine.running->preempt_off++;
	for (u32 i = 0; i < MANY; i++)
		program_set_rights(world_paths[(but + 1 + i % 2) % WORLD_FILES],
		                   i % 4 < 2 ? 0640 : 0644);
	machine.running->preempt_off--;
}

static void cutter_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 file = machine_draw(WORLD_FILES);
		const struct inode *inode = files_find(world_paths[file]);
		u64 bytes;

		task_wait(NULL, machine.now_ns + machine_draw(300) * (u64)1000000);
		if (!inode)
			continue;
		if (machine_draw(3) == 0)
			cutter_fills_queue(file);
		world_unsure(world_paths[file]);
		/* One draw after the other: the order of arguments is the compiler's. */
		bytes = machine_draw((u32)(inode->bytes / PIECE_BYTES) + 1) *
		        (u64)PIECE_BYTES;
		program_cut_unheard(world_paths[file], bytes, machine_draw(3) == 0);
	}
}

struct process *world_cutter(u32 nr_rounds)
{
	struct process *p = process_start("cutter", WORLD_USER, cutter_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}
