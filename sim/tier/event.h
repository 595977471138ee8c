/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program and its kernel do to memory, as a stream of events. Generators
 * (sim/tier/work.h) and traces (sim/tier/trace.h) are sources of them. A source gives one event
 * after the other, and nobody holds all of them in memory.
 */
#ifndef LODIC_SIM_TIER_EVENT_H
#define LODIC_SIM_TIER_EVENT_H

#include "host/host.h"

enum tier_op {
	TIER_OPEN,   /* of file; a new one gets its knode */
	TIER_CLOSE,  /* of file */
	TIER_UNLINK, /* file is gone when nobody has it open, and its objects with it */
	TIER_ADD,    /* an object of file begins: kind, index, bytes */
	TIER_READ, /* bytes of it are read; a frame that is not there comes from storage */
	TIER_WRITE,   /* bytes of it are written; a frame that is not there begins */
	TIER_REMOVE,  /* it ends; nothing happens if it is not there */
	TIER_COMPUTE, /* bytes ns on the CPU, without memory */
	TIER_TASK,    /* what ran on cpu goes on on CPU index */
	TIER_MEASURE, /* what came before was preparation */
	TIER_NR_OPS
};

/* 16 bytes, which are also the record of a trace file (doc/tier-trace.md). */
struct tier_event {
	u16 cpu;
	u8 op;     /* enum tier_op */
	u8 kind;   /* enum kloc_kind */
	u32 file;  /* 0: memory of programs, kind KLOC_APP */
	u32 index; /* of the object among those of its file and kind */
	u32 bytes; /* of ADD: its size; of READ and WRITE: how many are touched */
};

#define TIER_MAX_CPUS 256u

struct tier_source {
	const char *name;
	u32 nr_cpus;    /* cpu is below; at most TIER_MAX_CPUS */
	u32 os_percent; /* a program's time in the kernel; 0: it has no time of its own */
	u32 nr_cpus_busy; /* on how many CPUs it runs at a time */
	/* 1 and an event; 0: no more. -errno, and has said why. */
	int (*next)(struct tier_source *source, struct tier_event *ret_event);
	void (*close)(struct tier_source *source);
};

#endif
