/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The timing model. It charges every host_* call of a simulated task as a machine with
 * many sockets would, line by line. The task with the smallest clock always goes on. The
 * model ranks schemes and finds where they collapse, and on which line. It says nothing
 * of prefetching, turbo, TLBs, memory bandwidth or the scheduler. Caches have a size only
 * where a workload asks for it.
 *
 * All shared memory comes from host_alloc(); other memory is charged as a task's own.
 * The same machine, seed and tasks give the same numbers on every computer.
 *
 * One thread runs one world at a time.
 */
#ifndef LODIC_HOST_SIM_SIM_H
#define LODIC_HOST_SIM_SIM_H

#include "host/host.h"

#define SIM_MAX_CPUS 512u
#define SIM_MAX_SOCKETS 8u
#define SIM_MAX_NAMES 32u

/* A machine: topology and parameters, read from sim/topologies and sim/parameters.
 * Times are in cycles of cycle_ps picoseconds, unless their names end in _ns. */
struct sim_machine {
	char name[32];
	u32 nr_sockets, cpus_per_socket;
	u32 hops[SIM_MAX_SOCKETS][SIM_MAX_SOCKETS]; /* 0 same socket, 1, 2 */
	u32 cycle_ps;
	/* Indexed by hops. */
	u32 load_dirty[3];  /* the line is modified in another cache */
	u32 load_shared[3]; /* the line is clean in another cache */
	u32 rmw_dirty[3];   /* to own it for writing, from a modified copy */
	u32 rmw_shared[3];  /* the same, from clean copies */
	u32 load_memory
		[3]; /* no cache has it; by hops to the socket whose memory it is in */
	u32 hit;     /* a load that hits and overlaps with others */
	u32 hit_dep; /* a load that hits and must be waited for */
	u32 store, rmw_extra, fence;
	u32 relax;                /* one turn of a loop that waits */
	u32 copy_bytes_per_cycle; /* host_copy() of a private or cached source */
	u32 copy_overlap;         /* so many misses of a copy run at once */
	u32 hold_ns;              /* a line granted for writing stays so long */
	u32 shared_busy_ns; /* a clean line serves the next reader after so long */
	u32 queued_percent; /* a queued transfer costs this much of an unqueued one */
	u32 same_socket_percent; /* how often the next owner is sought on the same socket */
	u32 jitter_percent;      /* transfers and work vary by as much, either way */
	u32 fence_heavy_ns; /* host_fence_heavy() for its caller; others lose nothing */
	u32 skew_ns;        /* a CPU on its own lines may be so far ahead */
	u32 slice_ns,
		switch_ns; /* tasks of one CPU take turns, and what a turn costs */
	/* A CPU's own caches, and the one of a socket that has what they have. They forget the
	 * line that was used longest ago of a set of so many. Only if has_caches; otherwise
	 * caches are as large as all memory. */
	u32 private_kib, private_ways, shared_kib, shared_ways;
	bool has_caches;
	/* For workloads; the model does not look at it: cycles of a read that have nothing to
	 * do with counting. */
	u32 base_work;
};

/* What one line, or all lines of one name, cost. */
struct sim_line {
	char name[32];
	u64 transfers; /* a line moved between caches, or came from memory */
	u64 wait_ns;   /* tasks' time on it */
};

struct sim_result {
	u64 ops;       /* sim_op_done() calls of all tasks, inside the window */
	u64 accesses;  /* host_* calls in all, also before the window */
	double mops;   /* millions of ops per simulated second */
	u64 transfers; /* inside the window */
	u32 nr_lines;  /* of lines[] used; the last is "other": all that has no name */
	struct sim_line lines[SIM_MAX_NAMES];
};

/* Worlds that begin from now on have so many bytes of memory, and 1 GiB at least. If nobody asks
 * they have that. All earlier memory may be gone. false: there is no address space; ask again for
 * less. */
bool sim_memory(u64 bytes);

/* Begins a new world on machine (copied): all earlier memory and tasks are gone. */
void sim_begin(const struct sim_machine *machine, u64 seed);

/* A task on cpu. Tasks of one CPU take turns, a slice of slice_ns each; a body that
 * returns ends its task. arg stays the caller's. Returns the task's number. */
u32 sim_task(u32 cpu, void (*body)(void *), void *arg);

/* Calls tick(arg, cpu) on every CPU each period_ns, as a timer interrupt would: for
 * epochs. The tick comes at the end of a host_* call, and never while the task holds a
 * host_lock(). CPUs tick at different moments. */
void sim_every(u64 period_ns, void (*tick)(void *, u32), void *arg);

/* Gives all lines of [p, p + bytes) a name for sim_result. Names beyond
 * SIM_MAX_NAMES - 1 count as "other". p: from host_alloc(). */
void sim_name(const void *p, size_t bytes, const char *name);

/* Runs all tasks for warm_ns + window_ns of simulated time, then forgets them. */
void sim_run(u64 warm_ns, u64 window_ns, struct sim_result *ret_result);

/* ---- for tasks ---- */

void sim_work(u32 cycles); /* computing that touches no shared line */
void sim_sleep(u64 ns);    /* off the CPU */
void sim_op_done(void);    /* one operation of the workload is complete */
bool sim_stopping(void);   /* a body may return once this says true */
u32 sim_self(void);

#endif
