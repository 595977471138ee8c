/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Redis (KLOCs Table 3): 16 servers with a client each, 75 % sets. A request comes and goes in
 * packets of the client's socket, which stays open. Meanwhile a child of each server writes the
 * data to a large file. When it is done, it deletes the file before, and begins again.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

#define SHORT_BYTES 256u /* a get's request, a set's answer */
#define INDEX_TOUCHES 2u
#define INDEX_BYTES 64u
#define INDEX_SHARE 20u /* one page in so many belongs to the index */

struct server {
	struct work_socket socket;
	u32 first_page, pages;
	u32 file, old_file, frame; /* of the checkpoint under way, and the one before */
	u32 requests;
};

struct redis {
	struct server *servers;
	u32 nr_servers, server_frames;
	u32 nr_loaded; /* pages, of each server */
};

static int redis_begin(struct work *w)
{
	const struct cost_work *c = w->cost;
	struct redis *r = w->state;
	u32 i, pages;

	w->source.os_percent = c->redis_os_percent;
	w->app_pages =
		work_pages(w, c->redis_mib, c->redis_app_percent, 4 * c->threads);
	r->nr_servers = c->threads;
	r->servers = calloc(r->nr_servers, sizeof(*r->servers));
	if (!r->servers)
		return -ENOMEM;
	pages = w->app_pages / r->nr_servers;
	w->app_pages = pages * r->nr_servers;
	/* What is not the data are checkpoints, of which a server has at most two. */
	r->server_frames = work_pages(w, c->redis_mib, 100 - c->redis_app_percent,
	                              4 * c->threads) /
	                   (2 * r->nr_servers);
	if (r->server_frames == 0)
		r->server_frames = 1;
	for (i = 0; i < r->nr_servers; i++) {
		r->servers[i].first_page = i * pages;
		r->servers[i].pages = pages;
	}
	work_footprint(w, work_pages(w, c->redis_mib, 100, 64));
	return 0;
}

static void redis_end(struct work *w)
{
	free(((struct redis *)w->state)->servers);
}

static void server_checkpoint(struct work *w, u32 cpu, struct server *s)
{
	struct redis *r = w->state;

	if (!s->file)
		s->file = work_file_create(w, cpu);
	work_app(w, cpu, s->first_page + s->frame % s->pages, WORK_PAGE, false);
	work_file_append(w, cpu, s->file, s->frame);
	if (++s->frame < r->server_frames)
		return;
	work_file_close(w, cpu, s->file);
	if (s->old_file)
		work_file_unlink(w, cpu, s->old_file);
	s->old_file = s->file;
	s->file = s->frame = 0;
}

static void server_request(struct work *w, u32 cpu, struct server *s)
{
	bool set = work_random(w, 100) < w->cost->redis_set_percent;
	u32 value = w->cost->redis_value_bytes;
	u32 index = s->pages / INDEX_SHARE + 1, i;

	work_socket_packet(w, cpu, &s->socket, set ? value : SHORT_BYTES);
	for (i = 0; i < INDEX_TOUCHES; i++)
		work_app(w, cpu, s->first_page + work_random(w, index), INDEX_BYTES,
		         false);
	work_app(w, cpu, s->first_page + work_random(w, s->pages),
	         value < WORK_PAGE ? value : WORK_PAGE, set);
	work_socket_packet(w, cpu, &s->socket, set ? SHORT_BYTES : value);
	if (++s->requests % w->cost->redis_requests_a_frame == 0)
		server_checkpoint(w, cpu, s);
}

static void redis_step(struct work *w)
{
	struct redis *r = w->state;
	u32 cpu = work_turn(w);
	struct server *s = &r->servers[cpu];

	if (!w->measured) {
		u32 pages = w->app_pages;

		/* The servers fill side by side; the first checkpoints come meanwhile. */
		if (!s->socket.file)
			work_socket_open(w, cpu, &s->socket,
			                 w->cost->redis_flight / w->scale);
		if (r->nr_loaded < pages) {
			work_app_load(w, cpu, ++r->nr_loaded, pages);
			server_checkpoint(w, cpu, s);
			return;
		}
		work_measure(w);
	}
	server_request(w, cpu, s);
}

const struct work_kind work_redis = {
	.name = "redis",
	.what = "key-value servers: sockets, checkpoints to large files",
	.state_bytes = sizeof(struct redis),
	.begin = redis_begin,
	.step = redis_step,
	.end = redis_end,
};
