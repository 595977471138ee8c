/* SPDX-License-Identifier: GPL-2.0 */
/* One reader process of a crew. */
#ifndef LODIC_TESTS_SEAT_H
#define LODIC_TESTS_SEAT_H

#include "crew.h"

/* One reader process, as its first thread sees it. */
struct seat {
	struct crew *crew;
	u32 index;
	u64 rng;
	u64 round;
	int fd;
	char *map;
	size_t map_bytes;
	int prot, map_flags;
	void *extra; /* of the disturber */
};

/* Makes all entries present. Touching could fault past the file's end: this cannot. */
void seat_populate(const struct seat *s);

/* Maps the file there. */
void seat_map(struct seat *s, char *at);

/* Pauses for a moment with all entries present, so that readers can count on them. */
void seat_settle(struct seat *s);

/* The process, from fork() to its end. */
void seat_main(struct crew *c, u32 index);

#endif
