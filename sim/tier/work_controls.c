/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Controls: workloads where grouping by file has no right to gain, and one where it has. Threads
 * take a file, read frames of it, and take another one. Each control differs from the first one
 * in one thing.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

#define READS_A_FRAME 8u /* of a file before a thread takes the next one */
#define STRIDE 1597u     /* from a file to the next one taken: a prime */
#define GIANT_PERCENT 1u /* of the giant file: what is hot, */
#define GIANT_READS 99u  /* and how many of 100 reads go there */
#define STREAM_PAGES 32u
#define LOAD_CHUNK 64u

/* What sets a control apart. */
struct control_shape {
	bool stay_open; /* nobody closes a file */
	bool even;      /* all files are hot */
	bool giant;     /* one file */
	bool tiny;      /* files of one frame */
	bool streams;   /* half of the threads stream through the programs' memory */
};

struct thread {
	u32 file, reads, page;
};

struct control {
	struct control_shape shape;
	struct thread *threads;
	u32 *files;
	bool *is_open;
	u32 nr_files, file_frames, nr_loaded, load_frame;
	u32 next_file;
};

static int control_begin(struct work *w)
{
	const struct control_shape *shape = w->kind->variant;
	const struct cost_work *c = w->cost;
	struct control *s = w->state;
	u32 app = shape->streams ? 50 : c->control_app_percent;
	u32 pages = work_pages(w, c->control_mib, 100, 256);

	s->shape = *shape;
	w->source.os_percent = c->control_os_percent;
	w->app_pages = work_pages(w, c->control_mib, app, 4 * c->threads);
	s->nr_files = shape->giant  ? 1
	              : shape->tiny ? c->tiny_files / w->scale + 1
	                            : c->control_files;
	s->file_frames = shape->tiny ? 1 : (pages - w->app_pages) / s->nr_files + 1;
	s->threads = calloc(c->threads, sizeof(*s->threads));
	s->files = calloc(s->nr_files, sizeof(u32));
	s->is_open = calloc(s->nr_files, sizeof(bool));
	work_footprint(w, pages);
	return s->threads && s->files && s->is_open ? 0 : -ENOMEM;
}

static void control_end(struct work *w)
{
	struct control *s = w->state;

	free(s->threads);
	free(s->files);
	free(s->is_open);
}

/* Some frames of the next file. The programs' memory comes while the files do. */
static void control_load(struct work *w, u32 cpu)
{
	struct control *s = w->state;
	bool keep = s->shape.stay_open || s->shape.giant;
	u32 i;

	if (s->load_frame == 0)
		s->files[s->nr_loaded] = work_file_create(w, cpu);
	for (i = 0; i < LOAD_CHUNK && s->load_frame < s->file_frames; i++) {
		work_app_load(w, cpu,
		              (u64)s->nr_loaded * s->file_frames + s->load_frame + 1,
		              (u64)s->nr_files * s->file_frames);
		work_file_append(w, cpu, s->files[s->nr_loaded], s->load_frame++);
	}
	if (s->load_frame < s->file_frames)
		return;
	if (!keep)
		work_file_close(w, cpu, s->files[s->nr_loaded]);
	s->is_open[s->nr_loaded++] = keep;
	s->load_frame = 0;
}

/* Each thread takes the next file in turn, so that one that is closed stays so for long. */
static u32 control_take(struct work *w)
{
	struct control *s = w->state;

	if (s->shape.even || s->shape.tiny)
		return work_random(w, s->nr_files);
	s->next_file = (s->next_file + STRIDE) % s->nr_files;
	return s->next_file;
}

static void control_read(struct work *w, u32 cpu, struct thread *t)
{
	struct control *s = w->state;
	u32 hot = s->file_frames * GIANT_PERCENT / 100 + 1, frame;
	u32 reuse = w->reuse ? w->reuse : READS_A_FRAME;

	if (t->reads == 0) {
		t->file = control_take(w);
		if (!s->is_open[t->file])
			work_file_open(w, cpu, s->files[t->file]);
	}
	if (s->shape.giant && work_random(w, 100) < GIANT_READS)
		/* What is hot lies all over the file. */
		frame = work_random(w, hot) * (s->file_frames / hot);
	else
		frame = work_random(w, s->file_frames);
	work_file_read(w, cpu, s->files[t->file], frame, WORK_PAGE);
	work_app(w, cpu, work_random(w, w->app_pages), 256, true);
	if (++t->reads < (s->shape.tiny || s->shape.even ? 1 : reuse * s->file_frames))
		return;
	t->reads = 0;
	if (!s->is_open[t->file])
		work_file_close(w, cpu, s->files[t->file]);
}

static void control_stream(struct work *w, u32 cpu, struct thread *t)
{
	u32 part = w->app_pages / w->cost->threads, i;

	for (i = 0; i < STREAM_PAGES; i++) {
		work_app(w, cpu, cpu * part + t->page, WORK_PAGE, false);
		t->page = (t->page + 1) % part;
	}
}

static void control_step(struct work *w)
{
	struct control *s = w->state;
	u32 cpu = work_turn(w);

	if (!w->measured) {
		if (s->nr_loaded < s->nr_files) {
			control_load(w, cpu);
			return;
		}
		work_measure(w);
	}
	if (s->shape.streams && cpu % 2)
		control_stream(w, cpu, &s->threads[cpu]);
	else
		control_read(w, cpu, &s->threads[cpu]);
}

const struct work_kind work_phases = {
	.name = "phases",
	.what = "files in use for a while, then closed: where grouping must gain",
	.variant = &(const struct control_shape){ .stay_open = false },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};

const struct work_kind work_open_files = {
	.name = "open_files",
	.what = "the same, but all files stay open",
	.variant = &(const struct control_shape){ .stay_open = true },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};

const struct work_kind work_hot_set = {
	.name = "hot_set",
	.what = "all files are hot, larger than fast memory, and open for one read",
	.variant = &(const struct control_shape){ .even = true },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};

const struct work_kind work_giant = {
	.name = "giant",
	.what = "one file, hot in 1 %",
	.variant = &(const struct control_shape){ .giant = true },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};

const struct work_kind work_tiny = {
	.name = "tiny",
	.what = "a million files of one frame",
	.variant = &(const struct control_shape){ .tiny = true },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};

const struct work_kind work_streams = {
	.name = "streams",
	.what = "half of the threads stream through the programs' memory",
	.variant = &(const struct control_shape){ .streams = true },
	.is_control = true,
	.state_bytes = sizeof(struct control),
	.begin = control_begin,
	.step = control_step,
	.end = control_end,
};
