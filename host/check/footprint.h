/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What one step touched, so that a search can tell which steps do not meet. */
#ifndef LODIC_HOST_CHECK_FOOTPRINT_H
#define LODIC_HOST_CHECK_FOOTPRINT_H

#include "host/host.h"

#define FOOTPRINT_RANGES 4u
#define FOOTPRINT_NO_CPU 31u

/* A step: the access, and all plain work of the task until its next one. */
struct footprint {
	bool everything; /* may meet any other step */
	bool is_drain;
	u8 cpu;    /* it ran there, or its buffer was drained; SC and faults: NO_CPU */
	u32 empty; /* CPUs whose store buffer it empties, a bit each */
	u32 nr;
	struct {
		const u8 *from, *end;
		bool writes;
	} ranges[FOOTPRINT_RANGES];
};

void footprint_begin(struct footprint *f, u32 cpu, bool is_drain);
/* The step reads, or changes, memory itself; what only enters a buffer does not. */
void footprint_add(struct footprint *f, const void *p, size_t n, bool writes);

/* May the order of the two matter? Both belong to different tasks or buffers and could be
 * done in either order. true where it is not known. */
bool footprint_meets(const struct footprint *a, const struct footprint *b);

#endif
