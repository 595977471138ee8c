/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What `lodic run --record` wrote, as a source of events (preload/run_recorded.h).
 *
 * A process that ends, or that runs another program, closes what it has open. The record says
 * so only of processes that end by themselves. So what each process has open is kept here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kloc/kloc.h"
#include "preload/run_recorded.h"
#include "sim/tier/table.h"
#include "sim/tier/trace.h"

#define FRAME_BYTES 4096u
#define FILE_BYTES ((u64)FRAME_BYTES << 32) /* a frame's number has 32 bits */

struct open_file {
	u32 pid, file;
};

struct run_trace {
	struct tier_source source;
	FILE *f;
	char *path;
	u64 line, nr;       /* events; the last one that there may be */
	struct table files; /* (file's number in two halves) -> our number */
	u32 nr_files;
	struct open_file *opens; /* in no order */
	u32 nr_opens, room;
	u32 ends; /* the process that ends, and has files open yet; 0: none */
	/* The event under way. */
	struct recorded event;
	bool computed; /* the time before it has been told, and nothing else */
	u16 cpu;
	u32 file;
	u64 first, last; /* frames that it reads; last < first: none */
};

static int run_trace_wrong(const struct run_trace *t, const char *why)
{
	fprintf(stderr, "lodic-sim: %s: event %" PRIu64 ": %s\n", t->path, t->line,
	        why);
	return -EINVAL;
}

static u32 pid_of(const struct recorded *r)
{
	return (u32)r->who;
}

static enum recorded_op op_of(const struct recorded *r)
{
	return (enum recorded_op)(r->who >> 48);
}

/* Sets t->file. */
static int file_find(struct run_trace *t)
{
	u32 high = (u32)(t->event.file >> 32), low = (u32)t->event.file;
	struct table_entry *entry = table_find(&t->files, high, 0, low);

	if (!entry) {
		if (t->nr_files + 1 >= TRACE_MAX_FILES)
			return run_trace_wrong(t, "too many files");
		entry = table_insert(&t->files, high, 0, low);
		if (!entry)
			return -ENOMEM;
		entry->value = ++t->nr_files;
	}
	t->file = entry->value;
	return 0;
}

static int opens_add(struct run_trace *t)
{
	if (t->nr_opens == t->room) {
		u32 room = t->room ? 2 * t->room : 256;
		struct open_file *opens = realloc(t->opens, room * sizeof(*opens));

		if (!opens)
			return -ENOMEM;
		t->opens = opens;
		t->room = room;
	}
	t->opens[t->nr_opens++] = (struct open_file){ pid_of(&t->event), t->file };
	return 0;
}

/* One that the process has open: file, or if that is 0 any. Returns its file; 0: there is none. */
static u32 opens_remove(struct run_trace *t, u32 pid, u32 file)
{
	u32 i;

	for (i = t->nr_opens; i-- > 0;) {
		if (t->opens[i].pid != pid || (file && t->opens[i].file != file))
			continue;
		file = t->opens[i].file;
		t->opens[i] = t->opens[--t->nr_opens];
		return file;
	}
	return 0;
}

static int emit(const struct run_trace *t, enum tier_op op, u32 file, u32 index,
                u32 bytes, struct tier_event *ret_event)
{
	*ret_event = (struct tier_event){ t->cpu, (u8)op, file ? KLOC_FRAME : 0,
		                          file,   index,  bytes };
	return 1;
}

/* The next event of the file: 1, or 0 at the end. */
static int event_read(struct run_trace *t)
{
	do {
		if (t->line == t->nr)
			return 0;
		t->line++;
		if (fread(&t->event, sizeof(t->event), 1, t->f) != 1)
			return run_trace_wrong(t, "cut off");
		if (op_of(&t->event) >= RECORDED_NR_OPS)
			return run_trace_wrong(t, "there is no such operation");
	} while (op_of(&t->event) == RECORDED_NOTHING);
	t->cpu = (u16)((t->event.who >> 32 & UINT16_MAX) % t->source.nr_cpus);
	return 1;
}

static int begin_read(struct run_trace *t)
{
	const struct recorded *r = &t->event;

	if (r->bytes == 0 || r->offset >= FILE_BYTES ||
	    r->bytes > FILE_BYTES - r->offset)
		return run_trace_wrong(t, "beyond 16 TiB of a file, or nothing");
	t->first = r->offset / FRAME_BYTES;
	t->last = (r->offset + r->bytes - 1) / FRAME_BYTES;
	return 0;
}

static int next_frame(struct run_trace *t, struct tier_event *ret_event)
{
	u64 begin = t->first * FRAME_BYTES, end = begin + FRAME_BYTES;

	if (begin < t->event.offset)
		begin = t->event.offset;
	if (end > t->event.offset + t->event.bytes)
		end = t->event.offset + t->event.bytes;
	return emit(t, TIER_READ, t->file, (u32)t->first++, (u32)(end - begin),
	            ret_event);
}

/* What the event is, without the time before it. 0: it says nothing of files. */
static int event_begin(struct run_trace *t, struct tier_event *ret_event)
{
	enum recorded_op op = op_of(&t->event);
	int err;

	if (op == RECORDED_PROCESS || op == RECORDED_END) {
		t->ends = pid_of(&t->event);
		return 0;
	}
	err = file_find(t);
	if (!err && op == RECORDED_READ)
		err = begin_read(t);
	if (!err && op == RECORDED_OPEN)
		err = opens_add(t);
	if (err || op == RECORDED_READ)
		return err;
	if (op == RECORDED_CLOSE && !opens_remove(t, pid_of(&t->event), t->file))
		return 0;
	return emit(t, op == RECORDED_OPEN ? TIER_OPEN : TIER_CLOSE, t->file, 0, 0,
	            ret_event);
}

static int run_trace_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct run_trace *t = (struct run_trace *)source;
	u32 file;
	int got;

	for (;;) {
		if (t->first <= t->last)
			return next_frame(t, ret_event);
		file = t->ends ? opens_remove(t, t->ends, 0) : 0;
		if (file)
			return emit(t, TIER_CLOSE, file, 0, 0, ret_event);
		t->ends = 0;
		if (!t->computed) {
			got = event_read(t);
			if (got <= 0)
				return got;
			t->computed = true;
			if (t->event.cpu_ns)
				return emit(t, TIER_COMPUTE, 0, 0, t->event.cpu_ns,
				            ret_event);
		}
		t->computed = false;
		got = event_begin(t, ret_event);
		if (got != 0)
			return got;
	}
}

static void run_trace_close(struct tier_source *source)
{
	struct run_trace *t = (struct run_trace *)source;

	if (t->f)
		fclose(t->f);
	if (t->files.entries)
		table_end(&t->files);
	free(t->opens);
	free(t->path);
	free(t);
}

static int head_read(struct run_trace *t)
{
	static const char *const ends[] = {
		[RECORDED_NO_ROOM] = "it was full (lodic run --record-size)",
		[RECORDED_NO_DISK] = "its disk was full",
	};
	struct recorded_head head;

	if (fread(&head, sizeof(head), 1, t->f) != 1 ||
	    memcmp(head.magic, RECORDED_MAGIC, sizeof(head.magic)) != 0 ||
	    head.event_bytes != sizeof(t->event) || head.nr_cpus == 0 ||
	    fseek(t->f, RECORDED_HEAD_BYTES, SEEK_SET) != 0)
		return run_trace_wrong(
			t, "this is no record of `lodic run --record`, or one of "
			   "another version");
	if (head.ended && head.ended < sizeof(ends) / sizeof(*ends))
		fprintf(stderr,
		        "lodic-sim: %s: the record ends before its programs: %s\n",
		        t->path, ends[head.ended]);
	t->nr = head.nr < head.room ? head.nr : head.room;
	t->source.nr_cpus = head.nr_threads < 1               ? 1
	                    : head.nr_threads < TIER_MAX_CPUS ? (u32)head.nr_threads
	                                                      : TIER_MAX_CPUS;
	t->source.nr_cpus_busy =
		head.nr_cpus < t->source.nr_cpus ? head.nr_cpus : t->source.nr_cpus;
	return 0;
}

int trace_run_open(const char *path, struct tier_source **ret_source)
{
	struct run_trace *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (!t)
		return err;
	t->source = (struct tier_source){ .next = run_trace_next,
		                          .close = run_trace_close };
	t->first = 1;
	t->path = strdup(path);
	t->f = fopen(path, "rb");
	if (!t->f) {
		err = -errno;
		fprintf(stderr, "lodic-sim: %s: %s\n", path, strerror(errno));
	} else if (t->path) {
		err = head_read(t);
	}
	if (!err)
		err = table_begin(&t->files);
	if (err) {
		run_trace_close(&t->source);
		return err;
	}
	t->source.name = t->path;
	*ret_source = &t->source;
	return 0;
}
