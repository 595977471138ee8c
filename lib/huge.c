/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: huge.h. */
#include "lib/huge.h"

#include "lib/port.h"

static uint64_t huge_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

/* Linux aligns the mappings of a memfd only where it gives huge pages unasked. So this takes
 * more room than is needed, maps into its middle, and gives the ends back. */
static int huge_map_aligned(int fd, uint64_t offset, uint64_t bytes, int protection,
                            int flags, void **ret_at)
{
	uint64_t whole = huge_round_up(bytes, port_page_bytes());
	uint64_t before;
	void *room, *at;
	int err;

	err = port_map(NULL, whole + HUGE_PAGE_BYTES, PORT_NONE,
	               PORT_PRIVATE | PORT_ANONYMOUS | PORT_UNRESERVED, -1, 0, &room);
	if (err)
		return err;
	before = (offset - (uint64_t)(uintptr_t)room) % HUGE_PAGE_BYTES;
	err = port_map((char *)room + before, bytes, protection, flags | PORT_FIXED, fd,
	               offset, &at);
	if (err) {
		port_unmap(room, whole + HUGE_PAGE_BYTES);
		return err;
	}
	if (before > 0)
		port_unmap(room, before);
	port_unmap((char *)at + whole, HUGE_PAGE_BYTES - before);
	*ret_at = at;
	return 0;
}

int huge_map_part(int fd, uint64_t offset, uint64_t bytes, int protection, int flags,
                  void **ret_at)
{
	if (bytes >= HUGE_PAGE_BYTES)
		return huge_map_aligned(fd, offset, bytes, protection, flags, ret_at);
	return port_map(NULL, bytes, protection, flags, fd, offset, ret_at);
}

int huge_map(int fd, uint64_t bytes, int protection, void **ret_at)
{
	return huge_map_part(fd, 0, bytes, protection, PORT_SHARED, ret_at);
}
