/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the scenarios of the whole product share: programs, files, and what a reader may see. */
#ifndef LODIC_CHECK_WHOLE_WORLD_H
#define LODIC_CHECK_WHOLE_WORLD_H

#include "host/whole/files.h"
#include "lodic/lodic.h"

#define WORLD_USER 1000u
#define WORLD_SOCKET "/run/cache.sock"
#define WORLD_FILES 4u

struct world {
	bool wide; /* the run draws more of everything: settings, readers */
	u64 nr_reads, nr_pins, nr_services;
	u64 cache_bytes[MACHINE_MOST_PROCESSES + 1]; /* of a service, by its number */
};
extern struct world world;

/* A machine with files, and nobody who reads them yet. */
void world_begin(u64 seed);
/* A program that reads files by liblodic, nr_rounds times, and checks each byte. */
struct process *world_reader(u32 nr_rounds);
/* A program that writes to them now and then. */
struct process *world_writer(u32 nr_rounds);
/* A program that renames one of them, and back, and changes a file of its own. At most one. */
struct process *world_mover(u32 nr_rounds);

#endif
