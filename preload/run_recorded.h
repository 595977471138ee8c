/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The file that `lodic run --record` writes, and that `lodic-sim tier --trace` reads: what a
 * program and its children did to files. doc/tier-trace.md describes it.
 *
 * The command makes the file, with a head and room for so many events. Each process maps it. An
 * event takes the next place, by an atomic addition to the head, and is complete once its word
 * `who' is not 0. So a process that is killed leaves all that it has done before.
 */
#ifndef LODIC_PRELOAD_RUN_RECORDED_H
#define LODIC_PRELOAD_RUN_RECORDED_H

#include <stdint.h>

#define RECORDED_MAGIC "LODICRU1"
#define RECORDED_HEAD_BYTES 4096u

enum recorded_op {
	RECORDED_NOTHING, /* the process ended before it had filled the place */
	RECORDED_PROCESS, /* a program begins in it, or it is a child; it has nothing open */
	RECORDED_END, /* of the process, or of what the shim may see of it */
	RECORDED_OPEN,
	RECORDED_CLOSE,
	RECORDED_READ,
	RECORDED_NR_OPS
};

/* In the first bytes of the file. */
struct recorded_head {
	char magic[8];
	uint32_t event_bytes; /* sizeof(struct recorded) */
	uint32_t nr_cpus;     /* of the machine */
	uint64_t room;        /* events */
	uint64_t nr;          /* taken, which may be above room; atomic */
	uint64_t nr_threads;  /* atomic */
	uint64_t ended; /* not 0: the record ended before the programs did; atomic */
};

#define RECORDED_NO_ROOM 1u /* of head.ended: room events are there */
#define RECORDED_NO_DISK 2u /* the file system is full */

struct recorded {
	uint64_t file; /* a number that no other file has; 0: the event is about none */
	uint64_t offset; /* of READ */
	uint32_t bytes;  /* of READ */
	uint32_t
		cpu_ns; /* CPU time of the thread since its event before, up to the read */
	uint64_t who; /* recorded_who() */
};

static inline uint64_t recorded_who(uint32_t pid, uint16_t thread, enum recorded_op op)
{
	return (uint64_t)pid | (uint64_t)thread << 32 | (uint64_t)op << 48;
}

#endif
