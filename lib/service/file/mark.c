/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See mark.h. */
#include "core/cache/arena.h"
#include "lib/port/pages.h"
#include "lib/service/file/mark.h"

struct port_mark *mark_make(struct arena_header *header)
{
	void *mark;

	if (port_map(NULL, sizeof(struct port_mark), PORT_READ | PORT_WRITE,
	             PORT_SHARED | PORT_ANONYMOUS, -1, 0, &mark) != 0)
		return NULL;
	/* L4; without the right to it, the pages are merely likely to be there. */
	port_lock_pages(mark, sizeof(struct port_mark));
	port_lock_pages(header, sizeof(*header));
	return mark;
}

void mark_free(struct port_mark *mark)
{
	if (mark)
		port_unmap(mark, sizeof(*mark));
}

int mark_set(struct port_mark *mark, struct arena_header *header, int tid)
{
	int err = port_mark_set(mark, (u32 *)&header->alive);

	if (err)
		return err;
	/* The kernel marks the word only if this thread's id stands in its low half. It
	 * leaves the upper half alone, which tells two services with one id apart. */
	host_store_release(&header->alive, header->generation << 32 | (u32)tid);
	return 0;
}

void mark_clear(struct port_mark *mark, struct arena_header *header)
{
	arena_end(header);
	port_mark_clear(mark);
}
