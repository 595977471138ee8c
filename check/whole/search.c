/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See search.h. */
#define _GNU_SOURCE
#include "check/whole/search.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check/whole/settle.h"
#include "host/random.h"

/* What schedule after schedule allocates and frees stays mapped. */
#define KEPT_BYTES (256 << 20)
#define TICK_NS 20000000
#define QUIET_TICKS 100u /* before progress is worth a line */

/* What all processes of the search share. */
struct shared {
	/* None above it is worth a run. A process may write a larger one: that costs time. */
	volatile u64 failing;
	struct tally tallies[OPTIONS_MOST_JOBS];
};

struct search_watch search_watch;
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* ---- one schedule ---- */

/* Which kinds of fault a run has, and how often, is drawn (swarm testing). */
static void draw_faults(const struct options *o)
{
	for (u32 i = 0; i < NR_FAULTS; i++)
		if (machine_draw(2))
			machine.rate[i] = (u32)16 << machine_draw(8);
	if (machine.rate[FAULT_DEATH] && machine_draw(4) == 0) {
		machine.deaths_at_send = true;
		machine.rate[FAULT_DEATH] = (u32)4 << machine_draw(6);
	}
	if (machine.seed % 2) {
		if (machine_draw(2)) /* nothing else gets into its way */
			memset(machine.rate, 0, sizeof(machine.rate));
		machine_one_error(false);
		machine.rate[FAULT_ERRNO] = machine_draw(2) ? 1 : 2 + machine_draw(8);
	}
	for (u32 i = 0; i < NR_FAULTS; i++)
		if (!o->faults[i]) {
			machine.rate[i] = 0;
			machine.barred[i] = true;
		}
}

/* A service fills more than it has room for only if it evicts. */
static bool is_life(const struct process *p)
{
	u64 room = world.cache_bytes[p->number];

	return room > 0 && p->dead && p->nr_accepted > 0 && p->bytes_read > room;
}

static void tally_add_run(struct tally *t)
{
	t->nr_schedules++;
	t->nr_steps += machine.steps;
	t->hash += random_mix(machine.hash + machine.seed);
	for (u32 i = 0; i < machine.nr_processes; i++)
		t->nr_lives += is_life(&machine.processes[i]);
	for (u32 i = 0; i < NR_FAULTS; i++)
		t->nr_faults[i] += machine.nr_faults[i];
	for (u32 i = 0; i < NR_CALLS; i++) {
		t->nr_called[i] += machine.nr_called[i];
		for (u32 k = 0; k < CALL_MOST_ERRNOS; k++)
			t->nr_failed_by[i][k] += machine.nr_failed_by[i][k];
	}
	for (u32 i = 0; i < MESSAGE_MOST_KINDS; i++)
		for (u32 k = 0; k < NR_MESSAGE_FATES; k++)
			t->nr_messages[i][k] += machine.nr_messages[i][k];
	t->nr_reads += world.nr_reads;
	t->nr_pins += world.nr_pins;
	t->nr_services += world.nr_services;
	t->failed = machine.failed;
	snprintf(t->what, sizeof(t->what), "%s", machine.what);
}

static void schedule(const struct options *o, u64 seed, struct tally *t)
{
	const struct scenario *scenario;

	memset(&world, 0, sizeof(world));
	t->seed = seed;
	world_begin(seed);
	machine.tracing = o->trace;
	world.wide = machine_draw(2);
	draw_faults(o);
	scenario = scenario_draw(); /* in any case, so that the rest stays as it is */
	if (o->scenario)
		scenario = o->scenario;
	snprintf(t->scenario, sizeof(t->scenario), "%s", scenario->name);
	scenario_begin(scenario);
	machine_run();
	settle_end();
	tally_add_run(t);
}

/* ---- many ---- */

/* The schedules of one process: each of its seeds, in order, until one fails. */
static void work(const struct options *o, struct shared *shared, u32 job)
{
	struct tally *t = &shared->tallies[job];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	signal(SIGINT, SIG_IGN); /* the parent kills this process */
	for (u64 i = job; i < o->schedules && o->seed + i < shared->failing; i += o->jobs) {
		if (search_watch.wants && !search_watch.wants(o->seed + i))
			continue;
		schedule(o, o->seed + i, t);
		if (search_watch.ran)
			search_watch.ran(o->seed + i);
		if (t->failed) {
			shared->failing = t->seed;
			break;
		}
	}
	_exit(0);
}

static void tally_add(struct tally *all, const struct tally *t)
{
	all->nr_schedules += t->nr_schedules;
	all->nr_steps += t->nr_steps;
	all->nr_reads += t->nr_reads;
	all->nr_pins += t->nr_pins;
	all->nr_services += t->nr_services;
	all->nr_lives += t->nr_lives;
	all->hash += t->hash;
	for (u32 i = 0; i < NR_FAULTS; i++)
		all->nr_faults[i] += t->nr_faults[i];
	for (u32 i = 0; i < NR_CALLS; i++) {
		all->nr_called[i] += t->nr_called[i];
		for (u32 k = 0; k < CALL_MOST_ERRNOS; k++)
			all->nr_failed_by[i][k] += t->nr_failed_by[i][k];
	}
	for (u32 i = 0; i < MESSAGE_MOST_KINDS; i++)
		for (u32 k = 0; k < NR_MESSAGE_FATES; k++)
			all->nr_messages[i][k] += t->nr_messages[i][k];
	if (!t->failed || (all->failed && all->seed < t->seed))
		return;
	all->failed = true;
	all->seed = t->seed;
	memcpy(all->scenario, t->scenario, sizeof(all->scenario));
	memcpy(all->what, t->what, sizeof(all->what));
}

static void progress(const struct options *o, const struct shared *shared, u32 tick)
{
	u64 nr = 0;

	if (tick < QUIET_TICKS || !isatty(STDERR_FILENO))
		return;
	for (u32 i = 0; i < o->jobs; i++)
		nr += shared->tallies[i].nr_schedules;
	fprintf(stderr, "\r\033[Ksearching: %llu of %llu schedules",
	        (unsigned long long)nr, (unsigned long long)o->schedules);
	fflush(stderr);
}

/* A process of the search has ended, which runs the product itself: it may have crashed. */
static void worker_ended(struct shared *shared, struct tally *t, int status)
{
	if (!WIFSIGNALED(status) || interrupted)
		return;
	t->failed = true;
	snprintf(t->what, sizeof(t->what), "the program ends by signal %d",
	         WTERMSIG(status));
	if (t->seed < shared->failing)
		shared->failing = t->seed;
}

static void wait_workers(const struct options *o, struct shared *shared, pid_t *workers)
{
	const struct timespec tick = { 0, TICK_NS };
	u32 left = o->jobs, ticks = 0;
	int status;

	while (left > 0) {
		for (u32 i = 0; i < o->jobs; i++) {
			if (workers[i] == 0 ||
			    waitpid(workers[i], &status, WNOHANG) == 0)
				continue;
			workers[i] = 0;
			left--;
			worker_ended(shared, &shared->tallies[i], status);
		}
		for (u32 i = 0; i < o->jobs && interrupted; i++)
			if (workers[i] > 0)
				kill(workers[i], SIGKILL);
		if (left > 0)
			nanosleep(&tick, NULL);
		progress(o, shared, ticks++);
	}
	if (ticks > QUIET_TICKS && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

bool search_run(const struct options *o, struct tally *ret_all)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t workers[OPTIONS_MOST_JOBS];

	if (shared == MAP_FAILED) {
		perror("lodic-whole: mmap");
		exit(1);
	}
	shared->failing = ~(u64)0;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	fflush(NULL);
	for (u32 i = 0; i < o->jobs; i++) {
		workers[i] = fork();
		if (workers[i] == 0)
			work(o, shared, i);
		if (workers[i] < 0) {
			perror("lodic-whole: fork");
			exit(1); /* those that run die with this process */
		}
	}
	wait_workers(o, shared, workers);
	memset(ret_all, 0, sizeof(*ret_all));
	for (u32 i = 0; i < o->jobs; i++)
		tally_add(ret_all, &shared->tallies[i]);
	munmap(shared, sizeof(*shared));
	return !interrupted;
}
