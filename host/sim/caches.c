/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Caches of a size, for workloads whose files are larger than a cache. Each CPU has one of its
 * own, which stands for all levels that nobody shares. Each socket has one that has all of what
 * those of its CPUs have. A set forgets the line that was used longest ago.
 *
 * The caches note numbers of lines, and say what they forget. Where copies are is lines.c's
 * business. A line that another CPU has taken away stays noted until its turn comes: then there
 * is nothing to forget. So a cache holds a little less than it might.
 */
#include <string.h>
#include <sys/mman.h>

#include "host/sim/engine.h"

#define EMPTY 0u /* in a set; a line is its number + 1 */

struct cache {
	u32 *ways; /* of set 0, the last used first; then of set 1 */
	u32 nr_sets, nr_ways;
};

static struct cache privates[SIM_MAX_CPUS], shareds[SIM_MAX_SOCKETS];
static u32 *memory;
static size_t memory_words;

/* Lines at equal distances are spread over all sets, as a socket's cache spreads them. */
#define SPREAD 0x9e3779b97f4a7c15ull

static u32 *cache_set(const struct cache *c, u32 line)
{
	return &c->ways[((u64)(u32)(line * SPREAD >> 32) * c->nr_sets >> 32) *
	                c->nr_ways];
}

/* Notes that the line was used. Returns the line that has to go, or EMPTY. */
static u32 cache_use(struct cache *c, u32 line)
{
	u32 *set = cache_set(c, line);
	u32 last = line + 1, i;

	/* All before the line's place move back by one. */
	for (i = 0; i < c->nr_ways; i++) {
		u32 here = set[i];

		set[i] = last;
		last = here;
		if (here == line + 1)
			return EMPTY;
	}
	return last;
}

void caches_expect(u32 line, const struct cpu *cpu)
{
	__builtin_prefetch(cache_set(&privates[cpu->number], line), 1);
	__builtin_prefetch(cache_set(&shareds[cpu->socket], line), 1);
}

void caches_use(u32 line, const struct cpu *cpu, bool came)
{
	u32 gone = cache_use(&privates[cpu->number], line);

	if (gone != EMPTY)
		line_forget(gone - 1, cpu);
	if (!came)
		return;
	gone = cache_use(&shareds[cpu->socket], line);
	if (gone != EMPTY)
		line_forget_socket(gone - 1, cpu->socket);
}

static u32 cache_sets(u32 kib, u32 nr_ways)
{
	u32 nr = nr_ways ? kib * (1024 / LINE_BYTES) / nr_ways : 0;

	if (nr == 0)
		host_fail("caches of some size", __FILE__, __LINE__);
	return nr;
}

void caches_reset(void)
{
	const struct sim_machine *m = &world.machine;
	u32 own, common, i;
	size_t words;
	u32 *at;

	if (!m->has_caches)
		return;
	own = cache_sets(m->private_kib, m->private_ways);
	common = cache_sets(m->shared_kib, m->shared_ways);
	words = (size_t)own * m->private_ways * world.nr_cpus +
	        (size_t)common * m->shared_ways * m->nr_sockets;
	if (words > memory_words) {
		if (memory)
			munmap(memory, memory_words * sizeof(*memory));
		memory = memory_reserve(NULL, words * sizeof(*memory));
		memory_words = memory ? words : 0;
	}
	if (!memory)
		host_fail("memory for caches", __FILE__, __LINE__);
	memset(memory, 0, words * sizeof(*memory));
	at = memory;
	for (i = 0; i < world.nr_cpus; i++, at += (size_t)own * m->private_ways)
		privates[i] = (struct cache){ at, own, m->private_ways };
	for (i = 0; i < m->nr_sockets; i++, at += (size_t)common * m->shared_ways)
		shareds[i] = (struct cache){ at, common, m->shared_ways };
}
