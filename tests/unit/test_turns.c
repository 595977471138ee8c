/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service's main loop does in one turn is bounded, however many contexts there are.
 * These cases call pieces of lib/service on contexts in this process's memory. Eviction has
 * tests/unit/test_reclaim_carry.c and tests/stress/reclaim_turns.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/pte.h"
#include "host/random.h"
#include "lib/service/client/client.h"
#include "lib/service/client/place.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/fill_hints.h"
#include "lib/service/frame/reads.h"
#include "lib/service/frame/sweep.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/file/held.h"

#define NR_FRAMES 8192u
#define NR_FILES 4u
/* Hints of all contexts that a turn may take. */
#define MOST_HINTS (8 * HINT_MAX)

static struct service service;

/* A service with so many contexts; nothing else of it is there. */
static struct service *service_make(u32 nr_contexts, u32 nr_entries)
{
	struct service *s = &service;
	u64 bytes = arena_context_bytes(nr_entries, 1);

	memset(s, 0, sizeof(*s));
	service_wire(s);
	s->memory.shape = (struct arena_shape){ NR_FRAMES, NR_FILES, nr_entries,
		                                ARENA_SCANNED, ARENA_BARRIER_LIGHT };
	s->files.slots = calloc(NR_FILES, sizeof(*s->files.slots));
	s->memory.arena.contexts =
		calloc(nr_contexts, sizeof(*s->memory.arena.contexts));
	s->memory.arena.posted = calloc(nr_contexts, 1);
	assert_true(s->files.slots && s->memory.arena.contexts &&
	            s->memory.arena.posted);
	for (u32 i = 0; i < nr_contexts; i++) {
		/* Most of it is never written, so it takes no memory. */
		void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		struct context_table table;

		assert_true(memory != MAP_FAILED);
		arena_context_table(&table, memory);
		assert_int_equal(arena_join(&s->memory.arena, &table), i);
		table.memory->nr_pinned = 1; /* none is skipped */
		s->clients.seats[i].quota = nr_entries;
	}
	return s;
}

static void service_free(struct service *s)
{
	u64 bytes = arena_context_bytes(s->memory.shape.nr_entries, 1);

	for (u32 i = 0; i < s->memory.arena.nr_contexts; i++)
		munmap(s->memory.arena.contexts[i].memory, bytes);
	free(s->memory.arena.posted);
	free(s->memory.arena.contexts);
	free(s->files.slots);
}

static void stat_run_many_contexts_counts_in_pieces(void **state)
{
	const u32 nr_contexts = 256, nr_entries = 32768;
	struct service *s = service_make(nr_contexts, nr_entries);
	u64 before = 0, wanted;
	u32 turns = 0;
	bool more;

	(void)state;
	/* Two contexts pin frame 7, all others a frame of their own; one does not count. */
	for (u32 i = 0; i < nr_contexts; i++)
		s->memory.arena.contexts[i].entries[i * 100] =
			pte_make(i < 2 ? 7 : 100 + i) | PTE_COUNT_ONE;
	s->memory.arena.contexts[5].entries[0] = pte_make(8);
	wanted = stat_ask(&s->clients);
	do {
		u64 now;

		assert_false(stat_is_done(&s->clients, wanted));
		more = stat_run(&s->clients);
		now = (u64)s->clients.count.place * nr_entries + s->clients.count.at;
		assert_true(now - before <= (u64)TURN_LINES * 8);
		before = now;
		assert_in_range(++turns, 1, nr_contexts * (nr_entries / 8));
	} while (more);
	assert_true(stat_is_done(&s->clients, wanted));
	assert_true(turns > nr_contexts * (nr_entries / 8) / TURN_LINES);
	assert_int_equal(s->clients.count.pinned, nr_contexts - 1);
	service_free(s);
}

static void stat_ask_while_counting_gets_a_later_count(void **state)
{
	const u32 nr_contexts = 64, nr_entries = 32768;
	struct service *s = service_make(nr_contexts, nr_entries);
	u64 first = stat_ask(&s->clients), second;

	(void)state;
	assert_true(stat_run(&s->clients));
	/* A pin where the count has been already. */
	s->memory.arena.contexts[0].entries[0] = pte_make(9) | PTE_COUNT_ONE;
	second = stat_ask(&s->clients);
	while (!stat_is_done(&s->clients, first))
		assert_true(stat_run(&s->clients));
	assert_int_equal(s->clients.count.pinned, 0);
	assert_false(stat_is_done(&s->clients, second));
	while (stat_run(&s->clients))
		;
	assert_true(stat_is_done(&s->clients, second));
	assert_int_equal(s->clients.count.pinned, 1);
	service_free(s);
}

static u64 nr_hints_taken(const struct service *s)
{
	u64 nr = 0;

	for (u32 i = 0; i < s->memory.arena.nr_contexts; i++)
		nr += s->memory.arena.contexts[i].memory->ring.tail;
	return nr;
}

static void fill_take_hints_many_contexts_bounded_and_sync_waits_for_all(void **state)
{
	const u32 nr_contexts = 64;
	struct service *s = service_make(nr_contexts, 64);
	const u64 nr_hints = (u64)nr_contexts * HINT_MAX;
	struct fill_sync sync;
	u64 taken = 0;
	u64 never = 0;

	(void)state;
	/* No file is held, so the service drops each hint once it has taken it. */
	for (u32 i = 0; i < nr_contexts; i++)
		for (u32 j = 0; j < HINT_MAX; j++)
			hint_post(&s->memory.arena.contexts[i].memory->ring,
			          &s->memory.arena.contexts[i].memory->kept,
			          &s->memory.arena.posted[i], &never, block_id(1, j),
			          1);
	fill_take_hints(&s->frames);
	fill_sync_begin(&s->frames, &sync);
	for (u32 turn = 0;
	     !fill_sync_is_done(&s->frames, &sync, fill_oldest(&s->frames)); turn++) {
		assert_in_range(turn, 0, 2 * nr_hints / MOST_HINTS);
		assert_true(nr_hints_taken(s) - taken <= MOST_HINTS);
		taken = nr_hints_taken(s);
		fill_take_hints(&s->frames);
	}
	assert_int_equal(nr_hints_taken(s), nr_hints);
	service_free(s);
}

/* A round that has asked a context may have passed its next hint by. */
static void sync_waits_for_a_round_that_begins_later(void **state)
{
	struct service *s = service_make(2, 64);
	struct fill_sync sync;

	(void)state;
	s->frames.fill.nr_rounds = 5;
	fill_sync_begin(&s->frames, &sync);
	assert_int_equal(sync.round, 6);
	s->frames.fill.round_asked = 1;
	fill_sync_begin(&s->frames, &sync);
	assert_int_equal(sync.round, 7);
	service_free(s);
}

/* While the queue is full hints stay where they are. When the arena ends they have nowhere else. */
static void full_queue_leaves_hints_in_rings_but_at_the_end(void **state)
{
	const u32 nr_contexts = 64;
	struct service *s = service_make(nr_contexts, 64);
	u64 never = 0;

	(void)state;
	for (u32 i = 0; i < nr_contexts; i++)
		for (u32 j = 0; j < HINT_MAX; j++)
			hint_post(&s->memory.arena.contexts[i].memory->ring,
			          &s->memory.arena.contexts[i].memory->kept,
			          &s->memory.arena.posted[i], &never, block_id(1, j),
			          1);
	s->frames.fill.queue.nr = FILL_QUEUE - 1;
	fill_take_hints(&s->frames);
	assert_int_equal(nr_hints_taken(s), 0);
	fill_take_all(&s->frames);
	assert_int_equal(nr_hints_taken(s), (u64)nr_contexts * HINT_MAX);
	s->frames.fill.queue.nr = 0;
	service_free(s);
}

/* Ranges of a file that may not answer wait without a turn that looks at them, and take no room
 * from others. */
static void fill_run_far_ranges_wait_elsewhere(void **state)
{
	const u32 nr_far = FILL_QUEUE - 1;
	struct service *s = service_make(1, 64);
	struct fill *fill = &s->frames.fill;
	struct file_proof proofs[NR_FILES] = { 0 };
	u32 turns = 0;

	(void)state;
	s->files.slots[1] = (struct held_file){ .state = FILE_HELD,
		                                .id = 2,
		                                .size = FILL_QUEUE * 4 * BLOCK_BYTES };
	file_proof_admit(&proofs[1], 2, s->files.slots[1].size);
	s->memory.arena.files = proofs;
	fill->most_busy = FILL_OPS;
	fill->nr_far = fill->nr_busy = FILL_OPS / 2;
	for (u32 i = 0; i < nr_far; i++)
		fill->queue.ranges[i] =
			(struct fill_range){ .id = 2, .next = 2 * i, .end = 2 * i + 1 };
	fill->queue.nr = nr_far;
	while (fill_run(&s->frames))
		assert_in_range(++turns, 1, nr_far / 64);
	assert_in_range(turns, nr_far / 128, nr_far / 64); /* and each turn is bounded */
	assert_int_equal(fill->queue.nr, 0);
	assert_int_equal(fill->far.nr, nr_far);
	assert_int_equal(fill_oldest(&s->frames), 0);
	/* What finds no room there is dropped. */
	for (u32 i = 0; i < 3; i++)
		fill->queue.ranges[(fill->queue.head + i) % FILL_QUEUE] =
			(struct fill_range){ .id = 2, .next = 9000 + 2 * i, .end = 9001 + 2 * i };
	fill->queue.nr = 3;
	assert_false(fill_run(&s->frames));
	assert_int_equal(fill->queue.nr, 0);
	assert_int_equal(fill->far.nr, FILL_QUEUE);
	service_free(s);
}

/* While all frames are pinned, readers have the kernel, and nothing waits. */
static void fill_run_starved_drops_all(void **state)
{
	struct service *s = service_make(1, 64);
	struct fill *fill = &s->frames.fill;

	(void)state;
	fill->most_busy = FILL_OPS;
	fill->nr_far = fill->nr_busy = FILL_OPS / 2; /* no far range may begin */
	fill->queue.nr = fill->far.nr = 3;
	fill->starved_until_ns = UINT64_MAX;
	assert_false(fill_run(&s->frames));
	assert_int_equal(fill->queue.nr, 0);
	assert_int_equal(fill->far.nr, 0);
	service_free(s);
}

static void queue_put_back_is_next_again(void **state)
{
	static struct fill_queue queue = { .head = FILL_QUEUE - 1 };

	(void)state;
	for (u32 i = 0; i < 3; i++)
		fill_queue_push(&queue, &(struct fill_range){ .id = i });
	for (u32 i = 0; i < 3; i++) {
		struct fill_range range = fill_queue_pop(&queue);

		fill_queue_put_back(&queue, &range);
		assert_int_equal(queue.nr, 3 - i);
		assert_int_equal(fill_queue_pop(&queue).id, i);
	}
	assert_int_equal(queue.nr, 0);
}

/* A thousand idle readers cost the service no look at their memory: it may not even be there. */
static void fill_take_hints_touches_posted_rings_alone(void **state)
{
	const u32 nr_contexts = 64, one = 37;
	struct service *s = service_make(nr_contexts, 64);
	const u64 bytes = arena_context_bytes(64, 1);
	u64 never = 0;

	(void)state;
	hint_post(&s->memory.arena.contexts[one].memory->ring,
	          &s->memory.arena.contexts[one].memory->kept,
	          &s->memory.arena.posted[one], &never, block_id(1, 1), 1);
	for (u32 i = 0; i < nr_contexts; i++)
		if (i != one)
			mprotect(s->memory.arena.contexts[i].memory, bytes, PROT_NONE);
	s->memory.arena.header = calloc(1, sizeof(*s->memory.arena.header));
	assert_non_null(s->memory.arena.header);
	assert_false(arena_sleep(&s->memory.arena));
	fill_take_hints(&s->frames);
	assert_true(arena_sleep(&s->memory.arena));
	free(s->memory.arena.header);
	for (u32 i = 0; i < nr_contexts; i++)
		mprotect(s->memory.arena.contexts[i].memory, bytes,
		         PROT_READ | PROT_WRITE);
	assert_int_equal(nr_hints_taken(s), 1);
	service_free(s);
}

static void sweep_tick_collects_all_in_rounds_of_bounded_ticks(void **state)
{
	const u32 nr_contexts = 64;
	const u32 nr_lines = NR_FRAMES / ARENA_LINE_FRAMES;
	struct service *s = service_make(nr_contexts, 64);
	(void)state;
	s->memory.arena.visits = calloc(NR_FRAMES, 1);
	s->memory.arena.frames = calloc(NR_FRAMES, sizeof(*s->memory.arena.frames));
	assert_true(s->memory.arena.visits && s->memory.arena.frames);
	assert_int_equal(reclaim_init(&s->frames.reclaim, NR_FRAMES), 0);
	s->files.slots[1] = (struct held_file){ .state = FILE_HELD, .id = 2 };
	for (u32 frame = 1; frame < NR_FRAMES; frame++) {
		s->memory.arena.frames[frame].block = block_id(2, frame);
		reclaim_insert(&s->frames.reclaim, frame, block_id(2, frame));
		s->memory.arena.visits[frame] = 2;
	}
	for (u32 round = 1; round <= 2; round++) {
		u32 ticks = 0;

		for (u32 lines = 0; lines < nr_lines; ticks++) {
			u32 before = s->frames.sweep_at;

			sweep_tick(&s->frames);
			lines += (s->frames.sweep_at - before + NR_FRAMES) % NR_FRAMES /
			         ARENA_LINE_FRAMES;
		}
		/* No reader stores more often than once in 5 s because of it. */
		assert_in_range(ticks, 50, 200);
		/* Nothing came in after the first round. */
		assert_int_equal(s->files.slots[1].hits, 2 * (NR_FRAMES - 1));
	}
	for (u32 frame = 1; frame < NR_FRAMES; frame++)
		assert_int_equal(s->frames.reclaim.nodes[frame].freq, 2);
	reclaim_check(&s->frames.reclaim);
	reclaim_fini(&s->frames.reclaim);
	free(s->memory.arena.visits);
	free(s->memory.arena.frames);
	service_free(s);
}

static void sweep_tick_large_cache_bounded(void **state)
{
	const u32 nr_contexts = 200;
	struct service *s = service_make(nr_contexts, 64);

	(void)state;
	s->memory.shape.nr_frames = 1u << 22; /* as if; the sweep ends before they do */
	s->memory.arena.visits = calloc(s->memory.shape.nr_frames, 1);
	assert_non_null(s->memory.arena.visits);
	sweep_tick(&s->frames);
	/* Each frame has a name and a file to look at. */
	assert_in_range(s->frames.sweep_at, ARENA_LINE_FRAMES, TURN_LINES / 2);
	free(s->memory.arena.visits);
	service_free(s);
}

/* A service to which contexts can come. */
static struct service *service_make_empty(void)
{
	struct service *s = service_make(0, 64);

	free(s->memory.arena.contexts);
	free(s->memory.arena.posted);
	s->memory.arena.contexts =
		calloc(ARENA_MAX_CONTEXTS, sizeof(*s->memory.arena.contexts));
	s->memory.arena.posted = calloc(ARENA_MAX_CONTEXTS, 1);
	s->memory.arena.header = calloc(1, sizeof(*s->memory.arena.header));
	assert_true(s->memory.arena.contexts && s->memory.arena.posted &&
	            s->memory.arena.header);
	s->memory.quota = 8;
	return s;
}

/* A client that the service hears of by one end of a socket. */
static struct client *client_make(struct service *s, int *ret_other)
{
	struct client *c = calloc(1, sizeof(*c));
	int ends[2];

	assert_non_null(c);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	*ret_other = ends[1];
	c->socket = ends[0];
	c->process = -1;
	c->newest = c->reap_at = FRAME_NONE;
	c->next = s->clients.first;
	s->clients.first = c;
	return c;
}

/* Gives the client a context. Returns a descriptor of its memory. */
static int context_make(struct service *s, struct client *c)
{
	struct place_offer offer;

	assert_int_equal(place_open(&s->clients, c, false, &offer), 0);
	return offer.fd;
}

/* One context is still in use when its client hangs up, and leaves later. */
static void client_hang_up_with_many_contexts_reaps_them_in_turns(void **state)
{
	enum { NR_CONTEXTS = 100, MOST = 8 };
	struct service *s = service_make_empty();
	struct client *dying, *living;
	u32 turns = 0, reaped = 0;
	int other[2], used = -1;
	bool more = true, tells;

	(void)state;
	living = client_make(s, &other[0]);
	dying = client_make(s, &other[1]);
	for (u32 i = 0; i < NR_CONTEXTS; i++) {
		int fd = context_make(s, dying);

		if (i == NR_CONTEXTS / 2)
			used = fd;
		else
			close(fd);
		close(context_make(s, living));
	}
	assert_int_equal(living->nr_contexts, NR_CONTEXTS);
	tells = s->clients.seats[dying->newest].fd >= 0;
	assert_false(client_reap(&s->clients));
	client_process_died(&s->clients, dying);
	for (; more; turns++) {
		more = client_reap(&s->clients);
		assert_in_range(s->base.stat.reaped - reaped, 0, MOST);
		reaped = (u32)s->base.stat.reaped;
	}
	assert_in_range(turns, NR_CONTEXTS / MOST, NR_CONTEXTS);
	if (tells) { /* who has memory */
		assert_int_equal(reaped, NR_CONTEXTS - 1);
		assert_int_equal(dying->nr_contexts, 1);
		assert_false(dying->gone);
		client_tick(&s->clients);
		assert_false(client_reap(&s->clients));
		assert_int_equal(dying->nr_contexts, 1);
		close(used);
		client_tick(&s->clients);
		assert_false(client_reap(&s->clients));
	}
	assert_int_equal(s->base.stat.reaped, NR_CONTEXTS);
	assert_true(dying->gone);
	client_free_gone(&s->clients);
	assert_ptr_equal(s->clients.first, living);
	assert_int_equal(living->nr_contexts, NR_CONTEXTS);
	client_free_all(&s->clients);
	assert_null(s->clients.first);
	assert_int_equal(s->clients.nr_silent, 0);
	assert_int_equal(s->clients.nr_reaping, 0);
	close(other[0]);
	close(other[1]);
	free(s->memory.arena.header);
	free(s->memory.arena.contexts);
	free(s->memory.arena.posted);
	free(s->files.slots);
}

/* The reader's last hints, and what it kept: the context goes before a turn has looked at them. */
static void place_leave_takes_what_the_reader_has_left(void **state)
{
	struct service *s = service_make_empty();
	struct context_memory *m;
	struct place_offer offer;
	struct client *c;
	u64 never = 0;
	u32 nr_kept = 0;
	int other;

	(void)state;
	s->files.slots[1] = (struct held_file){ .state = FILE_HELD,
		                                .id = 2,
		                                .size = 1000 * BLOCK_BYTES };
	s->files.held_blocks = 1000;
	s->memory.arena.nr_frames = s->tiers.nr_free = NR_FRAMES;
	c = client_make(s, &other);
	assert_int_equal(place_open(&s->clients, c, true, &offer), 0);
	m = s->clients.seats[offer.place].memory;
	for (u32 i = 0; i < HINT_MAX + 200;
	     i++) /* far from each other, then in a row */
		hint_post(&m->ring, &m->kept, &s->memory.arena.posted[offer.place],
		          &never, block_id(2, i < HINT_MAX ? 900 - 2 * i : 600 + i), 2);
	place_leave(&s->clients, offer.place);
	assert_in_range(s->frames.fill.queue.nr, HINT_MAX + 1, HINT_MAX + 2);
	for (u32 i = 0; i < s->frames.fill.queue.nr; i++)
		nr_kept += s->frames.fill.queue.ranges[i].spare &&
		           !s->frames.fill.queue.ranges[i].ahead;
	assert_int_equal(nr_kept, 1); /* it has no gaps: each block was missed */
	close(offer.fd);
	client_free_all(&s->clients);
	close(other);
	free(s->memory.arena.header);
	free(s->memory.arena.contexts);
	free(s->memory.arena.posted);
	free(s->files.slots);
}

static int end_result; /* of the read that has ended */

static void note_end(struct frames *s, struct fill_op *op, int result)
{
	assert_ptr_equal(op, &s->fill.ops[0]);
	end_result = result;
}

/* No ring, and no worker: the main thread does not read, because no file has to answer. */
static void reads_begin_without_a_worker_ends_and_nobody_reads(void **state)
{
	static u8 block[BLOCK_BYTES];
	struct service *s = service_make(1, 64);
	struct fill_op *op = &s->frames.fill.ops[0];
	FILE *file = tmpfile();

	(void)state;
	assert_non_null(file);
	memset(block, 'x', sizeof(block));
	assert_int_equal(fwrite(block, sizeof(block), 1, file), 1);
	assert_int_equal(fflush(file), 0);
	memset(block, 0, sizeof(block));
	s->files.slots[1] = (struct held_file){ .state = FILE_HELD,
		                                .fd = fileno(file),
		                                .direct_fd = -1,
		                                .size = BLOCK_BYTES };
	s->frames.fill.ended = note_end;
	op->slot = op->nr = 1;
	op->pieces[0] = (struct port_piece){ block, sizeof(block) };
	assert_int_equal(reads_begin(&s->frames, op), 0);
	assert_int_equal(end_result, -EAGAIN);
	assert_int_equal(block[0], 0);
	fclose(file);
	service_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_hang_up_with_many_contexts_reaps_them_in_turns),
		cmocka_unit_test(place_leave_takes_what_the_reader_has_left),
		cmocka_unit_test(reads_begin_without_a_worker_ends_and_nobody_reads),
		cmocka_unit_test(stat_run_many_contexts_counts_in_pieces),
		cmocka_unit_test(stat_ask_while_counting_gets_a_later_count),
		cmocka_unit_test(sync_waits_for_a_round_that_begins_later),
		cmocka_unit_test(fill_run_starved_drops_all),
		cmocka_unit_test(queue_put_back_is_next_again),
		cmocka_unit_test(fill_take_hints_touches_posted_rings_alone),
		cmocka_unit_test(fill_run_far_ranges_wait_elsewhere),
		cmocka_unit_test(full_queue_leaves_hints_in_rings_but_at_the_end),
		cmocka_unit_test(
			fill_take_hints_many_contexts_bounded_and_sync_waits_for_all),
		cmocka_unit_test(sweep_tick_collects_all_in_rounds_of_bounded_ticks),
		cmocka_unit_test(sweep_tick_large_cache_bounded),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
