/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of host/check share: the world of one schedule, and the choices in it. */
#ifndef LODIC_HOST_CHECK_ENGINE_H
#define LODIC_HOST_CHECK_ENGINE_H

#include "host/check/check.h"
#include "host/check/footprint.h"
#include "host/check/history.h"
#include "host/fiber/fiber.h"

#define BUFFER_MAX 32u /* stores that a CPU can hold back */
/* Entities: what can be next. Tasks by their number, then a CPU's oldest store. */
#define ENTITY_MAX (CHECK_MAX_TASKS + CHECK_MAX_CPUS)
#define DRAIN_OF(cpu) (CHECK_MAX_TASKS + (cpu))
#define NOBODY ENTITY_MAX /* choose(): this schedule need not be finished */
#define CHOICES_MAX 8192u
#define NUMBERS_MAX 4096u
#define DRAWS_MAX 8u /* check_draw() */

struct step {
	u8 kind; /* enum step_kind */
	u8 entity, cpu;
	bool ok;   /* cas: done */
	u32 newer; /* load, failed cas: so many newer values there were */
	const void *p;
	u64 a, b, result;
};

enum task_state { TASK_READY, TASK_SPINNING, TASK_WAITING, TASK_DONE };

struct task {
	struct fiber *fiber;
	char name[24];
	void (*body)(void *);
	void *arg;
	bool (*ready)(void *); /* TASK_WAITING */
	void *ready_arg;
	u64 spins_until; /* TASK_SPINNING: so many steps are to be executed first */
	u32 nr_spins;    /* host_relax() calls in a row */
	u32 nr_steps, nr_steps_spin; /* since the last of them; between the last two */
	u32 cpu, first_cpu;
	u32 starts_at; /* faults: not before so many steps */
	u8 state;
	bool is_fault, begun;
	bool is_pinned; /* movers leave it where it is */
	bool stays;     /* preemption is off: it keeps its CPU */
	u32 moves_to;   /* a move that waits for that to end; its own CPU: none */
	bool disturbed; /* since its sequence began: it was moved, switched out or aborted */
};

struct store {
	u64 *p; /* the word, or the one that the byte lies in */
	u64 v, mask;
	bool is_release;
	u32 fences; /* release fences of its CPU before it */
	struct mark mark;
};

struct cpu {
	struct store buffer[BUFFER_MAX];
	u32 nr;
	u32 nr_light; /* of these, stored before the last light fence */
	u32 fences;   /* release fences so far */
	u32 last_task;
	u32 kept_by; /* the task that stays on it, or CHECK_MAX_TASKS: none does */
};

struct engine {
	struct task tasks[CHECK_MAX_TASKS];
	struct cpu cpus[CHECK_MAX_CPUS + CHECK_MAX_TASKS]; /* faults: one each */
	u32 nr_tasks, nr_cpus;
	u32 current;
	u32 alone_on; /* the CPU of setup() and finish() */
	enum check_memory memory;
	bool running, failed;
	bool movers;  /* of the search: engine_setup() adds them */
	u32 flip;     /* of the search: enum check_flip */
	bool cut;     /* choose() said NOBODY */
	u64 executed; /* steps in this schedule */
	u32 max_steps;
	char what[160];
	/* The strategy's choice: one of entities[0..nr), or NOBODY. */
	u32 (*choose)(const u32 *entities, u32 nr);
	/* For host_choose(), and for which store of a buffer is next: a number below n. */
	u32 (*choose_number)(u32 entity, u32 n);
	/* For check_draw(), before the first step: a number below n; drawn is the last one. */
	u32 (*choose_draw)(u32 drawn, u32 n);
	/* Under weak memory: how many newer values there are than the one that a load returns. */
	u32 (*choose_old)(u32 entity, u32 n);
	/* What was chosen, for replays. */
	u8 chosen[CHOICES_MAX];
	u32 nr_chosen;
	struct {
		u8 entity;
		u32 number;
	} numbers[NUMBERS_MAX];
	u32 nr_numbers;
	/* check_draw(): where to, below what, and this schedule's number. */
	struct {
		u64 *to;
		u32 n, drawn;
	} draws[DRAWS_MAX];
	u32 nr_draws;
	void (*aborted)(void); /* check_on_abort(); NULL: nobody asks */
	/* check_refuse(), and how many of these were in this schedule. */
	u32 refuse_most[CHECK_REFUSALS], nr_refused[CHECK_REFUSALS];
	/* Exhaustive search: what the step that now ends has touched. */
	struct footprint foot;
	void (*stepped)(const struct footprint *foot); /* NULL: nobody asks */
	/* When tracing. */
	void (*seen)(const struct step *s);
	void (*noted)(const char *text);
};

extern struct engine engine;

/* engine.c: one schedule from the snapshot to its end, finish() included. true: no rule
 * was broken. */
bool engine_schedule(const struct check_scenario *s);
void engine_setup(const struct check_scenario *s);
/* access.c: does such a call of the running task fail? */
bool access_refused(enum check_refusal what);
/* Ends the schedule. In finish() and setup() too it does not return. */
_Noreturn void engine_fail(const char *what);
/* A scheduling point of the running task; on return it is its turn. */
void engine_point(void);
/* check_migrate(), by core's number of the CPU. */
void engine_migrate(u32 task, u32 cpu);
void engine_spin(void); /* before the point of a host_relax() */

/* access.c. A number below n, drawn and noted for a replay. */
u32 access_choose_for(u32 entity, u32 n);
u32 access_choose_old(u32 n);
void access_commit(const struct store *s); /* to memory */
void access_seen(const struct step *s);
/* A CPU goes from one task to another, or a task from its CPU. Either is a full fence. */
void access_switch(u32 cpu, u32 from, u32 to);

/* buffer.c. Has this CPU one? Those of faults have none. */
bool buffer_has(u32 cpu);
void buffer_reset(u32 cpu);
void buffer_add(u32 cpu, const struct store *s);
u64 buffer_overlay(u32 cpu, const u64 *p, u64 v); /* v as the CPU sees it */
bool buffer_has_word(u32 cpu, const u64 *p);
void buffer_drain_one(u32 cpu);
void buffer_drain_all(u32 cpu);
void buffer_drain_heavy(u32 cpu);
void buffer_fence_release(u32 cpu);
void buffer_fence_light(u32 cpu);

/* memory.c */
void memory_reset(void);    /* before setup() */
void memory_snapshot(void); /* after it */
void memory_restore(void);
/* May [p, p + n) be touched? Else the schedule fails. */
void memory_check(const void *p, size_t n, const char *verb);
void memory_check_word(const void *p, const char *verb);
bool memory_is_shared(const void *p);
const char *memory_name(const void *p, char *buffer, size_t n);
/* Has anything changed, but for what was accepted, since the last call? */
void memory_watch(bool on);
bool memory_has_changed(void);
void memory_accept(const u64 *p);

#endif
