/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Filebench (KLOCs s.3.1, Table 3). Each thread has a file of its own, and reads and writes blocks
 * of 4 KB of it: half in order, half at random. The files stay open.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

struct thread {
	u32 file, frame, buffer;
};

struct filebench {
	struct thread *threads;
	u32 file_frames, nr_loaded;
};

static int filebench_begin(struct work *w)
{
	const struct cost_work *c = w->cost;
	struct filebench *f = w->state;
	u32 pages = work_pages(w, c->filebench_mib, 100, 4 * c->threads);

	w->source.os_percent = c->filebench_os_percent;
	w->app_pages =
		work_pages(w, c->filebench_mib, c->filebench_app_percent, c->threads);
	f->threads = calloc(c->threads, sizeof(*f->threads));
	f->file_frames = (pages - w->app_pages) / c->threads + 1;
	work_footprint(w, pages);
	return f->threads ? 0 : -ENOMEM;
}

static void filebench_end(struct work *w)
{
	free(((struct filebench *)w->state)->threads);
}

static void filebench_step(struct work *w)
{
	struct filebench *f = w->state;
	u32 cpu = work_turn(w), buffers = w->app_pages / w->cost->threads, frame;
	struct thread *t = &f->threads[cpu];

	if (!w->measured) {
		if (!t->file)
			t->file = work_file_create(w, cpu);
		if (f->nr_loaded < f->file_frames * w->cost->threads) {
			work_app_load(w, cpu, f->nr_loaded + 1,
			              (u64)f->file_frames * w->cost->threads);
			work_file_append(w, cpu, t->file,
			                 f->nr_loaded++ / w->cost->threads);
			return;
		}
		work_measure(w);
	}
	if (work_random(w, 2)) {
		frame = t->frame;
		t->frame = (t->frame + 1) % f->file_frames;
	} else {
		frame = work_random(w, f->file_frames);
	}
	t->buffer = (t->buffer + 1) % (buffers ? buffers : 1);
	if (work_random(w, 100) < w->cost->filebench_write_percent)
		work_file_write(w, cpu, t->file, frame, WORK_PAGE);
	else
		work_file_read(w, cpu, t->file, frame, WORK_PAGE);
	work_app(w, cpu, cpu * buffers + t->buffer, WORK_PAGE, true);
}

const struct work_kind work_filebench = {
	.name = "filebench",
	.what = "a large file a thread, in order and at random",
	.state_bytes = sizeof(struct filebench),
	.begin = filebench_begin,
	.step = filebench_step,
	.end = filebench_end,
};
