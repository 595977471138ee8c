/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See world.h: a program that renames a file that readers have, and cuts one of its own. */
#include <stdio.h>

#include "check/whole/settle.h"
#include "check/whole/world.h"

#define OWN "/own"
#define ASIDE "/aside"

static void mover_cut(void)
{
	int fd = program_open_to_write(OWN);

	if (fd < 0)
		return;
	program_cut(fd, machine_draw(8192));
	fd_close(process_now(), fd);
}

/* Its path leads nowhere for a while. The file itself stays as it is. */
static void mover_move(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/data%u", machine_draw(WORLD_FILES));
	if (program_rename(path, ASIDE) != 0)
		return;
	machine_yield();
	program_rename(ASIDE, path);
}

static void mover_run(void *arg)
{
	program_make_file(OWN, WORLD_USER, 0644, 4096);
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (machine_draw(2))
			mover_cut();
		else
			mover_move();
		task_wait(NULL, machine.now_ns + machine_draw(1000) * (u64)1000000);
	}
	program_remove(OWN);
}

struct process *world_mover(u32 nr_rounds)
{
	struct process *p = process_start("mover", WORLD_USER, mover_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}
