/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All numbers of struct lodic_stat come from here, once for each request. A number that
 * the service counts as it goes lies in base.stat, under its public name, and
 * needs no line here.
 */
#include "core/pte.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/client/state.h"
#include "lib/service/memory/pages.h"
#include "lib/service/frame/fill.h"
#include "lib/service/memory/memory.h"
#include "lib/service/base/base.h"

/* Counts the frame that entry word v pins, unless another entry pins it too. */
static bool stat_see_pin(struct clients *s, u64 v)
{
	struct stat_count *count = &s->count;
	u64 frame = pte_frame(v);
	u8 bit;

	if (s->shape->scheme == ARENA_HAZARD)
		frame = v - 1; /* of an empty slot: beyond all frames */
	else if (!pte_present(v) || pte_count(v) == 0)
		return false;
	if (frame >= s->shape->nr_frames)
		return false;
	bit = (u8)(1u << frame % 8);
	count->found += !(count->seen[frame / 8] & bit);
	count->seen[frame / 8] |= bit;
	return true;
}

/* Counts on in the context at count.place. A context that may not pin has an empty table. */
static void stat_count_entries(struct clients *s, u32 *lines)
{
	const struct context_table *t = &s->arena->contexts[s->count.place];
	u32 nr = t->memory && s->seats[s->count.place].quota ? s->shape->nr_entries : 0;

	/* C8. A table that was never used has no memory, and a look would give it some. */
	if (nr > 0 && s->shape->scheme == ARENA_SCANNED &&
	    host_load_relaxed(&t->memory->nr_pinned) == 0)
		nr = 0;

	while (s->count.at<nr && * lines> 0) {
		u64 v = host_load_relaxed(&t->entries[s->count.at]);
		u32 cost = stat_see_pin(s, v) + (s->count.at % 8 == 0);

		*lines -= cost < *lines ? cost : *lines;
		s->count.at++;
	}
	if (s->count.at < nr)
		return;
	s->count.place++;
	s->count.at = 0;
	--*lines;
}

static bool stat_count_contexts(struct clients *s)
{
	u32 lines = TURN_LINES;

	while (s->count.place < s->arena->nr_contexts && lines > 0)
		stat_count_entries(s, &lines);
	return s->count.place < s->arena->nr_contexts;
}

static bool stat_count_frames(struct clients *s)
{
	struct stat_count *count = &s->count;

	for (u32 lines = TURN_LINES; count->at < s->shape->nr_frames && lines > 0;
	     lines--)
		count->found += arena_query(s->arena, count->at++);
	return count->at < s->shape->nr_frames;
}

u64 stat_ask(struct clients *s)
{
	return s->count.wanted = s->count.begun + 1;
}

static void stat_begin(struct clients *s)
{
	struct stat_count *count = &s->count;

	count->begun++;
	count->found = 0;
	count->place = count->at = 0;
	if (!s->arena->counts)
		count->seen = port_alloc(s->shape->nr_frames / 8 + 1);
}

bool stat_run(struct clients *s)
{
	struct stat_count *count = &s->count;

	if (count->done == count->wanted)
		return false;
	if (count->begun == count->done)
		stat_begin(s);
	/* As it looks while readers go on. Without memory the count is 0. */
	if (s->arena->counts ? stat_count_frames(s)
	                     : count->seen && stat_count_contexts(s))
		return true;
	stat_fini(s);
	count->pinned = count->found;
	count->done = count->begun;
	return count->done != count->wanted;
}

bool stat_is_done(const struct clients *s, u64 number)
{
	return s->count.done >= number;
}

void stat_fini(struct clients *s)
{
	port_free(s->count.seen);
	s->count.seen = NULL;
}

u64 stat_counter(const struct clients *s, enum context_counter counter)
{
	u64 n = s->past_counters[counter];

	for (u32 place = 0; place < s->arena->nr_contexts; place++) {
		const struct context_memory *m = s->arena->contexts[place].memory;

		if (m)
			n += host_load_relaxed(&m->counters[counter]);
	}
	return n;
}

void stat_take_over(struct clients *s, const struct clients *old)
{
	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++)
		s->past_counters[i] = stat_counter(old, (enum context_counter)i);
}

void stat_collect(const struct clients *s, struct lodic_stat *ret_stat)
{
	const struct arena_header *h = s->arena->header;
	struct lodic_stat stat = *s->stat;

	stat.frames = h->nr_frames - FRAME_FIRST;
	stat.cached = host_load_relaxed(&h->nr_cached);
	stat.pinned = s->count.pinned;
	stat.admitted = host_load_relaxed(&h->nr_admitted);
	stat.evicted = host_load_relaxed(&h->nr_evicted);
	stat.evictions_refused = host_load_relaxed(&h->nr_refused);
	stat.errors = host_load_relaxed(&h->nr_errors);
	files_stat(s->files, &stat);
	stat.clients = s->nr_clients;
	stat.contexts = host_load_relaxed(&h->nr_contexts);
	stat.hits = stat_counter(s, CONTEXT_HITS);
	stat.soft_misses = stat_counter(s, CONTEXT_SOFT);
	stat.misses = stat_counter(s, CONTEXT_MISSES);
	stat.retries = stat_counter(s, CONTEXT_RETRIES);
	stat.pins_refused = stat_counter(s, CONTEXT_FULL);
	stat.control_bytes =
		s->control->bytes + s->shared->bytes - arena_count_bytes(s->shape);
	stat.data_bytes = s->data->bytes;
	stat.count_bytes = arena_count_bytes(s->shape);
	stat.context_bytes =
		arena_context_bytes(s->shape->nr_entries, memory_quota(s->memory));
	stat.service_pid = (u64)port_process();
	stat.uptime_ns = host_now_ns() - service_started_ns(s->base);
	stat.scheme = h->scheme;
	stat.light_pins = h->barrier == ARENA_BARRIER_LIGHT;
	stat.entries = h->nr_entries;
	stat.io_uring = fill_has_ring(s->frames);
	stat.memory_limit = s->above.memory_limit(s->above.of);
	hold_table_stat(s->holding, &stat);
	*ret_stat = stat;
}
