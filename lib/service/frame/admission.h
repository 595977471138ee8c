/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which of the blocks that readers miss come into a full cache. To bring a block in costs as
 * much as several hits save. Where the blocks in use are many times the cache, most leave again
 * before anybody has come by them twice. So beyond a rate that costs little, the service takes
 * only a part of the hints. A block that is missed often is hinted at often, and soon comes in.
 *
 * What becomes of newcomers in SMALL (core/cache/reclaim.h) says how large that part is. After
 * each turn of SMALL the part doubles if most of them were kept, and what had to go for them
 * was easily found. Otherwise the part halves: either they are not worth a place, or all that
 * is in MAIN is as good. When other blocks come into use, they are kept, and what they push
 * out is dead. So soon the part is the whole.
 */
#ifndef LODIC_LIB_SERVICE_FRAME_ADMISSION_H
#define LODIC_LIB_SERVICE_FRAME_ADMISSION_H

#include "core/cache/reclaim.h"

/* The least part is one in 2^this. */
#define ADMISSION_SHIFT_MOST 10u
/* The free rate turns SMALL round in so long: then the first newcomers are judged. It is also
 * so many blocks in a second at least and at most. Our choice: a block takes the service 4 us,
 * so the most is a thirtieth of a CPU. */
#define ADMISSION_TURN_NS ((u64)2000000000)
#define ADMISSION_FREE_LEAST 256u
#define ADMISSION_FREE_MOST 8192u
/* So many of them may come at once. */
#define ADMISSION_FREE_AT_ONCE 128u

/* Zeroed at first: every hint is wanted. */
struct admission {
	u32 shift; /* one hint in 2^shift is wanted */
	u64 nr_asked;
	u64 paid_ns; /* up to this time the free rate is used up */
	/* What reclaim had counted at the last change. */
	u64 kept, dropped, looks;
};

/* A reader has missed blocks, for which a frame must go: are they wanted? */
bool admission_wants(struct admission *a, const struct reclaim *r, u64 now_ns);

#endif
