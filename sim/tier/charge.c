/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What time memory takes: sim/tier/charge.h. */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/charge.h"

#define LINE_BYTES 64u
#define PAGE_BYTES 4096u

/* MB are 10^6 bytes, so bytes over MB/s are 10^-6 s. */
static double ns_of(double bytes, double mb_s)
{
	return bytes * 1000.0 / mb_s;
}

static int cache_begin(struct charge_cache *cache, u32 mib, u32 scale)
{
	cache->nr_sets = (u32)((u64)mib * 256 / scale);
	if (mib == 0)
		return 0;
	if (cache->nr_sets == 0)
		cache->nr_sets = 1;
	cache->tags = calloc(cache->nr_sets, sizeof(*cache->tags));
	cache->when = calloc(cache->nr_sets, sizeof(*cache->when));
	return cache->tags && cache->when ? 0 : -ENOMEM;
}

int charge_begin(struct charge *c, const struct cost_machine *machine, u32 scale,
                 u32 threads, u32 os_percent, u32 node_cpus)
{
	u32 tier;
	int err = 0;

	*c = (struct charge){ .machine = machine,
		              .scale = scale,
		              .threads = threads,
		              .os_percent = os_percent,
		              .node_cpus = node_cpus };
	for (tier = 0; tier < COST_TIERS && !err; tier++)
		err = cache_begin(&c->caches[tier], machine->cache_mib[tier], scale);
	return err;
}

void charge_end(struct charge *c)
{
	u32 tier;

	for (tier = 0; tier < COST_TIERS; tier++) {
		free(c->caches[tier].tags);
		free(c->caches[tier].when);
	}
}

/* Is the object's page in the tier's cache? It is afterwards. What another program streams through
 * the first tier's cache has replaced a page that nobody used for as long as that takes. */
static bool cache_hit(struct charge *c, u32 tier, u32 object)
{
	struct charge_cache *cache = &c->caches[tier];
	u32 set = object % cache->nr_sets;
	bool hit = cache->tags[set] == object + 1;

	if (tier == KLOC_FAST && c->machine->stream_mb_s &&
	    c->now - cache->when[set] >
	            ns_of((double)cache->nr_sets * PAGE_BYTES, c->machine->stream_mb_s))
		hit = false;
	cache->tags[set] = object + 1;
	cache->when[set] = c->now;
	*(hit ? &c->cache_hits : &c->cache_misses) += 1;
	return hit;
}

/* What is left of the first tier's bandwidth beside the program that streams through it. */
static double bandwidth(const struct charge *c, u32 tier, bool write)
{
	const struct cost_machine *m = c->machine;
	double all = write ? m->write_mb_s[tier] : m->read_mb_s[tier];
	double taken = tier == KLOC_FAST ? m->stream_mb_s : 0;

	/* It takes the same share of writes as of reads. */
	if (taken > 0)
		all *= 1 - taken / m->read_mb_s[tier];
	return all > 1 ? all : 1;
}

static void tier_traffic(struct charge *c, u32 tier, double bytes, bool write)
{
	c->busy[CHARGE_FAST + tier] += ns_of(bytes, bandwidth(c, tier, write));
}

/* ns that a CPU waits for so many lines. */
static double stall(const struct charge *c, double lines, double latency)
{
	return lines * latency / c->machine->overlap;
}

void charge_kernel(struct charge *c, double ns)
{
	c->busy[CHARGE_CPU] += ns / c->threads;
	if (c->os_percent)
		c->owed += ns * (100 - c->os_percent) / c->os_percent;
}

void charge_compute(struct charge *c, double ns)
{
	c->busy[CHARGE_CPU] += ns / c->threads;
}

void charge_touch(struct charge *c, u32 cpu, u32 tier, u32 object, u32 kind, u32 bytes,
                  bool write)
{
	const struct cost_machine *m = c->machine;
	bool large = kind == KLOC_APP || kind == KLOC_FRAME || kind == KLOC_HOLD;
	double part = (large ? m->large_miss_percent : m->small_miss_percent) / 100.0;
	double lines = (double)((bytes + LINE_BYTES - 1) / LINE_BYTES) * part;
	double latency = m->load_ns[tier];
	double best = m->cache_ns ? m->cache_ns : m->load_ns[KLOC_FAST];
	double unloaded = m->lookup_ns + stall(c, lines, best);

	if (c->caches[tier].tags && cache_hit(c, tier, object)) {
		latency = m->cache_ns;
		c->busy[CHARGE_FAST + tier] += ns_of(lines * LINE_BYTES, m->cache_mb_s);
	} else {
		tier_traffic(c, tier, lines * LINE_BYTES, write);
	}
	if (c->node_cpus && cpu / c->node_cpus != tier) {
		latency += m->remote_ns;
		if (m->link_mb_s)
			c->busy[CHARGE_LINK] += ns_of(lines * LINE_BYTES, m->link_mb_s);
	}
	c->busy[CHARGE_CPU] += (m->lookup_ns + stall(c, lines, latency)) / c->threads;
	if (!c->os_percent)
		return;
	if (kind == KLOC_APP)
		c->owed = c->owed > unloaded ? c->owed - unloaded : 0;
	else
		c->owed += unloaded * (100 - c->os_percent) / c->os_percent;
}

void charge_storage(struct charge *c, u32 bytes)
{
	c->busy[CHARGE_STORAGE] += ns_of(bytes, c->machine->storage_mb_s);
}

double charge_copy(struct charge *c, u32 from, u32 to, u32 bytes, u32 threads)
{
	const struct cost_machine *m = c->machine;
	double lines = (double)(bytes / LINE_BYTES);

	tier_traffic(c, from, bytes, false);
	tier_traffic(c, to, bytes, true);
	if (c->node_cpus && m->link_mb_s)
		c->busy[CHARGE_LINK] += ns_of(bytes, m->link_mb_s);
	return stall(c, lines, m->load_ns[from] + m->remote_ns) /
	       (threads ? threads : 1);
}

static double busiest(const struct charge *c, u32 *ret_by)
{
	double most = 0;
	u32 by;

	for (by = 0; by < CHARGE_NR; by++) {
		double ns = c->busy[by];

		if (by == CHARGE_CPU)
			ns += c->owed / c->threads;
		if (by == CHARGE_FAST)
			ns += c->busy[CHARGE_SLOW] * c->machine->interference_percent /
			      100.0;
		if (ns > most) {
			most = ns;
			*ret_by = by;
		}
	}
	return most;
}

double charge_elapsed(const struct charge *c)
{
	u32 by = CHARGE_CPU;

	return busiest(c, &by);
}

double charge_turn(struct charge *c)
{
	u32 by = CHARGE_CPU, i;
	double ns = busiest(c, &by);

	c->bound[by] += ns;
	c->now += ns;
	for (i = 0; i < CHARGE_NR; i++)
		c->busy[i] = 0;
	c->owed = 0;
	return ns;
}
