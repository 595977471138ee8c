/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See settle.h. */
#include "check/whole/settle.h"

#include <stdio.h>
#include <string.h>

#include "check/whole/said.h"
#include "lib/look.h"
#include "lib/port.h"

#define NS_PER_S ((u64)1000000000)
/* Faults may delay programs for so long; then they stop, and it is time to come to an end. A call
 * that a fault delays takes 15 minutes at most. */
#define PATIENCE_NS (6 * 3600 * NS_PER_S)
#define DELAY_NS (1000 * NS_PER_S)
/* Thirty pauses of a file (pause.h) of a second each, and the retries. */
#define CACHED_NS (120 * NS_PER_S)
#define ATTACH_NS (60 * NS_PER_S)
#define LEAVES_NS (60 * NS_PER_S)
/* As lib/client/misuse.c has it. */
#define MOST_KEPT 16u
/* Refusals of files that the service could not open: it knows them by their paths. */
#define MOST_PATHS (WORLD_FILES + 3)
/* As lib/service/base/worker.h has it. */
#define MOST_WORKERS 18u
/* As lib/service/base/worker.c has it: then nobody waits any more for a worker. */
#define STOP_NS (NS_PER_S / 5)
/* Watches, and an event that the thread can do without. */
#define MOST_LATE 2u
#define NR_ANY (UINT32_MAX / 2)
#define POLL_NS (NS_PER_S / 2)

static struct {
	bool expected[MACHINE_MOST_PROCESSES + 1], here[MACHINE_MOST_PROCESSES + 1];
	bool open;
	struct waiters waiters;
	struct process *service; /* the last one that has started */
	struct settle_has fresh; /* what it had then */
	u64 idle_ns;             /* how long it stays without programs; 0: for ever */
	bool faulty;
	u64 stops_ns[MACHINE_MOST_PROCESSES + 1]; /* when it began to end */
} settle;

/* A call may take very long. */
static bool settle_is_slow(void)
{
	return machine.rate[FAULT_DELAY] > 0 || machine.rate[FAULT_HANG] > 0;
}

struct settle_has settle_look(const struct process *process)
{
	struct settle_has has = { .nr_blocks = heap_nr(process),
		                  .nr_mappings = mappings_nr(process),
		                  .nr_tasks = process->nr_tasks };

	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		has.nr_fds += process->fds[i] != NULL;
	return has;
}

static void settle_compare(const struct process *process,
                           const struct settle_has *before, const char *when)
{
	struct settle_has now = settle_look(process);
	/* What a fault has kept from going stays for good. */
	u32 most_mappings = before->nr_mappings + (u32)machine.nr_failed[CALL_UNMAP];

	if (now.nr_blocks <= before->nr_blocks && now.nr_fds <= before->nr_fds &&
	    now.nr_mappings <= most_mappings && now.nr_tasks <= before->nr_tasks)
		return;
	machine_fail("%s %s has %u blocks, %u descriptors, %u mappings, %u threads; "
	             "not %u, %u, %u, %u",
	             process->name, when, now.nr_blocks, now.nr_fds, now.nr_mappings,
	             now.nr_tasks, before->nr_blocks, before->nr_fds,
	             most_mappings, before->nr_tasks);
}

void settle_given_back(const struct settle_has *before)
{
	settle_compare(process_now(), before, "at its end");
}

void settle_service_stops(void)
{
	settle.stops_ns[process_now()->number] = machine.now_ns;
}

void settle_service_ends(const struct settle_has *before)
{
	u64 until = machine.now_ns + DELAY_NS;
	struct settle_has most = *before;

	/* It may have left a worker alone, or a read, with what that had. It may have been stopped
	 * for that long, too. */
	if ((settle_is_slow() || world.servers || machine.read_ms > 0 ||
	     machine.rate[FAULT_STOP] > 0) &&
	    machine.now_ns >= settle.stops_ns[process_now()->number] + STOP_NS)
		most.nr_blocks = most.nr_fds = most.nr_mappings = NR_ANY;
	while (process_now()->nr_tasks > before->nr_tasks && machine.now_ns < until)
		task_wait(NULL, machine.now_ns + NS_PER_S / 8);
	/* A resize was under way, or a worker: the end of the process ends that. */
	if (process_now()->nr_tasks > before->nr_tasks)
		return;
	/* What others have sent: to close it may wait, and the end of the process does that. */
	for (u32 i = 0; most.nr_fds != NR_ANY && i < MACHINE_MOST_FDS; i++)
		most.nr_fds += process_now()->fds[i] && (process_now()->received[i] ||
		                                         fd_file_is(process_now()->fds[i]));
	if (heap_nr_lost(process_now()) > before->nr_blocks)
		machine_fail("%s has %u blocks to which nothing leads", process_now()->name,
		             heap_nr_lost(process_now()));
	settle_given_back(&most);
}

void settle_given_back_but(const struct settle_has *before, u32 nr_closed)
{
	struct settle_has most = *before;

	most.nr_blocks += (nr_closed < MOST_KEPT ? nr_closed : MOST_KEPT) + 1;
	settle_given_back(&most);
}

void settle_service_starts(u64 idle_ms)
{
	settle.idle_ns = idle_ms * NS_PER_S / 1000;
	settle.service = process_now();
	settle.fresh = settle_look(process_now());
	settle.faulty = machine.nr_faults[FAULT_ERRNO] > 0;
}

/* ---- readers ---- */

void settle_expect(struct process *process)
{
	settle.expected[process->number] = true;
}

void settle_here(void)
{
	settle.here[process_now()->number] = true;
	while (!settle.open)
		task_wait(&settle.waiters, NS_NEVER);
}

static u64 settle_hits(const struct lodic_context *context)
{
	struct lodic_context_stat stat = { 0 };

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat.hits;
}

void settle_file(struct lodic_context *context, const struct world_open *open)
{
	u64 until = machine.now_ns + CACHED_NS, hits = settle_hits(context);
	int why = 0;

	while (settle_hits(context) == hits) {
		why = lodic_file_cached(open->file);
		said_cached(why);
		if (world_bytes(open) == 0 || (world.few_files && why == -ENFILE))
			break;
		if (machine.now_ns > until)
			machine_fail("%s is not cached for so long: %d",
			             world_path(open), why);
		world_read(context, open);
		port_sleep(20000000);
	}
	world_compare(context, open);
}

/* ---- the auditor ---- */

static struct process *settle_missing(void)
{
	for (u32 i = 0; i < machine.nr_processes; i++) {
		struct process *p = &machine.processes[i];

		if (settle.expected[p->number] && !p->dead && !settle.here[p->number])
			return p;
	}
	return NULL;
}

static bool settle_stopped(void)
{
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (machine.processes[i].resume)
			return true;
	return false;
}

static void auditor_waits(void)
{
	u64 until = machine.now_ns + PATIENCE_NS;
	bool delays = settle_is_slow();

	while (settle_missing()) {
		if (machine.now_ns > until && machine.faults_end)
			machine_fail("%s does not come to an end", settle_missing()->name);
		if (machine.now_ns > until) {
			machine.faults_end = true;
			until = machine.now_ns + PATIENCE_NS;
		}
		task_wait(NULL, machine.now_ns + POLL_NS);
	}
	machine.faults_end = true;
	machine_note("faults have ended");
	if (delays)
		task_wait(NULL, machine.now_ns + DELAY_NS);
	while (settle_stopped())
		task_wait(NULL, machine.now_ns + POLL_NS);
}

static struct lodic *auditor_attaches(void)
{
	u64 until = machine.now_ns + ATTACH_NS;
	struct lodic *lodic;
	int err;

	do {
		err = world_attach(&lodic);
		if (!err)
			return lodic;
		port_sleep(POLL_NS);
	} while (machine.now_ns < until);
	machine_fail("nobody can attach: %d", err);
}

/* false: its path leads nowhere. What faults have caused may take its time to go. */
static bool auditor_opens(struct lodic *lodic, const char *path, struct world_open *ret_open)
{
	u64 until = machine.now_ns + CACHED_NS;

	while (files_find(path)) {
		if (world_open(lodic, path, ret_open))
			return true;
		if (machine.now_ns > until)
			machine_fail("nobody can open %s", path);
		port_sleep(POLL_NS);
	}
	return false;
}

/* A service knows when a context is over: soon it has no more of them than programs have. Where a
 * call has failed that asks for the users of its memory, it stays until its program ends. */
static void auditor_counts(struct lodic *lodic)
{
	u64 until = machine.now_ns + LEAVES_NS, most;
	struct lodic_stat stat = { 0 };
	int err;

	do {
		port_sleep(POLL_NS);
		err = lodic_stat(lodic, &stat, sizeof(stat));
		most = world_nr_contexts() + machine.nr_failed[CALL_MEMORY_CLAIM] +
		       machine.nr_failed[CALL_MEMORY_AGAIN];
	} while ((err || stat.contexts > most) && machine.now_ns < until);
	if (err || stat.contexts > most)
		machine_fail("programs have %u contexts, and the service has %llu: %d",
		             world_nr_contexts(), (unsigned long long)stat.contexts, err);
}

static void auditor_reads(struct lodic *lodic)
{
	struct lodic_context *context;
	struct world_open open;
	int err = world_context_open(lodic, &context);

	if (err)
		machine_fail("nobody can have a context: %d", err);
	for (u32 i = 0; i < WORLD_FILES; i++) {
		if (!auditor_opens(lodic, world_paths[i], &open))
			continue;
		settle_file(context, &open);
		lodic_close(open.file);
	}
	world_context_close(context);
}

/* Has the service left meanwhile? It may do so at any time, as nobody is connected. */
static bool auditor_is_late(int err)
{
	if (err != -ECONNRESET)
		return false;
	port_sleep(POLL_NS);
	return settle.service->dead;
}

/* Nobody else is connected, and the service has let all files go: it is as after its start. */
static void auditor_looks(void)
{
	u64 until = machine.now_ns + LEAVES_NS;
	struct settle_has fresh = settle.fresh;
	struct look_dropped dropped = { 0 };
	struct lodic_stat stat;
	struct look *look;
	int pid, err;

	err = look_open(WORLD_SOCKET, &look, &pid);
	if (err)
		machine_fail("nobody can look at the service: %d", err);
	do {
		err = look_drop(look, 0, LOOK_ALL, &dropped);
		if (auditor_is_late(err)) {
			look_close(look);
			return;
		}
		if (err)
			machine_fail("the service drops nothing: %d", err);
		port_sleep(POLL_NS);
	} while ((dropped.busy || dropped.pinned) && machine.now_ns < until);
	err = look_stat(look, &stat);
	if (err || stat.hold_used_bytes > 0)
		machine_fail("nobody is there, and holds have %llu bytes: %d",
		             (unsigned long long)stat.hold_used_bytes, err);
	if (dropped.busy || (dropped.pinned && !world.leaks_pins))
		machine_fail("the service has let go all, and %llu are pinned, %llu busy",
		             (unsigned long long)dropped.pinned,
		             (unsigned long long)dropped.busy);
	look_close(look);
	port_sleep(POLL_NS);
	/* It remembers the paths of files that it had, and its workers wait for work. What a fault
	 * has kept it from making at its start it has made since. */
	if (settle.faulty || world.few_fds)
		fresh.nr_fds += MOST_LATE;
	fresh.nr_blocks += world_nr_files() + MOST_PATHS;
	fresh.nr_tasks += MOST_WORKERS;
	if (!settle.service->dead)
		settle_compare(settle.service, &fresh, "with nobody");
}

/* Nobody is connected any more, and no file is kept. A resize that ends begins its time anew. */
static void auditor_sees_it_leave(u64 since_ns)
{
	u64 until = since_ns + 2 * settle.idle_ns + NS_PER_S / 4;

	while (!settle.service->dead && !settle.stops_ns[settle.service->number] &&
	       machine.now_ns < until)
		task_wait(NULL, machine.now_ns + NS_PER_S / 64);
	if (!settle.service->dead && !settle.stops_ns[settle.service->number])
		machine_fail("%s is idle, and stays", settle.service->name);
}

static void auditor_run(void *arg)
{
	struct lodic *lodic;
	u64 until;

	(void)arg;
	auditor_waits();
	lodic = auditor_attaches();
	settle.open = true;
	waiters_wake(&settle.waiters);
	auditor_reads(lodic);
	auditor_counts(lodic);
	lodic_detach(lodic);
	until = machine.now_ns + PATIENCE_NS;
	for (u32 i = 0; i < machine.nr_processes; i++)
		while (settle.expected[i + 1] && !machine.processes[i].dead)
			if (!task_wait(&machine.processes[i].ended, until))
				machine_fail("%s does not end", machine.processes[i].name);
	if (settle.service && !settle.service->dead)
		auditor_looks();
	until = machine.now_ns;
	if (settle.service && settle.idle_ns > 0)
		auditor_sees_it_leave(until);
}

void settle_begin(void)
{
	memset(&settle, 0, sizeof(settle));
	process_start("auditor", WORLD_USER, auditor_run, NULL);
}

void settle_end(void)
{
	const char *waits = NULL;

	for (u32 i = 0; i < machine.nr_processes; i++)
		if (!machine.processes[i].dead)
			waits = machine.processes[i].name;
	if (machine.failed || (!waits && machine.nr_descriptions == 0))
		return;
	machine.failed = true;
	if (waits)
		snprintf(machine.what, sizeof(machine.what), "%s waits for ever", waits);
	else
		snprintf(machine.what, sizeof(machine.what), "%u descriptions are left",
		         machine.nr_descriptions);
}
