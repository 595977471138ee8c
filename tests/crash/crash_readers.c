/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The test kills readers at random moments, many of them while they hold pins. Nothing that
 * a dead reader had may be lost. No frame stays pinned, and every frame can be evicted and
 * taken back. The service reaps every context once. Other readers still read right bytes.
 *
 * Each reader writes to shared memory how many pins and contexts it has at least, and how
 * many contexts at most. It raises the least number after it got one, and lowers the number
 * before it gives one back. It raises the most number before, and lowers that after. What
 * a reader had when it died lies between the two.
 *
 * The test also stops readers, and gives their frames away: by eviction, or by a writer that
 * ends the proof of their file. Then it kills some of the stopped readers, and lets the others
 * go on. A signal cannot choose the instruction. So the readers pin in a tight loop before. The
 * store of a count and the look at the frame are a good part of it. Over the many stops, some
 * lie between the two. crash_steps stops readers at every instruction, and the checker at every
 * step of the protocol (check/arena_batch.c).
 *
 * Some readers have two threads. Some fork children, which read and exit; a child keeps the
 * socket of a reader that is killed meanwhile. Some call exec(), and are killed afterwards.
 *
 * Under atomic and frozen the dead reader's pins stay in the shared words for ever, because
 * nothing records who held them. There the test requires that leak.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cache_fixture.h"

#define NR_READERS 4u
#define MOST_CONTEXTS 2u
#define MOST_PINS 8u
#define CACHE_BLOCKS 1024u
/* About as large as the cache, so that eviction meets pins all the time. */
#define HOT_BLOCKS 1100u
#define OTHER_BLOCKS CACHE_BLOCKS
#define HOT_FILE 1u
#define OTHER_FILE 2u
/* The test kills a reader after a random time. For half of them this time begins when the
 * reader has looked at RIPE_BLOCKS, so that slow machines see enough readers at work. */
#define MOST_LIFE_US 2000u
#define RIPE_BLOCKS 20u
/* So small that dead readers which are not reaped yet do not hold all that may be pinned. */
#define QUOTA 16u
#define MOST_PASSES 200u
#define STEPS_PER_LIFE_PART 64u
/* One reader in so many has two threads, forks, or calls exec() after some parts of a life. */
#define THREADS_ONE_IN 4u
#define FORKS_ONE_IN 4u
#define EXECS_ONE_IN 8u
#define HURRY_PINS 1000u
#define MOST_HURRY_US 1000u
#define AFTER_EXEC "--after-exec"

/* What a reader does until it is killed. */
enum habit {
	HABIT_HOLD, /* keeps several pins, changing them one by one */
	HABIT_PIN,  /* pins, looks, unpins */
	HABIT_READ,
	HABIT_COME, /* opens and closes contexts, files and attachments */
	NR_HABITS
};

struct life {
	u64 pins_least;
	u64 contexts_least, contexts_most;
	u64 verified;
	u64 wrong;
	u64 forks, execs, threads;
	u64 hurries; /* pins in a tight loop */
};

static struct life *lives;
static u64 *hurry; /* the parent writes: readers shall pin in a tight loop */
static char hot_path[FIXTURE_PATH_BYTES], other_path[FIXTURE_PATH_BYTES];
static struct test_service service;

static u64 nr_kills = 2000;
/* After so many kills the test stops all readers. It kills half of these. */
static u64 kills_per_stop = 60;
static u64 least_with_pins = ~(u64)0; /* default: a quarter of the kills */
static const char *scheme_name = "lodic";

static struct {
	u64 kills, with_pins, pins;
	u64 contexts_least, contexts_most;
	u64 verified;
	u64 forks, execs, threads;
	u64 stops, given, hurries;
} total;

/* One thread of a reader. */
struct reader {
	struct life *life;
	u32 first, stride; /* which of the contexts and pins below are its own */
	u64 random;
	struct lodic *lodic;
	struct lodic_file *file;
	struct lodic_context *contexts[MOST_CONTEXTS];
	struct lodic_pin pins[MOST_PINS];
	u64 offsets[MOST_PINS];
};

static void bump(u64 *p, u64 delta)
{
	host_fetch_add(p, delta); /* the parent sees it before the reader's next step */
}

static void reader_verify(struct reader *r, const void *bytes, u64 offset, u64 n)
{
	if (!pattern_holds(bytes, HOT_FILE, 1, offset, n)) {
		fprintf(stderr, "wrong bytes at %llu\n", (unsigned long long)offset);
		bump(&r->life->wrong, 1);
	}
	bump(&r->life->verified, 1);
}

static void reader_open(struct reader *r, int fd)
{
	int err = test_service_attach(&service, &r->lodic);

	REQUIRE(err == 0, "%s", strerror(-err));
	err = lodic_open(r->lodic, fd, &r->file);
	REQUIRE(err == 0, "%s", strerror(-err));
	for (u32 i = 0; i < MOST_CONTEXTS; i++) {
		bump(&r->life->contexts_most, 1);
		err = lodic_context_open(r->lodic, &r->contexts[i]);
		REQUIRE(err == 0, "%s", strerror(-err));
		bump(&r->life->contexts_least, 1);
	}
}

static void reader_close(struct reader *r)
{
	for (u32 i = 0; i < MOST_CONTEXTS; i++) {
		bump(&r->life->contexts_least, -(u64)1);
		lodic_context_close(r->contexts[i]);
		bump(&r->life->contexts_most, -(u64)1);
	}
	lodic_close(r->file);
	lodic_detach(r->lodic);
}

static u64 random_offset(struct reader *r)
{
	return random_below(&r->random, HOT_BLOCKS) * LODIC_BLOCK_BYTES;
}

static void reader_read(struct reader *r)
{
	u8 buffer[LODIC_BLOCK_BYTES];
	u64 offset = random_offset(r);
	ssize_t got = lodic_read(r->contexts[r->first], r->file, buffer, sizeof(buffer),
	                         (off_t)offset);

	REQUIRE(got == sizeof(buffer), "%zd", got);
	reader_verify(r, buffer, offset, sizeof(buffer));
}

static void reader_unpin(struct reader *r, u32 i)
{
	reader_verify(r, r->pins[i].data, r->offsets[i], r->pins[i].bytes);
	bump(&r->life->pins_least, -(u64)1);
	lodic_unpin(r->contexts[i % MOST_CONTEXTS], &r->pins[i]);
}

static void reader_pin(struct reader *r, u32 i)
{
	r->offsets[i] = random_offset(r);
	if (lodic_pin(r->contexts[i % MOST_CONTEXTS], r->file, (off_t)r->offsets[i],
	              &r->pins[i]) != 0) {
		r->pins[i].word = NULL;
		reader_read(r);
		return;
	}
	bump(&r->life->pins_least, 1);
	reader_verify(r, r->pins[i].data, r->offsets[i], r->pins[i].bytes);
}

static void reader_hurry(struct reader *r)
{
	u64 wrong = 0, pins = 0;

	for (u32 i = 0; i < HURRY_PINS; i++) {
		u64 offset = random_offset(r);
		struct lodic_pin pin;

		if (lodic_pin(r->contexts[r->first], r->file, (off_t)offset, &pin) != 0)
			continue;
		wrong += !pattern_holds(pin.data, HOT_FILE, 1, offset, sizeof(u64));
		lodic_unpin(r->contexts[r->first], &pin);
		pins++;
	}
	bump(&r->life->wrong, wrong);
	bump(&r->life->hurries, pins);
	reader_read(r); /* the parent waits for RIPE_BLOCKS */
}

static void reader_step(struct reader *r, enum habit habit)
{
	u32 i = (u32)random_below(&r->random, MOST_PINS / r->stride) * r->stride +
	        r->first;

	if (host_load_relaxed(hurry)) {
		reader_hurry(r);
		return;
	}
	if (habit == HABIT_READ || habit == HABIT_COME) {
		reader_read(r);
	} else if (r->pins[i].word) {
		reader_unpin(r, i);
	} else {
		reader_pin(r, i);
		if (habit == HABIT_PIN && r->pins[i].word)
			reader_unpin(r, i);
	}
}

static void *thread_run(void *arg)
{
	struct reader *r = arg;

	for (;;)
		reader_step(r, HABIT_HOLD);
	return NULL;
}

/* The second context and every second pin become another thread's. */
static void reader_divide(struct reader *r)
{
	static struct reader other;
	pthread_t thread;

	r->stride = 2;
	other = *r;
	other.first = 1;
	other.random = random_next(&r->random);
	REQUIRE(pthread_create(&thread, NULL, thread_run, &other) == 0, "no thread");
	bump(&r->life->threads, 1);
}

/* A child reads from the kernel, and exits. */
static void reader_fork(struct reader *r)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0, "%s", strerror(errno));
	if (pid == 0) {
		reader_read(r);
		_exit(0);
	}
	REQUIRE(waitpid(pid, NULL, 0) == pid, "%s", strerror(errno));
	bump(&r->life->forks, 1);
}

static _Noreturn void reader_run(u32 slot, u64 birth)
{
	struct reader r = { .life = &lives[slot],
		            .random = random_stream(birth),
		            .stride = 1 };
	enum habit habit = (enum habit)random_below(&r.random, NR_HABITS);
	bool execs = random_below(&r.random, EXECS_ONE_IN) == 0;
	bool forks = random_below(&r.random, FORKS_ONE_IN) == 0;
	int fd = fixture_open(hot_path, O_RDONLY);

	if (random_below(&r.random, 2))
		habit = HABIT_HOLD;
	reader_open(&r, fd);
	if (habit != HABIT_COME && random_below(&r.random, THREADS_ONE_IN) == 0)
		reader_divide(&r);
	for (;;) {
		for (u32 i = 0; i < STEPS_PER_LIFE_PART; i++)
			reader_step(&r, habit);
		if (forks)
			reader_fork(&r);
		if (execs) {
			bump(&r.life->execs, 1);
			execl("/proc/self/exe", "crash_readers", AFTER_EXEC, NULL);
		}
		if (habit == HABIT_COME) {
			reader_close(&r);
			reader_open(&r, fd);
		}
	}
}

static pid_t reader_start(u32 slot, u64 birth)
{
	pid_t pid;

	lives[slot] = (struct life){ 0 };
	pid = fixture_fork();
	if (pid == 0)
		reader_run(slot, birth);
	return pid;
}

static void reader_kill(pid_t pid, u32 slot)
{
	const struct life *life = &lives[slot];
	int status;

	kill(pid, SIGKILL);
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status),
	        "the reader had ended by itself: %x", status);
	REQUIRE(life->wrong == 0, "wrong bytes");
	total.kills++;
	total.with_pins += life->pins_least > 0;
	total.pins += life->pins_least;
	total.contexts_least += life->contexts_least;
	total.contexts_most += life->contexts_most;
	total.verified += life->verified;
	total.forks += life->forks;
	total.execs += life->execs;
	total.threads += life->threads;
	total.hurries += life->hurries;
}

/* The parent's own place in the cache. */
struct witness {
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *hot, *other;
	u64 nr_usable; /* frames; no cache uses its first */
};

static u64 hits_of(const struct witness *w)
{
	struct lodic_context_stat stat;

	lodic_context_stat(w->context, &stat, sizeof(stat));
	return stat.hits;
}

/* Reads and verifies a whole file; returns how many blocks came from the cache. */
static u64 witness_read_all(struct witness *w, struct lodic_file *file, u64 number,
                            u64 version, u64 nr_blocks)
{
	u8 buffer[LODIC_BLOCK_BYTES];
	u64 before = hits_of(w);

	for (u64 i = 0; i < nr_blocks; i++) {
		u64 offset = i * LODIC_BLOCK_BYTES;
		ssize_t got = lodic_read(w->context, file, buffer, sizeof(buffer),
		                         (off_t)offset);

		REQUIRE(got == sizeof(buffer) && pattern_holds(buffer, number, version,
		                                               offset, sizeof(buffer)),
		        "wrong bytes at %llu (%zd)", (unsigned long long)offset, got);
	}
	return hits_of(w) - before;
}

/* If every frame can be evicted, a file as large as the cache comes in wholly. Returns how
 * many of its blocks do. */
static u64 other_file_cached(struct witness *w)
{
	u64 hits = 0;

	for (u32 pass = 0; pass < MOST_PASSES && hits < w->nr_usable; pass++) {
		lodic_prefetch(w->context, w->other, 0,
		               w->nr_usable * LODIC_BLOCK_BYTES, LODIC_WAIT);
		hits = witness_read_all(w, w->other, OTHER_FILE, 1, w->nr_usable);
	}
	return hits;
}

/* Opens both files for writing, so the service takes back their frames as soon as they are
 * not pinned. Returns how many frames stay. */
static u64 frames_left_when_revoked(struct witness *w)
{
	close(fixture_open(hot_path, O_WRONLY));
	close(fixture_open(other_path, O_WRONLY));
	if (fixture_scheme(scheme_name) == LODIC_LODIC ||
	    fixture_scheme(scheme_name) == LODIC_HAZARD)
		(void)WAIT_UNTIL(test_service_stat(w->lodic).cached == 0);
	else /* some stay for ever; the others need less than this */
		(void)WAIT_UNTIL_MS(test_service_stat(w->lodic).cached == 0, 1000);
	return test_service_stat(w->lodic).cached;
}

static void check_after(struct witness *w, bool leaks)
{
	struct lodic_stat stat;
	u64 came_in, left;

	REQUIRE(WAIT_UNTIL(test_service_stat(w->lodic).contexts == 1),
	        "%llu contexts stay",
	        (unsigned long long)test_service_stat(w->lodic).contexts);
	stat = test_service_stat(w->lodic);
	printf("%llu readers killed (%s), %llu of them with pins, %llu pins; contexts %llu to "
	       "%llu, reaped %llu; %llu blocks verified before\n",
	       (unsigned long long)total.kills, scheme_name,
	       (unsigned long long)total.with_pins, (unsigned long long)total.pins,
	       (unsigned long long)total.contexts_least,
	       (unsigned long long)total.contexts_most, (unsigned long long)stat.reaped,
	       (unsigned long long)total.verified);
	printf("%llu forks, %llu execs, %llu readers with two threads\n",
	       (unsigned long long)total.forks, (unsigned long long)total.execs,
	       (unsigned long long)total.threads);
	printf("%llu stops of readers, with %llu frames given away on average; %llu pins in a "
	       "tight loop\n",
	       (unsigned long long)total.stops,
	       (unsigned long long)(total.given * NR_READERS /
	                            (total.stops + !total.stops)),
	       (unsigned long long)total.hurries);
	REQUIRE(total.forks > 0 && total.execs > 0 && total.threads > 0 &&
	                total.stops > 0 && total.hurries > 0,
	        "too little was done");
	REQUIRE(stat.reaped >= total.contexts_least &&
	                stat.reaped <= total.contexts_most,
	        "reaped %llu", (unsigned long long)stat.reaped);
	REQUIRE(total.with_pins >= least_with_pins, "%llu, wanted %llu",
	        (unsigned long long)total.with_pins,
	        (unsigned long long)least_with_pins);
	witness_read_all(w, w->hot, HOT_FILE, 1, HOT_BLOCKS);
	came_in = other_file_cached(w);
	left = frames_left_when_revoked(w);
	printf("pinned by the dead: %llu frames; evicted: %llu of %llu; left when revoked: %llu\n",
	       (unsigned long long)stat.pinned, (unsigned long long)came_in,
	       (unsigned long long)w->nr_usable, (unsigned long long)left);
	if (leaks) {
		REQUIRE(stat.pinned > 0 && came_in < w->nr_usable && left > 0,
		        "the scheme's own leak is not there");
		return;
	}
	REQUIRE(stat.pinned == 0, "%llu", (unsigned long long)stat.pinned);
	REQUIRE(came_in == w->nr_usable, "%llu", (unsigned long long)came_in);
	REQUIRE(left == 0, "%llu", (unsigned long long)left);
	REQUIRE(WAIT_UNTIL(witness_read_all(w, w->hot, HOT_FILE, 1, CACHE_BLOCKS / 2) >
	                   0),
	        "the cache does not serve any more");
}

static void witness_open(struct witness *w)
{
	int hot = fixture_open(hot_path, O_RDONLY),
	    other = fixture_open(other_path, O_RDONLY);

	REQUIRE(test_service_attach(&service, &w->lodic) == 0, "no service");
	REQUIRE(lodic_context_open(w->lodic, &w->context) == 0, "no context");
	REQUIRE(lodic_open(w->lodic, hot, &w->hot) == 0, "not opened");
	REQUIRE(lodic_open(w->lodic, other, &w->other) == 0, "not opened");
	REQUIRE(lodic_prefetch(w->context, w->hot, 0, 0, LODIC_WAIT) == 0,
	        "not cached");
	w->nr_usable = test_service_stat(w->lodic).frames;
	close(hot);
	close(other);
}

/* The readers that are alive, one in each slot. */
struct herd {
	pid_t pids[NR_READERS];
	u64 births, random;
};

static void herd_replace(struct herd *h, u32 slot)
{
	reader_kill(h->pids[slot], slot);
	h->pids[slot] = reader_start(slot, 10 + h->births++);
}

/* Gives frames of the readers' file to another file, and the service may take any of them. */
static void herd_want_frames(struct herd *h, struct witness *w)
{
	u64 wanted = w->nr_usable - NR_READERS * MOST_PINS;
	struct lodic_stat before = test_service_stat(w->lodic), after;

	if (random_below(&h->random, 2)) /* no frame that is not pinned stays */
		close(fixture_open(hot_path, O_WRONLY));
	else
		wanted /= 2;
	lodic_prefetch(w->context, w->other, 0, wanted * LODIC_BLOCK_BYTES, LODIC_WAIT);
	after = test_service_stat(w->lodic);
	total.given += after.admitted - before.admitted;
}

/* Stops all readers, wants their frames, and kills half of them. */
static void herd_stop(struct herd *h, struct witness *w)
{
	u32 slot;
	int status;

	host_store_relaxed(hurry, 1);
	fixture_pause_us(MOST_HURRY_US + random_below(&h->random, MOST_HURRY_US));
	for (slot = 0; slot < NR_READERS; slot++)
		kill(h->pids[slot], SIGSTOP);
	for (slot = 0; slot < NR_READERS; slot++)
		REQUIRE(waitpid(h->pids[slot], &status, WUNTRACED) == h->pids[slot] &&
		                WIFSTOPPED(status),
		        "the reader had ended by itself: %x", status);
	host_store_relaxed(hurry, 0);
	herd_want_frames(h, w);
	for (slot = 0; slot < NR_READERS; slot++) {
		total.stops++;
		if (random_below(&h->random, 2))
			herd_replace(h, slot);
		else
			kill(h->pids[slot], SIGCONT);
	}
	close(fixture_open(other_path, O_WRONLY));
	/* For the readers to pin. */
	lodic_prefetch(w->context, w->hot, 0, w->nr_usable * LODIC_BLOCK_BYTES, 0);
}

static void kill_many(struct witness *w)
{
	struct herd h = { .random = random_stream(0) };
	u32 slot;

	for (slot = 0; slot < NR_READERS; slot++)
		h.pids[slot] = reader_start(slot, 10 + h.births++);
	while (total.kills + NR_READERS < nr_kills) {
		slot = (u32)random_below(&h.random, NR_READERS);
		if (random_below(&h.random, 2))
			REQUIRE(WAIT_UNTIL(host_load_acquire(&lives[slot].verified) >=
			                   RIPE_BLOCKS),
			        "a reader hangs");
		fixture_pause_us(random_below(&h.random, MOST_LIFE_US));
		herd_replace(&h, slot);
		if (h.births % kills_per_stop == 0)
			herd_stop(&h, w);
	}
	for (slot = 0; slot < NR_READERS; slot++)
		reader_kill(h.pids[slot], slot);
}

static void witness_close(struct witness *w)
{
	lodic_close(w->other);
	lodic_close(w->hot);
	lodic_context_close(w->context);
	lodic_detach(w->lodic);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--kills", .number = &nr_kills },
		{ .name = "--kills-per-stop", .number = &kills_per_stop },
		{ .name = "--with-pins", .number = &least_with_pins },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
	struct witness witness;
	u64 start;
	bool leaks;

	if (argc == 2 && strcmp(argv[1], AFTER_EXEC) == 0)
		for (;;)
			pause();
	fixture_begin(argc, argv, options);
	if (least_with_pins == ~(u64)0)
		least_with_pins = nr_kills / 4;
	lives = fixture_shared(NR_READERS * sizeof(*lives));
	hurry = fixture_shared(sizeof(*hurry));
	pattern_file_make(hot_path, "hot", HOT_FILE, 1, HOT_BLOCKS * LODIC_BLOCK_BYTES);
	pattern_file_make(other_path, "other", OTHER_FILE, 1,
	                  OTHER_BLOCKS * LODIC_BLOCK_BYTES);
	test_service_init(&service, "s");
	service.options.sizes.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	service.options.tables.quota = QUOTA;
	service.options.tables.scheme = fixture_scheme(scheme_name);
	leaks = service.options.tables.scheme == LODIC_ATOMIC ||
	        service.options.tables.scheme == LODIC_FROZEN;
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	fixture_need_leases(&service, hot_path);
	start = host_now_ns();
	witness_open(&witness);
	kill_many(&witness);
	check_after(&witness, leaks);
	witness_close(&witness);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	printf("%.1f s\n", (double)(host_now_ns() - start) / 1e9);
	return 0;
}
