/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The pages of a segment that readers map: huge ones where the kernel gives them. */
#ifndef LODIC_LIB_SERVICE_MEMORY_PAGES_H
#define LODIC_LIB_SERVICE_MEMORY_PAGES_H

#include "lib/service/base/base.h"

struct base;

/* Memory shared with readers. */
struct shared_memory {
	int fd;        /* ours */
	int reader_fd; /* what readers get: fd, or a description that cannot write */
	void *at;      /* NULL: there is none */
	u64 bytes;
	u64 there;    /* of these, that have their pages */
	u64 *to_come; /* counts what is to have them, this one's too; NULL: nothing does */
	int refused; /* why the kernel gave fewer huge pages than it was asked for; 0 */
};

/* Makes every page of m be there, which is mapped at m->at. With huge it asks for huge pages,
 * until the kernel has taken too long, and notes in m->refused why it got fewer. What has come
 * goes off m->to_come at once. It says how far it is when it takes long. -ENOMEM: there is no
 * memory. */
int pages_fill(const struct base *s, struct shared_memory *m, bool huge);

/* Asks the kernel for huge pages in the bytes at at, a multiple of HUGE_PAGE_BYTES. 0, or why the
 * kernel made fewer: an errno. pages_why() says it in words; ETIME there: it took too long. It may
 * take the kernel 18 ms a page. Any thread may call it. */
int pages_ask(u8 *at, u64 bytes);
const char *pages_why(int refused);

/* How many bytes of m the service has in huge pages: what is there, not what was asked for.
 * 0 without /proc. Cost: a walk over all mappings of this process. */
u64 pages_huge_bytes(const struct shared_memory *m);

/* Tells the user what share of m lies in huge pages, and why not all does. */
void pages_say(const struct base *s, const struct shared_memory *m, u64 huge_bytes);

#endif
