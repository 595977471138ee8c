/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The scanned gate under fire. Readers, processes or threads, read and pin blocks and verify
 * them. One service takes frames away, poisons them and refills them as fast as it can. The
 * test runs core/ alone and uses no files, so the races come thousands of times a second. The
 * hot set is about as large as the cache, because larger caches miss the bugs.
 *
 * Built with a mutant the test must find wrong bytes (--mutant: that is success).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cache/batch.h"
#include "core/cache/cache.h"
#include "host/random.h"

#define FILE_ID 7u
#define POISON 0xdeaddeaddeaddeadu
#define BLOCK_WORDS (BLOCK_BYTES / 8)
#define MAX_READERS 16
#define ALIVE 1u
#define MUTANT_DEADLINE_NS 40000000000u
/* A batch hides this part of the frames, and one in so many is rescued. */
#define BATCH_PART 4u
#define RESCUE_ONE_IN 4u

enum mode { MODE_BOTH, MODE_READ, MODE_PIN };

static struct {
	u64 seed, reads, pins;
	u32 readers, frames, blocks, scheme, barrier;
	bool threads, mutant;
} opt = { .seed = 1,
	  .reads = 1000000,
	  .pins = 1000000,
	  .readers = 2,
	  .frames = 48,
	  .blocks = 64 };

/* What each reader reports, in shared memory, in a cache line of its own. */
struct tally {
	u64 reads, pins; /* verified, from the cache */
	u64 misses, wrong;
	u64 wrong_block, wrong_word;
	u64 done;
	u64 pad;
};

static struct arena arena;
static void *context_memory[MAX_READERS];
static struct tally *tallies;
static u64 *stop;

static u64 word_of(u64 block, u64 i)
{
	return (block << 16 | i) * 0xff51afd7ed558ccdu;
}

static void *shared(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	               0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void make_arena(void)
{
	struct arena_shape shape = { .nr_frames = opt.frames + FRAME_FIRST,
		                     .nr_files = 1,
		                     .scheme = opt.scheme,
		                     .barrier = opt.barrier };
	void *control;
	u64 bytes;

	arena_shape_default(&shape);
	bytes = arena_control_bytes(&shape);
	control = shared(bytes);
	arena_format(control, &shape, 1);
	CHECK(arena_open(&arena, control, bytes,
	                 shared((u64)shape.nr_frames << BLOCK_SHIFT),
	                 (u64)shape.nr_frames << BLOCK_SHIFT,
	                 shared(arena_shared_bytes(&shape))),
	      "a new arena can be viewed");
	arena.contexts = calloc(ARENA_MAX_CONTEXTS, sizeof(*arena.contexts));
	host_store_release(&arena.header->alive, ALIVE);
	file_proof_admit(&arena.files[0], FILE_ID, (u64)opt.blocks << BLOCK_SHIFT);
	for (u32 i = 0; i < opt.readers; i++) {
		struct context_table t;

		context_memory[i] = shared(arena_context_bytes(arena.nr_entries, 1));
		arena_context_table(&t, context_memory[i]);
		arena_join(&arena, &t);
	}
}

static void fill_words(u32 frame, u64 block)
{
	u64 bytes[BLOCK_WORDS];

	for (u64 i = 0; i < BLOCK_WORDS; i++)
		bytes[i] = block ? word_of(block, i) : POISON;
	host_copy(arena_frame_bytes(&arena, frame), bytes, sizeof(bytes));
}

static void fill(u32 frame, u64 block)
{
	arena_fill_begin(&arena, frame);
	fill_words(frame, BLOCK_NONE);
	fill_words(frame, block);
	arena_publish(&arena, frame, block);
}

static bool verify(struct tally *t, const u64 *bytes, u64 block)
{
	for (u64 i = 0; i < BLOCK_WORDS; i++) {
		if (bytes[i] == word_of(block, i))
			continue;
		t->wrong_block = block;
		t->wrong_word = i;
		host_store_release(&t->wrong, t->wrong + 1);
		return false;
	}
	return true;
}

static void read_one(struct context *c, struct tally *t, u64 block)
{
	u64 bytes[BLOCK_WORDS];

	if (!context_read(c, block, 0, bytes, sizeof(bytes)) ||
	    !context_vouch(c, &arena.files[0], FILE_ID))
		t->misses++;
	else if (verify(t, bytes, block))
		host_store_relaxed(&t->reads, t->reads + 1);
}

static void pin_one(struct context *c, struct tally *t, u64 block, u64 dice)
{
	const struct cache_file file = { &arena.files[0], FILE_ID };
	u32 frame[2], nr = 0;
	u64 *word[2];

	while (nr < 2 && cache_pin(c, &file, block, &frame[nr], &word[nr]) == 0) {
		nr++;
		if (dice & 1) /* now and then two pins on one block */
			break;
	}
	if (nr == 0)
		t->misses++;
	/* Plain loads: a pin promises that the bytes stand still. */
	else if (verify(t, arena_frame_bytes(&arena, frame[0]), block))
		host_store_relaxed(&t->pins, t->pins + 1);
	while (nr > 0)
		cache_unpin(c, word[--nr]);
}

static void *reader(void *arg)
{
	u32 me = (u32)(uintptr_t)arg;
	struct tally *t = &tallies[me];
	u64 state = opt.seed * 1000 + me;
	u64 reads = opt.reads / opt.readers, pins = opt.pins / opt.readers;
	struct context c;

	context_init(&c, &arena, context_memory[me], ALIVE, arena.nr_entries);
	/* A mutant's readers go on until the mutant shows, or serve() stops them. */
	while (!host_load_relaxed(stop) &&
	       (opt.mutant || t->reads < reads || t->pins < pins)) {
		u64 dice = random_next(&state);
		u64 block = block_id(FILE_ID, (u32)(dice >> 8) % opt.blocks);

		if (opt.mutant ? dice & 2
		               : t->pins >= pins || (t->reads < reads && dice & 2))
			read_one(&c, t, block);
		else
			pin_one(&c, t, block, dice);
	}
	context_check(&c);
	host_store_release(&t->done, 1);
	return NULL;
}

static bool all_done(void)
{
	for (u32 i = 0; i < opt.readers; i++)
		if (!host_load_acquire(&tallies[i].done))
			return false;
	return true;
}

static u64 nr_wrong(void)
{
	u64 n = 0;

	for (u32 i = 0; i < opt.readers; i++)
		n += host_load_acquire(&tallies[i].wrong);
	return n;
}

/* Which blocks are where. */
struct held {
	u32 *frames; /* by block; 0: it is not cached */
	u64 *blocks; /* by frame */
	struct batch batch;
};

static void hold(struct held *h, u32 frame, u32 block)
{
	fill(frame, block_id(FILE_ID, block));
	h->blocks[frame] = block;
	h->frames[block] = frame;
}

/* frame was taken: any other block goes there. */
static void refill(struct held *h, u32 frame, u64 *state)
{
	u32 block;
	u8 visits;

	arena_visits(&arena, frame, 1, &visits);
	h->frames[h->blocks[frame]] = 0;
	do
		block = (u32)random_next(state) % opt.blocks;
	while (h->frames[block]);
	hold(h, frame, block);
}

/* Takes frames by a batch, and one fence. */
static void serve_batch(struct held *h, u64 *state, u64 *ret_evicted, u64 *ret_refused)
{
	struct batch *b = &h->batch;
	enum batch_end end;
	u32 frame, i;

	walk_list(&arena, &b->list);
	for (i = 0; i < opt.frames / BATCH_PART + 1; i++) {
		frame = FRAME_FIRST + (u32)random_next(state) % opt.frames;
		if (batch_is_hidden(&arena, frame))
			continue;
		*ret_refused += !batch_add(&arena, b, &b->list, frame);
		if (i % RESCUE_ONE_IN == 0)
			batch_rescue(&arena, frame);
	}
	batch_close(&arena, b);
	CHECK(batch_fence(&arena), "a fence over all processes");
	batch_fenced(&arena, b);
	while ((end = batch_next(&arena, b, &frame)) != BATCH_DONE) {
		if (end == BATCH_TAKEN)
			refill(h, frame, state);
		*ret_evicted += end == BATCH_TAKEN;
		*ret_refused += end == BATCH_REFUSED;
	}
}

static void serve_one(struct held *h, u64 *state, u64 *ret_evicted, u64 *ret_refused)
{
	u32 frame = FRAME_FIRST + (u32)random_next(state) % opt.frames;
	bool taken = arena_take(&arena, frame);

	if (taken)
		refill(h, frame, state);
	*ret_evicted += taken;
	*ret_refused += !taken;
}

/* Takes and refills frames until the readers are done. */
static void serve(u64 *ret_evicted, u64 *ret_refused)
{
	static struct held h;
	u64 state = opt.seed * 77 + 5;
	u64 deadline = host_now_ns() + MUTANT_DEADLINE_NS;

	h.frames = calloc(opt.blocks, sizeof(*h.frames));
	h.blocks = calloc(opt.frames + FRAME_FIRST, sizeof(*h.blocks));
	batch_init(&h.batch, 1);
	for (u32 i = 0; i < opt.frames; i++)
		hold(&h, FRAME_FIRST + i, i);
	host_store_release(stop, 0);
	while (!all_done()) {
		if (opt.mutant && (nr_wrong() || host_now_ns() > deadline))
			host_store_relaxed(stop, 1);
		if (arena.counts)
			serve_one(&h, &state, ret_evicted, ret_refused);
		else
			serve_batch(&h, &state, ret_evicted, ret_refused);
	}
	free(h.frames);
	free(h.blocks);
}

static int run(u64 *ret_evicted, u64 *ret_refused)
{
	pthread_t threads[MAX_READERS];
	pid_t pids[MAX_READERS];
	int status, failed = 0;

	for (u32 i = 0; i < opt.readers; i++) {
		if (opt.threads) {
			pthread_create(&threads[i], NULL, reader, (void *)(uintptr_t)i);
			continue;
		}
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			reader((void *)(uintptr_t)i);
			_exit(0);
		}
	}
	serve(ret_evicted, ret_refused);
	for (u32 i = 0; i < opt.readers; i++) {
		if (opt.threads) {
			pthread_join(threads[i], NULL);
		} else {
			waitpid(pids[i], &status, 0);
			failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
		}
	}
	return failed;
}

static int parse(int key, char *arg, struct argp_state *state)
{
	static const char *const schemes[] = { "lodic", "atomic", "frozen", "hazard" };

	switch (key) {
	case 's': opt.seed = strtoull(arg, NULL, 0); return 0;
	case 'r': opt.reads = strtoull(arg, NULL, 0); return 0;
	case 'p': opt.pins = strtoull(arg, NULL, 0); return 0;
	case 'n': opt.readers = (u32)atoi(arg); return 0;
	case 'f': opt.frames = (u32)atoi(arg); return 0;
	case 'b': opt.blocks = (u32)atoi(arg); return 0;
	case 't': opt.threads = true; return 0;
	case 'm': opt.mutant = true; return 0;
	case 'l': opt.barrier = ARENA_BARRIER_LIGHT; return 0;
	case 'c':
		for (opt.scheme = 0; opt.scheme < ARENA_NR_SCHEMES; opt.scheme++)
			if (strcmp(arg, schemes[opt.scheme]) == 0)
				return 0;
		argp_error(state, "unknown scheme %s", arg);
		return 0;
	case ARGP_KEY_END:
		if (opt.readers < 1 || opt.readers > MAX_READERS || opt.frames < 2 ||
		    opt.blocks < opt.frames)
			argp_error(state, "1..%d readers, 2 <= frames <= blocks",
			           MAX_READERS);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "N", 0, "seed of the random choices", 0 },
		{ "reads", 'r', "N", 0, "verified reads from the cache", 0 },
		{ "pins", 'p', "N", 0, "verified pins", 0 },
		{ "readers", 'n', "N", 0, "readers", 0 },
		{ "frames", 'f', "N", 0, "frames in the cache", 0 },
		{ "blocks", 'b', "N", 0, "blocks that are read", 0 },
		{ "scheme", 'c', "NAME", 0, "lodic, atomic, frozen, hazard", 0 },
		{ "light", 'l', NULL, 0, "plain stores, and a fence over all processes",
		  0 },
		{ "threads", 't', NULL, 0, "readers are threads, not processes", 0 },
		{ "mutant", 'm', NULL, 0, "succeed when wrong bytes are found", 0 },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL, "Reads and pins under eviction.", NULL, NULL, NULL
	};
	u64 evicted = 0, refused = 0, reads = 0, pins = 0, misses = 0, wrong;
	int failed;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	printf("seed=%llu\n", (unsigned long long)opt.seed);
	fflush(stdout);
	tallies = shared(sizeof(*tallies) * MAX_READERS);
	stop = shared(sizeof(*stop));
	make_arena();
	failed = run(&evicted, &refused);
	for (u32 i = 0; i < opt.readers; i++) {
		reads += tallies[i].reads;
		pins += tallies[i].pins;
		misses += tallies[i].misses;
	}
	wrong = nr_wrong();
	printf("%llu reads, %llu pins verified; %llu misses, %llu evictions, %llu refused; "
	       "%llu wrong\n",
	       (unsigned long long)reads, (unsigned long long)pins,
	       (unsigned long long)misses, (unsigned long long)evicted,
	       (unsigned long long)refused, (unsigned long long)wrong);
	if (opt.mutant) {
		printf(wrong ? "mutant caught\n" : "mutant NOT caught\n");
		return wrong ? 0 : 1;
	}
	arena_check(&arena);
	free(arena.contexts);
	return failed || wrong ? 1 : 0;
}
