/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the cache says about itself. */
#define _GNU_SOURCE
#include <errno.h>

#include "core/cache/context.h"
#include "lib/client/attach.h"

static void stat_from_wire(struct lodic_stat *to, const struct wire_stat *from)
{
	to->pinned = from->nr_pinned;
	to->files = from->nr_files;
	to->clients = from->nr_clients;
	to->hits = from->counters[CONTEXT_HITS];
	to->soft_misses = from->counters[CONTEXT_SOFT];
	to->misses = from->counters[CONTEXT_MISSES];
	to->retries = from->counters[CONTEXT_RETRIES];
	to->full = from->counters[CONTEXT_FULL];
	to->control_bytes = from->control_bytes;
	to->data_bytes = from->data_bytes;
	to->count_bytes = from->count_bytes;
	to->context_bytes = from->context_bytes;
	to->service_pid = from->pid;
	to->uptime_ns = from->uptime_ns;
	to->io_uring = (u32)from->io_uring;
	to->huge_pages = (u32)from->huge_pages;
}

EXPORT int lodic_stat(struct lodic *lodic, struct lodic_stat *ret_stat)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_STAT };
	struct wire_reply reply;
	const struct arena_header *h;
	struct segment *segment;
	int err = -ESTALE;

	if (!lodic || !ret_stat)
		return -EINVAL;
	if (attach_forked(lodic))
		return -ECHILD;
	pthread_mutex_lock(&lodic->lock);
	segment = attach_segment_get(lodic);
	if (segment)
		err = segment_request(segment, &request, -1, REQUEST_TIMEOUT_MS, &reply,
		                      NULL, NULL);
	if (!err) {
		h = segment->arena.header;
		*ret_stat = (struct lodic_stat){
			.frames = h->nr_frames - FRAME_FIRST,
			.cached = host_load_relaxed(&h->nr_cached),
			.admitted = host_load_relaxed(&h->nr_admitted),
			.evicted = host_load_relaxed(&h->nr_evicted),
			.refused = host_load_relaxed(&h->nr_refused),
			.errors = host_load_relaxed(&h->nr_errors),
			.revoked = host_load_relaxed(&h->nr_revoked),
			.contexts = host_load_relaxed(&h->nr_contexts),
			.reaped = host_load_relaxed(&h->nr_reaped),
			.scheme = (u32)h->scheme,
			.entries = (u32)h->nr_entries,
		};
		stat_from_wire(ret_stat, &reply.stat);
	}
	if (segment)
		segment_put(segment);
	pthread_mutex_unlock(&lodic->lock);
	return err;
}

EXPORT const char *lodic_scheme_name(enum lodic_scheme scheme)
{
	static const char *const names[] = { "lodic", "atomic", "frozen", "hazard" };

	return scheme <= LODIC_HAZARD ? names[scheme] : "unknown";
}
