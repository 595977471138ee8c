/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Claims of an open file: its words change in place while others read by them, and that never ends.
 *
 *     test_claim [--rewrites N] [--turns N]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/client/file.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 180
#define NR_SLOTS 8u
#define NR_READERS 2u

static u64 rewrites = 10001, turns = 20000;

/* ---- one file, rewritten for ever ---- */

static void rewritten_file_is_cached_each_time(void **state)
{
	const struct claim *claimed;
	struct test_bed b;
	u8 byte, got;
	int fd;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	claimed = b.file->claimed;
	for (u64 i = 0; i < rewrites; i++) {
		byte = (u8)i;
		fd = open(b.path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
		close(fd);
		assert_true(WAIT_UNTIL(
			lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT) == 0));
		assert_int_equal(lodic_read(b.context, b.file, &got, 1, 0), 1);
		assert_int_equal(got, byte);
	}
	assert_int_equal(lodic_file_cached(b.file), 0);
	/* Nothing has grown meanwhile. */
	assert_ptr_equal(b.file->claimed, claimed);
	assert_null(claimed->older);
	test_bed_free(&b);
}

/* ---- CL1, CL2: readers of a claim while it changes ---- */

struct change {
	struct segment segment;
	struct file_proof proofs[NR_SLOTS];
	struct claim *claim;
	u64 done;              /* atomic */
	u64 looks[NR_READERS]; /* atomic */
	u64 vouched[NR_READERS];
};

struct change_reader {
	struct change *change;
	u32 number;
};

static u64 size_of(u32 id)
{
	return (u64)id * BLOCK;
}

/* As a read does: takes the words, reads, and looks whether somebody vouches for the id. */
static void *change_read(void *arg)
{
	const struct change_reader *r = arg;
	struct change *c = r->change;
	struct cache_file core;
	u64 first, size;

	while (!host_load_acquire(&c->done)) {
		first = claim_first(c->claim);
		size = claim_size(c->claim);
		core = claim_core(c->claim, first);
		host_fence_acquire();
		if (file_proof_holds(core.proof, core.id)) {
			REQUIRE(size == size_of(core.id), "id %u with a size of %llu",
			        core.id, (unsigned long long)size);
			c->vouched[r->number]++;
		}
		host_store_relaxed(&c->looks[r->number],
		                   host_load_relaxed(&c->looks[r->number]) + 1);
	}
	return NULL;
}

static void claim_in_change_has_the_size_of_its_id(void **state)
{
	struct change_reader readers[NR_READERS];
	struct change *c = calloc(1, sizeof(*c));
	struct wire_reply reply = { .file = { .slot = 1, .id = 1 } };
	u64 stream = fixture_seed(), seen[NR_READERS], nr_vouched = 0;
	pthread_t threads[NR_READERS];
	u32 slot;

	(void)state;
	assert_non_null(c);
	c->segment.generation = 2;
	c->segment.arena.files = c->proofs;
	c->segment.arena.nr_files = NR_SLOTS;
	reply.file.size = size_of(1);
	c->claim = claim_make(NULL, &c->segment, &reply);
	assert_non_null(c->claim);
	file_proof_admit(&c->proofs[1], 1, size_of(1));
	for (u32 i = 0; i < NR_READERS; i++) {
		readers[i] = (struct change_reader){ c, i };
		assert_int_equal(
			pthread_create(&threads[i], NULL, change_read, &readers[i]), 0);
	}
	for (u32 id = 2; id < turns + 2; id++) {
		file_proof_revoke(&c->proofs[reply.file.slot]);
		slot = (u32)random_below(&stream, NR_SLOTS);
		reply.file.slot = slot;
		reply.file.id = id;
		reply.file.size = size_of(id);
		file_proof_admit(&c->proofs[slot], id, size_of(id));
		claim_renew(c->claim, &c->segment, &reply);
		/* Now and then, until each reader has seen it. */
		for (u32 i = 0; id % 64 == 0 && i < NR_READERS; i++) {
			seen[i] = host_load_relaxed(&c->looks[i]);
			assert_true(
				WAIT_UNTIL(host_load_relaxed(&c->looks[i]) != seen[i]));
		}
	}
	host_store_release(&c->done, 1);
	for (u32 i = 0; i < NR_READERS; i++) {
		pthread_join(threads[i], NULL);
		nr_vouched += c->vouched[i];
	}
	assert_true(nr_vouched > 0);
	free(c->claim);
	free(c);
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { "--rewrites", &rewrites, NULL },
		                                  { "--turns", &turns, NULL },
		                                  { NULL, NULL, NULL } };
	const struct CMUnitTest tests[] = {
		TEST(claim_in_change_has_the_size_of_its_id),
		TEST(rewritten_file_is_cached_each_time),
	};

	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
