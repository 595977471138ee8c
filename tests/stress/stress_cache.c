/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The whole library under eviction. Reader processes read and pin blocks of two files
 * through a real service, and verify them. The cache is a little smaller than the files, so
 * the service evicts and refills all the time. The test counts what came from the cache; it
 * also verifies what came from the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cache_fixture.h"

#define NR_FILES 2u
#define MAX_READERS 8u

static u64 nr_reads = 300000, nr_pins = 300000, nr_readers = 2, nr_frames = 64,
	   nr_blocks = 80;
static const char *scheme_name = "lodic";

/* One for each reader, in shared memory. */
struct tally {
	u64 reads, pins; /* verified, from the cache */
	u64 kernel;      /* verified, from the kernel */
	u64 wrong;
	u64 pad[4];
};

struct reader {
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *files[NR_FILES];
	struct tally *tally;
	u64 hits; /* of the context, so far */
	u64 random;
};

static char paths[NR_FILES][FIXTURE_PATH_BYTES];

/* Did the cache serve the last read or pin? */
static bool from_cache(struct reader *r)
{
	u64 before = r->hits;

	r->hits = test_context_stat(r->context).hits;
	return r->hits > before;
}

static void read_one(struct reader *r, u32 file, u64 block)
{
	u64 within = random_below(&r->random, 8) ? 0 : random_below(&r->random, 4000);
	u64 bytes = LODIC_BLOCK_BYTES - within;
	u64 offset = block * LODIC_BLOCK_BYTES + within;
	u8 buffer[LODIC_BLOCK_BYTES];
	ssize_t got =
		lodic_read(r->context, r->files[file], buffer, bytes, (off_t)offset);

	if (got != (ssize_t)bytes || !pattern_holds(buffer, file + 1, 1, offset, bytes))
		r->tally->wrong++;
	else if (from_cache(r))
		r->tally->reads++;
	else
		r->tally->kernel++;
}

static void pin_one(struct reader *r, u32 file, u64 block)
{
	u64 offset = block * LODIC_BLOCK_BYTES;
	struct lodic_pin pin;
	int err = lodic_pin(r->context, r->files[file], (off_t)offset, &pin);

	/* It is not cached yet, or too many others are pinned. */
	if (err == -EAGAIN || err == -EDQUOT || err == -ENOBUFS) {
		read_one(r, file, block); /* as programs do */
		return;
	}
	REQUIRE(err == 0, "lodic_pin: %d", err);
	if (!from_cache(r) || pin.bytes != LODIC_BLOCK_BYTES ||
	    !pattern_holds(pin.data, file + 1, 1, offset, pin.bytes))
		r->tally->wrong++;
	else
		r->tally->pins++;
	lodic_unpin(r->context, &pin);
}

static void reader_run(const struct test_service *service, u32 number,
                       struct tally *tally)
{
	struct reader r = { .tally = tally, .random = random_stream(number + 1) };

	REQUIRE(test_service_attach(service, &r.lodic) == 0, "attach");
	REQUIRE(lodic_context_open(r.lodic, &r.context) == 0, "context");
	for (u32 i = 0; i < NR_FILES; i++) {
		int fd = fixture_open(paths[i], O_RDONLY);

		REQUIRE(lodic_open(r.lodic, fd, &r.files[i]) == 0, "open");
		close(fd);
	}
	while (!tally->wrong && (tally->reads < nr_reads / nr_readers ||
	                         tally->pins < nr_pins / nr_readers)) {
		u32 file = (u32)random_below(&r.random, NR_FILES);
		u64 block = random_below(&r.random, nr_blocks / NR_FILES);

		if (tally->pins < nr_pins / nr_readers &&
		    (tally->reads >= nr_reads / nr_readers ||
		     random_below(&r.random, 2)))
			pin_one(&r, file, block);
		else
			read_one(&r, file, block);
	}
	for (u32 i = 0; i < NR_FILES; i++)
		lodic_close(r.files[i]);
	lodic_context_close(r.context);
	lodic_detach(r.lodic);
}

/* Adds up and prints what the readers have counted. The test fails if that is wrong. */
static void judge(const struct tally *tallies, const struct lodic_stat *stat)
{
	struct tally sum = { 0 };

	for (u32 i = 0; i < nr_readers; i++) {
		sum.reads += tallies[i].reads;
		sum.pins += tallies[i].pins;
		sum.kernel += tallies[i].kernel;
		sum.wrong += tallies[i].wrong;
	}
	printf("%llu reads and %llu pins verified from the cache, %llu reads from the kernel; "
	       "%llu evictions; %llu wrong\n",
	       (unsigned long long)sum.reads, (unsigned long long)sum.pins,
	       (unsigned long long)sum.kernel, (unsigned long long)stat->evicted,
	       (unsigned long long)sum.wrong);
	REQUIRE(sum.wrong == 0, "wrong bytes");
	REQUIRE(sum.reads >= nr_reads / nr_readers * nr_readers &&
	                sum.pins >= nr_pins / nr_readers * nr_readers,
	        "a reader ended early");
	REQUIRE(stat->evicted > 0, "nothing was evicted");
	REQUIRE(stat->pinned == 0, "%llu frames left pinned",
	        (unsigned long long)stat->pinned);
}

static void run_readers(const struct test_service *service, struct tally *tallies)
{
	pid_t pids[MAX_READERS];

	for (u32 i = 0; i < nr_readers; i++) {
		pids[i] = fixture_fork();
		if (pids[i] == 0) {
			reader_run(service, i, &tallies[i]);
			_exit(0);
		}
	}
	for (u32 i = 0; i < nr_readers; i++)
		while (waitpid(pids[i], NULL, 0) < 0)
			REQUIRE(errno == EINTR, "wait");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--reads", .number = &nr_reads },
		{ .name = "--pins", .number = &nr_pins },
		{ .name = "--readers", .number = &nr_readers },
		{ .name = "--frames", .number = &nr_frames },
		{ .name = "--blocks", .number = &nr_blocks },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
	struct test_service service;
	struct tally *tallies;
	struct lodic_stat stat;
	struct lodic *lodic;

	fixture_begin(argc, argv, options);
	REQUIRE(nr_readers >= 1 && nr_readers <= MAX_READERS &&
	                nr_readers * 16 <= nr_frames / 4 * 3,
	        "1..%u readers, 22 frames for each", MAX_READERS);
	tallies = fixture_shared(MAX_READERS * sizeof(*tallies));
	for (u32 i = 0; i < NR_FILES; i++)
		pattern_file_make(paths[i], i ? "b" : "a", i + 1, 1,
		                  nr_blocks / NR_FILES * LODIC_BLOCK_BYTES);
	test_service_init(&service, "stress");
	service.options.tables.scheme = fixture_scheme(scheme_name);
	service.options.sizes.cache_bytes = nr_frames * LODIC_BLOCK_BYTES;
	/* With more, the reserve would leave a reader without pins. */
	service.options.tables.nr_entries = 16;
	REQUIRE(test_service_start(&service) == 0, "service: %s", service.why);
	fixture_need_leases(&service, paths[0]);
	run_readers(&service, tallies);
	REQUIRE(test_service_attach(&service, &lodic) == 0, "attach");
	stat = test_service_stat(lodic);
	lodic_detach(lodic);
	judge(tallies, &stat);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return 0;
}
