/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Stress test of every counting scheme. Readers take references on a few hot frames and
 * verify the bytes while they hold them. A reclaimer freezes frames, poisons them, fills
 * them with other blocks and thaws them, as fast as it can. Under lodic a mapper unmaps,
 * remaps, forks and exits all the time, and readers fault their pages in again. Two threads
 * of a process then share its ptes. Under other schemes readers change CPUs while they hold
 * references. After each round all threads are at rest. Then every count must be exactly
 * zero and every invariant must hold.
 *
 * Plain accesses read and write the frames' bytes. A reference promises that no other
 * thread touches them meanwhile, and ThreadSanitizer checks that promise.
 *
 * Built with a mutant the program must find wrong bytes or counts. With --mutant
 * that is success.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/count/paygo_table.h"
#include "core/owned/count_owned.h"
#include "host/random.h"

#define FILE_ID 7u
#define POISON 0xdeaddeaddeaddeadu
#define FRAME_WORDS 64u
#define MAX_READERS 16u
#define MAX_FRAMES 64u
#define MAX_BLOCKS 256u
#define NR_PROCESSES 2u
#define CHILD NR_PROCESSES /* the user that fork makes, over and over */
#define NR_USERS (NR_PROCESSES + 1)
#define LOOKS 4u            /* at a held frame */
#define MIN_EVICTIONS 1000u /* with fewer, the run is no test */
#define DEADLINE_NS 120000000000u
#define MUTANT_DEADLINE_NS 40000000000u
#define POLL_US 2000
#define TICK_US 50
#define HIDDEN_FREEZES 200u /* tries at a frame that readers cannot find any more */
#define ROUND_NS 250000000u
#define QUIET_YIELDS 64u

static struct {
	u64 seed, ops;
	double seconds;
	u32 readers, frames, blocks;
	const struct count_scheme *scheme;
	bool mutant;
} opt = { .seed = 1, .ops = 300000, .readers = 4, .frames = 4, .blocks = 6 };

/* What a thread has counted. One line each, or the tallies would slow the race down. */
struct tally {
	u64 refs; /* verified */
	u64 locals, globals, failed;
	u64 wrong; /* 1: bytes, 2: a query that denies a held reference */
	u64 wrong_block, wrong_word, wrong_value;
} __attribute__((aligned(64)));

static struct {
	struct count count;
	struct frame frames[MAX_FRAMES];
	u64 bytes[MAX_FRAMES][FRAME_WORDS];
	u64 leads[MAX_BLOCKS];     /* block -> frame + 1 */
	u64 pages[NR_PROCESSES];   /* where a process has the file mapped */
	u64 seconds[NR_PROCESSES]; /* and where a second time; 0: it has not */
	cpu_set_t cpus;            /* that this test may use */
	struct tally tallies[MAX_READERS];
	u64 evicted, refused, unmapped;
	u64 round;
	u64 stop;
} world;

static void bump(u64 *p)
{
	host_store_relaxed(p, host_load_relaxed(p) + 1);
}

static u64 word_of(u64 block, u64 i)
{
	return (block << 16 | i) * 0xff51afd7ed558ccdu;
}

/* Volatile: the compiler must load each time. */
static void fill_words(u32 frame, u64 block)
{
	volatile u64 *words = world.bytes[frame];

	for (u32 i = 0; i < FRAME_WORDS; i++)
		words[i] = block == BLOCK_NONE ? POISON : word_of(block, i);
}

static bool verify(struct tally *t, u32 frame, u64 block)
{
	const volatile u64 *words = world.bytes[frame];

	for (u32 i = 0; i < FRAME_WORDS; i++) {
		u64 v = words[i];

		if (v == word_of(block, i))
			continue;
		t->wrong_block = block;
		t->wrong_word = i;
		t->wrong_value = v;
		host_store_release(&t->wrong, 1);
		return false;
	}
	return true;
}

/* A page fault, if the reader's process has the file mapped. */
static void fault(u32 user, u32 index, u32 frame, u64 dice)
{
	u64 page = host_load_relaxed(&world.seconds[user]);

	if (page == 0 || dice & 1)
		page = host_load_relaxed(&world.pages[user]);
	if (page)
		count_owned_map_block(&world.count, user, page + index, frame);
}

static void go_to_cpu(u32 cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (CPU_ISSET(cpu, &world.cpus))
		sched_setaffinity(0, sizeof(one), &one);
}

/* Looks at a frame that is held, for a while. */
static void look(struct tally *t, u32 frame, u64 block, u64 dice)
{
	for (u32 i = 0; i <= dice % LOOKS; i++) {
		if (!verify(t, frame, block))
			return;
		/* Some holders wait, so that other threads can go wrong meanwhile. */
		if (dice / 4 % 16 == 0)
			sched_yield();
	}
	if (dice / 64 % 16 == 0 && !count_query(&world.count, frame)) {
		t->wrong_block = block;
		host_store_release(&t->wrong, 2);
	}
	bump(&t->refs);
}

static void read_one(struct tally *t, u32 user, u32 index, u64 dice)
{
	u64 block = block_id(FILE_ID, index);
	u64 lead = host_load_acquire(&world.leads[index]);
	u64 tokens[2];
	u32 nr = 0;
	u32 frame;

	if (lead == 0)
		return;
	frame = (u32)lead - 1;
	while (nr < 2 && count_ref(&world.count, frame, user, &tokens[nr])) {
		nr++;
		if (dice & 3) /* now and then two references at once */
			break;
	}
	if (nr == 0) {
		bump(&t->failed);
		return;
	}
	bump(tokens[0] == COUNT_OWNED_GLOBAL ? &t->globals : &t->locals);
	if (host_load_relaxed(&world.frames[frame].block) == block) {
		/* Not always: a fault waits for the mapper, and a waiting thread cannot race. */
		if (opt.scheme->has_ptes && tokens[0] == COUNT_OWNED_GLOBAL &&
		    (dice >> 32) % 4 == 0)
			fault(user, index, frame, dice >> 36);
		look(t, frame, block, dice >> 8);
	}
	if (!opt.scheme->has_ptes && (dice >> 16) % 64 == 0)
		go_to_cpu((u32)(dice >> 24) % host_nr_cpus());
	while (nr > 0)
		count_unref(&world.count, frame, user, tokens[--nr]);
}

static void *reader(void *arg)
{
	u32 me = (u32)(uintptr_t)arg;
	u64 state = opt.seed * 1000 + me + world.round * 1000003;

	while (!host_load_relaxed(&world.stop)) {
		u64 dice = random_next(&state);

		read_one(&world.tallies[me], me % NR_PROCESSES,
		         (u32)(dice >> 40) % opt.blocks, dice);
	}
	return NULL;
}

static void fill(u32 frame, u32 index)
{
	u64 block = block_id(FILE_ID, index);

	frame_fill_begin(&world.frames[frame]);
	fill_words(frame, BLOCK_NONE);
	fill_words(frame, block);
	frame_fill_end(&world.frames[frame], block);
	count_thaw(&world.count, frame);
	host_store_release(&world.leads[index], frame + 1);
}

static u64 *lead_of(u32 frame)
{
	return &world.leads[block_index(host_load_relaxed(&world.frames[frame].block))];
}

/* Freezes a frame. Without epochs, readers can find it all the time. With epochs a freeze
 * needs some of them without a reference. So the frame is hidden first, and only readers
 * that are on their way already can find it. */
static bool freeze(u32 frame)
{
	if (count_freeze(&world.count, frame))
		return true;
	if (!opt.scheme->tick)
		return false;
	host_store_relaxed(lead_of(frame), 0);
	for (u32 i = 0; i < HIDDEN_FREEZES; i++) {
		if (count_freeze(&world.count, frame))
			return true;
		usleep(TICK_US);
	}
	host_store_release(lead_of(frame), frame + 1);
	return false;
}

/* Makes epochs as fast as it can: it ticks for each CPU on that CPU. */
static void *ticker(void *arg)
{
	(void)arg;
	for (u32 cpu = 0; !host_load_relaxed(&world.stop); cpu++) {
		go_to_cpu(cpu % host_nr_cpus());
		count_tick(&world.count, cpu % host_nr_cpus());
		usleep(TICK_US);
	}
	return NULL;
}

static void *reclaimer(void *arg)
{
	u64 state = opt.seed * 77 + 5 + world.round * 1000003;

	(void)arg;
	while (!host_load_relaxed(&world.stop)) {
		u32 frame = (u32)random_next(&state) % opt.frames;
		u32 index = (u32)random_next(&state) % opt.blocks;

		if (host_load_relaxed(&world.leads[index]))
			continue;
		if (!freeze(frame)) {
			bump(&world.refused);
			continue;
		}
		host_store_relaxed(lead_of(frame), 0);
		frame_clear(&world.frames[frame]);
		fill(frame, index);
		bump(&world.evicted);
	}
	return NULL;
}

static void map_file(u32 user)
{
	u64 page;

	if (count_owned_mmap(&world.count, user, FILE_ID, 0, opt.blocks, &page) == 0)
		host_store_relaxed(&world.pages[user], page);
}

/* Maps the file a second time, or unmaps the second mapping. */
static void map_second(u32 user)
{
	u64 page = host_load_relaxed(&world.seconds[user]);

	if (page)
		count_owned_munmap(&world.count, user, page);
	host_store_relaxed(&world.seconds[user], 0);
	if (!page &&
	    count_owned_mmap(&world.count, user, FILE_ID, 0, opt.blocks, &page) == 0)
		host_store_relaxed(&world.seconds[user], page);
}

static void remap(u32 user)
{
	u64 page = host_load_relaxed(&world.pages[user]);

	if (count_owned_remap(&world.count, user, page, &page) == 0)
		host_store_relaxed(&world.pages[user], page);
}

static void fork_and_exit(u32 user)
{
	u64 second = host_load_relaxed(&world.seconds[user]);

	if (count_owned_fork(&world.count, user, CHILD))
		return;
	count_owned_munmap(&world.count, CHILD, host_load_relaxed(&world.pages[user]));
	if (second)
		count_owned_munmap(&world.count, CHILD, second);
}

/* Makes one change to a process's mappings, mostly an unmap. */
static void map_one(u32 user, u32 dice)
{
	u64 page = host_load_relaxed(&world.pages[user]);

	switch (dice % 32) {
	case 0:
		count_owned_munmap(&world.count, user, page);
		map_file(user);
		break;
	case 1: remap(user); break;
	case 2: fork_and_exit(user); break;
	case 3: map_second(user); break;
	default:
		if (count_owned_unmap_block(&world.count, user,
		                            page + dice / 32 % opt.blocks) == 0)
			bump(&world.unmapped);
	}
}

/* Makes few changes, none of which folds much. So the next unmap does not hide a count that
 * went astray, and the check after the round finds it. */
static void map_one_quietly(u32 user, u32 dice)
{
	for (u32 i = 0; i < dice / 4 % QUIET_YIELDS; i++)
		sched_yield();
	if (dice & 1)
		remap(user);
	else if (dice & 2)
		map_second(user);
	else
		fork_and_exit(user);
}

static void *mapper(void *arg)
{
	u64 state = opt.seed * 99 + 3 + world.round * 1000003;

	(void)arg;
	while (!host_load_relaxed(&world.stop)) {
		u64 dice = random_next(&state);
		u32 user = (u32)(dice >> 32) % NR_PROCESSES;

		if (world.round % 2)
			map_one_quietly(user, (u32)dice);
		else
			map_one(user, (u32)dice);
	}
	return NULL;
}

static void world_start(void)
{
	memset(&world, 0, sizeof(world));
	if (sched_getaffinity(0, sizeof(world.cpus), &world.cpus) != 0 ||
	    count_init(&world.count, opt.scheme, world.frames, opt.frames, NR_USERS)) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	/* Two CPUs seldom make a compare-and-swap fail. */
	if (opt.scheme->table)
		opt.scheme->table(&world.count)->eager = true;
	for (u32 i = 0; i < opt.frames; i++)
		fill(i, i);
	if (!opt.scheme->has_ptes)
		return;
	count_owned_set_share_min(&world.count, 1);
	for (u32 user = 0; user < NR_PROCESSES; user++)
		map_file(user);
}

static u64 nr_refs(bool *ret_wrong)
{
	u64 refs = 0;

	*ret_wrong = false;
	for (u32 i = 0; i < opt.readers; i++) {
		refs += host_load_relaxed(&world.tallies[i].refs);
		*ret_wrong |= host_load_acquire(&world.tallies[i].wrong) != 0;
	}
	return refs;
}

static bool is_enough(u64 refs, u64 since_ns)
{
	if (opt.seconds > 0)
		return (double)since_ns >= opt.seconds * 1e9;
	if (opt.mutant)
		return since_ns > MUTANT_DEADLINE_NS;
	return refs >= opt.ops && host_load_relaxed(&world.evicted) >= MIN_EVICTIONS;
}

/* Waits until the round is over: its time is up, there are enough references, or something
 * is wrong. Returns whether it was the last round. */
static bool wait_for_round(u64 start)
{
	u64 round_start = host_now_ns();
	u64 now = round_start;
	bool wrong = false;
	bool enough = false;

	while (!wrong && !enough && now - round_start < ROUND_NS) {
		usleep(POLL_US);
		now = host_now_ns();
		enough = is_enough(nr_refs(&wrong), now - start);
	}
	return wrong || enough || now - start > DEADLINE_NS;
}

/* Prints what is wrong. true: something is. All threads must have ended. */
static bool report_wrong(void)
{
	bool wrong = false;

	for (u32 i = 0; i < opt.readers; i++) {
		const struct tally *t = &world.tallies[i];

		if (t->wrong == 1)
			printf("WRONG BYTES: reader %u held block %u, word %llu was %016llx\n",
			       i, block_index(t->wrong_block),
			       (unsigned long long)t->wrong_word,
			       (unsigned long long)t->wrong_value);
		else if (t->wrong == 2)
			printf("WRONG QUERY: reader %u held block %u, query said nobody\n",
			       i, block_index(t->wrong_block));
		wrong |= t->wrong != 0;
	}
	for (u32 i = 0; i < opt.frames; i++) {
		u64 sum = count_sum(&world.count, i);

		if (sum == 0)
			continue;
		printf("LOST COUNT: nobody holds frame %u, its count is %lld\n", i,
		       (long long)sum);
		wrong = true;
	}
	return wrong;
}

static void print_tallies(void)
{
	struct tally sum = { 0 };

	for (u32 i = 0; i < opt.readers; i++) {
		sum.refs += world.tallies[i].refs;
		sum.locals += world.tallies[i].locals;
		sum.globals += world.tallies[i].globals;
		sum.failed += world.tallies[i].failed;
	}
	printf("%-7s %llu refs verified, %llu failed; %llu evictions, %llu refused",
	       opt.scheme->name, (unsigned long long)sum.refs,
	       (unsigned long long)sum.failed, (unsigned long long)world.evicted,
	       (unsigned long long)world.refused);
	if (opt.scheme->has_ptes)
		printf("; %llu local, %llu global, %llu unmaps",
		       (unsigned long long)sum.locals, (unsigned long long)sum.globals,
		       (unsigned long long)world.unmapped);
	printf("\n");
	fflush(stdout);
}

static bool run_round(u64 start)
{
	pthread_t threads[MAX_READERS + 3];
	u32 nr = 0;
	bool last;

	host_store_relaxed(&world.stop, 0);
	for (u32 i = 0; i < opt.readers; i++)
		pthread_create(&threads[nr++], NULL, reader, (void *)(uintptr_t)i);
	pthread_create(&threads[nr++], NULL, reclaimer, NULL);
	if (opt.scheme->has_ptes)
		pthread_create(&threads[nr++], NULL, mapper, NULL);
	if (opt.scheme->tick)
		pthread_create(&threads[nr++], NULL, ticker, NULL);
	last = wait_for_round(start);
	host_store_relaxed(&world.stop, 1);
	for (u32 i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	world.round++;
	return last;
}

/* Runs one scheme. true: nothing was wrong. */
static bool run_scheme(const struct count_scheme *scheme)
{
	u64 start = host_now_ns();
	bool last, wrong;

	opt.scheme = scheme;
	world_start();
	do {
		last = run_round(start);
		wrong = report_wrong();
		if (!wrong)
			count_check(&world.count, NULL, 0);
		for (u32 i = 0; i < opt.frames; i++)
			frame_check(&world.frames[i]);
	} while (!last && !wrong);
	print_tallies();
	if (!wrong && !is_enough(nr_refs(&wrong), host_now_ns() - start)) {
		printf("TOO SLOW: not enough references or evictions by the deadline\n");
		wrong = true;
	}
	count_fini(&world.count);
	return !wrong;
}

/* core/ has printed the broken rule already. */
static void on_abort(int sig)
{
	static const char caught[] = "mutant caught: broken rule\n";

	(void)sig;
	if (opt.mutant && write(STDOUT_FILENO, caught, sizeof(caught) - 1) < 0)
		_exit(1);
	_exit(opt.mutant ? 0 : 1);
}

static int parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's': opt.seed = strtoull(arg, NULL, 0); return 0;
	case 'o': opt.ops = strtoull(arg, NULL, 0); return 0;
	case 't': opt.seconds = strtod(arg, NULL); return 0;
	case 'n': opt.readers = (u32)atoi(arg); return 0;
	case 'f': opt.frames = (u32)atoi(arg); return 0;
	case 'b': opt.blocks = (u32)atoi(arg); return 0;
	case 'm': opt.mutant = true; return 0;
	case 'c':
		opt.scheme = count_scheme_find(arg);
		if (!opt.scheme || !opt.scheme->counts)
			argp_error(state, "no scheme %s that counts", arg);
		return 0;
	case ARGP_KEY_END:
		if (opt.readers < 1 || opt.readers > MAX_READERS || opt.frames < 1 ||
		    opt.frames > MAX_FRAMES || opt.blocks <= opt.frames ||
		    opt.blocks > MAX_BLOCKS)
			argp_error(state,
			           "1..%u readers, 1..%u frames, frames < blocks <= %u",
			           MAX_READERS, MAX_FRAMES, MAX_BLOCKS);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "N", 0, "seed of the random choices", 0 },
		{ "ops", 'o', "N", 0, "verified references per scheme", 0 },
		{ "seconds", 't', "N", 0,
		  "run each scheme for so long, instead of --ops", 0 },
		{ "readers", 'n', "N", 0, "reader threads, half for each of two users",
		  0 },
		{ "frames", 'f', "N", 0, "frames", 0 },
		{ "blocks", 'b', "N", 0, "blocks that are read", 0 },
		{ "scheme", 'c', "NAME", 0, "one scheme (default: all that count)", 0 },
		{ "mutant", 'm', NULL, 0,
		  "succeed when wrong bytes or counts are found", 0 },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL, "Counting under reclaim.", NULL, NULL, NULL
	};
	const struct count_scheme *only;
	bool well = true;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	signal(SIGABRT, on_abort);
	printf("seed=%llu\n", (unsigned long long)opt.seed);
	fflush(stdout);
	only = opt.scheme;
	for (u32 i = 0; i < count_nr_schemes && well; i++)
		if (count_schemes[i]->counts && (!only || only == count_schemes[i]))
			well = run_scheme(count_schemes[i]);
	if (opt.mutant) {
		printf(well ? "mutant NOT caught\n" : "mutant caught\n");
		return well ? 1 : 0;
	}
	if (!well)
		printf("replay: --seed=%llu --scheme=%s (the interleaving is the machine's)\n",
		       (unsigned long long)opt.seed, opt.scheme->name);
	return well ? 0 : 1;
}
