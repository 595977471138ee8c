/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/mark.h. A robust list of futexes with one entry (set_robust_list(2)). */
#define _GNU_SOURCE
#include "lib/port/mark.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the kernel reads when the thread dies. */
struct mark_list {
	struct robust_list_head head;
	struct robust_list entry;
};

_Static_assert(sizeof(struct mark_list) <= sizeof(struct port_mark) &&
                       _Alignof(struct mark_list) <= _Alignof(struct port_mark),
               "a mark has room");
_Static_assert(PORT_MARK_NUMBER == FUTEX_TID_MASK && PORT_MARK_DEAD == FUTEX_OWNER_DIED,
               "what the kernel writes");

static struct mark_list *mark_list(struct port_mark *mark)
{
	return (struct mark_list *)mark;
}

int port_mark_set(struct port_mark *mark, uint32_t *word)
{
	struct mark_list *list = mark_list(mark);

	list->entry.next = &list->head.list;
	list->head.list.next = &list->entry;
	list->head.list_op_pending = NULL;
	/* From the entry to its futex; a distance between two mappings is fine. */
	list->head.futex_offset = (long)((intptr_t)word - (intptr_t)&list->entry);
	return syscall(SYS_set_robust_list, &list->head, sizeof(list->head)) == 0
	               ? 0
	               : -errno;
}

void port_mark_clear(struct port_mark *mark)
{
	struct mark_list *list = mark_list(mark);

	list->head.list.next = &list->head.list;
}
