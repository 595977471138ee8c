/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See guard.h. */
#define _GNU_SOURCE
#include "tests/fuzz/guard.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/huge.h"
#include "tests/support/cache_fixture.h"

/* A frame's number has 32 bits, and a frame's words take 32 bytes. */
#define WINDOW_BYTES ((u64)1 << 38)
#define AT (WINDOW_BYTES / 4)
#define NR_WINDOWS 12u

static struct {
	u8 *at;
	u32 nr; /* windows in use */
	u64 bytes[NR_WINDOWS];
} guard;

/* The linker's names: the real functions, and those that are called in their place. */
__typeof__(huge_map) __real_huge_map, __wrap_huge_map;
__typeof__(huge_map_part) __real_huge_map_part, __wrap_huge_map_part;

static void guard_reserve(u8 *at, u64 bytes, int more)
{
	REQUIRE(mmap(at, bytes, PROT_NONE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more, -1,
	             0) != MAP_FAILED,
	        "%s", strerror(errno));
}

void guard_begin(void)
{
	guard.at = mmap(NULL, NR_WINDOWS * WINDOW_BYTES, PROT_NONE,
	                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(guard.at != MAP_FAILED, "%s", strerror(errno));
}

/* Moves what is mapped at *at into a window. If all are in use, or it is too large, it stays. */
static void guard_move(void **at, u64 bytes)
{
	u8 *to = guard.at + guard.nr * WINDOW_BYTES + AT;

	if (!guard.at || guard.nr == NR_WINDOWS || bytes > WINDOW_BYTES / 2)
		return;
	REQUIRE(mremap(*at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	        "%s", strerror(errno));
	guard.bytes[guard.nr++] = bytes;
	*at = to;
}

int __wrap_huge_map(int fd, uint64_t bytes, int protection, void **ret_at)
{
	int err = __real_huge_map(fd, bytes, protection, ret_at);

	if (!err)
		guard_move(ret_at, bytes);
	return err;
}

int __wrap_huge_map_part(int fd, uint64_t offset, uint64_t bytes, int protection,
                         int flags, void **ret_at)
{
	int err = __real_huge_map_part(fd, offset, bytes, protection, flags,
	                               ret_at);

	if (!err)
		guard_move(ret_at, bytes);
	return err;
}

void guard_reset(void)
{
	for (; guard.nr > 0; guard.nr--)
		guard_reserve(guard.at + (guard.nr - 1) * WINDOW_BYTES + AT,
		              guard.bytes[guard.nr - 1], MAP_FIXED);
}
