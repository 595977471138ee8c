/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Traces of the tier simulator: its own, public ones, and records of `lodic run --record`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/kloc/kloc.h"
#include "preload/run_recorded.h"
#include "sim/keys.h"
#include "sim/tier/trace.h"
#include "sim/tier/work.h"
#include "tests/support/scratch.h"

#define SCALE 2048u
#define SEED 20261123u

static struct cost cost;

static void trace_of_record_same_events(void **state)
{
	struct work_options options = { .seed = SEED, .scale = SCALE, .cost = &cost };
	char *path = file_with("", 0);
	struct tier_source *work, *recorder, *trace;
	struct tier_event event, again;
	u32 i;

	(void)state;
	assert_int_equal(work_open("redis", &options, &work), 0);
	assert_int_equal(trace_record(work, path, &recorder), 0);
	while (recorder->next(recorder, &event) > 0)
		;
	recorder->close(recorder);
	assert_int_equal(work_open("redis", &options, &work), 0);
	assert_int_equal(trace_open(path, NULL, &trace), 0);
	assert_int_equal(trace->os_percent, cost.work.redis_os_percent);
	assert_int_equal(trace->nr_cpus, cost.work.threads);
	while (work->next(work, &event) > 0) {
		assert_int_equal(trace->next(trace, &again), 1);
		assert_memory_equal(&event, &again, sizeof(event));
	}
	assert_int_equal(trace->next(trace, &again), 0);
	trace->close(trace);
	work->close(work);
	/* A record that is cut off. */
	assert_int_equal(truncate(path, (off_t)(sizeof(struct trace_head) +
	                                        3 * sizeof(struct tier_event) - 1)),
	                 0);
	assert_int_equal(trace_open(path, NULL, &trace), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), 1);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), -22);
	trace->close(trace);
	file_gone(path);
}

static void trace_of_wrong_record_einval(void **state)
{
	struct {
		struct trace_head head;
		struct tier_event event;
	} text = { { TRACE_MAGIC, 2, 2, 0, sizeof(struct tier_event) },
		   { .op = TIER_ADD, .kind = KLOC_FRAME, .file = 1, .bytes = 4096 } };
	static const struct tier_event wrong[] = {
		{ .op = TIER_NR_OPS },
		{ .op = TIER_READ, .kind = KLOC_NR_KINDS },
		{ .op = TIER_READ, .cpu = 2 },
		{ .op = TIER_TASK, .index = 2 },
		{ .op = TIER_ADD, .kind = KLOC_FRAME },
		{ .op = TIER_OPEN, .file = TRACE_MAX_FILES },
	};
	struct tier_source *trace;
	char *path;
	size_t i;

	(void)state;
	for (i = 0; i <= sizeof(wrong) / sizeof(*wrong); i++) {
		path = file_with(&text, sizeof(text));
		assert_int_equal(trace_open(path, "own", &trace), 0);
		assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }),
		                 i == 0 ? 1 : -22);
		trace->close(trace);
		file_gone(path);
		if (i < sizeof(wrong) / sizeof(*wrong))
			text.event = wrong[i];
	}
	text.head.nr_cpus_busy = 3;
	path = file_with(&text, sizeof(text));
	assert_int_equal(trace_open(path, NULL, &trace), -22);
	file_gone(path);
}

static void expect(struct tier_source *trace, enum tier_op op, u32 file, u32 index,
                   u32 bytes)
{
	struct tier_event event;

	assert_int_equal(trace->next(trace, &event), 1);
	assert_int_equal(event.op, op);
	assert_int_equal(event.file, file);
	assert_int_equal(event.index, index);
	assert_int_equal(event.bytes, bytes);
}

static void trace_of_oracle_reads_objects(void **state)
{
	u8 records[3 * 24];
	struct tier_source *trace;
	char *path;

	(void)state;
	oracle_record(records, 0x123456789abcdef0u, 5000);
	oracle_record(records + 24, 7, 1);
	oracle_record(records + 48, 0x123456789abcdef0u, 4096);
	path = file_with(records, sizeof(records));
	assert_int_equal(trace_open(path, NULL, &trace), 0);
	expect(trace, TIER_OPEN, 1, 0, 0);
	expect(trace, TIER_READ, 1, 0, 4096);
	expect(trace, TIER_READ, 1, 1, 904);
	expect(trace, TIER_OPEN, 2, 0, 0);
	expect(trace, TIER_READ, 2, 0, 1);
	expect(trace, TIER_READ, 1, 0, 4096);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), 0);
	trace->close(trace);
	oracle_record(records, 1, (1u << 30) + 1);
	file_gone(path);
	path = file_with(records, 24);
	assert_int_equal(trace_open(path, "oracle", &trace), 0);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), -22);
	trace->close(trace);
	assert_int_equal(truncate(path, 23), 0);
	assert_int_equal(trace_open(path, "oracle", &trace), 0);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), -22);
	trace->close(trace);
	file_gone(path);
}

/* More objects than are open at a time: the reader closes one that was not used. */
static void trace_of_many_objects_closes_files(void **state)
{
	u32 nr = 3 * TRACE_OPEN_FILES, i, opens = 0, closes = 0;
	u8 *records = calloc(nr, 24);
	struct tier_source *trace;
	struct tier_event event;
	char *path;

	(void)state;
	for (i = 0; i < nr; i++)
		oracle_record(records + 24 * i, i % 5 ? i : 0, 100);
	path = file_with(records, 24 * nr);
	free(records);
	assert_int_equal(trace_open(path, "oracle", &trace), 0);
	while (trace->next(trace, &event) > 0) {
		opens += event.op == TIER_OPEN;
		closes += event.op == TIER_CLOSE;
		/* The object that is always in use stays open. */
		assert_false(event.op == TIER_CLOSE && event.file == 1);
	}
	trace->close(trace);
	file_gone(path);
	assert_int_equal(opens, nr - nr / 5 - 1 + 1);
	assert_int_equal(opens - closes, TRACE_OPEN_FILES);
}

#define THESIOS "application,filename,file_offset,op_type,request_io_size_bytes\n"

static void trace_of_thesios_reads_columns(void **state)
{
	static const char text[] = THESIOS "a,f00,4000,READ,200\r\n"
					   "b,f01,0,WRITE,4096\n"
					   "a,f00,8192,READ,0\n";
	struct tier_source *trace;
	char *path = file_with(text, sizeof(text) - 1);

	(void)state;
	assert_int_equal(trace_open(path, NULL, &trace), 0);
	expect(trace, TIER_OPEN, 1, 0, 0);
	expect(trace, TIER_READ, 1, 0, 96);
	expect(trace, TIER_READ, 1, 1, 104);
	expect(trace, TIER_OPEN, 2, 0, 0);
	expect(trace, TIER_WRITE, 2, 0, 4096);
	expect(trace, TIER_READ, 1, 2, 1);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), 0);
	trace->close(trace);
	file_gone(path);
}

static void trace_of_wrong_thesios_einval(void **state)
{
	static const char *const wrong[] = {
		"filename,offset\nf,1\n",
		THESIOS "a,f00,4000,READ\n",
		THESIOS "a,f00,4000,TRIM,1\n",
		THESIOS "a,f00,-1,READ,1\n",
		THESIOS "a,f00,0,READ,x\n",
		THESIOS "a,f00,18446744073709551615,READ,1\n",
	};
	struct tier_source *trace;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char *path = file_with(wrong[i], strlen(wrong[i]));

		assert_int_equal(trace_open(path, "thesios", &trace), 0);
		assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), -22);
		trace->close(trace);
		file_gone(path);
	}
	assert_int_equal(trace_open("/nonexistent/x", NULL, &trace), -2);
}

/* A process that ends, or that runs another program, closes what it has open. */
static void trace_of_run_record_closes_at_end(void **state)
{
	static struct {
		struct recorded_head head;
		char rest[RECORDED_HEAD_BYTES - sizeof(struct recorded_head)];
		struct recorded events[8];
	} text = { .head = { RECORDED_MAGIC, sizeof(struct recorded), 2, 8, 99, 3,
		             0 } };
	struct recorded *e = text.events;
	struct tier_source *trace;
	char *path;

	(void)state;
	e[0] = (struct recorded){ .who = recorded_who(7, 1, RECORDED_PROCESS) };
	e[1] = (struct recorded){ 11, 0, 0, 5, recorded_who(7, 1, RECORDED_OPEN) };
	e[2] = (struct recorded){ 11, 0, 0, 0, recorded_who(8, 2, RECORDED_OPEN) };
	/* e[3]: a process was killed before it had filled its place. */
	e[4] = (struct recorded){ 12, 4000, 100, 0, recorded_who(7, 3, RECORDED_READ) };
	e[5] = (struct recorded){ .who = recorded_who(7, 1, RECORDED_PROCESS) };
	e[6] = (struct recorded){ 11, 0, 0, 0, recorded_who(7, 1, RECORDED_CLOSE) };
	e[7] = (struct recorded){ .who = recorded_who(8, 2, RECORDED_END) };
	path = file_with(&text, sizeof(text));
	assert_int_equal(trace_open(path, NULL, &trace), 0);
	assert_int_equal(trace->nr_cpus, 3);
	assert_int_equal(trace->nr_cpus_busy, 2);
	expect(trace, TIER_COMPUTE, 0, 0, 5);
	expect(trace, TIER_OPEN, 1, 0, 0);
	expect(trace, TIER_OPEN, 1, 0, 0);
	expect(trace, TIER_READ, 2, 0, 96);
	expect(trace, TIER_READ, 2, 1, 4);
	expect(trace, TIER_CLOSE, 1, 0, 0);
	expect(trace, TIER_CLOSE, 1, 0, 0);
	assert_int_equal(trace->next(trace, &(struct tier_event){ 0 }), 0);
	trace->close(trace);
	file_gone(path);
}

static int find_data(void **state)
{
	(void)state;
	printf("seed=%u\n", SEED);
	if (keys_look_in(LODIC_MODEL_DIR) != 0)
		return -1;
	return cost_read(NULL, NULL, &cost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_of_record_same_events),
		cmocka_unit_test(trace_of_wrong_record_einval),
		cmocka_unit_test(trace_of_oracle_reads_objects),
		cmocka_unit_test(trace_of_many_objects_closes_files),
		cmocka_unit_test(trace_of_thesios_reads_columns),
		cmocka_unit_test(trace_of_wrong_thesios_einval),
		cmocka_unit_test(trace_of_run_record_closes_at_end),
	};

	return cmocka_run_group_tests(tests, find_data, NULL);
}
