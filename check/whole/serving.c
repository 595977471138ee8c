/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See serving.h. */
#include "check/whole/serving.h"

#include <string.h>

#define NS_PER_MS ((u64)1000000)
#define LOOK_NS (200 * NS_PER_MS)
/* A service that runs hears what others have said, and makes and removes its files, in so long. Our
 * choice: far more than a turn takes. */
#define BOUND_NS (10000 * NS_PER_MS)
/* A late call takes so long at most. With longer ones nobody knows what a service is at. */
#define MOST_LATE_NS (100 * NS_PER_MS)

static struct {
	bool serves[MACHINE_MOST_PROCESSES + 1];
	u32 took[MACHINE_MOST_PROCESSES +
	         1]; /* nr_disturbed then; 0: it has not taken over */
	bool silent[MACHINE_MOST_PROCESSES + 1];
	u32 from[MACHINE_MOST_PROCESSES + 1]; /* whose socket it has taken; 0: nobody's */
	bool ends[MACHINE_MOST_PROCESSES + 1]; /* that one was stopped */
	u64 since_ns[MACHINE_MOST_PROCESSES +
	             1];  /* it has served and run; NS_NEVER: it does not */
	u32 nr_disturbed; /* counted from 1 */
	struct process *last;
} serving;

void serving_begin(void)
{
	memset(&serving, 0, sizeof(serving));
	memset(serving.since_ns, 0xff, sizeof(serving.since_ns));
	serving.nr_disturbed = 1;
}

void serving_starts(void)
{
	if (serving.ends[process_now()->number])
		machine_fail("a service was stopped, and its successor serves");
	serving.serves[process_now()->number] = true;
	serving.last = process_now();
}

/* The one before still serves: nothing has told it that a successor has taken its place. */
void serving_takes(void)
{
	struct process *old = serving_now();

	if (world.calm && serving.nr_disturbed == 1 && !old)
		machine_fail("a service has ended before its successor serves");
	serving.from[process_now()->number] = old ? old->number : 0;
	if (!serving.silent[process_now()->number])
		serving.took[process_now()->number] = serving.nr_disturbed;
	if (world.taking)
		world.taking();
}

bool serving_is(const struct process *process)
{
	return serving.serves[process->number] && !process->dead;
}

void serving_stops(void)
{
	serving.serves[process_now()->number] = false;
}

/* A successor that has had its socket ends, too. */
void serving_stops_for_good(void)
{
	for (u32 i = 1; i <= MACHINE_MOST_PROCESSES; i++) {
		if (!world.calm || serving.from[i] != process_now()->number)
			continue;
		if (serving_is(&machine.processes[i - 1]))
			machine_fail("a service says that nobody goes on, and a successor does");
		serving.ends[i] = true;
	}
	serving_stops();
}

/* One that has been given socket and lock loses them to nobody. */
void serving_fails(int err)
{
	u32 took = serving.took[process_now()->number];

	if (world.calm && took == serving.nr_disturbed)
		machine_fail("a successor loses its place: %d", err);
}

struct process *serving_now(void)
{
	if (serving.last && serving_is(serving.last))
		return serving.last;
	for (u32 i = machine.nr_processes; i > 0; i--)
		if (serving_is(&machine.processes[i - 1]))
			return &machine.processes[i - 1];
	return NULL;
}

void serving_disturbed(void)
{
	serving.nr_disturbed++;
}

void serving_was_silent(const struct process *successor)
{
	serving.silent[successor->number] = true;
}

/* ---- the judge ---- */

static bool judge_has(const struct process *p, const struct description *d)
{
	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		if (p->fds[i] == d)
			return true;
	return false;
}

static bool judge_has_file(const struct process *p, const struct inode *inode)
{
	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		if (p->fds[i] && fd_file_is(p->fds[i]) &&
		    ((const struct fd_file *)p->fds[i])->inode == inode)
			return true;
	return false;
}

static void judge_finds(const struct process *p)
{
	const struct inode *at = files_find(WORLD_SOCKET);
	const struct inode *lock = files_find(SERVING_LOCK);

	if (!at || !at->socket || !judge_has(p, (const struct description *)at->socket))
		machine_fail("%s serves where nobody finds it", p->name);
	if (!lock || !judge_has_file(p, lock))
		machine_fail("%s serves, and its lock is not where others look",
		             p->name);
}

static void judge_looks(void)
{
	const struct process *serves = NULL;

	for (u32 i = 0; i < machine.nr_processes; i++) {
		const struct process *p = &machine.processes[i];
		u64 *since = &serving.since_ns[p->number];

		if (!serving_is(p) || p->stopped) {
			*since = NS_NEVER;
			continue;
		}
		if (*since == NS_NEVER)
			*since = machine.now_ns;
		if (machine.now_ns - *since < BOUND_NS)
			continue;
		if (serves)
			machine_fail("%s serves, and so does %s", serves->name,
			             p->name);
		judge_finds(p);
		serves = p;
	}
}

static void judge_run(void *arg)
{
	u64 until = NS_NEVER;

	(void)arg;
	while (machine.now_ns < until) {
		judge_looks();
		if (machine.faults_end && until == NS_NEVER)
			until = machine.now_ns + 2 * BOUND_NS;
		task_wait(NULL, machine.now_ns + LOOK_NS);
	}
}

void serving_judge(void)
{
	if (machine.rate[FAULT_HANG] > 0 ||
	    (machine.rate[FAULT_DELAY] > 0 && machine.longest_ns == 0))
		return;
	process_start("judge", WORLD_USER, judge_run, NULL);
}

void world_calm(void)
{
	world_no_faults();
	world.calm = true;
	machine.longest_ns = MOST_LATE_NS;
	if (machine_draw(2))
		machine.rate[FAULT_DELAY] = (u32)64 << machine_draw(6);
}
