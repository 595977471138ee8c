/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Traces as sources of events, and the recorder: sim/tier/trace.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/kloc/kloc.h"
#include "preload/run_recorded.h"
#include "sim/tier/record.h"
#include "sim/tier/table.h"
#include "sim/tier/trace.h"

#define FRAME_BYTES 4096u
#define FILE_BYTES ((u64)FRAME_BYTES << 32) /* a frame's number has 32 bits */
#define HEAD_TEXT 4096u

struct trace {
	struct tier_source source;
	FILE *f;
	char *path;
	u64 line; /* or record: for messages */
	/* Of public traces only. */
	trace_parse parse;
	struct table files; /* (file's name in two halves) -> our number */
	u32 nr_files;
	u32 open_files[TRACE_OPEN_FILES];
	bool was_used[TRACE_OPEN_FILES];
	u32 nr_open, hand;
	u64 first, last; /* frames of the request under way; last < first: none */
	struct trace_request request;
	u32 file;                     /* of the request */
	struct tier_event pending[2]; /* a close and an open before it */
	u32 nr_pending;
};

static int trace_wrong(const struct trace *t, const char *why)
{
	fprintf(stderr, "lodic-sim: %s: record %llu: %s\n", t->path,
	        (unsigned long long)t->line, why);
	return -EINVAL;
}

static int own_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct trace *t = (struct trace *)source;
	size_t n = fread(ret_event, 1, sizeof(*ret_event), t->f);

	if (n == 0 && !ferror(t->f))
		return 0;
	t->line++;
	if (n != sizeof(*ret_event))
		return trace_wrong(t, "cut off");
	if (ret_event->op >= TIER_NR_OPS || ret_event->kind >= KLOC_NR_KINDS ||
	    ret_event->cpu >= source->nr_cpus ||
	    (ret_event->op == TIER_TASK && ret_event->index >= source->nr_cpus))
		return trace_wrong(t, "no such operation, kind or CPU");
	if (ret_event->op == TIER_ADD && ret_event->bytes == 0)
		return trace_wrong(t, "an object of no bytes");
	/* The engine has an array by file. */
	if (ret_event->file >= TRACE_MAX_FILES)
		return trace_wrong(t,
		                   "a file's number is too large; number them from 1");
	return 1;
}

/* The file's number here; the request's file is opened if it is not open. */
static int public_file(struct trace *t)
{
	u32 high = (u32)(t->request.file >> 32), low = (u32)t->request.file, i;
	struct table_entry *entry = table_find(&t->files, high, 0, low);
	u16 cpu;

	if (!entry) {
		entry = table_insert(&t->files, high, 0, low);
		if (!entry)
			return -ENOMEM;
		entry->value = ++t->nr_files;
		entry->more = TRACE_OPEN_FILES;
	}
	t->file = entry->value;
	cpu = (u16)(t->file % TRACE_CPUS);
	i = entry->more; /* its place, if it still has it */
	if (i < t->nr_open && t->open_files[i] == t->file) {
		t->was_used[i] = true;
		return 0;
	}
	if (t->nr_open < TRACE_OPEN_FILES) {
		i = t->nr_open++;
	} else {
		for (; t->was_used[t->hand]; t->hand = (t->hand + 1) % TRACE_OPEN_FILES)
			t->was_used[t->hand] = false;
		i = t->hand;
		t->hand = (i + 1) % TRACE_OPEN_FILES;
		/* Events are taken from the end. */
		t->pending[1] =
			(struct tier_event){ (u16)(t->open_files[i] % TRACE_CPUS),
			                     TIER_CLOSE,
			                     0,
			                     t->open_files[i],
			                     0,
			                     0 };
		t->nr_pending = 2;
	}
	t->open_files[i] = t->file;
	t->was_used[i] = false;
	entry->more = i;
	t->pending[0] = (struct tier_event){ cpu, TIER_OPEN, 0, t->file, 0, 0 };
	if (t->nr_pending == 0)
		t->nr_pending = 1;
	return 0;
}

/* The next frame of the request under way. */
static void public_frame(struct trace *t, struct tier_event *ret_event)
{
	u64 begin = t->first * FRAME_BYTES, end = begin + FRAME_BYTES;

	if (begin < t->request.offset)
		begin = t->request.offset;
	if (end > t->request.offset + t->request.bytes)
		end = t->request.offset + t->request.bytes;
	*ret_event = (struct tier_event){ (u16)(t->file % TRACE_CPUS),
		                          t->request.write ? TIER_WRITE : TIER_READ,
		                          KLOC_FRAME,
		                          t->file,
		                          (u32)t->first++,
		                          (u32)(end - begin) };
}

static int public_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct trace *t = (struct trace *)source;
	const char *why = "";
	int got;

	if (t->nr_pending > 0) {
		*ret_event = t->pending[--t->nr_pending];
		return 1;
	}
	if (t->first > t->last) {
		got = t->parse(t->f, &t->line, &t->request, &why);
		if (got < 0)
			return trace_wrong(t, why);
		if (got == 0)
			return 0;
		if (t->request.offset >= FILE_BYTES || t->request.bytes > FILE_BYTES ||
		    t->request.offset + t->request.bytes > FILE_BYTES)
			return trace_wrong(t, "beyond 16 TiB of a file");
		t->first = t->request.offset / FRAME_BYTES;
		t->last = (t->request.offset + t->request.bytes - 1) / FRAME_BYTES;
		got = public_file(t);
		return got ? got : public_next(source, ret_event);
	}
	public_frame(t, ret_event);
	return 1;
}

static void trace_close(struct tier_source *source)
{
	struct trace *t = (struct trace *)source;

	if (t->f)
		fclose(t->f);
	if (t->files.entries)
		table_end(&t->files);
	free(t->path);
	free(t);
}

/* What kind of trace is it? By its first bytes. */
static const char *trace_guess(FILE *f)
{
	char text[HEAD_TEXT];
	size_t n = fread(text, 1, sizeof(text) - 1, f);

	rewind(f);
	text[n] = '\0';
	if (n >= sizeof(TRACE_MAGIC) - 1 &&
	    memcmp(text, TRACE_MAGIC, sizeof(TRACE_MAGIC) - 1) == 0)
		return "own";
	if (strncmp(text, RECORD_MAGIC, strlen(RECORD_MAGIC)) == 0)
		return "service";
	if (strncmp(text, RECORDED_MAGIC, strlen(RECORDED_MAGIC)) == 0)
		return "run";
	text[strcspn(text, "\n")] = '\0';
	return strstr(text, "filename") && strchr(text, ',') ? "thesios" : "oracle";
}

static int own_begin(struct trace *t)
{
	struct trace_head head;

	if (fread(&head, sizeof(head), 1, t->f) != 1 ||
	    memcmp(head.magic, TRACE_MAGIC, sizeof(head.magic)) != 0)
		return trace_wrong(t,
		                   "not a trace of lodic-sim, or of another version");
	if (head.record_bytes != sizeof(struct tier_event) || head.nr_cpus == 0 ||
	    head.nr_cpus > TIER_MAX_CPUS || head.nr_cpus_busy == 0 ||
	    head.nr_cpus_busy > head.nr_cpus || head.os_percent > 100)
		return trace_wrong(t, "the head makes no sense");
	t->source.nr_cpus = head.nr_cpus;
	t->source.nr_cpus_busy = head.nr_cpus_busy;
	t->source.os_percent = head.os_percent;
	t->source.next = own_next;
	return 0;
}

static int trace_begin(struct trace *t, const char *format)
{
	t->source = (struct tier_source){ .name = t->path,
		                          .nr_cpus = TRACE_CPUS,
		                          .nr_cpus_busy = TRACE_CPUS,
		                          .next = public_next,
		                          .close = trace_close };
	t->first = 1;
	if (strcmp(format, "own") == 0)
		return own_begin(t);
	t->parse = strcmp(format, "oracle") == 0 ? trace_parse_oracle
	                                         : trace_parse_thesios;
	return table_begin(&t->files);
}

/* It is read by one who guesses its format, and then anew for each policy. */
static int trace_check(const struct trace *t)
{
	struct stat st;

	if (fstat(fileno(t->f), &st) == 0 && S_ISREG(st.st_mode))
		return 0;
	fprintf(stderr, "lodic-sim: %s: a trace must be a regular file\n", t->path);
	return -EINVAL;
}

int trace_open(const char *path, const char *format, struct tier_source **ret_source)
{
	struct trace *t = calloc(1, sizeof(*t));
	int (*other)(const char *, struct tier_source **) = NULL;
	int err = -ENOMEM, fd;

	if (!t)
		return err;
	t->path = strdup(path);
	/* Not to wait for a FIFO. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	t->f = fd < 0 ? NULL : fdopen(fd, "rb");
	if (!t->f) {
		err = -errno;
		fprintf(stderr, "lodic-sim: %s: %s\n", path, strerror(errno));
	} else if (t->path && !(err = trace_check(t))) {
		format = format ? format : trace_guess(t->f);
		if (strcmp(format, "service") == 0)
			other = record_open;
		else if (strcmp(format, "run") == 0)
			other = trace_run_open;
		err = other ? 0 : trace_begin(t, format);
	}
	if (err || other) {
		trace_close(&t->source);
		return err ? err : other(path, ret_source);
	}
	*ret_source = &t->source;
	return 0;
}

struct recorder {
	struct tier_source source;
	struct tier_source *inner;
	FILE *f;
	char *path;
};

static int recorder_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct recorder *r = (struct recorder *)source;
	int got = r->inner->next(r->inner, ret_event);
	bool failed = got > 0 && fwrite(ret_event, sizeof(*ret_event), 1, r->f) != 1;

	/* At the end all of it must have reached the file. */
	if (got == 0)
		failed = fflush(r->f) != 0;
	if (!failed)
		return got;
	got = errno ? -errno : -EIO;
	fprintf(stderr, "lodic-sim: %s: %s\n", r->path, strerror(-got));
	return got;
}

static void recorder_close(struct tier_source *source)
{
	struct recorder *r = (struct recorder *)source;

	r->inner->close(r->inner);
	if (r->f)
		fclose(r->f);
	free(r->path);
	free(r);
}

int trace_record(struct tier_source *source, const char *path,
                 struct tier_source **ret_source)
{
	struct trace_head head = { TRACE_MAGIC, source->nr_cpus, source->nr_cpus_busy,
		                   source->os_percent, sizeof(struct tier_event) };
	struct recorder *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return err;
	r->path = strdup(path);
	r->f = fopen(path, "wb");
	if (!r->f || fwrite(&head, sizeof(head), 1, r->f) != 1) {
		err = errno ? -errno : -EIO;
		fprintf(stderr, "lodic-sim: %s: %s\n", path, strerror(-err));
		if (r->f)
			fclose(r->f);
		free(r->path);
		free(r);
		return err;
	}
	r->inner = source;
	r->source = *source;
	r->source.next = recorder_next;
	r->source.close = recorder_close;
	*ret_source = &r->source;
	return 0;
}
