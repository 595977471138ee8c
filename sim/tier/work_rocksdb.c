/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * RocksDB under db_bench (KLOCs Table 3): half reads, half writes, each half of them at random
 * and half in order. Values lie in files of 4 MB, one a range of keys. A write goes to the log
 * and to a memtable. A full memtable becomes a file. Then a compaction merges it with the next
 * ranges: it reads their files, writes new ones, and deletes the old ones. A table cache
 * keeps some files open and closes those that are not used.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

#define MERGED 4u              /* files that a compaction merges a new one with */
#define COMPACTION_CHUNK 8u    /* frames that it reads or writes beside an operation */
#define BLOCK_CACHE_TOUCHES 4u /* of index and filter blocks, for a lookup */
#define BLOCK_CACHE_BYTES 256u

struct table_file {
	u32 id;
	bool is_open, was_used;
};

struct cursor {
	u32 range, frame;
};

struct rocksdb {
	struct table_file *files; /* one a range of keys */
	u32 nr_files, file_frames, value_frames;
	u32 *open_ranges; /* the table cache: a clock */
	u32 nr_open, most_open, hand;
	struct cursor *cursors; /* one a thread */
	u32 memtable_page, memtable_pages, memtable_values;
	u32 log_file, log_frame;
	/* The compaction under way. */
	bool compacts;
	u32 first_range, part, frame, new_file;
};

/* A free place of the table cache; when it is full, a file that was not used is closed. */
static u32 table_slot(struct work *w, u32 cpu)
{
	struct rocksdb *r = w->state;
	struct table_file *old;
	u32 at;

	if (r->nr_open < r->most_open)
		return r->nr_open++;
	for (;;) {
		at = r->hand;
		old = &r->files[r->open_ranges[at]];
		r->hand = (r->hand + 1) % r->most_open;
		if (!old->was_used)
			break;
		old->was_used = false;
	}
	work_file_close(w, cpu, old->id);
	old->is_open = false;
	return at;
}

static struct table_file *table_open(struct work *w, u32 cpu, u32 range)
{
	struct rocksdb *r = w->state;
	struct table_file *file = &r->files[range];

	file->was_used = true;
	if (!file->is_open) {
		r->open_ranges[table_slot(w, cpu)] = range;
		file->is_open = true;
		work_file_open(w, cpu, file->id);
	}
	return file;
}

static int rocksdb_begin(struct work *w)
{
	const struct cost_work *c = w->cost;
	struct rocksdb *r = w->state;
	u32 pages = work_pages(w, c->rocksdb_mib, 100, 64);
	u64 cache_kib =
		(u64)c->rocksdb_mib * 1024 * (100 - c->rocksdb_app_percent) / 100;

	w->source.os_percent = c->rocksdb_os_percent;
	w->app_pages = work_pages(w, c->rocksdb_mib, c->rocksdb_app_percent, 16);
	r->value_frames = (c->rocksdb_value_bytes + WORK_PAGE - 1) / WORK_PAGE;
	r->nr_files = (u32)(cache_kib / c->rocksdb_file_kib);
	r->file_frames = c->rocksdb_file_kib / 4 / w->scale;
	if (r->file_frames < r->value_frames)
		r->file_frames = r->value_frames;
	r->most_open = r->nr_files * c->rocksdb_open_percent / 100 + 1;
	/* A memtable becomes one file. Half of the application's memory are memtables. */
	r->memtable_pages = w->app_pages / 2 + 1;
	r->files = calloc(r->nr_files, sizeof(*r->files));
	r->open_ranges = calloc(r->most_open, sizeof(u32));
	r->cursors = calloc(c->threads, sizeof(*r->cursors));
	work_footprint(w, pages);
	return r->files && r->open_ranges && r->cursors ? 0 : -ENOMEM;
}

static void rocksdb_end(struct work *w)
{
	struct rocksdb *r = w->state;

	free(r->files);
	free(r->open_ranges);
	free(r->cursors);
}

/* The whole database is written once, file by file, before anything is measured. */
static void rocksdb_load(struct work *w, u32 cpu, u32 range)
{
	struct rocksdb *r = w->state;
	u32 frame;

	work_app_load(w, cpu, range + 1, r->nr_files);
	r->files[range].id = work_file_create(w, cpu);
	for (frame = 0; frame < r->file_frames; frame++)
		work_file_append(w, cpu, r->files[range].id, frame);
	work_file_close(w, cpu, r->files[range].id);
}

/* The next part of the compaction: some frames of a file that it reads, and as many of the one
 * that it writes instead. */
static void rocksdb_compact(struct work *w, u32 cpu, u32 frames)
{
	struct rocksdb *r = w->state;

	while (frames-- > 0 && r->compacts) {
		u32 range = (r->first_range + r->part) % r->nr_files;
		struct table_file *old = &r->files[range];

		if (r->frame == 0) {
			table_open(w, cpu, range);
			/* So that the table cache cannot close it on the way. */
			work_file_open(w, cpu, old->id);
			r->new_file = work_file_create(w, cpu);
		}
		work_file_read(w, cpu, old->id, r->frame, WORK_PAGE);
		work_file_append(w, cpu, r->new_file, r->frame);
		if (++r->frame < r->file_frames)
			continue;
		/* The new file takes the range; the table cache has it open now. */
		work_file_close(w, cpu, old->id);
		if (old->is_open)
			work_file_close(w, cpu, old->id);
		work_file_unlink(w, cpu, old->id);
		old->id = r->new_file;
		if (!old->is_open)
			work_file_close(w, cpu, old->id);
		r->frame = 0;
		if (++r->part == MERGED) {
			r->compacts = false;
			r->first_range = (r->first_range + MERGED) % r->nr_files;
		}
	}
}

/* A full memtable is written as a file, which the compaction then takes in. */
static void rocksdb_flush(struct work *w, u32 cpu)
{
	struct rocksdb *r = w->state;
	u32 frame, file;

	rocksdb_compact(w, cpu, MERGED * r->file_frames);
	file = work_file_create(w, cpu);
	for (frame = 0; frame < r->file_frames; frame++)
		work_file_append(w, cpu, file, frame);
	/* Its values go into the ranges that are merged: they grow by nothing, because as many
	 * old versions go. The table cache has had it open since it was written. */
	for (frame = 0; frame < r->file_frames; frame++)
		work_file_read(w, cpu, file, frame, WORK_PAGE);
	work_file_close(w, cpu, file);
	work_file_unlink(w, cpu, file);
	r->compacts = true;
	r->part = r->frame = 0;
}

static void rocksdb_write(struct work *w, u32 cpu)
{
	struct rocksdb *r = w->state;
	u32 frame;

	if (!r->log_file)
		r->log_file = work_file_create(w, cpu);
	for (frame = 0; frame < r->value_frames; frame++) {
		work_app(w, cpu, r->memtable_page, WORK_PAGE, true);
		r->memtable_page = (r->memtable_page + 1) % r->memtable_pages;
		work_file_append(w, cpu, r->log_file, r->log_frame++);
	}
	r->memtable_values += r->value_frames;
	if (r->memtable_values < r->file_frames)
		return;
	r->memtable_values = 0;
	rocksdb_flush(w, cpu);
	work_file_close(w, cpu, r->log_file);
	work_file_unlink(w, cpu, r->log_file);
	r->log_file = r->log_frame = 0;
}

static void rocksdb_read(struct work *w, u32 cpu, u32 range, u32 frame)
{
	struct rocksdb *r = w->state;
	struct table_file *file = table_open(w, cpu, range);
	u32 i, page;

	for (i = 0; i < BLOCK_CACHE_TOUCHES; i++) {
		page = r->memtable_pages +
		       work_random(w, w->app_pages - r->memtable_pages);
		work_app(w, cpu, page, BLOCK_CACHE_BYTES, false);
	}
	for (i = 0; i < r->value_frames && frame + i < r->file_frames; i++)
		work_file_read(w, cpu, file->id, frame + i, WORK_PAGE);
}

static void rocksdb_step(struct work *w)
{
	struct rocksdb *r = w->state;
	u32 cpu = work_turn(w), values = r->file_frames / r->value_frames;
	struct cursor *cursor = &r->cursors[cpu];

	if (!w->measured) {
		if (r->part < r->nr_files) {
			rocksdb_load(w, cpu, r->part++);
			return;
		}
		for (u32 i = 0; i < w->cost->threads; i++)
			r->cursors[i].range = work_random(w, r->nr_files);
		work_measure(w);
	}
	rocksdb_compact(w, cpu, COMPACTION_CHUNK);
	switch (work_random(w, 4)) {
	case 0:
	case 1: rocksdb_write(w, cpu); break;
	case 2:
		/* Which ranges are hot follows from no order of theirs. */
		rocksdb_read(w, cpu,
		             (u32)((u64)work_zipf(w, r->nr_files,
		                                  w->cost->rocksdb_zipf_percent) *
		                   2654435761u % r->nr_files),
		             work_random(w, values) * r->value_frames);
		break;
	default:
		rocksdb_read(w, cpu, cursor->range, cursor->frame);
		cursor->frame += r->value_frames;
		if (cursor->frame >= r->file_frames)
			*cursor =
				(struct cursor){ (cursor->range + 1) % r->nr_files, 0 };
	}
}

const struct work_kind work_rocksdb = {
	.name = "rocksdb",
	.what = "log-structured store: many files, compaction, a table cache",
	.state_bytes = sizeof(struct rocksdb),
	.begin = rocksdb_begin,
	.step = rocksdb_step,
	.end = rocksdb_end,
};
