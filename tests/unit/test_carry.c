/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What comes along from one service to the next, step by step. The two services of this process
 * have no main loop. So a file can change at any chosen moment between the steps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cache/cache.h"
#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/succession/carry.h"
#include "lib/service/tier/tier.h"
#include "lib/service/succession/whole.h"
#include "lib/service/file/held.h"
#include "lib/service/file/proof.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define BLOCKS 200u

struct bed {
	struct service *s, *to;
	struct carry carry;
	char path[FIXTURE_PATH_BYTES];
	u32 slot, id;
};

static struct held_file *bed_file(const struct bed *b)
{
	return &b->s->files.slots[b->slot];
}

/* Publishes the file's block in b->s, as a fill does. Returns its frame. */
static u32 bed_fill(struct bed *b, u32 index)
{
	u32 frame = tier_pop(&b->s->tiers, TIER_FAST);
	u64 block = block_id(b->id, index);

	cache_fill_begin(&b->s->memory.arena, frame);
	pattern_fill(arena_frame_bytes(&b->s->memory.arena, frame), 1, 1,
	             (u64)index * BLOCK, BLOCK);
	assert_true(fill_publish(&b->s->frames, b->slot, frame, block, true));
	return frame;
}

/* A service with one file, all of it cached; and one of cache_blocks that has nothing. */
static void bed_make(struct bed *b, u64 cache_blocks)
{
	static char socket[FIXTURE_PATH_BYTES];
	static struct passed_file p;
	struct service_options options = { .place.socket = socket,
		                           .sizes.cache_bytes = 256 * BLOCK,
		                           .tables.barrier = SERVICE_BARRIER_LOCK,
		                           .keeping.nr_files = 64 };
	const char *why = NULL;
	sigset_t all, old;
	int fd;

	memset(b, 0, sizeof(*b));
	fixture_path(socket, "carry");
	pattern_file_make(b->path, "carried", 1, 1, BLOCKS * BLOCK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &b->s, &why), 0);
	assert_int_equal(service_make(b->s, cache_blocks * BLOCK, &b->to, &why), 0);
	assert_int_equal(service_fill_arena(b->to, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	b->to->base.workers = b->s->base.workers;
	fd = fixture_open(b->path, O_RDONLY);
	proof_look(&b->s->options, &fd, &p);
	service_close(&fd);
	if (files_open(&b->s->files, &p, 0, &b->slot) != 0)
		fixture_skip("no leases where temporary files are: set TMPDIR");
	b->id = bed_file(b)->id;
	assert_int_equal(carry_init(&b->carry, b->s), 0);
	carry_begin(&b->carry, b->to);
}

static void bed_free(struct bed *b)
{
	carry_fini(&b->carry);
	b->to->base.workers = NULL;
	service_shut(b->to);
	service_shut(b->s);
	unlink(b->path);
}

static void bed_carry_files(struct bed *b)
{
	struct pollfd wait = { .fd = worker_event(&b->s->base), .events = POLLIN };
	enum carry_next next;

	while ((next = carry_files(b->s, &b->carry)) != CARRY_DONE) {
		if (next == CARRY_WAITS)
			poll(&wait, 1, 50);
		worker_done(&b->s->base);
	}
}

static void bed_carry_blocks(struct bed *b)
{
	while (carry_blocks(b->s, &b->carry) != CARRY_DONE)
		;
}

/* Changes the file, and closes it: a later lease is granted. Only lease threads have a say. */
static void bed_change_file(const struct bed *b)
{
	int fd = fixture_open(b->path, O_WRONLY);
	u8 block[BLOCK];

	pattern_fill(block, 1, 2, 0, BLOCK);
	assert_int_equal(pwrite(fd, block, BLOCK, 0), BLOCK);
	close(fd);
}

static u64 nr_cached(const struct service *s)
{
	return host_load_relaxed(&s->memory.arena.header->nr_cached);
}

/* The frame of `to` that has the block has the right bytes. */
static bool bed_has(const struct bed *b, u32 index)
{
	u32 id = carry_new_id(&b->carry, b->s, b->id);
	u64 word, block = block_id(id, index);

	if (id == FILE_NONE || !fill_has(&b->to->frames, block))
		return false;
	assert_true(translation_find(&b->to->memory.arena.translation, block, &word));
	assert_true(pattern_holds(arena_frame_bytes(&b->to->memory.arena,
	                                            translation_frame(word)),
	                          1, 1, (u64)index * BLOCK, BLOCK));
	return true;
}

static void carry_unchanged_file_all_in_order(void **state)
{
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS; i++)
		bed_fill(&b, i);
	bed_carry_files(&b);
	bed_carry_blocks(&b);
	for (u32 i = 0; i < BLOCKS; i++)
		assert_true(bed_has(&b, i));
	for (u32 q = RECLAIM_SMALL; q <= RECLAIM_MAIN; q++) {
		u32 from = b.s->frames.reclaim.lists[q].oldest;
		u32 to = b.to->frames.reclaim.lists[q].oldest;

		assert_int_equal(b.to->frames.reclaim.lists[q].nr,
		                 b.s->frames.reclaim.lists[q].nr);
		for (; from != RECLAIM_NONE;
		     from = b.s->frames.reclaim.nodes[from].newer) {
			assert_int_equal(
				block_index(b.to->frames.reclaim.nodes[to].block),
				block_index(b.s->frames.reclaim.nodes[from].block));
			to = b.to->frames.reclaim.nodes[to].newer;
		}
	}
	assert_int_equal(b.carry.taken, BLOCKS);
	assert_int_equal(host_load_relaxed(&b.to->memory.arena.header->nr_admitted), 0);
	fill_check(&b.to->frames);
	bed_free(&b);
}

/* A writer has come and gone before the new proof began, and the main thread has not noticed. Both
 * services vouch for the file as far as they know, but for different bytes (RS1). */
static void carry_file_changed_before_new_proof_blocks_stay_behind(void **state)
{
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS; i++)
		bed_fill(&b, i);
	bed_change_file(&b);
	bed_carry_files(&b);
	assert_non_null(files_find(&b.to->files, carry_new_id(&b.carry, b.s, b.id)));
	bed_carry_blocks(&b);
	assert_int_equal(nr_cached(b.to), 0);
	fill_check(&b.to->frames);
	bed_free(&b);
}

/* A writer has to wait for both services (RS2). */
static void carry_file_changed_after_new_proof_blocks_stay_behind(void **state)
{
	struct held_file *n;
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS; i++)
		bed_fill(&b, i);
	bed_carry_files(&b);
	n = files_find(&b.to->files, carry_new_id(&b.carry, b.s, b.id));
	assert_non_null(n);
	assert_true(files_is_live(&b.to->files, n));
	bed_change_file(&b);
	assert_false(files_is_live(&b.to->files, n));
	assert_false(files_is_live(&b.s->files, bed_file(&b)));
	bed_carry_blocks(&b);
	assert_int_equal(nr_cached(b.to), 0);
	fill_check(&b.to->frames);
	bed_free(&b);
}

/* Only some fit: those that were visited, whatever their place. */
static void carry_little_room_visited_blocks_come(void **state)
{
	struct bed b;
	u32 nr = 0;

	(void)state;
	bed_make(&b, 64);
	for (u32 i = 0; i < BLOCKS; i++) {
		u32 frame = bed_fill(&b, i);

		/* All were read, and a fifth of them more often. */
		host_store_byte(&b.s->memory.arena.visits[frame], i % 5 == 2 ? 3 : 1);
	}
	bed_carry_files(&b);
	bed_carry_blocks(&b);
	assert_int_equal(b.carry.had, BLOCKS);
	for (u32 i = 2; i < BLOCKS; i += 5)
		nr += bed_has(&b, i);
	assert_int_equal(nr, BLOCKS / 5);
	assert_int_equal(nr_cached(b.to), b.to->memory.shape.nr_frames - FRAME_FIRST);
	fill_check(&b.to->frames);
	bed_free(&b);
}

/* What is cached during the first round comes along in the second. */
static void carry_second_round_takes_what_is_new(void **state)
{
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS / 2; i++)
		bed_fill(&b, i);
	bed_carry_files(&b);
	bed_carry_blocks(&b);
	assert_true(b.carry.again);
	for (u32 i = BLOCKS / 2; i < BLOCKS; i++)
		bed_fill(&b, i);
	bed_carry_files(&b);
	bed_carry_blocks(&b);
	for (u32 i = 0; i < BLOCKS; i++)
		assert_true(bed_has(&b, i));
	assert_int_equal(nr_cached(b.to), BLOCKS);
	fill_check(&b.to->frames);
	bed_free(&b);
}

/* Frames leave the queue, and move in it, while the walk is there (R8). */
static void carry_frames_move_meanwhile_walk_goes_on(void **state)
{
	struct bed b;
	u32 moved = 0;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS; i++)
		bed_fill(&b, i);
	bed_carry_files(&b);
	while (!b.carry.again) {
		u32 at = b.s->frames.reclaim.walk;

		moved += at != RECLAIM_NONE;

		/* The frame that comes next goes, as an orphan does. */
		if (at != RECLAIM_NONE) {
			reclaim_remove(&b.s->frames.reclaim, at);
			assert_int_not_equal(b.s->frames.reclaim.walk, at);
			reclaim_insert(
				&b.s->frames.reclaim, at,
				host_load_relaxed(&b.s->memory.arena.frames[at].block));
		}
		reclaim_check(&b.s->frames.reclaim);
		carry_blocks(b.s, &b.carry);
	}
	assert_true(moved > 0);
	for (u32 i = 0; i < BLOCKS; i++)
		assert_true(bed_has(&b, i));
	bed_free(&b);
}

/* A worker that waits until it may go on, or for so long. */
struct stuck {
	struct worker_job job;
	u64 *go_on;
	u64 until_ns;
};

static void stuck_work(struct worker_job *job)
{
	struct stuck *stuck = (struct stuck *)job;

	while (!host_load_acquire(stuck->go_on) && host_now_ns() < stuck->until_ns)
		fixture_pause_us(1000);
}

static u32 nr_stuck;

static void stuck_done(void *owner, struct worker_job *job)
{
	(void)owner;
	nr_stuck--;
	free(job);
}

static void workers_stick(struct bed *b, u64 *go_on, u64 ns)
{
	for (u32 i = 0; i < WORKERS_MOST; i++) {
		struct stuck *stuck = calloc(1, sizeof(*stuck));

		assert_non_null(stuck);
		worker_job_init(&stuck->job, WORKER_ANY, 0, OWNER_BASE, stuck_work, stuck_done);
		stuck->go_on = go_on;
		stuck->until_ns = host_now_ns() + ns;
		assert_int_equal(worker_do(&b->s->base, &stuck->job), 0);
		nr_stuck++;
	}
}

/* No worker is free for the file. The resize goes on without it, and in time. */
static void carry_file_does_not_answer_stays_behind(void **state)
{
	u64 go_on = 0, since;
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	bed_fill(&b, 0);
	workers_stick(&b, &go_on, 100000 * NS_PER_MS);
	since = host_now_ns();
	bed_carry_files(&b);
	assert_true(host_now_ns() - since < 15000 * NS_PER_MS);
	bed_carry_blocks(&b);
	assert_int_equal(b.to->files.nr_held, 0);
	assert_int_equal(nr_cached(b.to), 0);
	host_store_release(&go_on, 1);
	/* They look at it, and the end would not wait for a late one. */
	assert_true(WAIT_UNTIL((worker_done(&b.s->base), nr_stuck == 0)));
	bed_free(&b);
}

/* A local file's worker is late. The file has come along all the same. */
static void carry_worker_is_late_file_comes(void **state)
{
	u64 go_on = 0;
	struct bed b;

	(void)state;
	bed_make(&b, 400);
	for (u32 i = 0; i < BLOCKS; i++)
		bed_fill(&b, i);
	workers_stick(&b, &go_on, 800 * NS_PER_MS);
	bed_carry_files(&b);
	bed_carry_blocks(&b);
	for (u32 i = 0; i < BLOCKS; i++)
		assert_true(bed_has(&b, i));
	assert_true(WAIT_UNTIL((worker_done(&b.s->base), nr_stuck == 0)));
	bed_free(&b);
}

static bool all_refused;

int __real_worker_do(struct base *s, struct worker_job *job);
int __wrap_worker_do(struct base *s, struct worker_job *job);

int __wrap_worker_do(struct base *s, struct worker_job *job)
{
	return all_refused ? -EBUSY : __real_worker_do(s, job);
}

/* Workers are stuck with files of other servers. This thread must not get stuck, too. */
static void carry_open_refused_a_worker_closes(void **state)
{
	struct bed b;

	(void)state;
	for (u32 local = 0; local < 2; local++) {
		bed_make(&b, 400);
		bed_file(&b)->local = local;
		all_refused = true;
		assert_int_equal(carry_files(b.s, &b.carry), CARRY_DONE);
		all_refused = false;
		assert_int_equal(worker_nr_closing(&b.s->base), 1);
		assert_int_equal(b.to->files.nr_held, 0);
		bed_file(&b)->local = true;
		bed_free(&b);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(carry_unchanged_file_all_in_order),
		cmocka_unit_test(
			carry_file_changed_before_new_proof_blocks_stay_behind),
		cmocka_unit_test(carry_file_changed_after_new_proof_blocks_stay_behind),
		cmocka_unit_test(carry_little_room_visited_blocks_come),
		cmocka_unit_test(carry_second_round_takes_what_is_new),
		cmocka_unit_test(carry_frames_move_meanwhile_walk_goes_on),
		cmocka_unit_test(carry_file_does_not_answer_stays_behind),
		cmocka_unit_test(carry_worker_is_late_file_comes),
		cmocka_unit_test(carry_open_refused_a_worker_closes),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("carry", tests, NULL, NULL);
}
