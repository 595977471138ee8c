/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the parts of the timing model know of each other. engine.c keeps the clocks and
 * decides which task runs. events.h says which event is the next. lines.c says what an
 * access costs. caches.c forgets lines. memory.c hands out memory and knows each line's
 * place. Other folders use only sim.h and host/host.h.
 *
 * Times are in picoseconds since the beginning of the world.
 */
#ifndef LODIC_HOST_SIM_ENGINE_H
#define LODIC_HOST_SIM_ENGINE_H

#include "host/random.h"
#include "host/sim/events.h"
#include "host/sim/sim.h"

struct fiber;
struct cpu;

#define PS_PER_NS 1000u
#define LINE_BYTES 64u
#define NO_CPU 0xffffu
#define NAME_OTHER 0u

/* ---- lines ---- */

enum line_state {
	LINE_IN_MEMORY,
	LINE_SHARED, /* clean, in the caches of the CPUs in its bitmap */
	LINE_OWNED,  /* in one cache, which may write it */
};

struct line {
	u64 free_at; /* another CPU cannot have it before */
	u16 *queue;  /* CPUs that wait for it; NULL until the first does */
	u16 nr_queued;
	u16 owner;   /* LINE_OWNED */
	u16 toucher; /* the only CPU that ever used it, or NO_CPU: several did */
	u8 state;
	u8 sockets; /* which hold copies; LINE_SHARED */
	u8 name;
	u8 home; /* the socket whose memory it is in: that of the first CPU to use it */
	bool touched;
	bool due; /* an event for it is in the heap */
};

/* Serves the next CPU in l's queue, at the time now. */
void line_serve(u32 line, u64 now);

/* cpu's own caches have forgotten the line; its socket's has it. */
void line_forget(u32 line, const struct cpu *cpu);
/* No cache of the socket has the line any more. */
void line_forget_socket(u32 line, u32 socket);

/* ---- caches ---- */

/* Only if the machine has caches. cpu has used a line that it has; came: the line was not in
 * its own caches before. Another line may have to go. */
void caches_use(u32 line, const struct cpu *cpu, bool came);
/* cpu is about to use the line. Changes nothing but the time that caches_use() takes. */
void caches_expect(u32 line, const struct cpu *cpu);
void caches_reset(void);

/* ---- memory ---- */

struct engine_arena {
	u8 *bytes;
	u64 used, room;
	struct line *lines;
	u64 *sharers; /* one bit per CPU, so many words a line */
	u32 sharer_words;
};
extern struct engine_arena
	engine_arena; /* only memory.c writes it, but for what is in lines */

/* The line of p, or NULL if p is not from host_alloc(). */
static inline struct line *engine_line(const void *p, u32 *ret_number)
{
	u64 at = (u64)((uintptr_t)p - (uintptr_t)engine_arena.bytes);

	if (at >= engine_arena.used)
		return NULL;
	*ret_number = (u32)(at / LINE_BYTES);
	return &engine_arena.lines[at / LINE_BYTES];
}

static inline struct line *engine_line_at(u32 number)
{
	return &engine_arena.lines[number];
}

/* One bit per CPU. */
static inline u64 *engine_sharers(u32 number)
{
	return &engine_arena.sharers[(u64)number * engine_arena.sharer_words];
}

/* Address space, at place unless that is NULL or taken. All bytes are 0. NULL: there is
 * none. */
void *memory_reserve(void *place, u64 bytes);
void memory_reset(u32 nr_cpus);
/* A queue with room for every CPU, until memory_reset(). */
u16 *memory_queue(void);
const char *memory_name(u32 name);
u32 memory_nr_names(void);

/* ---- clocks ---- */

struct task {
	struct fiber *fiber;
	void (*body)(void *);
	void *arg;
	struct task *next; /* in its CPU's queue */
	struct cpu *cpu;
	u32 number;
	u32 nr_locks;   /* that it holds, and 1 while preemption is off */
	u32 nr_relaxed; /* turns of waiting since it was last switched to */
	u32 timer;      /* 1 + the timer whose ticks it does; 0: an ordinary task */
	bool idle;      /* such a task: between two ticks */
};

struct cpu {
	u64 clock;
	u64 slice_end;
	struct task *running; /* NULL: idle, and no event of the CPU's is in the heap */
	struct task *last;
	struct task *first_ready; /* waiting for their turn */
	struct task *first_tick;  /* ticks: they go before others */
	u32 number;
	u32 socket;
	/* While it waits for a line. */
	u64 waits_since;
	enum sim_access waits_for;
};

struct world {
	struct sim_machine machine;
	u64 random;
	u64 warm_end, end;
	u64 accesses, ops;
	u64 transfers[SIM_MAX_NAMES], wait_ps[SIM_MAX_NAMES];
	u32 nr_cpus;
	struct cpu cpus[SIM_MAX_CPUS];
};
extern struct world world;
extern struct events engine_events; /* only engine.c writes it */

static inline struct cpu *engine_cpu(void)
{
	return engine_current->cpu;
}

static inline u64 engine_cycles_ps(u32 cycles)
{
	return (u64)cycles * world.machine.cycle_ps;
}

/* A number below n, from the world's seed. */
static inline u32 engine_random(u32 n)
{
	return (u32)(random_next(&world.random) % n);
}

/* ps, more or less by jitter_percent. */
static inline u64 engine_jitter(u64 ps)
{
	u64 spread = ps * world.machine.jitter_percent / 100;

	return spread ? ps - spread + random_next(&world.random) % (2 * spread + 1)
	              : ps;
}

/* The CPU does nothing until its clock shows at, which is not in the past. */
void engine_until(u64 at);
/* Returns when no other CPU's clock is behind the caller's by more than skew_ps. With
 * 0, the caller's next step is in exact order. */
static inline void engine_order(u64 skew_ps)
{
	u64 clock = engine_cpu()->clock;

	if (clock > engine_events.first_at + skew_ps)
		engine_until(clock);
}

/* The CPU does nothing until engine_continue() is called for it. */
void engine_wait(void);
void engine_continue(struct cpu *cpu, u64 at);
/* Calls line_serve(line, at) at that time. */
void engine_line_due(u32 line, u64 at);
/* There is another task or a tick on this CPU: it runs if its turn has come. */
void engine_preempt_now(void);
/* Called before each access. It lets a tick, or the CPU's next task, run when its turn
 * has come. */
static inline void engine_preempt(void)
{
	const struct cpu *cpu = engine_cpu();

	if (cpu->first_ready || cpu->first_tick)
		engine_preempt_now();
}

/* The running task gives its CPU to another task that is ready, if there is one. */
void engine_give_way(void);

#endif
