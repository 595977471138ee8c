/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Arenas as a service makes them, one for each scheme and barrier, and what a lying service makes
 * of them. All have one file of pattern 1.1, of which most blocks are cached.
 */
#ifndef LODIC_TESTS_FUZZ_ARENAS_H
#define LODIC_TESTS_FUZZ_ARENAS_H

#include "core/cache/arena.h"

#define ARENAS_ALIVE ((u64)77)
#define ARENAS_GENERATION ((u64)4711)
#define ARENAS_QUOTA 8u
#define ARENAS_BLOCKS 12u /* of the file */
#define ARENAS_FILE_BYTES ((u64)ARENAS_BLOCKS * BLOCK_BYTES - 100)
#define ARENAS_HOLD_BYTES ((u64)2 << 20)
#define ARENAS_NR_ODD 9u

/* A memfd, and this process's mapping of it. */
struct arenas_memory {
	int fd;
	u8 *at;
	u64 bytes;
	u8 *right; /* what a right one holds, of each scheme and barrier; NULL: 0s */
	u64 right_bytes;
};

struct arenas {
	struct arenas_memory control, data, shared, context, hold;
	u32 scheme, barrier; /* now */
	int wake;
	int odd[ARENAS_NR_ODD];
};

/* The file has that id. */
void arenas_make(struct arenas *a, u32 file);
/* Makes the arena right again, of a random scheme and barrier. */
void arenas_choose(struct arenas *a, u64 *random);
/* What a right HELLO says of it. */
void arenas_sizes(const struct arenas *a, u64 *ret_control, u64 *ret_data,
                  u64 *ret_shared);
u64 arenas_context_bytes(const struct arenas *a);

/* A number that is often at some limit. */
u64 arenas_odd(u64 *random);
/* A descriptor that does not belong there; -1 for some i. */
int arenas_odd_fd(const struct arenas *a, u64 i);
/* Changes words of the header, or makes it one of another shape. */
void arenas_break_header(struct arenas *a, u64 *random);
/* Changes words anywhere. */
void arenas_break(struct arenas *a, u64 *random);

#endif
