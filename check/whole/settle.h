/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The end of a run, and what must hold there.
 *
 * Given back: what has ended has left nothing. The service and each reader look at their own
 * process before it ends, and an auditor looks at the service while nobody is connected.
 * Liveness: once faults have stopped, each reader gets its bytes from the cache again, in bounded
 * virtual time. Nobody waits for ever.
 */
#ifndef LODIC_CHECK_WHOLE_SETTLE_H
#define LODIC_CHECK_WHOLE_SETTLE_H

#include "check/whole/world.h"

/* Before anybody runs. */
void settle_begin(void);
/* The auditor waits for this program: it dies, or comes to settle_here(). */
void settle_expect(struct process *process);
/* The running program has done its work. Returns when all have, and faults have stopped. */
void settle_here(void);
/* The file comes from the cache again, and its bytes are as they are. */
void settle_file(struct lodic_context *context, const struct world_open *open);
/* What a process has. */
struct settle_has {
	u32 nr_blocks, nr_fds, nr_mappings, nr_tasks;
};
struct settle_has settle_look(const struct process *process);
/* The running process has no more than that; or the run fails. Of a program of liblodic: a debug
 * build keeps the last objects that were closed, and what a thread is told of its last error. */
void settle_given_back(const struct settle_has *before);
void settle_given_back_but(const struct settle_has *before, u32 nr_closed);
/* As a service has started: nobody has asked it for anything. It leaves after so long without
 * programs; 0: never. */
void settle_service_starts(u64 idle_ms);
/* It serves no more, and ends. */
void settle_service_stops(void);
/* The same for a service. It does not wait for ever for a worker that a file system keeps. Such a
 * worker goes by itself, and what it was at goes with the process. */
void settle_service_ends(const struct settle_has *before);
/* The machine has stopped: nobody waits for ever, and nothing is left. */
void settle_end(void);

#endif
