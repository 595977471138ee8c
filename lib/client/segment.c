/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A segment's life: map a service's arena, unmap it. */
#include <errno.h>

#include "lib/client/mapping.h"
#include "lib/client/segment.h"
#include "lib/port.h"

#define SPARE_BYTES 1u /* the kernel makes a page of it */

/* LV3. A mapping of a file is one of its own: the kernel joins it with no neighbour. */
static int segment_spare(struct segment *s, int fd)
{
	int err = port_map(NULL, SPARE_BYTES, PORT_NONE, PORT_SHARED, fd, 0, &s->spare);

	if (!err)
		port_advise(s->spare, SPARE_BYTES, PORT_NOT_IN_CHILD);
	return err;
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
	err = mapping_share(fds[0], s->control_bytes, PORT_READ, &s->control);
	if (!err)
		err = mapping_share(fds[1], s->data_bytes, PORT_READ, &s->data);
	if (!err)
		err = mapping_share(fds[3], s->shared_bytes, PORT_READ | PORT_WRITE,
		                    &s->shared);
	if (!err)
		err = segment_spare(s, fds[0]);
	if (err)
		return err;
	if (!arena_open(&s->arena, s->control, s->control_bytes, s->data, s->data_bytes,
	                s->shared) ||
	    !arena_shared_fits(&s->arena, s->shared_bytes))
		return -EPROTO;
	s->generation = host_load_relaxed(&s->arena.header->generation);
	if (s->generation != hello->wire->hello.generation ||
	    s->generation == GENERATION_NONE || s->generation == GENERATION_UNCLAIMED ||
	    !port_is_event(fds[2]))
		return -EPROTO;
	s->wake = port_dup(fds[2]);
	return s->wake < 0 ? s->wake : 0;
}

static void segment_free(struct segment *s)
{
	if (s->control)
		port_unmap(s->control, s->control_bytes);
	if (s->data)
		port_unmap(s->data, s->data_bytes);
	if (s->shared)
		port_unmap(s->shared, s->shared_bytes);
	if (s->spare)
		port_unmap(s->spare, SPARE_BYTES);
	if (s->wake >= 0)
		port_close(s->wake);
	port_free(s);
}

int segment_map(const struct channel_reply *hello, struct segment **ret_segment)
{
	struct segment *s = port_alloc(sizeof(*s));
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
	int nobody = port_event();

	if (nobody < 0)
		return; /* what is left wakes the service, and does nothing else */
	port_replace(nobody, s->wake);
	port_close(nobody);
}

void segment_leave(struct segment *s)
{
	if (s->left)
		return;
	s->left = true;
	port_unmap(s->spare, SPARE_BYTES); /* LV3 */
	s->spare = NULL;
	mapping_zero(s->control, s->control_bytes, PORT_READ); /* LV1 */
	mapping_zero(s->data, s->data_bytes, PORT_READ);
	mapping_zero(s->shared, s->shared_bytes, PORT_READ | PORT_WRITE);
	segment_wake_nobody(s);
}
