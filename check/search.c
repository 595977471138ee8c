/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Many searches on all CPUs. Contract: check/search.h. */
#define _GNU_SOURCE
#include "check/search.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A strategy that misses with so many seeds in a row is not the one for this mutant. */
#define MISSES_ENOUGH 3u
/* Seeds tried where detection takes more than SLOW_SCHEDULES. */
#define SLOW_SEEDS 11u
#define SLOW_SCHEDULES 100000u
#define TICK_NS 100000000
#define QUIET_TICKS 20u /* before progress is worth a line */

static volatile sig_atomic_t interrupted;

const char *search_memory_word(enum check_memory memory)
{
	static const char *const words[] = { "sc", "tso", "pso", "weak" };

	return words[memory];
}

const char *search_movers_word(bool movers)
{
	return movers ? ", movers" : "";
}

const char *search_strategy_word(enum check_strategy strategy)
{
	static const char *const words[] = { "random", "pct3", "pct4", "exhaustive" };

	return words[strategy];
}

static const char *const flips[] = { "cpu", "order", "draws" };
#define NR_FLIPS (sizeof(flips) / sizeof(flips[0]))

u32 search_flip_named(const char *name)
{
	for (u32 i = 0; i < NR_FLIPS; i++)
		if (strcmp(name, flips[i]) == 0)
			return 1u << i;
	return strcmp(name, "all") == 0 ? CHECK_FLIP_ALL : 0;
}

struct search *search_alloc(u32 nr)
{
	void *p = mmap(NULL, (nr + 1) * sizeof(struct search), PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* From seed to seed, until enough is known. */
static void run_seeds(struct search *s)
{
	static u64 needed[SEARCH_MAX_SEEDS];
	struct check_options o = s->options;
	struct check_result r;

	for (; s->nr_tried < s->nr_seeds; s->nr_tried++, o.seed++) {
		if (s->nr_found == 0 && s->nr_tried >= MISSES_ENOUGH)
			break;
		if (s->nr_tried >= SLOW_SEEDS &&
		    (s->nr_found < s->nr_tried || s->median > SLOW_SCHEDULES))
			break;
		check_run(&s->c->run, &o, true, &r);
		s->result.schedules += r.schedules;
		s->result.steps += r.steps;
		if (!r.violations)
			continue;
		if (s->nr_found == 0) {
			s->options.seed = o.seed;
			s->result.violations = 1;
			s->result.schedule = r.schedule;
			memcpy(s->result.what, r.what, sizeof(r.what));
		}
		needed[s->nr_found++] = r.schedules;
		qsort(needed, s->nr_found, sizeof(needed[0]), compare);
		s->median = needed[s->nr_found / 2];
		s->max = needed[s->nr_found - 1];
	}
}

static void run_search(struct search *s)
{
	s->state = SEARCH_RUNNING;
	check_mutant_now = s->mutant;
	if (s->options.trace)
		fprintf(s->options.out, "\n%s, %s, %s%s, %s, schedule %llu:\n",
		        s->c->scenario, s->c->scheme,
		        search_memory_word(s->options.memory),
		        search_movers_word(s->options.movers),
		        search_strategy_word(s->options.strategy),
		        (unsigned long long)s->options.only - 1);
	if (s->nr_seeds > 0)
		run_seeds(s);
	else
		check_run(&s->c->run, &s->options, true, &s->result);
	s->state = SEARCH_DONE;
}

/* queue: a pipe with the numbers of the searches that no process has taken yet. */
static void work(struct search *searches, int queue)
{
	u32 i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	while (read(queue, &i, sizeof(i)) == sizeof(i)) {
		run_search(&searches[i]);
		fflush(stdout);
	}
	_exit(0);
}

/* The read end of such a pipe, or -1. It is filled before any process reads. */
static int queue_make(u32 nr)
{
	int ends[2];
	u32 i;

	if (pipe(ends) != 0)
		return -1;
	fcntl(ends[1], F_SETPIPE_SZ, (int)(nr * sizeof(i)));
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	for (i = 0; i < nr; i++) {
		if (write(ends[1], &i, sizeof(i)) == sizeof(i))
			continue;
		close(ends[0]);
		ends[0] = -1;
		break;
	}
	close(ends[1]);
	return ends[0];
}

static void on_signal(int number)
{
	interrupted = number;
}

static void progress(const struct search *searches, u32 nr, u32 tick)
{
	u32 done = 0, i;

	if (tick < QUIET_TICKS || !isatty(STDERR_FILENO))
		return;
	for (i = 0; i < nr; i++)
		done += searches[i].state == SEARCH_DONE;
	fprintf(stderr, "\r\033[Kchecking: %u of %u searches", done, nr);
	if (done == nr)
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

/* Until all workers have ended. */
static bool wait_workers(pid_t *workers, u32 nr_workers, const struct search *searches,
                         u32 nr, bool quiet)
{
	struct timespec tick = { 0, TICK_NS };
	u32 left = nr_workers, ticks = 0, i;
	bool good = true;
	int status;

	while (left > 0) {
		for (i = 0; i < nr_workers; i++) {
			if (workers[i] <= 0 ||
			    waitpid(workers[i], &status, WNOHANG) == 0)
				continue;
			workers[i] = 0;
			left--;
			good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
		}
		if (interrupted)
			for (i = 0; i < nr_workers; i++)
				if (workers[i] > 0)
					kill(workers[i], SIGKILL);
		if (left > 0)
			nanosleep(&tick, NULL);
		if (!quiet)
			progress(searches, nr, ticks++);
	}
	if (!quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	return good && !interrupted;
}

static void mark_stopped(struct search *searches, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (searches[i].state == SEARCH_WAITING ||
		    (searches[i].state == SEARCH_RUNNING && interrupted))
			searches[i].state = SEARCH_STOPPED;
}

bool search_all(struct search *searches, u32 nr, u32 nr_jobs, bool quiet)
{
	pid_t workers[SEARCH_MAX_JOBS];
	u32 nr_workers = 0;
	bool whole;
	int queue = queue_make(nr);

	if (queue < 0) {
		perror("lodic-check: pipe");
		return false;
	}
	if (nr_jobs > nr)
		nr_jobs = nr;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	fflush(NULL);
	while (nr_workers < nr_jobs) {
		pid_t pid = fork();

		if (pid == 0)
			work(searches, queue);
		if (pid < 0)
			break;
		workers[nr_workers++] = pid;
	}
	close(queue);
	if (nr_workers == 0 && nr > 0) {
		perror("lodic-check: fork");
		return false;
	}
	whole = wait_workers(workers, nr_workers, searches, nr, quiet);
	mark_stopped(searches, nr);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	return whole;
}

void search_show(const struct search *s)
{
	struct check_options o = s->options;
	struct check_result r;

	o.only = s->result.schedule + 1;
	fprintf(o.out, "\n%s, %s, %s%s: %s\n", s->c->scenario, s->c->scheme,
	        search_memory_word(o.memory), search_movers_word(o.movers),
	        s->result.what);
	fprintf(o.out, "seed=%llu, schedule %llu. Again:\n", (unsigned long long)o.seed,
	        (unsigned long long)s->result.schedule);
	fprintf(o.out,
	        "  lodic-check --scenario %s --scheme %s --memory %s --strategy %s",
	        s->c->scenario, s->c->scheme, search_memory_word(o.memory),
	        search_strategy_word(o.strategy));
	if (o.strategy == CHECK_EXHAUSTIVE)
		fprintf(o.out, " --bound %u", o.preemption_bound);
	fprintf(o.out, " --%smovers --seed %llu --only %llu", o.movers ? "" : "no-",
	        (unsigned long long)o.seed, (unsigned long long)s->result.schedule);
	for (u32 i = 0; i < NR_FLIPS; i++)
		if (o.flip >> i & 1)
			fprintf(o.out, " --flip %s", flips[i]);
	for (const struct check_mutant *m = check_mutant_find(s->mutant); m; m = NULL)
		fprintf(o.out, " --mutant %s", m->name);
	fputs("\n\n", o.out);
	check_mutant_now = s->mutant;
	check_run(&s->c->run, &o, false, &r);
	fputc('\n', o.out);
}
