/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The tier simulator: its sources of events, what a run adds up to, and what it charges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/random.h"
#include "sim/tier/future.h"
#include "sim/tier/run.h"
#include "sim/tier/table.h"
#include "sim/tier/trace.h"
#include "sim/tier/work.h"
#include "tests/support/scratch.h"

#define SCALE 4096u
#define SEED 20261123u
#define NEAR(a, b) ((a) > (b)*0.999999 && (a) < (b)*1.000001)

static struct cost cost;

static struct tier_source *work_of(const char *name, u64 seed)
{
	struct work_options options = { .seed = seed, .scale = SCALE, .cost = &cost };
	struct tier_source *source;

	assert_int_equal(work_open(name, &options, &source), 0);
	return source;
}

static u64 hash_of(struct tier_source *source, u64 *ret_nr)
{
	struct tier_event event;
	u64 hash = 0;
	int got;

	*ret_nr = 0;
	while ((got = source->next(source, &event)) > 0) {
		u64 words[2];

		assert_int_equal(sizeof(event), sizeof(words));
		memcpy(words, &event, sizeof(words));
		hash = random_mix(hash ^ words[0]) + random_mix(words[1]);
		++*ret_nr;
	}
	assert_int_equal(got, 0);
	source->close(source);
	return hash;
}

static void work_of_one_seed_same_events(void **state)
{
	u64 nr, again, other;
	u32 i;

	(void)state;
	for (i = 0; i < work_nr_kinds; i++) {
		const char *name = work_kinds[i]->name;
		u64 hash = hash_of(work_of(name, SEED), &nr);

		assert_true(hash == hash_of(work_of(name, SEED), &again));
		assert_int_equal(nr, again);
		assert_true(nr > 1000);
		/* Terasort takes its files in order; the pages of its heap are random. */
		assert_false(hash == hash_of(work_of(name, SEED + 1), &other));
	}
}

/* No program reads or writes a file that it does not have open. */
static void work_of_closed_file_not_used(void **state)
{
	u32 i;

	(void)state;
	for (i = 0; i < work_nr_kinds; i++) {
		struct tier_source *source = work_of(work_kinds[i]->name, SEED);
		u32 *nr_opens = calloc(TRACE_MAX_FILES, sizeof(*nr_opens));
		struct tier_event event;

		while (source->next(source, &event) > 0) {
			if (event.op == TIER_OPEN)
				nr_opens[event.file]++;
			if (event.op == TIER_CLOSE)
				assert_true(nr_opens[event.file]-- > 0);
			if (event.kind == KLOC_FRAME && event.file &&
			    (event.op == TIER_ADD || event.op == TIER_READ ||
			     event.op == TIER_WRITE))
				assert_true(nr_opens[event.file] > 0);
		}
		source->close(source);
		free(nr_opens);
	}
}

static void table_of_random_calls_as_model(void **state)
{
	static u32 model[4][64]; /* value and 1 */
	struct table table;
	u64 random = SEED;
	u32 i;

	(void)state;
	assert_int_equal(table_begin(&table), 0);
	for (i = 0; i < 200000; i++) {
		u32 file = (u32)random_next(&random) % 4;
		u32 index = (u32)random_next(&random) % 64;
		struct table_entry *entry = table_find(&table, file, 3, index * 1024);

		assert_int_equal(entry ? entry->value + 1 : 0, model[file][index]);
		if (entry && i % 3) {
			table_erase(&table, entry);
			model[file][index] = 0;
		} else if (!entry) {
			table_insert(&table, file, 3, index * 1024)->value = i;
			model[file][index] = i + 1;
		}
	}
	for (i = 0; i < 5000; i++)
		assert_non_null(table_insert(&table, 9, 1, i));
	for (i = 0; i < 5000; i++)
		assert_non_null(table_find(&table, 9, 1, i));
	table_end(&table);
}

/* The oracle's answers are those of a look through all events. */
static void future_of_events_next_use(void **state)
{
	struct tier_source *source = work_of("phases", SEED);
	struct tier_event *events = NULL, event;
	struct tier_source *future;
	u64 nr = 0, at, next;

	(void)state;
	for (; source->next(source, &event) > 0; nr++) {
		if ((nr & (nr - 1)) == 0)
			events = realloc(events, (nr ? 2 * nr : 1) * sizeof(*events));
		events[nr] = event;
	}
	source->close(source);
	assert_true(nr < FUTURE_EVENTS);
	future = future_open(work_of("phases", SEED));
	for (at = 0; at < nr; at++) {
		assert_int_equal(future->next(future, &event), 1);
		assert_memory_equal(&event, &events[at], sizeof(event));
		if (at % 97 != 0 || (event.op != TIER_READ && event.op != TIER_WRITE))
			continue;
		for (next = at + 1; next < nr; next++)
			if ((events[next].op == TIER_READ ||
			     events[next].op == TIER_WRITE) &&
			    events[next].file == event.file &&
			    events[next].kind == event.kind &&
			    events[next].index == event.index)
				break;
		assert_true(
			future_next_use(future, event.file, event.kind, event.index) ==
			(next < nr ? next : KLOC_NEVER));
	}
	assert_int_equal(future->next(future, &event), 0);
	future->close(future);
	free(events);
}

static void run_one(const char *workload, enum kloc_policy_id policy, bool check,
                    struct engine_result *r)
{
	struct run run = { .workload = workload,
		           .seed = SEED,
		           .options = {
				   .cost = &cost, .scale = SCALE, .check = check } };

	assert_int_equal(run_policy(&run, policy, r), 0);
}

/* What was added and not removed is there, and no tier has more than it may. */
static void check_conserved(const struct engine_result *r, enum kloc_policy_id policy)
{
	u32 kind;

	for (kind = 0; kind < KLOC_NR_KINDS; kind++)
		assert_int_equal(r->live_at_begin[kind] + r->added[kind],
		                 r->live_at_end[kind] + r->removed[kind]);
	assert_true(r->ns > 0);
	assert_int_equal(r->failed, 0);
	assert_true(r->used[KLOC_SLOW] <= r->capacity[KLOC_SLOW]);
	if (policy != KLOC_POLICY_ALL_FAST)
		assert_true(r->used[KLOC_FAST] <= r->capacity[KLOC_FAST]);
}

/* The model implies this much: the same touches cost less in fast memory, and a policy that never
 * moves does not move. */
static void check_bounds(const struct engine_result *fast,
                         const struct engine_result *slow,
                         const struct engine_result *naive)
{
	assert_true(fast->ns < slow->ns);
	assert_memory_equal(fast->touched, slow->touched, sizeof(fast->touched));
	assert_memory_equal(fast->touched, naive->touched, sizeof(fast->touched));
	assert_int_equal(engine_placed_slow(fast), 0);
	assert_int_equal(engine_moved(naive, KLOC_DEMOTE), 0);
	assert_int_equal(engine_moved(naive, KLOC_PROMOTE), 0);
}

static void engine_of_each_policy_conserves_within_bounds(void **state)
{
	static struct engine_result r[KLOC_NR_POLICIES];
	enum kloc_policy_id policies[RUN_MAX_POLICIES];
	u32 nr = run_policies(false, policies), i, j;

	(void)state;
	for (i = 0; i < work_nr_kinds; i++) {
		for (j = 0; j < nr; j++) {
			struct engine_result *one = &r[policies[j]];

			/* core/kloc looks at all of itself in one of the runs. */
			run_one(work_kinds[i]->name, policies[j], j == i % nr, one);
			check_conserved(one, policies[j]);
		}
		check_bounds(&r[KLOC_POLICY_ALL_FAST], &r[KLOC_POLICY_ALL_SLOW],
		             &r[KLOC_POLICY_NAIVE]);
	}
}

/* The control reads each frame so often before it closes the file, as nearly as chance has it. */
static void engine_of_reuse_as_asked(void **state)
{
	struct engine_result r;
	u32 reuse;

	(void)state;
	for (reuse = 2; reuse <= 32; reuse *= 4) {
		struct run run = { .workload = "phases",
			           .seed = SEED,
			           .reuse = reuse,
			           .options = { .cost = &cost, .scale = SCALE } };

		assert_int_equal(run_policy(&run, KLOC_POLICY_NAIVE, &r), 0);
		assert_true(engine_reuse(&r) > 0.8 * reuse);
		assert_true(engine_reuse(&r) < 1.5 * reuse);
	}
}

static void engine_of_one_seed_same_result(void **state)
{
	struct engine_result a, b;

	(void)state;
	run_one("rocksdb", KLOC_POLICY_KLOC, false, &a);
	run_one("rocksdb", KLOC_POLICY_KLOC, false, &b);
	assert_true(a.ns == b.ns);
	assert_memory_equal(a.moved, b.moved, sizeof(a.moved));
	assert_memory_equal(a.placed_slow, b.placed_slow, sizeof(a.placed_slow));
}

/* Between sockets, what the tasks use follows them, and memory beside them is the best. */
static void engine_of_nodes_follows_tasks(void **state)
{
	enum kloc_policy_id policies[RUN_MAX_POLICIES];
	u32 nr = run_policies(true, policies), i;
	static struct engine_result r[RUN_MAX_POLICIES];
	char name[RUN_NAME_BYTES];
	struct cost nodes;

	(void)state;
	assert_int_equal(cost_read("tier-optane", NULL, &nodes), 0);
	for (i = 0; i < nr; i++) {
		struct run run = { .workload = "filebench",
			           .seed = SEED,
			           .options = { .cost = &nodes, .scale = SCALE } };

		run_policy_name(policies[i], true, name);
		assert_int_equal(run_policy_named(name, true), policies[i]);
		assert_int_equal(run_policy(&run, policies[i], &r[i]), 0);
		if (policies[i] == KLOC_POLICY_KLOC_NUMA)
			assert_true(engine_moved(&r[i], KLOC_FOLLOW) > 0);
		assert_true(r[i].cache_hits > 0);
	}
	/* The table begins with all_remote and ends with all_local. */
	assert_int_equal(engine_moved(&r[0], KLOC_FOLLOW), 0);
	for (i = 0; i < nr; i++)
		assert_true(r[nr - 1].ns <= r[i].ns);
	assert_true(r[nr - 1].ns < r[0].ns);
}

/* A trace with more frames than the tiers hold: some are given back. */
static void engine_of_full_tiers_gives_frames_back(void **state)
{
	u32 nr = 4000, i;
	u8 *records = calloc(nr, 24);
	struct run run = { .options = {
				   .cost = &cost, .scale = 65536, .check = true } };
	struct engine_result r;
	char *path;

	(void)state;
	for (i = 0; i < nr; i++)
		oracle_record(records + 24 * i, i % 1000, 4096);
	path = file_with(records, 24 * nr);
	free(records);
	run.trace = path;
	assert_int_equal(run_policy(&run, KLOC_POLICY_KLOC, &r), 0);
	assert_int_equal(r.failed, 0);
	assert_true(r.reclaimed > 0);
	assert_true(r.missed >= r.reclaimed);
	assert_int_equal(r.added[KLOC_FRAME],
	                 r.removed[KLOC_FRAME] + r.live_at_end[KLOC_FRAME]);
	file_gone(path);
}

static void charge_of_touch_by_hand(void **state)
{
	const struct cost_machine *m = &cost.machine;
	struct charge c;
	double cpu = m->lookup_ns + 64.0 * m->load_ns[1] / m->overlap;
	double slow = 4096 * 1000.0 / m->read_mb_s[1];

	(void)state;
	assert_int_equal(charge_begin(&c, m, 1, 16, 0, 0), 0);
	charge_touch(&c, 0, KLOC_SLOW, 1, KLOC_FRAME, 4096, false);
	assert_true(NEAR(c.busy[CHARGE_CPU], cpu / 16));
	assert_true(NEAR(c.busy[CHARGE_SLOW], slow));
	assert_true(NEAR(charge_elapsed(&c), slow));
	/* The slow tier takes its share of the fast one. */
	c.busy[CHARGE_FAST] = 10 * slow;
	assert_true(NEAR(charge_turn(&c),
	                 10 * slow + slow * m->interference_percent / 100));
	assert_true(c.bound[CHARGE_FAST] > 0 && c.bound[CHARGE_SLOW] == 0);
	assert_true(charge_elapsed(&c) == 0);
	charge_end(&c);
}

/* The program's time is the rest of the share that the kernel has. */
static void charge_of_os_percent_owes_the_rest(void **state)
{
	struct charge c;

	(void)state;
	assert_int_equal(charge_begin(&c, &cost.machine, 1, 1, 40, 0), 0);
	charge_kernel(&c, 400);
	assert_true(NEAR(charge_elapsed(&c), 1000));
	charge_touch(&c, 0, KLOC_FAST, 1, KLOC_APP, 64, false);
	assert_true(NEAR(charge_elapsed(&c), 1000));
	charge_end(&c);
}

static void cost_of_missing_source_einval(void **state)
{
	static const char text[] = "threads = 16\n";
	char *path = file_with(text, sizeof(text) - 1);
	struct cost other;
	u32 i;

	(void)state;
	assert_int_equal(cost_read(NULL, path, &other), -22);
	assert_int_equal(cost_read("no-such", NULL, &other), -2);
	assert_int_equal(cost_read("tier-optane", NULL, &other), 0);
	assert_true(run_has_nodes(&other) && !run_has_nodes(&cost));
	for (i = 0; i < cost.nr_bands; i++)
		assert_true(cost.bands[i].low <= cost.bands[i].high);
	file_gone(path);
}

static int find_data(void **state)
{
	(void)state;
	printf("seed=%u\n", SEED);
	if (keys_look_in(LODIC_MODEL_DIR) != 0)
		return -1;
	if (cost_read(NULL, NULL, &cost) != 0)
		return -1;
	/* Each place is used once, and not three times: that is enough here. */
	cost.work.run_percent = 100;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_of_one_seed_same_events),
		cmocka_unit_test(work_of_closed_file_not_used),
		cmocka_unit_test(table_of_random_calls_as_model),
		cmocka_unit_test(future_of_events_next_use),
		cmocka_unit_test(engine_of_each_policy_conserves_within_bounds),
		cmocka_unit_test(engine_of_reuse_as_asked),
		cmocka_unit_test(engine_of_one_seed_same_result),
		cmocka_unit_test(engine_of_nodes_follows_tasks),
		cmocka_unit_test(engine_of_full_tiers_gives_frames_back),
		cmocka_unit_test(charge_of_touch_by_hand),
		cmocka_unit_test(charge_of_os_percent_owes_the_rest),
		cmocka_unit_test(cost_of_missing_source_einval),
	};

	return cmocka_run_group_tests(tests, find_data, NULL);
}
