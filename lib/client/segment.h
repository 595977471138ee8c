/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One service's arena, mapped into this process. When the service dies its segment is dead
 * for good: a successor has a segment of its own.
 */
#ifndef LODIC_LIB_CLIENT_SEGMENT_H
#define LODIC_LIB_CLIENT_SEGMENT_H

#include "core/cache/arena.h"
#include "lib/client/channel.h"

struct segment {
	struct arena arena;
	u64 generation;
	u64 alive_value;
	int wake;  /* eventfd that rouses the service */
	u32 users; /* lodic, seats; under lodic.lock */
	void *control, *data, *shared;
	u64 control_bytes, data_bytes, shared_bytes;
};

static inline bool segment_alive(const struct segment *s)
{
	return host_load_acquire(&s->arena.header->alive) == s->alive_value;
}

/* Maps the arena of the service that has answered HELLO so; the caller is the first user.
 * -EPROTO: the reply or the arena is not as it must be. -ENOMEM, -EMFILE. */
int segment_map(const struct channel_reply *hello, struct segment **ret_segment);

/* One user less; the last one unmaps it. lodic.lock is held. */
void segment_put(struct segment *segment);

#endif
