/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Cassandra under YCSB (KLOCs s.7.1, Table 3): half reads, half writes, keys by Zipf's law. A
 * cache in the program answers most reads, and Java touches much memory for each request, so
 * the kernel has little to do. It is the control that must not gain.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

#define ZIPF_PERCENT 99u /* YCSB's constant */
#define TOUCH_BYTES 256u
#define PACKET_BYTES 1024u
#define REQUESTS_A_FRAME 4u /* records of the commit log in a frame */
#define NR_TABLES 32u       /* files on disk */

struct cassandra {
	struct work_socket *sockets;
	u32 tables[NR_TABLES];
	u32 next_table, table_frames, cache_pages;
	u32 log_file, log_frame, log_frames, writes, nr_loaded;
};

static int cassandra_begin(struct work *w)
{
	const struct cost_work *c = w->cost;
	struct cassandra *s = w->state;
	u32 pages = work_pages(w, c->cassandra_mib, 100, 256);

	w->source.os_percent = c->cassandra_os_percent;
	w->app_pages = work_pages(w, c->cassandra_mib, c->cassandra_app_percent, 64);
	s->cache_pages = work_pages(w, c->cassandra_cache_mib, 100, 8);
	if (s->cache_pages > w->app_pages / 2)
		s->cache_pages = w->app_pages / 2;
	/* One of the tables' size is the commit log. */
	s->table_frames = (pages - w->app_pages) / (NR_TABLES + 1) + 1;
	s->log_frames = s->table_frames;
	s->sockets = calloc(c->threads, sizeof(*s->sockets));
	work_footprint(w, pages);
	return s->sockets ? 0 : -ENOMEM;
}

static void cassandra_end(struct work *w)
{
	free(((struct cassandra *)w->state)->sockets);
}

static void cassandra_flush(struct work *w, u32 cpu)
{
	struct cassandra *s = w->state;
	u32 at = s->next_table++ % NR_TABLES, frame;

	if (s->tables[at]) {
		work_file_close(w, cpu, s->tables[at]);
		work_file_unlink(w, cpu, s->tables[at]);
	}
	s->tables[at] = work_file_create(w, cpu);
	for (frame = 0; frame < s->table_frames; frame++)
		work_file_append(w, cpu, s->tables[at], frame);
}

static void cassandra_write(struct work *w, u32 cpu)
{
	struct cassandra *s = w->state;

	if (s->writes++ % REQUESTS_A_FRAME != 0)
		return;
	if (!s->log_file)
		s->log_file = work_file_create(w, cpu);
	work_file_append(w, cpu, s->log_file, s->log_frame++);
	if (s->log_frame < s->log_frames)
		return;
	work_file_close(w, cpu, s->log_file);
	work_file_unlink(w, cpu, s->log_file);
	s->log_file = s->log_frame = 0;
	cassandra_flush(w, cpu);
}

static void cassandra_request(struct work *w, u32 cpu)
{
	const struct cost_work *c = w->cost;
	struct cassandra *s = w->state;
	u32 key = work_zipf(w, c->cassandra_keys, ZIPF_PERCENT), i;
	bool write = work_random(w, 2);

	work_socket_packet(w, cpu, &s->sockets[cpu], PACKET_BYTES);
	for (i = 0; i < c->cassandra_touches; i++)
		work_app(w, cpu,
		         s->cache_pages + work_random(w, w->app_pages - s->cache_pages),
		         TOUCH_BYTES, i % 4 == 0);
	if (key < c->cassandra_cached_keys)
		work_app(w, cpu,
		         (u32)((u64)key * s->cache_pages / c->cassandra_cached_keys),
		         PACKET_BYTES, write);
	else if (!write)
		work_file_read(w, cpu, s->tables[work_random(w, NR_TABLES)],
		               work_random(w, s->table_frames), WORK_PAGE);
	if (write)
		cassandra_write(w, cpu);
	work_socket_packet(w, cpu, &s->sockets[cpu], PACKET_BYTES);
}

static void cassandra_step(struct work *w)
{
	struct cassandra *s = w->state;
	u32 cpu = work_turn(w);

	if (!w->measured) {
		if (!s->sockets[cpu].file) {
			work_socket_open(w, cpu, &s->sockets[cpu], 1);
			return;
		}
		if (s->nr_loaded < NR_TABLES) {
			work_app_load(w, cpu, ++s->nr_loaded, NR_TABLES);
			cassandra_flush(w, cpu);
			return;
		}
		work_measure(w);
	}
	cassandra_request(w, cpu);
}

const struct work_kind work_cassandra = {
	.name = "cassandra",
	.what = "store with a cache of its own, in Java: must not gain",
	.state_bytes = sizeof(struct cassandra),
	.begin = cassandra_begin,
	.step = cassandra_step,
	.end = cassandra_end,
};
