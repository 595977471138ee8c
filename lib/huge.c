/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: huge.h. */
#define _GNU_SOURCE
#include "lib/huge.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t huge_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

/* Linux aligns the mappings of a memfd only where it gives huge pages unasked. So this takes
 * more room than is needed, maps into its middle, and gives the ends back. */
static int huge_map_aligned(int fd, uint64_t offset, uint64_t bytes, int protection,
                            int flags, void **ret_at)
{
	uint64_t whole = huge_round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	uint64_t before;
	char *room, *at;
	int err;

	room = mmap(NULL, whole + HUGE_PAGE_BYTES, PROT_NONE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return -errno;
	before = (offset - (uint64_t)(uintptr_t)room) % HUGE_PAGE_BYTES;
	at = mmap(room + before, bytes, protection, flags | MAP_FIXED, fd,
	          (off_t)offset);
	if (at == MAP_FAILED) {
		err = -errno;
		munmap(room, whole + HUGE_PAGE_BYTES);
		return err;
	}
	if (before > 0)
		munmap(room, before);
	munmap(at + whole, HUGE_PAGE_BYTES - before);
	*ret_at = at;
	return 0;
}

int huge_map_part(int fd, uint64_t offset, uint64_t bytes, int protection, int flags,
                  void **ret_at)
{
	void *at;

	if (bytes >= HUGE_PAGE_BYTES)
		return huge_map_aligned(fd, offset, bytes, protection, flags, ret_at);
	at = mmap(NULL, bytes, protection, flags, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return -errno;
	*ret_at = at;
	return 0;
}

int huge_map(int fd, uint64_t bytes, int protection, void **ret_at)
{
	return huge_map_part(fd, 0, bytes, protection, MAP_SHARED, ret_at);
}
