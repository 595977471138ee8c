// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Processes that end while their threads count: killed, by exit(), by a signal of their own, by
 * an exec, thread by thread. The kernel must then hold nothing. The word lodic.long asks for a
 * hundred times as many.
 */
#include "calls.h"
#include "test.h"

#include <signal.h>

#define ENDS 100
#define ENDS_LONG 10000
#define COUNTERS 3 /* threads of each process, beside the first */
#define SHARED 4   /* objects that all of them count */
#define SPINS 20000

enum end { BY_KILL, BY_EXIT, BY_ABORT, BY_EXEC, BY_THREADS, WAYS };

static const char *const names[] = { "killed", "exit", "abort", "exec", "threads" };

/* In memory that the parent sees: the references that the process has taken so far. */
static atomic_uint *taken;
static u8 shared[SHARED];
static atomic_int leave;

/* Holds a random number of references, and goes from CPU to CPU. */
static void *count(void *arg)
{
	u64 random = random_mix(opt.seed + (u64)arg);

	while (!atomic_load(&leave)) {
		u32 n = random_next(&random) % SHARED;

		if (random_next(&random) % 16 == 0)
			on_cpu(random_next(&random) % 4);
		if (random_next(&random) % 3)
			atomic_fetch_add(taken, !user_ref(shared + n));
		else
			user_unref(shared + n);
	}
	return NULL;
}

/* A while that depends on the seed, without a sleep. */
static void spin(u64 *random)
{
	volatile u32 turns = random_next(random) % SPINS;

	while (turns)
		turns--;
}

static void process(enum end end, u64 seed)
{
	static char *words[] = { "/proc/self/exe", AFTER_EXEC, "1000", NULL };
	pthread_t threads[COUNTERS];
	u64 random = seed, i;

	for (i = 0; i < COUNTERS; i++)
		if (pthread_create(&threads[i], NULL, count, (void *)random_next(&random)))
			_exit(9);
	user_ref(shared);
	while (atomic_load(taken) < 4 * COUNTERS)
		sched_yield();
	spin(&random);
	switch (end) {
	case BY_EXIT: _exit(0);
	case BY_ABORT: raise(SIGABRT); break;
	case BY_EXEC: execv(words[0], words); break;
	case BY_THREADS:
		atomic_store(&leave, 1);
		pthread_exit(NULL);
	default: pause();
	}
	_exit(8);
}

static void end_one(enum end end, u64 *random, u32 *nr_took)
{
	int status, want = end == BY_KILL ? SIGKILL : end == BY_ABORT ? SIGABRT : 0;
	struct debug d;
	pid_t pid;

	atomic_store(taken, 0);
	pid = fork();
	if (!pid)
		process(end, random_next(random));
	if (pid < 0)
		ktap_bail("fork");
	if (end == BY_KILL) {
		while (atomic_load(taken) < 4 * COUNTERS)
			sched_yield();
		spin(random);
		kill(pid, SIGKILL);
	}
	random_next(random);
	if (waitpid(pid, &status, 0) != pid || status != want)
		ktap_fail("%s: status %#x", names[end], status);
	d = debug_read();
	if (d.held || d.in_spills || d.threads)
		ktap_fail("%s: %ld and %ld references, %ld threads are left", names[end], d.held,
		          d.in_spills, d.threads);
	*nr_took += atomic_load(taken);
}

void case_ends(void)
{
	u32 nr = text_has_word("/proc/cmdline", "lodic.long") ? ENDS_LONG : ENDS, i, took = 0;
	u64 random = random_mix(opt.seed);

	taken = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED)
		ktap_bail("mmap");
	fflush(stdout);
	for (i = 0; i < nr && !ktap_failing(); i++)
		end_one(i % WAYS, &random, &took);
	ktap_diag("%u processes ended, which had taken %u references", i, took);
}
