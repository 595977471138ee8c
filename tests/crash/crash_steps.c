/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Readers are stopped and killed at every single instruction of lodic_pin() and lodic_unpin(),
 * while the service wants their frames. The library is the users' own, without debug checks.
 * crash_steps_inline is the same for the pins of lodic/inline.h, which programs compile.
 * Its service is this test, which makes the steps of core/cache/batch.h between two
 * instructions of the reader. So nothing here is left to chance.
 *
 * Each instruction is tried in three manners:
 *   evict  The service takes all frames that it gets and refills them, then the reader goes on.
 *   hide   The service hides all frames, the reader goes on, then the service walks.
 *   kill   The reader dies there. Its context leaves, and the service takes all frames.
 * After the first two the service wants all frames again while the reader holds its pin.
 * Each is tried in four ways to pin: cold, warm, the second pin of a block, and a pin whose
 * home entry another block has. The reader verifies all bytes of what it has pinned.
 *
 * Many readers, each with an arena of its own, stand at different instructions at once. One
 * fence then serves all of them. A stop by ptrace(2) empties the store buffer of its CPU. So
 * this test sees the order of a program's own steps. It cannot see a store that becomes
 * visible late; the checker does (check/arena_batch.c).
 *
 * Built with a mutant the test must find something (--mutant: that is success).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cache/batch.h"
#include "lib/client/file.h"
#include "tests/support/steps.h"

#define NR_LANES 128u
#define NR_FRAMES 8u
#define MAIN FRAME_FIRST
#define RIVAL (FRAME_FIRST + 1)
#define NR_USED 2u /* frames */
#define FILE_ID 7u
#define FILE_BLOCKS 4096u
#define MAIN_BLOCK 0u
#define STRANGERS 2048u /* blocks from here on are for frames that were taken */
#define ALIVE 1u
#define GENERATION 1u
#define POISON 0xdeaddeaddeaddeadu
#define BLOCK_WORDS (BLOCK_BYTES / 8)
#define DATA_BYTES ((u64)NR_FRAMES << BLOCK_SHIFT)
/* A reader that does not come to its next stop hangs. No group takes a hundredth of this. */
#define HANG_S 60u
#define SKIPPED 77

enum way { COLD, WARM, AGAIN, AWAY, NR_WAYS };
static const char *const way_names[] = { "cold", "warm", "again", "away" };

enum manner { EVICT, HIDE, KILL, NR_MANNERS };

/* What a reader is doing. It is stopped before each of the first two. */
enum stage { BEFORE, PINNING, PINNED, UNPINNING, UNPINNED };

/* What a reader tells, in shared memory. */
struct play {
	u64 stage;
	u64 wrong;
	int error; /* of the pin */
};

/* A reader, and all that there is between it and the service. */
struct lane {
	struct arena arena;
	struct context_table contexts[ARENA_MAX_CONTEXTS];
	struct batch batch;
	struct play *play;
	void *control, *data, *shared, *memory;
	u64 control_bytes;
	u32 place, rival_block, next_stranger;
	pid_t pid;
	bool counted;        /* its pin was counted where it stood */
	bool taken[NR_USED]; /* by the last take_all() */
};

static struct lane *lanes; /* shared, so that a fork need not copy them */
static u32 nr_lanes;       /* that are in use */
static struct arena_shape shape = { .nr_frames = NR_FRAMES, .nr_files = 1 };
static void *memory;
static u64 memory_bytes;

static struct {
	u64 pin_steps, unpin_steps, stops, kills;
	u64 between; /* stops after the store of a count, before the look */
	u64 taken, refused, wrong, leaked;
} total;

/* ---- the reader ---- */

/* As a program has them after lodic_attach(), lodic_context_open() and lodic_open(). */
struct handles {
	u64 mark;
	struct lodic lodic;
	struct segment segment;
	struct seat seat;
	struct lodic_context context;
	struct claim claim;
	struct lodic_file file;
};

static void handles_make(struct handles *h, const struct lane *lane)
{
	const struct arena *a = &lane->arena;

	h->mark = 1;
	h->segment = (struct segment){
		.arena = *a, .generation = GENERATION, .alive_value = ALIVE, .wake = -1
	};
	h->lodic.generation = GENERATION;
	h->lodic.segment = &h->segment;
	h->lodic.mark = &h->mark;
	h->seat.generation = h->seat.pin_generation = GENERATION;
	h->seat.context = &h->context;
	h->seat.segment = &h->segment;
	context_init(&h->seat.core, a, lane->memory, ALIVE, a->nr_entries);
	h->context.seat = &h->seat;
	h->context.inline_seats[LODIC_INLINE_LAYOUT] = &h->seat;
	h->context.lodic = &h->lodic;
	h->claim = (struct claim){ .generation = GENERATION,
		                   .first = block_id(FILE_ID, 0),
		                   .size = (u64)FILE_BLOCKS << BLOCK_SHIFT,
		                   .core = { &a->files[0], FILE_ID },
		                   .file = &h->file };
	h->file.claim = &h->claim;
	h->file.lodic = &h->lodic;
	h->file.fd = -1;
}

static u64 word_of(u64 block, u64 i)
{
	return (block << 16 | (i + 1)) * 0xff51afd7ed558ccdu;
}

static void reader_verify(struct play *play, const struct lodic_pin *pin, u64 block)
{
	const u64 *words = pin->data;

	for (u64 i = 0; i < BLOCK_WORDS; i++) {
		if (words[i] != word_of(block, i)) {
			play->wrong++;
			return;
		}
	}
}

static void reader_pin(struct handles *h, u32 block, struct lodic_pin *ret_pin)
{
	CHECK(lodic_pin(&h->context, &h->file, (off_t)block << BLOCK_SHIFT, ret_pin) ==
	              0,
	      "nobody wants the frame yet");
}

static _Noreturn void reader_run(const struct lane *lane, enum way way)
{
	static struct handles h;
	struct play *play = lane->play;
	u32 kept_block = way == AWAY ? lane->rival_block : MAIN_BLOCK;
	struct lodic_pin pin = { 0 }, kept = { 0 };
	int error;

	handles_make(&h, lane);
	if (way != COLD)
		reader_pin(&h, kept_block, &kept);
	if (way == WARM)
		lodic_unpin(&h.context, &kept);
	steps_stop();
	host_store_release(&play->stage, PINNING);
	error = lodic_pin(&h.context, &h.file, (off_t)MAIN_BLOCK << BLOCK_SHIFT, &pin);
	host_store_release(&play->stage, PINNED);
	play->error = error;
	if (!error)
		reader_verify(play, &pin, MAIN_BLOCK);
	steps_stop();
	if (!error)
		reader_verify(play, &pin, MAIN_BLOCK);
	host_store_release(&play->stage, UNPINNING);
	lodic_unpin(&h.context, &pin);
	host_store_release(&play->stage, UNPINNED);
	if (kept.word)
		reader_verify(play, &kept, kept_block);
	lodic_unpin(&h.context, &kept);
	_exit(0);
}

/* ---- the service ---- */

static void fill(struct lane *lane, u32 frame, u32 block)
{
	u64 *words = arena_frame_bytes(&lane->arena, frame);

	arena_fill_begin(&lane->arena, frame);
	for (u64 i = 0; i < BLOCK_WORDS; i++)
		words[i] = POISON;
	for (u64 i = 0; i < BLOCK_WORDS; i++)
		words[i] = word_of(block, i);
	CHECK(arena_publish(&lane->arena, frame, block_id(FILE_ID, block)),
	      "there is room in the translation");
}

static void hide_all(void)
{
	for (u32 i = 0; i < nr_lanes; i++) {
		struct lane *lane = &lanes[i];

		/* NULL: nobody is asked before, so that more is hidden. */
		for (u32 frame = MAIN; frame < MAIN + NR_USED; frame++)
			CHECK(batch_add(&lane->arena, &lane->batch, NULL, frame),
			      "a frame can be hidden");
		batch_close(&lane->arena, &lane->batch);
	}
}

/* Takes what nobody has pinned, fills it with another block, and shows the rest again. */
static void take_all(void)
{
	u32 frame;

	CHECK(batch_fence(&lanes[0].arena), "a fence over all processes");
	for (u32 i = 0; i < nr_lanes; i++) {
		struct lane *lane = &lanes[i];
		enum batch_end end;

		memset(lane->taken, 0, sizeof(lane->taken));
		batch_fenced(&lane->arena, &lane->batch);
		while ((end = batch_next(&lane->arena, &lane->batch, &frame)) !=
		       BATCH_DONE) {
			total.taken += end == BATCH_TAKEN;
			total.refused += end == BATCH_REFUSED;
			total.wrong += batch_is_hidden(&lane->arena, frame);
			if (end != BATCH_TAKEN)
				continue;
			lane->taken[frame - MAIN] = true;
			fill(lane, frame, STRANGERS + lane->next_stranger++);
		}
	}
}

/* ---- lanes ---- */

static void *memory_take(u64 *used, u64 bytes)
{
	void *p = (u8 *)memory + *used;

	*used += (bytes + 4095) & ~(u64)4095;
	return p;
}

/* All lanes are one picture: readers that do the same make the same steps. */
static void lane_format(struct lane *lane, u64 *used)
{
	struct arena *a = &lane->arena;
	struct context_table t;

	lane->play = memory_take(used, sizeof(*lane->play));
	lane->control_bytes = arena_control_bytes(&shape);
	lane->control = memory_take(used, lane->control_bytes);
	lane->shared = memory_take(used, arena_shared_bytes(&shape));
	lane->data = memory_take(used, DATA_BYTES);
	arena_format(lane->control, &shape, GENERATION);
	CHECK(arena_open(a, lane->control, lane->control_bytes, lane->data, DATA_BYTES,
	                 lane->shared),
	      "a new arena can be viewed");
	lane->memory = memory_take(used, arena_context_bytes(a->nr_entries, 1));
	a->contexts = lane->contexts;
	memset(lane->contexts, 0, sizeof(lane->contexts));
	host_store_release(&a->header->alive, ALIVE);
	file_proof_admit(&a->files[0], FILE_ID, (u64)FILE_BLOCKS << BLOCK_SHIFT);
	arena_context_table(&t, lane->memory);
	lane->place = arena_join(a, &t);
	batch_init(&lane->batch, 1);
	lane->next_stranger = 0;
}

/* The first block that has the same home entry in a context as MAIN_BLOCK. */
static u32 rival_of_main(const struct lane *lane)
{
	struct context c;
	u32 block = MAIN_BLOCK + 1, home;

	context_init(&c, &lane->arena, lane->memory, ALIVE, lane->arena.nr_entries);
	home = context_home(&c, block_hash(block_id(FILE_ID, MAIN_BLOCK)));
	while (context_home(&c, block_hash(block_id(FILE_ID, block))) != home)
		block++;
	CHECK(block < STRANGERS, "there is a block with that home");
	return block;
}

/* Starts a reader in each lane; it is in its first stop. */
static void lanes_start(enum way way, u32 nr)
{
	u64 used = 0;
	pid_t pid;
	int end;

	memset(memory, 0, memory_bytes);
	nr_lanes = nr;
	for (u32 i = 0; i < nr; i++) {
		struct lane *lane = &lanes[i];

		lane_format(lane, &used);
		CHECK(used <= memory_bytes, "the memory is large enough");
		lane->rival_block = rival_of_main(lane);
		fill(lane, MAIN, MAIN_BLOCK);
		fill(lane, RIVAL, lane->rival_block);
		pid = fork();
		if (pid == 0) {
			if (!steps_follow_me())
				_exit(SKIPPED);
			reader_run(lane, way);
		}
		CHECK(pid > 0, "a reader can be started");
		lane->pid = pid;
		end = steps_wait(lane->pid);
		if (end == SKIPPED) {
			printf("SKIP: no ptrace(2) here\n");
			exit(SKIPPED);
		}
		CHECK(end < 0, "a reader comes to its first stop");
	}
}

/* How many references its context has to MAIN's block. */
static u64 lane_counts(const struct lane *lane)
{
	const u64 *entries = lane->contexts[lane->place].entries;
	u64 tag = context_tag(block_hash(block_id(FILE_ID, MAIN_BLOCK)));
	u64 counts = 0;

	for (u32 i = 0; i < lane->arena.nr_entries; i++)
		if ((entries[i] & (PTE_PRESENT | PTE_TAG_MASK)) == tag)
			counts += pte_count(entries[i]);
	return counts;
}

static bool lane_left_nothing(const struct lane *lane)
{
	const struct context_table *t = &lane->contexts[lane->place];
	u64 counts = t->memory->nr_pinned;

	for (u32 i = 0; i < lane->arena.nr_entries; i++)
		counts += pte_count(t->entries[i]);
	return counts == 0;
}

/* ---- one group ---- */

/* Wants all frames while the readers are where they are. */
static void want_all(void)
{
	hide_all();
	take_all();
}

static void kill_all(void)
{
	for (u32 i = 0; i < nr_lanes; i++) {
		struct lane *lane = &lanes[i];

		kill(lane->pid, SIGKILL);
		CHECK(steps_wait(lane->pid) > 0, "a reader that was killed is dead");
		arena_leave(&lane->arena, lane->place);
		total.kills++;
	}
}

/* Every reader goes on to its stop with the pin, or (pinned = false) to its end. */
static void go_on_all(bool pinned)
{
	for (u32 i = 0; i < nr_lanes; i++) {
		int end = steps_go_on(lanes[i].pid);

		CHECK(end == (pinned ? -1 : 0), "a reader goes on as it should");
	}
}

/* The readers hold their pins, or got none. The frames of pins must not have been taken. */
static void judge_pins(enum manner manner, enum way way)
{
	for (u32 i = 0; i < nr_lanes; i++) {
		const struct lane *lane = &lanes[i];
		int error = lane->play->error;

		CHECK(error == 0 || error == -EAGAIN, "pinned, or not now");
		total.wrong += !error && lane->taken[0];
		total.between += manner == HIDE && lane->counted && error;
		total.wrong += way == AGAIN && error; /* it is held already */
	}
}

/* The readers have gone. Nothing of theirs may keep a frame. */
static void judge_end(enum manner manner)
{
	want_all();
	for (u32 i = 0; i < nr_lanes; i++) {
		struct lane *lane = &lanes[i];

		total.wrong += lane->play->wrong;
		if (manner != KILL)
			total.leaked += !lane_left_nothing(lane);
		for (u32 f = 0; f < NR_USED; f++)
			total.leaked += !lane->taken[f];
	}
}

/* Tries the instructions from first on, nr of them, one in each lane. */
static void group_run(enum stage stage, enum way way, enum manner manner,
                      const struct steps *steps, u64 first, u32 nr)
{
	alarm(HANG_S);
	lanes_start(way, nr);
	if (stage == UNPINNING)
		go_on_all(true);
	for (u32 i = 0; i < nr; i++) {
		CHECK(steps_reach(lanes[i].pid, steps, first + i),
		      "equal readers make equal steps");
		lanes[i].counted = lane_counts(&lanes[i]) > (way == AGAIN);
		total.stops++;
	}
	if (manner == KILL)
		kill_all();
	else if (manner == EVICT)
		want_all();
	else
		hide_all();
	if (manner != KILL) {
		/* What was taken before the pin's end must not be in the reader's hands. */
		go_on_all(stage == PINNING);
		if (manner == HIDE)
			take_all();
		if (stage == PINNING) {
			judge_pins(manner, way);
			want_all();
			judge_pins(EVICT, way);
			go_on_all(false);
		}
	}
	judge_end(manner);
	alarm(0);
}

static void way_record(enum stage stage, enum way way, struct steps *ret_steps)
{
	alarm(HANG_S);
	lanes_start(way, 1);
	if (stage == UNPINNING)
		go_on_all(true);
	steps_record(lanes[0].pid, &lanes[0].play->stage, stage, ret_steps);
	kill_all();
	total.kills--; /* not at a chosen instruction */
	CHECK(ret_steps->nr > 0, "a pin takes steps");
}

static bool found(void)
{
	return total.wrong || total.leaked;
}

/* A mutant's run ends when it has shown. */
static void way_run(enum stage stage, enum way way, bool mutant)
{
	static struct steps steps;

	way_record(stage, way, &steps);
	*(stage == PINNING ? &total.pin_steps : &total.unpin_steps) += steps.nr;
	printf("%s, %s: %llu instructions\n", way_names[way],
	       stage == PINNING ? "pin" : "unpin", (unsigned long long)steps.nr);
	for (u32 manner = 0; manner < NR_MANNERS; manner++)
		for (u64 first = 0; first < steps.nr && !(mutant && found());
		     first += NR_LANES)
			group_run(stage, way, (enum manner)manner, &steps, first,
			          (u32)(steps.nr - first < NR_LANES ? steps.nr - first
			                                            : NR_LANES));
}

static void *shared(u64 bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	               -1, 0);

	CHECK(p != MAP_FAILED, "there is memory");
	return p;
}

static void hangs(int signal)
{
	static const char text[] = "FAILED: a reader hangs\n";

	(void)signal;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

/* Parent and readers take turns. On one CPU nobody waits until another one wakes up. */
static void stay_on_one_cpu(void)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	if (cpu >= 0 && cpu < CPU_SETSIZE) {
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
}

static int report(bool mutant, u32 nr_ways, u64 ns)
{
	printf("%llu instructions of a pin, %llu of an unpin, in %u ways\n",
	       (unsigned long long)total.pin_steps,
	       (unsigned long long)total.unpin_steps, nr_ways);
	printf("%llu stops and %llu kills, %llu stops between the count and the look; %llu "
	       "frames taken, %llu refused; %llu wrong, %llu leaked; %.1f s\n",
	       (unsigned long long)total.stops, (unsigned long long)total.kills,
	       (unsigned long long)total.between, (unsigned long long)total.taken,
	       (unsigned long long)total.refused, (unsigned long long)total.wrong,
	       (unsigned long long)total.leaked, (double)ns / 1e9);
	if (mutant) {
		printf(found() ? "mutant caught\n" : "mutant NOT caught\n");
		return !found();
	}
	if (total.between == 0)
		printf("FAILED: no stop lies between the count and the look\n");
	return found() || total.between == 0;
}

int main(int argc, char **argv)
{
	bool mutant = false;
	u32 nr_ways = NR_WAYS;
	u64 start;

	shape.barrier = ARENA_BARRIER_LIGHT;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--mutant") == 0) {
			mutant = true;
		} else if (strcmp(argv[i], "--barrier") == 0 && i + 1 < argc) {
			shape.barrier = strcmp(argv[++i], "lock") == 0
			                        ? ARENA_BARRIER_LOCK
			                        : ARENA_BARRIER_LIGHT;
		} else if (strcmp(argv[i], "--home") == 0) {
			nr_ways = AGAIN; /* the ways that are at their home entry */
		} else {
			fprintf(stderr, "%s: wrong option '%s'\n", argv[0], argv[i]);
			return 2;
		}
	}
	signal(SIGALRM, hangs);
	stay_on_one_cpu();
	if (shape.barrier == ARENA_BARRIER_LIGHT && !host_fence_global()) {
		printf("SKIP: this kernel has no fence for all processes\n");
		return SKIPPED;
	}
	arena_shape_default(&shape);
	memory_bytes =
		NR_LANES *
		(arena_control_bytes(&shape) + arena_shared_bytes(&shape) + DATA_BYTES +
	         arena_context_bytes(shape.nr_entries, 1) + 5 * 4096u);
	memory = shared(memory_bytes);
	lanes = shared(NR_LANES * sizeof(*lanes));
	start = host_now_ns();
	for (u32 way = 0; way < nr_ways; way++) {
		way_run(PINNING, (enum way)way, mutant);
		way_run(UNPINNING, (enum way)way, mutant);
	}
	return report(mutant, nr_ways, host_now_ns() - start);
}
