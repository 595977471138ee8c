/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What memory costs, and the shapes of workloads: sim/parameters/tier-*, read. */
#ifndef LODIC_SIM_TIER_COST_H
#define LODIC_SIM_TIER_COST_H

#include "sim/keys.h"

#define COST_TIERS 2u
#define COST_MAX_BANDS 64u

/* The names are those of the files, which say what each is. */
struct cost_machine {
	u32 capacity_mib[COST_TIERS];
	u32 read_mb_s[COST_TIERS], write_mb_s[COST_TIERS];
	u32 load_ns[COST_TIERS];
	u32 cache_mib[COST_TIERS];
	u32 cache_ns, cache_mb_s;
	u32 remote_ns, link_mb_s, stream_mb_s;
	u32 interference_percent;
	u32 overlap;
	u32 large_miss_percent, small_miss_percent;
	u32 storage_mb_s;
	u32 syscall_ns, lookup_ns, large_add_ns, small_add_ns, open_ns;
	u32 move_ns, move_batch_ns, shootdown_ns;
	u32 scan_ns, scan_percent;
	u32 walk_ns;
	u32 tick_us;
};

struct cost_work {
#define COST_WORK(field, least) u32 field;
#include "sim/tier/cost_list.h"
#undef COST_WORK
};

struct cost_band {
	size_t offset; /* of a u32 in struct cost */
	u32 low, high;
	const char *name;
};

struct cost {
	struct cost_machine machine;
	struct cost_work work;
	char name[32];                  /* of the machine's file */
	char hash[2 * KEYS_HASH_BYTES]; /* of both files' texts */
	struct cost_band bands[COST_MAX_BANDS];
	u32 nr_bands;
};

/* Reads a machine's file and a workload's. NULL: tier-two, tier-work. Prints what is wrong. 0,
 * -ENOENT or -EINVAL. */
int cost_read(const char *machine, const char *work, struct cost *ret_cost);

/* The costs with one banded number at one end. */
struct cost cost_with(const struct cost *cost, const struct cost_band *band, bool high);

#endif
