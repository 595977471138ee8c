/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Movers: faults that a search may add to a scenario. Each begins at a moment of its own, as
 * every fault does, and moves one of the scenario's tasks to another CPU.
 *
 * A scheduler may move a task between any two of its steps, so every scenario must stand it.
 * check_pin_task() is for the few tasks whose place is a rule of the scenario.
 */
#include "host/check/mover.h"

#include "host/check/engine.h"

/* Ours: two moves bring a task away and back, and the third is for another one. */
#define MOVERS 3u

static bool may_move(u32 i)
{
	const struct task *t = &engine.tasks[i];

	return !t->is_fault && !t->is_pinned && t->state != TASK_DONE;
}

static void move(void *arg)
{
	u32 tasks[CHECK_MAX_TASKS], nr = 0, i, task;

	(void)arg;
	for (i = 0; i < engine.nr_tasks; i++)
		if (may_move(i))
			tasks[nr++] = i;
	if (nr == 0)
		return;
	task = tasks[host_choose(nr)];
	engine_migrate(task,
	              (engine.tasks[task].cpu + 1 + host_choose(engine.nr_cpus - 1)) %
	                      engine.nr_cpus);
}

void mover_add_all(void)
{
	if (engine.nr_cpus < 2)
		return;
	for (u32 i = 0; i < MOVERS; i++)
		check_fault("mover", move, NULL);
}
