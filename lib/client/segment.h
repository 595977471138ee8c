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
	void *spare; /* LV3 */
	bool left; /* segment_leave(): nothing of the service's is mapped any more */
};

static inline bool segment_alive(const struct segment *s)
{
	return host_load_acquire(&s->arena.header->alive) == s->alive_value;
}

/* Maps the arena of the service that has answered HELLO so; the caller is the first user.
 * -EPROTO: the reply or the arena is not as it must be. -ENOMEM, -EMFILE. */
int segment_map(const struct channel_reply *hello, struct segment **ret_segment);

/*
 * Lets go of the service's memory at once, though other threads may be in the middle of a copy. It
 * puts zeros there, which read as a service that has ended and as files that nobody vouches for.
 * lodic.lock is held.
 *
 * LV1 the control part goes first, with the words that a reader's last look needs (O22), and then
 *    the data. A copy that has met zeros of the data began its last look after the control part
 *    had gone everywhere, so that look fails. A reader that passes its last look has true bytes.
 * LV2 numbers of descriptors stay taken until no reader can use them. The event that wakes the
 *    service is replaced by one that wakes nobody. A reader that has loaded the number just
 *    before writes to that one, and not to a file of the program's.
 * LV3 a process that has as many mappings as the kernel allows cannot even replace one. So each
 *    segment has one more than it needs, which goes first.
 */
void segment_leave(struct segment *segment);

/* One user less; the last one unmaps it. lodic.lock is held. */
void segment_put(struct segment *segment);

#endif
