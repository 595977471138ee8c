/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All numbers of struct lodic_stat come from here, once for each request. A number that
 * the service counts as it goes lies in service.stat, under its public name, and
 * needs no line here.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "core/pte.h"
#include "lib/service/files.h"
#include "lib/service/stat.h"

/* Notes in seen each frame that context t has pinned. */
static void stat_see_pins(const struct service *s, const struct context_table *t,
                          u8 *seen)
{
	for (u32 i = 0; i < s->shape.nr_entries; i++) {
		u64 v = host_load_relaxed(&t->entries[i]);
		u64 frame = pte_frame(v);

		if (s->shape.scheme == ARENA_HAZARD)
			frame = v - 1; /* of an empty slot: beyond all frames */
		else if (!pte_present(v) || pte_count(v) == 0)
			continue;
		if (frame < s->shape.nr_frames)
			seen[frame / 8] |= (u8)(1u << frame % 8);
	}
}

/* Frames pinned by anybody; as it looks while readers go on. */
static u64 stat_nr_pinned(const struct service *s)
{
	u32 nr = s->shape.nr_frames;
	u64 pinned = 0;
	u8 *seen;

	if (s->arena.counts) {
		for (u32 frame = 0; frame < nr; frame++)
			pinned += arena_query(&s->arena, frame);
		return pinned;
	}
	seen = calloc(nr / 8 + 1, 1);
	if (!seen)
		return 0;
	for (u32 place = 0; place < s->arena.nr_contexts; place++)
		if (s->arena.contexts[place].memory)
			stat_see_pins(s, &s->arena.contexts[place], seen);
	for (u32 i = 0; i < nr / 8 + 1; i++)
		pinned += (u64)__builtin_popcount(seen[i]);
	free(seen);
	return pinned;
}

/* Files that are read with O_DIRECT. */
static u64 stat_nr_direct(const struct service *s)
{
	u64 nr = 0;

	for (u32 slot = 0; slot < s->shape.nr_files; slot++)
		nr += s->files[slot].state == FILE_HELD && s->files[slot].direct;
	return nr;
}

/* What all contexts have counted, those that are gone too. */
static u64 stat_counter(const struct service *s, enum context_counter counter)
{
	u64 n = s->past_counters[counter];

	for (u32 place = 0; place < s->arena.nr_contexts; place++) {
		const struct context_memory *m = s->arena.contexts[place].memory;

		if (m)
			n += host_load_relaxed(&m->counters[counter]);
	}
	return n;
}

void stat_collect(const struct service *s, struct lodic_stat *ret_stat)
{
	const struct arena_header *h = s->arena.header;
	struct lodic_stat stat = s->stat;

	stat.frames = h->nr_frames - FRAME_FIRST;
	stat.cached = host_load_relaxed(&h->nr_cached);
	stat.pinned = stat_nr_pinned(s);
	stat.admitted = host_load_relaxed(&h->nr_admitted);
	stat.evicted = host_load_relaxed(&h->nr_evicted);
	stat.evictions_refused = host_load_relaxed(&h->nr_refused);
	stat.errors = host_load_relaxed(&h->nr_errors);
	stat.files = s->nr_held;
	stat.direct_io = stat_nr_direct(s);
	stat.clients = s->nr_clients;
	stat.contexts = host_load_relaxed(&h->nr_contexts);
	stat.hits = stat_counter(s, CONTEXT_HITS);
	stat.soft_misses = stat_counter(s, CONTEXT_SOFT);
	stat.misses = stat_counter(s, CONTEXT_MISSES);
	stat.retries = stat_counter(s, CONTEXT_RETRIES);
	stat.pins_refused = stat_counter(s, CONTEXT_FULL);
	stat.control_bytes = s->control.bytes;
	stat.data_bytes = s->data.bytes;
	stat.count_bytes = s->counts.bytes;
	stat.context_bytes = s->context_bytes;
	stat.service_pid = (u64)getpid();
	stat.uptime_ns = host_now_ns() - s->started_ns;
	stat.scheme = h->scheme;
	stat.entries = h->nr_entries;
	stat.io_uring = s->fill.has_ring;
	*ret_stat = stat;
}
