/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A segment's life: map a service's arena, unmap it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/client/mapping.h"
#include "lib/client/segment.h"

#define SPARE_BYTES 1u /* the kernel makes a page of it */

/* May a reader write to it, and not wait there or get a SIGPIPE? An eventfd has no type. */
static bool segment_may_wake(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && flags & O_NONBLOCK && fstat(fd, &st) == 0 &&
	       (st.st_mode & S_IFMT) == 0;
}

/* LV3. A mapping of a file is one of its own: the kernel joins it with no neighbour. */
static int segment_spare(struct segment *s, int fd)
{
	void *at = mmap(NULL, SPARE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	madvise(at, SPARE_BYTES, MADV_DONTFORK);
	s->spare = at;
	return 0;
}

static int segment_map_parts(struct segment *s, const struct channel_reply *hello)
{
	const int *fds = hello->fds;
	int err;

	s->control_bytes = hello->wire->hello.control_bytes;
	s->data_bytes = hello->wire->hello.data_bytes;
	s->shared_bytes = hello->wire->hello.shared_bytes;
	s->alive_value = hello->wire->hello.alive;
	if (hello->nr_fds != 4)
		return -EPROTO;
	err = mapping_share(fds[0], s->control_bytes, PROT_READ, &s->control);
	if (!err)
		err = mapping_share(fds[1], s->data_bytes, PROT_READ, &s->data);
	if (!err)
		err = mapping_share(fds[3], s->shared_bytes, PROT_READ | PROT_WRITE,
		                    &s->shared);
	if (!err)
		err = segment_spare(s, fds[0]);
	if (err)
		return err;
	if (!arena_view(&s->arena, s->control, s->control_bytes, s->data, s->data_bytes,
	                s->shared) ||
	    !arena_shared_fits(&s->arena, s->shared_bytes))
		return -EPROTO;
	s->generation = host_load_relaxed(&s->arena.header->generation);
	if (s->generation != hello->wire->hello.generation ||
	    s->generation == GENERATION_NONE || s->generation == GENERATION_UNCLAIMED ||
	    !segment_may_wake(fds[2]))
		return -EPROTO;
	s->wake = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
	return s->wake < 0 ? -errno : 0;
}

static void segment_free(struct segment *s)
{
	if (s->control)
		munmap(s->control, s->control_bytes);
	if (s->data)
		munmap(s->data, s->data_bytes);
	if (s->shared)
		munmap(s->shared, s->shared_bytes);
	if (s->spare)
		munmap(s->spare, SPARE_BYTES);
	if (s->wake >= 0)
		close(s->wake);
	free(s);
}

int segment_map(const struct channel_reply *hello, struct segment **ret_segment)
{
	struct segment *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->wake = -1;
	s->users = 1;
	err = segment_map_parts(s, hello);
	if (err)
		segment_free(s);
	else
		*ret_segment = s;
	return err;
}

void segment_put(struct segment *segment)
{
	if (--segment->users == 0)
		segment_free(segment);
}

/* LV2 */
static void segment_wake_nobody(struct segment *s)
{
	int nobody = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (nobody < 0)
		return; /* what is left wakes the service, and does nothing else */
	dup3(nobody, s->wake, O_CLOEXEC);
	close(nobody);
}

void segment_leave(struct segment *s)
{
	if (s->left)
		return;
	s->left = true;
	munmap(s->spare, SPARE_BYTES); /* LV3 */
	s->spare = NULL;
	mapping_zero(s->control, s->control_bytes, PROT_READ); /* LV1 */
	mapping_zero(s->data, s->data_bytes, PROT_READ);
	mapping_zero(s->shared, s->shared_bytes, PROT_READ | PROT_WRITE);
	segment_wake_nobody(s);
}
