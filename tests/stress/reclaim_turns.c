/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How long eviction holds the service's main loop. Core only, without readers: an arena of
 * --gib GiB (frames without their bytes), --contexts contexts, and blocks that were filled in
 * random order. First each context has read each frame three times, the worst case there is.
 * Then readers visit a few frames between evictions.
 *
 * A turn is what the service does before it looks at its clients: evictions until TURN_LINES
 * cache lines are spent. The test asserts that no turn touches more. The times of turns
 * depend on the machine, so it only prints them.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/cache/arena.h"
#include "core/cache/batch.h"
#include "core/cache/reclaim.h"
#include "lib/service/base/base.h"
#include "tests/support/cache_fixture.h"

#define FILE_ID 1u
#define NR_ENTRIES 4096u
#define VISITS_PER_TURN 64u
#define VICTIMS_PER_TURN 2048u
/* Four looks at each frame and one more in SMALL end an eviction: far more than is needed. */
#define MOST_TURNS 10000000u
#define NR_STEADY_TURNS 5000u

static u64 nr_gib = 1, nr_contexts = 64;

struct bench {
	struct batch batch;
	struct arena arena;
	struct reclaim reclaim;
	struct reclaim_ops ops;
	u64 random;
	u32 next_index;
	u64 lines; /* that the arena's part of this turn has touched */
	u64 most_lines, nr_asked;
};

static struct bench bench;

static void *memory(u64 bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	REQUIRE(p != MAP_FAILED, "%llu MiB", (unsigned long long)bytes >> 20);
	return p;
}

static void count_visits(void *ctx, u32 first, u32 nr, u8 *ret_visits)
{
	struct bench *b = ctx;

	arena_visits(&b->arena, first, nr, ret_visits);
	b->lines += 1;
	b->nr_asked++;
}

/* As the service does: what the hide touches in this turn, and the walk in another. */
static bool count_take(void *ctx, u32 frame)
{
	struct bench *b = ctx;

	b->lines += 2;
	return batch_add(&b->arena, &b->batch, NULL, frame);
}

static void bench_fill(struct bench *b, u32 frame)
{
	u64 block = block_id(FILE_ID, b->next_index++);

	arena_fill_begin(&b->arena, frame);
	REQUIRE(arena_publish(&b->arena, frame, block), "frame %u", frame);
	reclaim_insert(&b->reclaim, frame, block);
}

static void bench_fill_all(struct bench *b, u32 nr_frames)
{
	u32 *order = calloc(nr_frames, sizeof(*order));

	REQUIRE(order, "%u frames", nr_frames);
	for (u32 i = 0; i < nr_frames; i++) {
		u32 j = (u32)random_below(&b->random, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (u32 i = 0; i < nr_frames; i++)
		if (order[i] >= FRAME_FIRST)
			bench_fill(b, order[i]);
	free(order);
}

static void bench_make(struct bench *b)
{
	struct arena_shape shape = {
		.nr_frames = (u32)(nr_gib << (30 - BLOCK_SHIFT)),
		.nr_files = 1,
		.nr_entries = NR_ENTRIES,
	};
	u64 data_bytes = (u64)shape.nr_frames << BLOCK_SHIFT;
	u64 control_bytes = arena_control_bytes(&shape);
	void *control = memory(control_bytes);
	void *data = mmap(NULL, data_bytes, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	REQUIRE(data != MAP_FAILED, "%llu GiB", (unsigned long long)nr_gib);
	arena_format(control, &shape, 1);
	REQUIRE(arena_open(&b->arena, control, control_bytes, data, data_bytes,
	                   memory(arena_shared_bytes(&shape))),
	        "an arena");
	memset(b->arena.visits, FRAME_VISITS_MAX, shape.nr_frames);
	b->arena.contexts = calloc(ARENA_MAX_CONTEXTS, sizeof(*b->arena.contexts));
	for (u64 i = 0; i < nr_contexts; i++) {
		struct context_table table;

		arena_context_table(&table, memory(arena_context_bytes(NR_ENTRIES, 1)));
		REQUIRE(arena_join(&b->arena, &table) == i, "context %u", (u32)i);
	}
	REQUIRE(reclaim_init(&b->reclaim, shape.nr_frames) == 0, "memory");
	batch_init(&b->batch, 1);
	b->random = random_stream(0);
	bench_fill_all(b, shape.nr_frames);
	b->ops = (struct reclaim_ops){ count_visits, count_take, b, 1, 2, 0 };
}

static u64 thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

/* One turn: how long it took, and how many victims it found. */
static u32 bench_turn(struct bench *b, u32 *victims, u32 *ret_ns)
{
	u64 began = thread_ns();
	u32 lines = TURN_LINES;
	u32 nr = 0;

	b->lines = 0;
	while (nr < VICTIMS_PER_TURN) {
		u32 frame = reclaim_evict(&b->reclaim, &b->ops, &lines);

		REQUIRE(frame != RECLAIM_NONE, "nothing is pinned");
		if (frame == RECLAIM_MORE)
			break;
		victims[nr++] = frame;
	}
	*ret_ns = (u32)(thread_ns() - began);
	REQUIRE(b->lines <= TURN_LINES, "%llu lines in a turn",
	        (unsigned long long)b->lines);
	b->most_lines = b->lines > b->most_lines ? b->lines : b->most_lines;
	return nr;
}

static u32 *walk_ns; /* of each turn that walks */
static u32 nr_walks;

/* The turns after the fence: every victim is taken. */
static void bench_walk(struct bench *b)
{
	enum batch_end end = BATCH_TAKEN;
	u32 frame;

	batch_close(&b->arena, &b->batch);
	batch_fence(&b->arena);
	while (end != BATCH_DONE) {
		u64 began = thread_ns();
		u64 lines = 0;

		if (b->batch.state == BATCH_CLOSED) {
			batch_fenced(&b->arena, &b->batch);
			lines = nr_contexts;
		}
		while (end != BATCH_DONE && lines + BATCH_TAKE_LINES <= TURN_LINES) {
			end = batch_next(&b->arena, &b->batch, &frame);
			REQUIRE(end == BATCH_TAKEN || end == BATCH_DONE, "not taken");
			lines += BATCH_TAKE_LINES;
		}
		b->most_lines = lines > b->most_lines ? lines : b->most_lines;
		if (nr_walks < MOST_TURNS)
			walk_ns[nr_walks++] = (u32)(thread_ns() - began);
	}
}

static int compare_u32(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static void print_turns(const char *what, u32 *ns, u32 nr)
{
	u64 sum = 0;

	for (u32 i = 0; i < nr; i++)
		sum += ns[i];
	qsort(ns, nr, sizeof(*ns), compare_u32);
	printf("%-22s %6u turns, %8.1f ms of CPU; a turn in us: p50 %.0f, p99 %.0f, "
	       "p99.9 %.0f, max %.0f\n",
	       what, nr, (double)sum / 1e6, ns[nr / 2] / 1e3,
	       ns[(u64)nr * 99 / 100] / 1e3, ns[(u64)nr * 999 / 1000] / 1e3,
	       ns[nr - 1] / 1e3);
}

static u32 *turn_ns; /* of each turn */
static u32 victims[VICTIMS_PER_TURN];

/* Everything was read three times in every context: turns until there is a victim. */
static void run_all_visited(struct bench *b)
{
	u32 nr_turns = 0, nr = 0;

	while (nr == 0) {
		REQUIRE(nr_turns < MOST_TURNS, "no victim yet");
		nr = bench_turn(b, victims, &turn_ns[nr_turns++]);
	}
	bench_walk(b);
	for (u32 i = 0; i < nr; i++)
		bench_fill(b, victims[i]);
	printf("visits were asked for %llu times\n", (unsigned long long)b->nr_asked);
	print_turns("all visited", turn_ns, nr_turns);
}

/* Some visits, then a turn's worth of evictions and fills. */
static void run_steady(struct bench *b)
{
	u64 nr_victims = 0;

	for (u32 turn = 0; turn < NR_STEADY_TURNS; turn++) {
		u32 nr;

		for (u32 i = 0; i < VISITS_PER_TURN; i++) {
			u32 frame = (u32)random_below(&b->random, b->arena.nr_frames);

			b->arena.visits[frame] = FRAME_VISITS_MAX;
		}
		nr = bench_turn(b, victims, &turn_ns[turn]);
		if (nr > 0)
			bench_walk(b);
		for (u32 i = 0; i < nr; i++)
			bench_fill(b, victims[i]);
		nr_victims += nr;
	}
	print_turns("evicting all the time", turn_ns, NR_STEADY_TURNS);
	print_turns("walking after a fence", walk_ns, nr_walks);
	printf("%llu victims\n", (unsigned long long)nr_victims);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--gib", .number = &nr_gib },
		{ .name = "--contexts", .number = &nr_contexts },
		{ 0 },
	};

	fixture_begin(argc, argv, options);
	REQUIRE(nr_gib >= 1 && nr_gib <= 1024, "from 1 to 1024 GiB");
	REQUIRE(nr_contexts >= 1 && nr_contexts <= ARENA_MAX_CONTEXTS, "1 to 1024");
	turn_ns = calloc(MOST_TURNS, sizeof(*turn_ns));
	walk_ns = calloc(MOST_TURNS, sizeof(*walk_ns));
	REQUIRE(turn_ns && walk_ns, "memory");
	bench_make(&bench);
	printf("%llu GiB, %llu contexts\n", (unsigned long long)nr_gib,
	       (unsigned long long)nr_contexts);
	run_all_visited(&bench);
	run_steady(&bench);
	reclaim_check(&bench.reclaim);
	printf("most lines in a turn: %llu; a turn may touch %u\n",
	       (unsigned long long)bench.most_lines, TURN_LINES);
	return 0;
}
