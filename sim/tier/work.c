/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Generators, what all share: sim/tier/work.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/random.h"
#include "sim/tier/work.h"

#define TOUCH_BYTES 64u /* of an index, an inode, a header: a line */

u32 work_random(struct work *w, u32 n)
{
	return (u32)(((random_next(&w->random) >> 32) * n) >> 32);
}

/* By the inverse of the continuous law, which has no table and is close enough for ranks. */
u32 work_zipf(struct work *w, u32 n, u32 theta_percent)
{
	double u = (double)(random_next(&w->random) >> 11) * 0x1p-53;
	double power = 1.0 - theta_percent / 100.0;
	double x;

	if (theta_percent == 0)
		return (u32)(u * n);
	if (theta_percent == 100)
		x = pow((double)n + 1, u);
	else
		x = pow(u * (pow((double)n + 1, power) - 1) + 1, 1 / power);
	return x - 1 < n ? (u32)(x - 1) : n - 1;
}

u32 work_pages(const struct work *w, u64 mib, u32 percent, u32 least)
{
	u64 pages = mib * 256 * percent / 100 / w->scale;

	return pages < least ? least : (u32)pages;
}

u32 work_turn(struct work *w)
{
	u32 cpu = w->next_cpu;

	w->next_cpu = (cpu + 1) % w->source.nr_cpus_busy;
	return cpu;
}

void work_emit(struct work *w, enum tier_op op, u32 cpu, u32 kind, u32 file, u32 index,
               u32 bytes)
{
	if (w->nr == w->room) {
		u32 room = w->room ? 2 * w->room : 1024;
		struct tier_event *queue = realloc(w->queue, room * sizeof(*queue));

		if (!queue) {
			w->failed = true;
			return;
		}
		w->queue = queue;
		w->room = room;
	}
	if ((op == TIER_READ || op == TIER_WRITE) && kind <= KLOC_FRAME)
		w->touched += bytes;
	w->queue[w->nr++] =
		(struct tier_event){ (u16)cpu, (u8)op, (u8)kind, file, index, bytes };
}

void work_app(struct work *w, u32 cpu, u32 page, u32 bytes, bool write)
{
	work_emit(w, write ? TIER_WRITE : TIER_READ, cpu, KLOC_APP, 0, page, bytes);
}

void work_app_load(struct work *w, u32 cpu, u64 part, u64 whole)
{
	u32 wanted = (u32)(w->app_pages * part / whole);

	for (; w->app_loaded < wanted; w->app_loaded++) {
		work_emit(w, TIER_ADD, cpu, KLOC_APP, 0, w->app_loaded, WORK_PAGE);
		work_app(w, cpu, w->app_loaded, WORK_PAGE, true);
	}
}

/* A change of the file system's own blocks. The oldest block is checkpointed for it. */
static void work_journal(struct work *w, u32 cpu, u32 file)
{
	u32 at = w->journal_at;

	if (w->journal_files[at])
		work_emit(w, TIER_REMOVE, cpu, KLOC_JOURNAL, w->journal_files[at],
		          w->journal_indexes[at], 0);
	w->journal_files[at] = file;
	w->journal_indexes[at] = w->next_journal;
	work_emit(w, TIER_ADD, cpu, KLOC_JOURNAL, file, w->next_journal,
	          w->cost->journal_bytes);
	/* Copied into the log, and out of it. */
	work_emit(w, TIER_WRITE, cpu, KLOC_JOURNAL, file, w->next_journal,
	          w->cost->journal_bytes);
	work_emit(w, TIER_READ, cpu, KLOC_JOURNAL, file, w->next_journal,
	          w->cost->journal_bytes);
	w->next_journal++;
	w->journal_at = (at + 1) % w->journal_room;
}

/* One of frames_a_request frames that go to the device in one request, which belongs to the file
 * of the first one. */
static void work_block_io(struct work *w, u32 cpu, u32 file)
{
	u32 bytes = w->cost->block_io_bytes;

	if (w->nr_request == 0) {
		w->request_file = file;
		work_emit(w, TIER_ADD, cpu, KLOC_BLOCK_IO, file, 0, bytes);
		work_emit(w, TIER_WRITE, cpu, KLOC_BLOCK_IO, file, 0, bytes);
	}
	if (++w->nr_request < w->cost->frames_a_request)
		return;
	work_emit(w, TIER_READ, cpu, KLOC_BLOCK_IO, w->request_file, 0, bytes);
	work_emit(w, TIER_REMOVE, cpu, KLOC_BLOCK_IO, w->request_file, 0, 0);
	w->nr_request = 0;
}

u32 work_file_create(struct work *w, u32 cpu)
{
	u32 file = w->next_file++;

	work_emit(w, TIER_OPEN, cpu, 0, file, 0, 0);
	work_emit(w, TIER_ADD, cpu, KLOC_SLAB, file, WORK_INODE, w->cost->inode_bytes);
	work_emit(w, TIER_ADD, cpu, KLOC_SLAB, file, WORK_DENTRY,
	          w->cost->dentry_bytes);
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file, WORK_INODE,
	          w->cost->inode_bytes);
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file, WORK_DENTRY,
	          w->cost->dentry_bytes);
	return file;
}

void work_file_open(struct work *w, u32 cpu, u32 file)
{
	work_emit(w, TIER_OPEN, cpu, 0, file, 0, 0);
	work_emit(w, TIER_READ, cpu, KLOC_SLAB, file, WORK_DENTRY, TOUCH_BYTES);
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file, WORK_INODE, TOUCH_BYTES);
}

void work_file_close(struct work *w, u32 cpu, u32 file)
{
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file, WORK_INODE, TOUCH_BYTES);
	work_emit(w, TIER_CLOSE, cpu, 0, file, 0, 0);
}

void work_file_unlink(struct work *w, u32 cpu, u32 file)
{
	work_emit(w, TIER_READ, cpu, KLOC_SLAB, file, WORK_DENTRY, TOUCH_BYTES);
	work_journal(w, cpu, file);
	work_emit(w, TIER_UNLINK, cpu, 0, file, 0, 0);
}

void work_file_append(struct work *w, u32 cpu, u32 file, u32 frame)
{
	if (frame % WORK_TABLE_SLOTS == 0)
		work_emit(w, TIER_ADD, cpu, KLOC_TABLE, file, frame / WORK_TABLE_SLOTS,
		          w->cost->table_bytes);
	if (frame % WORK_EXTENT_FRAMES == 0)
		work_emit(w, TIER_ADD, cpu, KLOC_SLAB, file,
		          WORK_EXTENT + frame / WORK_EXTENT_FRAMES,
		          w->cost->extent_bytes);
	work_emit(w, TIER_ADD, cpu, KLOC_FRAME, file, frame, WORK_PAGE);
	work_file_write(w, cpu, file, frame, WORK_PAGE);
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file,
	          WORK_EXTENT + frame / WORK_EXTENT_FRAMES, w->cost->extent_bytes);
	if (++w->nr_new >= w->cost->frames_a_journal) {
		work_journal(w, cpu, file);
		w->nr_new = 0;
	}
}

void work_file_write(struct work *w, u32 cpu, u32 file, u32 frame, u32 bytes)
{
	work_emit(w, TIER_WRITE, cpu, KLOC_TABLE, file, frame / WORK_TABLE_SLOTS,
	          TOUCH_BYTES);
	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, file, WORK_INODE, TOUCH_BYTES);
	work_emit(w, TIER_WRITE, cpu, KLOC_FRAME, file, frame, bytes);
	work_block_io(w, cpu, file);
}

void work_file_read(struct work *w, u32 cpu, u32 file, u32 frame, u32 bytes)
{
	work_emit(w, TIER_READ, cpu, KLOC_SLAB, file, WORK_INODE, TOUCH_BYTES);
	work_emit(w, TIER_READ, cpu, KLOC_TABLE, file, frame / WORK_TABLE_SLOTS,
	          TOUCH_BYTES);
	work_emit(w, TIER_READ, cpu, KLOC_FRAME, file, frame, bytes);
}

void work_socket_open(struct work *w, u32 cpu, struct work_socket *socket, u32 flight)
{
	*socket = (struct work_socket){ w->next_file++, 0, flight ? flight : 1 };
	work_emit(w, TIER_OPEN, cpu, 0, socket->file, 0, 0);
	work_emit(w, TIER_ADD, cpu, KLOC_SLAB, socket->file, WORK_INODE,
	          w->cost->inode_bytes);
}

/* A head and its data: two objects, which are written once and read once. */
void work_socket_packet(struct work *w, u32 cpu, struct work_socket *socket, u32 bytes)
{
	u32 at = 2 * (socket->next++ % socket->flight);
	u32 part, sizes[2] = { w->cost->packet_head_bytes, bytes };

	work_emit(w, TIER_WRITE, cpu, KLOC_SLAB, socket->file, WORK_INODE, TOUCH_BYTES);
	for (part = 0; part < 2; part++) {
		u32 index = at + part;

		work_emit(w, TIER_REMOVE, cpu, KLOC_SOCKET, socket->file, index, 0);
		work_emit(w, TIER_ADD, cpu, KLOC_SOCKET, socket->file, index,
		          sizes[part]);
		work_emit(w, TIER_WRITE, cpu, KLOC_SOCKET, socket->file, index,
		          sizes[part]);
		work_emit(w, TIER_READ, cpu, KLOC_SOCKET, socket->file, index,
		          sizes[part]);
	}
}

void work_measure(struct work *w)
{
	work_emit(w, TIER_MEASURE, 0, 0, 0, 0, 0);
	w->measured = true;
	w->touched = 0;
}

void work_footprint(struct work *w, u32 pages)
{
	w->to_touch = (u64)pages * WORK_PAGE * w->cost->run_percent / 100;
}

static int work_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct work *w = (struct work *)source;

	while (w->head == w->nr) {
		w->head = w->nr = 0;
		if (w->measured && w->touched >= w->to_touch)
			return 0;
		w->kind->step(w);
		if (w->failed)
			return -ENOMEM;
	}
	*ret_event = w->queue[w->head++];
	return 1;
}

static void work_close(struct tier_source *source)
{
	struct work *w = (struct work *)source;

	if (w->kind->end && w->state)
		w->kind->end(w);
	free(w->state);
	free(w->queue);
	free(w->journal_files);
	free(w->journal_indexes);
	free(w);
}

static const struct work_kind *work_find(const char *name)
{
	u32 i;

	for (i = 0; i < work_nr_kinds; i++)
		if (strcmp(work_kinds[i]->name, name) == 0)
			return work_kinds[i];
	return NULL;
}

int work_open(const char *name, const struct work_options *options,
              struct tier_source **ret_source)
{
	const struct work_kind *kind = work_find(name);
	struct work *w;
	int err;

	if (!kind)
		return -ENOENT;
	if (options->cost->work.threads > TIER_MAX_CPUS)
		return -E2BIG;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->source = (struct tier_source){ .name = kind->name,
		                          .nr_cpus = options->cost->work.threads,
		                          .nr_cpus_busy = options->cost->work.threads,
		                          .next = work_next,
		                          .close = work_close };
	w->kind = kind;
	w->cost = &options->cost->work;
	w->scale = options->scale;
	w->reuse = options->reuse;
	w->random = options->seed;
	w->next_file = 1;
	w->journal_room = w->cost->journal_live / w->scale + 1;
	w->state = calloc(1, kind->state_bytes);
	w->journal_files = calloc(w->journal_room, sizeof(u32));
	w->journal_indexes = calloc(w->journal_room, sizeof(u32));
	err = w->state && w->journal_files && w->journal_indexes ? kind->begin(w)
	                                                         : -ENOMEM;
	if (err) {
		work_close(&w->source);
		return err;
	}
	*ret_source = &w->source;
	return 0;
}
