/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See mark.h. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/service/file/mark.h"
#include "core/cache/arena.h"

/* What the kernel reads when the thread dies (L4). */
struct mark {
	struct robust_list_head head;
	struct robust_list entry;
};

struct mark *mark_make(struct arena_header *header)
{
	struct mark *mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE,
	                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mark == MAP_FAILED)
		return NULL;
	/* L4; without the right to it, the pages are merely likely to be there. */
	mlock(mark, sizeof(*mark));
	mlock(header, sizeof(*header));
	return mark;
}

void mark_free(struct mark *mark)
{
	if (mark)
		munmap(mark, sizeof(*mark));
}

void mark_set(struct mark *mark, struct arena_header *header, pid_t tid)
{
	char *word = (char *)&header->alive;

	mark->entry.next = &mark->head.list;
	mark->head.list.next = &mark->entry;
	mark->head.list_op_pending = NULL;
	/* From the entry to its futex; a distance between two mappings is fine. */
	mark->head.futex_offset = (long)((intptr_t)word - (intptr_t)&mark->entry);
	syscall(SYS_set_robust_list, &mark->head, sizeof(mark->head));
	/* The kernel marks the word only if this thread's id stands in its low half. It
	 * leaves the upper half alone, which tells two services with one id apart. */
	host_store_release(&header->alive, header->generation << 32 | (u32)tid);
}

void mark_clear(struct mark *mark, struct arena_header *header)
{
	arena_end(header);
	mark->head.list.next = &mark->head.list;
}
