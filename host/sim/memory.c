/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated machine's memory: one arena at one place, so that a line's number is a
 * subtraction away and the same in every run. Nothing is reused before the next world,
 * because the next owner of a line would inherit its history.
 *
 * The address space is reserved at once. The kernel gives pages as they are touched, and
 * takes them back when a world ends.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/sim/engine.h"

#define ARENA_BYTES ((u64)1 << 30)
/* core/counter hashes addresses, so the arena is at the same one in every run. It is where
 * neither programs nor sanitizers have anything; the kernel chooses another one if not. */
#define ARENA_PLACE ((void *)((u64)1 << 45))
#define SHARER_WORDS_MAX (SIM_MAX_CPUS / 64)
/* More pages than this go back to the kernel; fewer pages are cheaper to clear. */
#define CLEAR_BYTES ((u64)1 << 20)
#define NR_QUEUES_MAX 65536u

struct engine_arena engine_arena;
static u16 *queues;
static u32 nr_queues, queue_room;
static char names[SIM_MAX_NAMES][32];
static u32 nr_names;

void *memory_reserve(void *place, u64 bytes)
{
	void *p = mmap(place, bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Lines and pages are used at random. Where the kernel has large pages, fewer of them have
	 * to come, and the processor finds them faster. Elsewhere the call fails, and nothing is
	 * lost. */
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static void arena_release(void)
{
	u64 nr = engine_arena.room / LINE_BYTES;

	if (engine_arena.bytes)
		munmap(engine_arena.bytes, engine_arena.room);
	if (engine_arena.lines)
		munmap(engine_arena.lines, nr * sizeof(*engine_arena.lines));
	if (engine_arena.sharers)
		munmap(engine_arena.sharers, nr * SHARER_WORDS_MAX * sizeof(u64));
	engine_arena.bytes = NULL;
	engine_arena.lines = NULL;
	engine_arena.sharers = NULL;
	engine_arena.used = engine_arena.room = 0;
}

bool sim_memory(u64 bytes)
{
	u64 nr;

	if (bytes < ARENA_BYTES)
		bytes = ARENA_BYTES;
	if (engine_arena.bytes && bytes <= engine_arena.room)
		return true;
	nr = bytes / LINE_BYTES;
	arena_release();
	engine_arena.room = bytes;
	engine_arena.bytes = memory_reserve(ARENA_PLACE, bytes);
	engine_arena.lines = memory_reserve(NULL, nr * sizeof(*engine_arena.lines));
	engine_arena.sharers =
		memory_reserve(NULL, nr * SHARER_WORDS_MAX * sizeof(u64));
	if (!queues)
		queues = memory_reserve(NULL, (u64)NR_QUEUES_MAX * SIM_MAX_CPUS *
		                                      sizeof(u16));
	if (engine_arena.bytes && engine_arena.lines && engine_arena.sharers && queues)
		return true;
	arena_release();
	return false;
}

static void memory_clear(void *p, u64 bytes)
{
	if (bytes <= CLEAR_BYTES || madvise(p, bytes, MADV_DONTNEED) != 0)
		memset(p, 0, bytes);
}

void memory_reset(u32 nr_cpus)
{
	if (!engine_arena.bytes && !sim_memory(ARENA_BYTES))
		host_fail("address space for the timing model's memory", __FILE__,
		          __LINE__);
	memory_clear(engine_arena.bytes, engine_arena.used);
	memory_clear(engine_arena.lines,
	             engine_arena.used / LINE_BYTES * sizeof(*engine_arena.lines));
	memory_clear(engine_arena.sharers, engine_arena.used / LINE_BYTES *
	                                           engine_arena.sharer_words *
	                                           sizeof(u64));
	engine_arena.used = 0;
	nr_queues = 0;
	queue_room = nr_cpus;
	engine_arena.sharer_words = (nr_cpus + 63) / 64;
	snprintf(names[NAME_OTHER], sizeof(names[0]), "other");
	nr_names = 1;
}

u16 *memory_queue(void)
{
	if (nr_queues == NR_QUEUES_MAX)
		host_fail("the timing model's room for waiting CPUs", __FILE__,
		          __LINE__);
	return &queues[(u64)nr_queues++ * queue_room];
}

const char *memory_name(u32 name)
{
	return names[name];
}

u32 memory_nr_names(void)
{
	return nr_names;
}

static u32 memory_find_name(const char *name)
{
	u32 i;

	for (i = 1; i < nr_names; i++)
		if (strncmp(names[i], name, sizeof(names[i]) - 1) == 0)
			return i;
	if (nr_names == SIM_MAX_NAMES)
		return NAME_OTHER;
	snprintf(names[nr_names], sizeof(names[0]), "%s", name);
	return nr_names++;
}

void sim_name(const void *p, size_t bytes, const char *name)
{
	u32 first, last, i, id;

	if (bytes == 0 || !engine_line(p, &first) ||
	    !engine_line((const u8 *)p + bytes - 1, &last))
		return;
	id = memory_find_name(name);
	for (i = first; i <= last; i++)
		engine_arena.lines[i].name = (u8)id;
}

void *host_alloc(size_t n, size_t align)
{
	u64 at;

	/* Two allocations never share a line. Callers decide what shares a line, and
	 * the allocator's position must not. */
	if (align < LINE_BYTES)
		align = LINE_BYTES;
	at = (engine_arena.used + align - 1) & ~(u64)(align - 1);
	if (!engine_arena.bytes || n > engine_arena.room || at > engine_arena.room - n)
		return NULL;
	n = (n + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
	engine_arena.used = at + n;
	return engine_arena.bytes + at;
}

void host_free(void *p, size_t n)
{
	(void)p;
	(void)n;
}
