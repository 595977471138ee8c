/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The checker's host: it runs a scenario under many schedules and looks for one that breaks
 * a rule. The program lodic-check (check/) brings the scenarios.
 *
 * A scenario is a few tasks on a few CPUs. Each host_* call of a task is a scheduling
 * point; between two of them a task runs alone. The same options give the same schedules
 * and the same traces, on every machine and in every run.
 *
 * Memory. Everything that tasks share comes from host_alloc(), in setup() or later. The
 * checker keeps a copy of it as setup() left it, and puts that back before each schedule.
 * Hence setup() runs once, and a scenario may keep addresses, but no changing state, in
 * its own variables. Plain accesses to that memory are no scheduling points and bypass the
 * store buffers: setup(), finish(), oracles and bookkeeping may use them, core may not.
 */
#ifndef LODIC_HOST_CHECK_CHECK_H
#define LODIC_HOST_CHECK_CHECK_H

#include <stdio.h>

#include "host/host.h"

#define CHECK_MAX_TASKS 16u
#define CHECK_MAX_CPUS 8u

/* Each allows what those before it allow, and more (doc/check.md). */
enum check_memory { CHECK_SC, CHECK_TSO, CHECK_PSO, CHECK_WEAK };
#define CHECK_MEMORIES 4u
enum check_strategy { CHECK_RANDOM, CHECK_PCT3, CHECK_PCT4, CHECK_EXHAUSTIVE };

/* Another scenario with the same rules: what its author chose where any choice would do. Bits. */
enum check_flip {
	CHECK_FLIP_CPU = 1, /* CPUs are numbered from the last one */
	CHECK_FLIP_ORDER =
		2, /* so are the entities that can be next, and contexts join so */
	CHECK_FLIP_DRAWS =
		4, /* check_draw() gives what is left to the highest number */
	CHECK_FLIP_ALL = 7
};

struct check_scenario {
	const char *name;
	u32 nr_cpus;
	const void *arg; /* for setup() and finish(): which scheme, how many readers */
	/* Makes the world and its tasks. Runs once, alone. */
	void (*setup)(const void *arg);
	/* After every schedule, alone, with all tasks done or killed and all store buffers
	 * empty: what must hold then, leaks included. */
	void (*finish)(const void *arg);
};

struct check_options {
	enum check_strategy strategy;
	enum check_memory memory;
	u64 seed;
	u64 nr_schedules;     /* at most; exhaustive may end earlier, complete */
	u32 preemption_bound; /* exhaustive only */
	/* Faults move tasks to other CPUs (host/check/mover.c); not in an exhaustive search. */
	bool movers;
	u32 flip;      /* enum check_flip: bits */
	u32 max_steps; /* per schedule; more is reported as a livelock. 0: a default */
	u64 only;      /* 0, or: run the one schedule with this number + 1 (replay) */
	bool trace;    /* print what happens in it; only with only */
	bool every_order; /* exhaustive: also orders of steps that do not meet */
	FILE *out;        /* where interleavings go; NULL: stderr */
};

struct check_result {
	u64 schedules;  /* run */
	u64 steps;      /* in all of them */
	u64 violations; /* 0 or 1: the first one ends the search */
	u64 schedule;   /* number of the schedule that broke the rule */
	bool complete;  /* exhaustive: nothing is left to try within the bound */
	char what[160]; /* which rule, where */
	/* Exhaustive: schedules, of those run, that were left unfinished, because they
	 * differ from others only in the order of steps that do not meet. */
	u64 cut;
};

/* Searches, and fills in the result. On a violation the interleaving is shortened and
 * printed to o->out, unless quiet. */
void check_run(const struct check_scenario *s, const struct check_options *o,
               bool quiet, struct check_result *ret_result);

/* ---- for setup() ---- */

/* A task that starts on cpu; returns its number. Tasks of one CPU take turns on it, and a
 * switch between two of them empties the CPU's store buffer. */
u32 check_task(const char *name, u32 cpu, void (*body)(void *), void *arg);

/* A fault: a task that does not compete from the first step on. It begins at a moment drawn
 * anew for each schedule, anywhere in it. It runs on a CPU of its own with no store buffer
 * (what it does is the kernel's doing). */
u32 check_fault(const char *name, void (*body)(void *), void *arg);

/* Movers leave this task on its CPU; check_migrate() does not. For a task whose place is a rule
 * of the scenario, and the scenario must say which. */
void check_pin_task(u32 task);

/* For what a scenario need not decide, as which task counts by atomics. *to, in memory of
 * host_alloc(), is a number below n at the beginning of each schedule. It is drawn from the seed
 * and the schedule's number alone. An exhaustive search tries all. */
void check_draw(u64 *to, u32 n);

/* setup() and finish() run on this CPU from now on; first on CPU 0. */
void check_alone_on(u32 cpu);

/* Calls aborted() at each host_fence_abort() from now on, as a part of that step. It looks by
 * plain accesses. */
void check_on_abort(void (*aborted)(void));

/* A fault: from now on at most so many such calls fail in each schedule. Which ones is drawn. In
 * setup() and finish() none fails. */
enum check_refusal {
	CHECK_NO_FENCE,  /* host_fence_abort() is no fence, and returns false */
	CHECK_NO_MEMORY, /* host_alloc() returns NULL */
	CHECK_REFUSALS
};
void check_refuse(enum check_refusal what, u32 most);

/* Names words for traces: "frame[2].seq". Format as printf's. */
void check_name(const void *p, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- for tasks, faults and oracles ---- */

/* The running task's number. */
u32 check_self(void);

/* Ends a task between two of its steps, as SIGKILL does; what is in its CPU's store buffer
 * still reaches memory. No effect on a task that is done. With preemption off a task cannot
 * be killed, so that is an error. */
void check_kill(u32 task);

/* Moves a task to another CPU; its old CPU's store buffer is emptied first. If the task has
 * switched preemption off, it moves when it switches it on again. */
void check_migrate(u32 task, u32 cpu);

/* What CPU number cpu of the scenario is for core. check_task(), check_alone_on() and
 * check_migrate() take the scenario's own numbers. */
u32 check_cpu(u32 cpu);
bool check_is_flipped(enum check_flip flip);

/* The CPU that a task is on, as core knows it; for plain looks, as those of check_wait(). */
u32 check_cpu_of(u32 task);

/* Has the task ended, by itself or by a kill? */
bool check_is_done(u32 task);

/* Blocks the task until ready(arg), which looks by plain accesses. If that never comes true
 * and nothing else can run, it is a deadlock, which is a violation. */
void check_wait(bool (*ready)(void *), void *arg);

/* From now on a host_* access to [p, p + n) is a use after free, until check_revive().
 * host_free() does the same for good. */
void check_poison(const void *p, size_t n);
void check_revive(const void *p, size_t n);

/* Bytes, in whole lines, that host_alloc() has given and host_free() has not got back. */
u64 check_allocated(void);

/* A lock, a message or a system call orders what oracles and worlds do by plain accesses. Before
 * it tells others something, a task calls check_tell(): a full fence of its own. A task that has
 * been told calls check_told(): it knows all that is in memory by now. check_wait() does so. */
void check_tell(void);
void check_told(void);

/* host_load_relaxed() of what the caller holds. No memory here lets a store go before a load of its
 * own task, but arm64 does. There others may see that a task has given back before it has loaded.
 * So under weak memory a task that stores to the word later must know of this load. */
u64 check_load_held(const u64 *p);

/* A line of the trace, in the running task's column. Costs nothing when not tracing. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A rule is broken; does not return to the task. */
#define CHECK_ASSERT(condition, what) \
	do { \
		if (!(condition)) \
			host_fail(what, __FILE__, __LINE__); \
	} while (0)

#endif
