/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See make.h. */
#include <errno.h>

#include "lib/port/set.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/accept.h"
#include "lib/service/client/client.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/nameless.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fence.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/mover.h"
#include "lib/service/frame/reads.h"
#include "lib/service/hold/holds.h"
#include "lib/service/memory/memory.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/resize.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/succession/make.h"
#include "lib/service/base/base.h"
#include "lib/service/file/opens.h"

#define DEFAULT_NR_FILES 4096u
#define MAX_NR_FILES (1u << 20)
#define MIN_FRAMES ((u32)(SERVICE_MIN_CACHE_BYTES >> BLOCK_SHIFT))
#define MIN_NR_ENTRIES (2 * CONTEXT_WAYS)
#define MAX_NR_ENTRIES (1u << 20)

/* A table of twice the quota: then few sets are ever full. Without a quota it is larger, so that
 * more pins are warm. In a group it never is, because there the whole table counts (place.c). */
static void service_shape_tables(struct memory *m, const struct service_options *o, u32 nr_entries)
{
	struct arena_shape *shape = &m->shape;

	shape->nr_entries = nr_entries;
	arena_shape_default(shape);
	m->quota = o->tables.quota ? o->tables.quota : arena_default_quota(shape);
	if (o->sharing.for_group && !nr_entries)
		shape->nr_entries = MIN_NR_ENTRIES;
	while ((o->tables.quota || o->sharing.for_group) && !nr_entries &&
	       shape->nr_entries / 2 < m->quota && shape->nr_entries < MAX_NR_ENTRIES)
		shape->nr_entries *= 2;
	if (m->quota > shape->nr_entries)
		m->quota = shape->nr_entries;
}

/* The arena's shape from the options. */
int service_shape(struct service *s, const char **ret_why)
{
	const struct service_options *o = &s->options;
	u64 bytes = o->sizes.cache_bytes ? o->sizes.cache_bytes : SERVICE_DEFAULT_CACHE_BYTES;
	u64 nr_frames = (bytes >> BLOCK_SHIFT) + FRAME_FIRST;
	u32 nr_files = o->keeping.nr_files ? o->keeping.nr_files : DEFAULT_NR_FILES;
	/* The number of hazard slots is fixed. */
	u32 nr_entries = o->tables.scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS
	                                                  : o->tables.nr_entries;
	int err;

	*ret_why = NULL;
	if (o->tables.scheme >= ARENA_NR_SCHEMES)
		*ret_why = "there is no such scheme";
	else if (nr_frames + nr_files >= RECLAIM_MAX_FRAMES)
		*ret_why = "a cache ends below 8 TiB";
	else if (o->sharing.for_group &&
	         (o->tables.scheme == ARENA_ATOMIC || o->tables.scheme == ARENA_FROZEN))
		*ret_why =
			"for a group choose lodic or hazard: counters that all of it "
			"can write are no protection";
	else if (o->sharing.for_group && o->sizes.hold_bytes > 0)
		*ret_why = "for a group there are no holds; leave that setting out";
	else if (nr_files > MAX_NR_FILES)
		*ret_why = "at most 1048576 files can be held";
	else if (o->tables.barrier > SERVICE_BARRIER_LOCK)
		*ret_why = "there is no such barrier";
	else if (nr_entries &&
	         (nr_entries < MIN_NR_ENTRIES || nr_entries > MAX_NR_ENTRIES ||
	          nr_entries & (nr_entries - 1)))
		*ret_why = "a context's entries are a power of two, from 16 to 1048576";
	if (*ret_why)
		return -EINVAL;
	s->memory.shape = (struct arena_shape){
		.nr_frames = nr_frames > MIN_FRAMES ? (u32)nr_frames : MIN_FRAMES,
		.nr_files = nr_files,
		.scheme = o->tables.scheme,
	};
	service_shape_tables(&s->memory, o, nr_entries);
	err = tier_shape(&s->tiers, ret_why);
	return err ? err : policy_check(&s->tiers, ret_why);
}

int service_fill_arena(struct service *s, const char **ret_why)
{
	int err = service_open_events(&s->base);

	if (!err)
		err = fence_start(&s->frames, ret_why);
	if (!err)
		err = memory_make(&s->memory, ret_why);
	if (!err)
		err = tier_init(&s->tiers);
	if (!err)
		err = policy_init(&s->tiers, ret_why);
	if (!err)
		err = evict_init(&s->frames);
	if (!err)
		err = mover_init(&s->frames);
	if (!err && fence_event(&s->frames) >= 0)
		err = service_watch_as(&s->base, fence_event(&s->frames), PORT_INPUT,
		                       SOURCE_FENCE);
	if (!err)
		err = files_init(&s->files);
	if (!err)
		err = fill_init(&s->frames);
	if (!err)
		err = lease_start(&s->files, ret_why);
	if (!err)
		err = holds_init(&s->holding);
	if (!err)
		err = service_watch_as(&s->base, lease_broken_event(&s->files),
		                       PORT_INPUT, SOURCE_BROKEN);
	return err;
}

int service_make(const struct service *like, u64 cache_bytes,
                 struct service **ret_service, const char **ret_why)
{
	struct service *s = service_alloc(&like->options);
	int err;

	if (!s)
		return -ENOMEM;
	s->options.sizes.cache_bytes = cache_bytes;
	s->options.placing.policy_record = NULL; /* it is of one arena */
	s->options.sizes.fast_bytes = tier_fast_of(&like->options.sizes, cache_bytes);
	err = service_shape(s, ret_why);
	if (err) {
		port_free(s);
		return err;
	}
	*ret_service = s;
	return 0;
}

/* Undoes service_begin(), also one that failed half-way. */
static void service_end(struct service *s)
{
	hand_stop(s);
	socket_unlisten(&s->base);
	accept_send_away(&s->clients);
	holds_stop(&s->holding);
	resize_stop(s);
	worker_stop(&s->base);
	lease_stop(&s->files);
	resize_fini(s);
	reads_wait(&s->frames);
#ifdef LODIC_DEBUG
	if (!fill_is_busy(&s->frames))
		fill_check(&s->frames);
#endif
	client_free_all(&s->clients);
	opens_fini(&s->change.handed);
	stat_fini(&s->clients);
	fill_fini(&s->frames);
	mover_fini(&s->frames);
	evict_fini(&s->frames);
	fence_fini(&s->frames);
	nameless_forget(&s->files);
	policy_fini(&s->tiers);
	tier_fini(&s->tiers);
	holds_fini(&s->holding);
	files_fini(&s->files);
	memory_free(&s->memory, fill_is_busy(&s->frames)); /* a worker may be stuck */
	accept_end(&s->clients);
	service_close(&s->signals);
	service_close_events(&s->base);
	/* That close may wait, and then another service goes on meanwhile. */
	socket_unlock(&s->base);
	socket_close(&s->base);
}

void service_shut(struct service *s)
{
	service_end(s);
	port_free(s);
}
