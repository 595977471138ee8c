/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Blocks move between two tiers while readers pin, view and read them. Readers are processes. Each
 * keeps some pins for a while, and verifies every byte at the beginning and at the end of each.
 * The test asks the service to bring whole files from tier to tier, over and over. With --policy a
 * policy of core/kloc does that instead, while readers open and close the files. The test then runs
 * for --seconds, and prints what the policy has done. The cache is a little smaller than the files,
 * so that eviction meets moves. A writer opens one of the files now and then. The test kills
 * readers at random moments, and (--restarts) the service.
 *
 * In the end no pin and no frame may be lost: all frames of both tiers are free once the files
 * have gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/look.h"
#include "tests/support/cache_fixture.h"

#define NR_FILES 3u
#define MOST_READERS 8u
#define NR_PINS 6u
#define FILE_BLOCKS 700u
#define CACHE_BLOCKS 1900u
#define FAST_BLOCKS 900u
#define REVOKE_ONE_IN 24u

static u64 nr_moves = 100000, nr_kills = 60, nr_restarts = 0, nr_readers = 2;
static const char *scheme_name = "lodic", *policy_name = "", *record_path;
static u64 nr_seconds = 5, tick_ms = 50;

/* One for each place of a reader, in shared memory; the reader writes. */
struct tally {
	u64 pins, views, reads; /* verified, from the cache */
	u64 others;             /* what the cache did not have */
	u64 wrong;
	u64 births;
	u64 pad[2];
};

/* With a policy: steps between two openings or closings of a reader. */
#define STEPS_PER_TOGGLE 400u

static struct tally *tallies;
static u64 *stop;
static char paths[NR_FILES][FIXTURE_PATH_BYTES];
static struct stat stats[NR_FILES];
static struct test_service service;

struct reader {
	struct tally *tally;
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *files[NR_FILES]; /* NULL: it is closed */
	struct lodic_pin pins[NR_PINS];
	u32 pin_file[NR_PINS];
	u64 pin_offset[NR_PINS];
	u64 random;
};

static void reader_verify(struct reader *r, const void *bytes, u32 file, u64 offset,
                          u64 n, const char *what)
{
	if (pattern_holds(bytes, file + 1, 1, offset, n))
		return;
	fprintf(stderr, "wrong bytes: %s of file %u at %llu\n", what, file,
	        (unsigned long long)offset);
	host_fetch_add(&r->tally->wrong, 1);
}

static void reader_unpin(struct reader *r, u32 i)
{
	reader_verify(r, r->pins[i].data, r->pin_file[i], r->pin_offset[i],
	              r->pins[i].bytes, "a pin");
	lodic_unpin(r->context, &r->pins[i]);
	host_fetch_add(&r->tally->pins, 1);
}

static void reader_pin(struct reader *r, u32 i, u32 file, u64 offset)
{
	if (r->pins[i].word)
		reader_unpin(r, i);
	if (lodic_pin(r->context, r->files[file], (off_t)offset, &r->pins[i]) != 0) {
		r->pins[i].word = NULL;
		host_fetch_add(&r->tally->others, 1);
		return;
	}
	r->pin_file[i] = file;
	r->pin_offset[i] = offset;
	reader_verify(r, r->pins[i].data, file, offset, r->pins[i].bytes, "a new pin");
}

static void reader_view(struct reader *r, u32 file, u64 offset)
{
	struct lodic_view v;
	bool right;

	if (lodic_view_begin(r->context, r->files[file], (off_t)offset, &v) != 0) {
		host_fetch_add(&r->tally->others, 1);
		return;
	}
	right = pattern_holds(v.data, file + 1, 1, offset, v.bytes);
	if (!lodic_view_valid(r->context, &v)) {
		host_fetch_add(&r->tally->others, 1);
		return;
	}
	if (!right)
		fprintf(stderr, "wrong bytes: a view of file %u at %llu\n", file,
		        (unsigned long long)offset);
	host_fetch_add(right ? &r->tally->views : &r->tally->wrong, 1);
}

static void reader_read(struct reader *r, u32 file, u64 offset)
{
	u8 buffer[LODIC_BLOCK_BYTES];
	ssize_t n = lodic_read(r->context, r->files[file], buffer, sizeof(buffer),
	                       (off_t)offset);

	REQUIRE(n == sizeof(buffer), "%zd", n);
	reader_verify(r, buffer, file, offset, sizeof(buffer), "a read");
	host_fetch_add(&r->tally->reads, 1);
}

static void reader_open_file(struct reader *r, u32 file)
{
	int fd = fixture_open(paths[file], O_RDONLY);

	REQUIRE(WAIT_UNTIL(lodic_open(r->lodic, fd, &r->files[file]) == 0), "open");
	close(fd);
}

static void reader_open(struct reader *r)
{
	/* The service may be away just now. */
	REQUIRE(WAIT_UNTIL(test_service_attach(&service, &r->lodic) == 0), "attach");
	REQUIRE(WAIT_UNTIL(lodic_context_open(r->lodic, &r->context) == 0), "context");
	for (u32 i = 0; i < NR_FILES; i++)
		reader_open_file(r, i);
}

static void reader_toggle(struct reader *r, u32 file)
{
	if (!r->files[file]) {
		reader_open_file(r, file);
		return;
	}
	for (u32 i = 0; i < NR_PINS; i++)
		if (r->pins[i].word && r->pin_file[i] == file)
			reader_unpin(r, i);
	lodic_close(r->files[file]);
	r->files[file] = NULL;
}

static _Noreturn void reader_run(u32 place, u64 birth)
{
	struct reader r = { .tally = &tallies[place], .random = random_stream(birth) };

	reader_open(&r);
	while (!host_load_relaxed(stop)) {
		u32 file = (u32)random_below(&r.random, NR_FILES);
		u64 offset = random_below(&r.random, FILE_BLOCKS) * LODIC_BLOCK_BYTES;

		if (*policy_name && random_below(&r.random, STEPS_PER_TOGGLE) == 0)
			reader_toggle(&r, file);
		if (!r.files[file])
			continue;
		switch (random_below(&r.random, 4)) {
		case 0: reader_read(&r, file, offset); break;
		case 1:
			reader_pin(&r, (u32)random_below(&r.random, NR_PINS), file,
			           offset);
			break;
		default: reader_view(&r, file, offset); break;
		}
	}
	for (u32 i = 0; i < NR_PINS; i++)
		if (r.pins[i].word)
			reader_unpin(&r, i);
	for (u32 i = 0; i < NR_FILES; i++)
		if (r.files[i])
			lodic_close(r.files[i]);
	lodic_context_close(r.context);
	lodic_detach(r.lodic);
	_exit(0);
}

static pid_t reader_start(u32 place, u64 birth)
{
	pid_t pid;

	tallies[place].births++;
	pid = fixture_fork();
	if (pid == 0)
		reader_run(place, birth);
	return pid;
}

/* ---- the service, as a user looks at it ---- */

struct tier_sum {
	u64 moved, begun, refused, no_room, nr_free, frames;
	u64 moved_to[LOOK_NR_TIERS], asked[LOOK_NR_TIERS], missed[LOOK_NR_TIERS];
	bool busy;
	u32 nr;
};

static int add_tier(void *ctx, const void *record)
{
	const struct look_tier *r = record;
	struct tier_sum *sum = ctx;

	REQUIRE(r->tier < LOOK_NR_TIERS, "tier %u", r->tier);
	sum->moved_to[r->tier] = r->moved;
	sum->asked[r->tier] = r->asked;
	sum->missed[r->tier] = r->missed;
	sum->moved += r->moved;
	sum->begun += r->begun;
	sum->refused += r->refused;
	sum->no_room += r->no_room;
	sum->nr_free += r->free_frames;
	sum->frames += r->frames;
	sum->busy |= r->busy;
	sum->nr++;
	return 0;
}

static struct look *look_at(void)
{
	struct look *l = NULL;
	int pid;

	REQUIRE(WAIT_UNTIL(look_open(service.socket, &l, &pid) == 0), "no look");
	return l;
}

static struct tier_sum tiers_now(struct look *l)
{
	struct tier_sum sum = { 0 };

	REQUIRE(look_list(l, LOOK_TIERS, add_tier, &sum) == 0, "no tiers");
	REQUIRE(sum.nr == 2, "%u tiers", sum.nr);
	return sum;
}

/* ---- the test ---- */

struct run {
	struct look *look;
	pid_t pids[MOST_READERS];
	u64 births, kills, restarts, revokes, requests;
	u64 random;
	struct tier_sum past; /* of services that have died */
	u64 waits;
};

/* What moves: two files change places, now and then with the third one. */
static void run_ask(struct run *r)
{
	u32 first = (u32)random_below(&r->random, NR_FILES);

	for (u32 i = 0; i < NR_FILES; i++) {
		u32 file = (first + i) % NR_FILES;
		/* The fast tier has room for one of them and a little more: the slow ones go
		 * first, the others find what room there is. */
		int err = look_move(r->look, stats[file].st_dev, stats[file].st_ino,
		                    i < NR_FILES - 1 ? LOOK_TIER_SLOW : LOOK_TIER_FAST);

		/* Nobody has opened it since the service died, or since its writer came. */
		REQUIRE(err == 0 || err == -ENOENT, "%s", strerror(-err));
		r->requests++;
	}
	(void)WAIT_UNTIL_MS(!tiers_now(r->look).busy, 2000);
	r->waits++;
}

static void run_kill(struct run *r)
{
	u32 place = (u32)random_below(&r->random, nr_readers);

	kill(r->pids[place], SIGKILL);
	REQUIRE(fixture_wait(r->pids[place]) != -1, "a reader hangs");
	r->pids[place] = reader_start(place, 10 + r->births++);
	r->kills++;
}

static void run_restart(struct run *r)
{
	struct tier_sum last = tiers_now(r->look);

	r->past.moved += last.moved;
	r->past.begun += last.begun;
	r->past.refused += last.refused;
	r->past.no_room += last.no_room;
	/* Moves are under way. */
	look_move(r->look, stats[0].st_dev, stats[0].st_ino, LOOK_TIER_SLOW);
	look_move(r->look, stats[1].st_dev, stats[1].st_ino, LOOK_TIER_FAST);
	look_close(r->look);
	test_service_kill(&service);
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	r->look = look_at();
	r->restarts++;
}

static u64 run_moved(struct run *r)
{
	return r->past.moved + tiers_now(r->look).moved;
}

static u64 run_refused(struct run *r)
{
	return r->past.refused + tiers_now(r->look).refused;
}

/* Until all was done, and a move has met a pin. */
static void run_all(struct run *r)
{
	u64 per_kill = nr_moves / (nr_kills + 1) + 1;
	u64 per_restart = nr_moves / (nr_restarts + 1) + 1;
	u64 deadline = host_now_ns() + (u64)FIXTURE_DEADLINE_MS * 20 * 1000000;

	for (;;) {
		u64 moved = run_moved(r);

		if (moved >= nr_moves && r->kills >= nr_kills &&
		    r->restarts >= nr_restarts && run_refused(r) > 0)
			return;
		REQUIRE(host_now_ns() < deadline, "%llu moves, %llu refused by a pin",
		        (unsigned long long)moved, (unsigned long long)run_refused(r));
		run_ask(r);
		while (r->kills < nr_kills && run_moved(r) > r->kills * per_kill)
			run_kill(r);
		if (r->restarts < nr_restarts &&
		    run_moved(r) > (r->restarts + 1) * per_restart)
			run_restart(r);
		if (random_below(&r->random, REVOKE_ONE_IN) == 0) {
			close(fixture_open(paths[2], O_WRONLY));
			r->revokes++;
		}
	}
}

/* The policy moves. */
static void run_policy(struct run *r)
{
	u64 end = host_now_ns() + nr_seconds * 1000000000;
	u64 per_kill = nr_seconds * 1000000000 / (nr_kills + 1);
	u64 next = host_now_ns() + per_kill;

	while (host_now_ns() < end) {
		fixture_pause_us(10000);
		if (r->kills < nr_kills && host_now_ns() > next) {
			run_kill(r);
			next += per_kill;
		}
		if (random_below(&r->random, 10 * REVOKE_ONE_IN) == 0) {
			close(fixture_open(paths[2], O_WRONLY));
			r->revokes++;
		}
	}
}

static void run_stop(struct run *r)
{
	host_store_release(stop, 1);
	for (u32 i = 0; i < nr_readers; i++)
		REQUIRE(fixture_wait(r->pids[i]) == 0, "a reader ended badly");
}

/* Everything that was given is there again. */
static void run_check(struct run *r)
{
	struct lodic_stat stat;
	struct lodic *lodic;

	REQUIRE(test_service_attach(&service, &lodic) == 0, "attach");
	REQUIRE(WAIT_UNTIL(!tiers_now(r->look).busy), "moves do not end");
	REQUIRE(WAIT_UNTIL(test_service_stat(lodic).contexts == 0), "contexts stay");
	stat = test_service_stat(lodic);
	REQUIRE(stat.pinned == 0, "%llu frames left pinned",
	        (unsigned long long)stat.pinned);
	for (u32 i = 0; i < NR_FILES; i++)
		close(fixture_open(paths[i], O_WRONLY));
	REQUIRE(WAIT_UNTIL(tiers_now(r->look).nr_free == stat.frames),
	        "%llu of %llu frames are free",
	        (unsigned long long)tiers_now(r->look).nr_free,
	        (unsigned long long)stat.frames);
	lodic_detach(lodic);
}

static void run_report(struct run *r, u64 ns)
{
	struct tier_sum now = tiers_now(r->look);
	struct tally sum = { 0 };

	for (u32 i = 0; i < nr_readers; i++) {
		sum.pins += tallies[i].pins;
		sum.views += tallies[i].views;
		sum.reads += tallies[i].reads;
		sum.others += tallies[i].others;
		sum.wrong += tallies[i].wrong;
	}
	printf("%s%spromoted %llu, demoted %llu, came in fast %llu, slow %llu\n",
	       policy_name, *policy_name ? ": " : "",
	       (unsigned long long)now.moved_to[0], (unsigned long long)now.moved_to[1],
	       (unsigned long long)(now.asked[0] - now.missed[0] + now.missed[1]),
	       (unsigned long long)(now.asked[1] - now.missed[1] + now.missed[0]));
	printf("%llu frames moved (%s), %llu moves refused, %llu times no room; %llu readers "
	       "killed, %llu services, %llu writers came\n",
	       (unsigned long long)(r->past.moved + now.moved), scheme_name,
	       (unsigned long long)(r->past.refused + now.refused),
	       (unsigned long long)(r->past.no_room + now.no_room),
	       (unsigned long long)r->kills, (unsigned long long)r->restarts,
	       (unsigned long long)r->revokes);
	printf("%llu pins, %llu views and %llu reads verified, %llu not in the cache; %llu "
	       "wrong; %.1f s\n",
	       (unsigned long long)sum.pins, (unsigned long long)sum.views,
	       (unsigned long long)sum.reads, (unsigned long long)sum.others,
	       (unsigned long long)sum.wrong, (double)ns / 1e9);
	REQUIRE(sum.wrong == 0, "wrong bytes");
	REQUIRE(sum.pins > 0 && sum.views > 0 && sum.reads > 0, "too little was done");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--moves", .number = &nr_moves },
		{ .name = "--kills", .number = &nr_kills },
		{ .name = "--restarts", .number = &nr_restarts },
		{ .name = "--readers", .number = &nr_readers },
		{ .name = "--scheme", .text = &scheme_name },
		{ .name = "--policy", .text = &policy_name },
		{ .name = "--record", .text = &record_path },
		{ .name = "--seconds", .number = &nr_seconds },
		{ .name = "--tick", .number = &tick_ms },
		{ 0 },
	};
	struct run r = { 0 };
	u64 start;

	fixture_begin(argc, argv, options);
	REQUIRE(nr_readers >= 1 && nr_readers <= MOST_READERS, "1 to %u readers",
	        MOST_READERS);
	r.random = random_stream(0);
	tallies = fixture_shared(MOST_READERS * sizeof(*tallies));
	stop = fixture_shared(sizeof(*stop));
	for (u32 i = 0; i < NR_FILES; i++) {
		char name[] = { (char)('a' + i), 0 };

		pattern_file_make(paths[i], name, i + 1, 1,
		                  FILE_BLOCKS * LODIC_BLOCK_BYTES);
		REQUIRE(stat(paths[i], &stats[i]) == 0, "%s", strerror(errno));
	}
	test_service_init(&service, "s");
	service.options.tables.scheme = fixture_scheme(scheme_name);
	service.options.sizes.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	service.options.tables.quota = 64;
	service.options.placing.policy = policy_name;
	service.options.placing.policy_record = record_path;
	service.options.placing.policy_tick_ms = tick_ms;
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	fixture_need_leases(&service, paths[0]);
	start = host_now_ns();
	r.look = look_at();
	for (u32 i = 0; i < nr_readers; i++)
		r.pids[i] = reader_start(i, 10 + r.births++);
	if (*policy_name)
		run_policy(&r);
	else
		run_all(&r);
	run_stop(&r);
	run_check(&r);
	run_report(&r, host_now_ns() - start);
	look_close(r.look);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return 0;
}
