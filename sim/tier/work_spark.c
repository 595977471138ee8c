/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Spark's Terasort on HDFS (KLOCs Table 3). It writes the data, a file a partition. It reads them
 * and writes them again in the order of a shuffle. It reads those, and writes the sorted files.
 * All of it is measured. A file is open only while a task works on it.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/work.h"

#define CHUNK 16u /* frames that a task does at a time */

enum phase { GENERATE, SHUFFLE, SORT, DONE };

struct task {
	bool busy;
	u32 partition, frame;
	u32 in, out; /* files */
};

struct spark {
	u32 *files[DONE]; /* of each phase's output, one a partition */
	struct task *tasks;
	u32 nr_partitions, partition_frames;
	u32 phase, next_partition, nr_done;
};

static int spark_begin(struct work *w)
{
	const struct cost_work *c = w->cost;
	struct spark *s = w->state;
	u32 i;

	w->source.os_percent = c->spark_os_percent;
	w->app_pages = work_pages(w, c->spark_mib, c->spark_app_percent, 64);
	s->nr_partitions = c->spark_partitions;
	s->partition_frames = work_pages(w, c->spark_data_mib, 100, s->nr_partitions) /
	                      s->nr_partitions;
	s->tasks = calloc(c->threads, sizeof(*s->tasks));
	for (i = 0; i < DONE; i++)
		s->files[i] = calloc(s->nr_partitions, sizeof(u32));
	/* All phases: 5 passes over the data, and as many pages of the heap. */
	w->to_touch = 8ull * s->nr_partitions * s->partition_frames * WORK_PAGE;
	return s->tasks && s->files[GENERATE] && s->files[SHUFFLE] && s->files[SORT]
	               ? 0
	               : -ENOMEM;
}

static void spark_end(struct work *w)
{
	struct spark *s = w->state;
	u32 i;

	for (i = 0; i < DONE; i++)
		free(s->files[i]);
	free(s->tasks);
}

static void task_begin(struct work *w, u32 cpu, struct task *t)
{
	struct spark *s = w->state;

	*t = (struct task){ true, s->next_partition++, 0, 0, 0 };
	if (s->phase != GENERATE) {
		t->in = s->files[s->phase - 1][t->partition];
		work_file_open(w, cpu, t->in);
	}
	t->out = work_file_create(w, cpu);
}

static void task_end(struct work *w, u32 cpu, struct task *t)
{
	struct spark *s = w->state;

	if (t->in)
		work_file_close(w, cpu, t->in);
	/* What was shuffled is read once. */
	if (s->phase == SORT)
		work_file_unlink(w, cpu, t->in);
	work_file_close(w, cpu, t->out);
	s->files[s->phase][t->partition] = t->out;
	t->busy = false;
	if (++s->nr_done < s->nr_partitions)
		return;
	s->nr_done = s->next_partition = 0;
	/* The data are sorted over and over, if the run is to be longer. */
	if (++s->phase == DONE)
		s->phase = SHUFFLE;
}

static void spark_step(struct work *w)
{
	struct spark *s = w->state;
	u32 cpu = work_turn(w), i;
	struct task *t = &s->tasks[cpu];

	if (!w->measured) {
		work_app_load(w, cpu, 1, 1);
		work_measure(w);
	}
	if (!t->busy) {
		if (s->next_partition == s->nr_partitions)
			return; /* the others end the phase */
		task_begin(w, cpu, t);
	}
	for (i = 0; i < CHUNK && t->frame < s->partition_frames; i++, t->frame++) {
		if (t->in)
			work_file_read(w, cpu, t->in, t->frame, WORK_PAGE);
		work_app(w, cpu, work_random(w, w->app_pages), WORK_PAGE, true);
		work_file_append(w, cpu, t->out, t->frame);
	}
	if (t->frame == s->partition_frames)
		task_end(w, cpu, t);
}

const struct work_kind work_spark = {
	.name = "spark",
	.what = "Terasort on HDFS: files written once, read once or twice",
	.state_bytes = sizeof(struct spark),
	.begin = spark_begin,
	.step = spark_step,
	.end = spark_end,
};
