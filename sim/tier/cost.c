/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What memory costs, and the shapes of workloads: sim/tier/cost.h. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sim/tier/cost.h"

#define MACHINE(field, nr, least) \
	{ \
#field, offsetof(struct cost, machine.field), nr, least \
	}
#define COST_WORK(field, least) { #field, offsetof(struct cost, work.field), 1, least },

static const struct keys_key machine_keys[] = {
	MACHINE(capacity_mib, COST_TIERS, 1),
	MACHINE(read_mb_s, COST_TIERS, 1),
	MACHINE(write_mb_s, COST_TIERS, 1),
	MACHINE(load_ns, COST_TIERS, 1),
	MACHINE(cache_mib, COST_TIERS, 0),
	MACHINE(cache_ns, 1, 0),
	MACHINE(cache_mb_s, 1, 0),
	MACHINE(remote_ns, 1, 0),
	MACHINE(link_mb_s, 1, 0),
	MACHINE(stream_mb_s, 1, 0),
	MACHINE(interference_percent, 1, 0),
	MACHINE(overlap, 1, 1),
	MACHINE(large_miss_percent, 1, 0),
	MACHINE(small_miss_percent, 1, 0),
	MACHINE(storage_mb_s, 1, 1),
	MACHINE(syscall_ns, 1, 0),
	MACHINE(lookup_ns, 1, 0),
	MACHINE(large_add_ns, 1, 0),
	MACHINE(small_add_ns, 1, 0),
	MACHINE(open_ns, 1, 0),
	MACHINE(move_ns, 1, 0),
	MACHINE(move_batch_ns, 1, 0),
	MACHINE(shootdown_ns, 1, 0),
	MACHINE(scan_ns, 1, 1),
	MACHINE(scan_percent, 1, 0),
	MACHINE(walk_ns, 1, 0),
	MACHINE(tick_us, 1, 1),
};
#define NR_MACHINE (sizeof(machine_keys) / sizeof(*machine_keys))

static const struct keys_key work_keys[] = {
#include "sim/tier/cost_list.h"
};
#define NR_WORK (sizeof(work_keys) / sizeof(*work_keys))
#define NR_MOST (NR_WORK > NR_MACHINE ? NR_WORK : NR_MACHINE)

struct reader {
	struct cost *cost;
	const struct keys_key *keys;
	u32 nr;
	bool seen[NR_MOST];
};

/* A band of two numbers is of the second one: the slow tier's. */
static int reader_take(void *arg, const struct keys_line *line)
{
	struct reader *r = arg;
	struct cost_band band;
	const struct keys_key *key;
	int found;

	if (!keys_has_comment(line))
		return keys_wrong(line, "a number without its source");
	found = keys_take(r->keys, r->nr, r->cost, r->seen, line);
	if (found == -ENOENT)
		return keys_wrong(line, "no such parameter");
	if (found < 0)
		return found;
	key = &r->keys[found];
	found = keys_band(line, key->least, &band.low, &band.high);
	if (found <= 0)
		return found;
	if (r->cost->nr_bands == COST_MAX_BANDS)
		return keys_wrong(line, "too many bands");
	band.offset = key->offset + (key->nr - 1) * sizeof(u32);
	band.name = key->name;
	r->cost->bands[r->cost->nr_bands++] = band;
	return 0;
}

static int file_read(struct cost *cost, const char *name, const struct keys_key *keys,
                     u32 nr, char *ret_hash)
{
	struct reader r = { .cost = cost, .keys = keys, .nr = nr };
	char path[KEYS_PATH_BYTES];
	int err = keys_read("parameters", name, reader_take, &r, path, ret_hash);

	return err ? err : keys_missing(keys, nr, r.seen, path);
}

int cost_read(const char *machine, const char *work, struct cost *ret_cost)
{
	char hash[KEYS_HASH_BYTES], hash_work[KEYS_HASH_BYTES];
	struct cost cost = { .nr_bands = 0 };
	int err;

	machine = machine ? machine : "tier-two";
	err = file_read(&cost, machine, machine_keys, NR_MACHINE, hash);
	if (!err)
		err = file_read(&cost, work ? work : "tier-work", work_keys, NR_WORK,
		                hash_work);
	if (err)
		return err;
	snprintf(cost.name, sizeof(cost.name), "%s", keys_base(machine));
	snprintf(cost.hash, sizeof(cost.hash), "%s-%s", hash, hash_work);
	*ret_cost = cost;
	return 0;
}

struct cost cost_with(const struct cost *cost, const struct cost_band *band, bool high)
{
	struct cost changed = *cost;

	*(u32 *)((char *)&changed + band->offset) = high ? band->high : band->low;
	/* Where a tier reads and writes at one rate, it does so at both ends of the band. */
	if (cost->machine.read_mb_s[1] == cost->machine.write_mb_s[1] &&
	    changed.machine.read_mb_s[1] != cost->machine.read_mb_s[1])
		changed.machine.write_mb_s[1] = changed.machine.read_mb_s[1];
	return changed;
}
