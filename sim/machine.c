/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Machines from text files: sim/machine.h. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/keys.h"
#include "sim/machine.h"

static_assert(SIM_MAX_SOCKETS <= KEYS_MAX_NUMBERS, "a row of hops is one line");

/* What files may say, and where a key's numbers go. The parameters up to and with
 * load_memory are in cycles of the machine that they were measured on (table_cycle_ps). */
#define KEY(field, nr, least) \
	{ \
#field, offsetof(struct machine, timing.field), nr, least \
	}

static const struct keys_key parameter_keys[] = {
	KEY(load_dirty, 3, 1),
	KEY(load_shared, 3, 1),
	KEY(rmw_dirty, 3, 1),
	KEY(rmw_shared, 3, 1),
	KEY(load_memory, 3, 1),
#define NR_TABLE_KEYS 5u
	KEY(hit, 1, 1),
	KEY(hit_dep, 1, 1),
	KEY(store, 1, 1),
	KEY(rmw_extra, 1, 0),
	KEY(fence, 1, 0),
	KEY(relax, 1, 1),
	KEY(copy_bytes_per_cycle, 1, 1),
	KEY(copy_overlap, 1, 1),
	KEY(hold_ns, 1, 0),
	KEY(shared_busy_ns, 1, 0),
	KEY(queued_percent, 1, 1),
	KEY(same_socket_percent, 1, 0),
	KEY(jitter_percent, 1, 0),
	KEY(fence_heavy_ns, 1, 0),
	KEY(skew_ns, 1, 0),
	KEY(slice_ns, 1, 1),
	KEY(switch_ns, 1, 0),
	KEY(base_work, 1, 0),
	{ "table_cycle_ps", offsetof(struct machine, table_cycle_ps), 1, 1 },
};
#define NR_PARAMETERS (sizeof(parameter_keys) / sizeof(*parameter_keys))

static const struct keys_key topology_keys[] = {
	KEY(nr_sockets, 1, 1),  KEY(cpus_per_socket, 1, 1), KEY(cycle_ps, 1, 1),
	KEY(private_kib, 1, 1), KEY(private_ways, 1, 1),    KEY(shared_kib, 1, 1),
	KEY(shared_ways, 1, 1),
};
#define NR_TOPOLOGY (sizeof(topology_keys) / sizeof(*topology_keys))

static int band_add(struct machine *m, u32 parameter, const struct keys_line *line)
{
	struct machine_band band = { .parameter = parameter };
	int found = keys_band(line, parameter_keys[parameter].least, &band.ends[0],
	                      &band.ends[1]);

	if (found <= 0)
		return found;
	if (parameter < NR_TABLE_KEYS || parameter_keys[parameter].nr != 1)
		return keys_wrong(line, "no band for what stands in the table");
	if (m->nr_bands == MACHINE_MAX_BANDS)
		return keys_wrong(line, "too many bands");
	m->bands[m->nr_bands++] = band;
	return 0;
}

static const char *const end_names[2] = { "low_", "high_" };

/* Is the line a fit at the end of a band? Then it is taken: 1. 0 or -errno. */
static int fit_add(struct machine *m, const struct keys_line *line)
{
	u32 i, end, numbers[2];

	for (i = 0; i < 2 * m->nr_bands; i++) {
		struct machine_band *band = &m->bands[i / 2];
		size_t length = strlen(end_names[i % 2]);

		end = i % 2;
		if (strncmp(line->name, end_names[end], length) != 0 ||
		    strcmp(line->name + length, parameter_keys[band->parameter].name) !=
		            0)
			continue;
		if (band->refitted[end])
			return keys_wrong(line, "twice");
		if (keys_numbers(line, 2, 0, numbers) != 0)
			return -EINVAL;
		band->refitted[end] = true;
		band->fits[end] = (struct machine_fit){ numbers[0], numbers[1] };
		return 1;
	}
	return 0;
}

struct reader {
	struct machine *machine;
	bool seen[NR_PARAMETERS];
	bool seen_topology[NR_TOPOLOGY];
	u32 nr_hops; /* rows */
};

static int reader_topology(void *arg, const struct keys_line *line)
{
	struct reader *r = arg;
	struct machine *m = r->machine;
	int key;
	u32 i;

	if (strcmp(line->name, "parameters") == 0) {
		snprintf(m->parameters, sizeof(m->parameters), "%s", line->value);
		return 0;
	}
	if (strcmp(line->name, "hops") == 0) {
		u32 *row = m->timing.hops[r->nr_hops];

		if (r->nr_hops >= m->timing.nr_sockets)
			return keys_wrong(line, "more rows than sockets before them");
		for (i = 0; i < m->timing.nr_sockets; i++)
			row[i] = 0;
		r->nr_hops++;
		return keys_numbers(line, m->timing.nr_sockets, 0, row);
	}
	key = keys_take(topology_keys, NR_TOPOLOGY, m, r->seen_topology, line);
	if (key == -ENOENT)
		return keys_wrong(line, "no such word in a topology");
	if (key >= 0 && m->timing.nr_sockets > SIM_MAX_SOCKETS)
		return keys_wrong(line, "more sockets than the model knows");
	return key < 0 ? key : 0;
}

static int reader_parameter(void *arg, const struct keys_line *line)
{
	struct reader *r = arg;
	int key;

	key = fit_add(r->machine, line);
	if (key != 0)
		return key < 0 ? key : 0;
	if (!keys_has_comment(line))
		return keys_wrong(line, "a number without its source");
	key = keys_take(parameter_keys, NR_PARAMETERS, r->machine, r->seen, line);
	if (key == -ENOENT)
		return keys_wrong(line, "no such parameter");
	return key < 0 ? key : band_add(r->machine, (u32)key, line);
}

/* Multiplies what stands in the table by numerator / denominator. */
static void machine_scale(struct machine *m, u32 numerator, u32 denominator)
{
	u32 i, j;

	for (i = 0; i < NR_TABLE_KEYS; i++) {
		const struct keys_key *key = &parameter_keys[i];
		u32 *at = (u32 *)((char *)m + key->offset);

		for (j = 0; j < key->nr; j++)
			at[j] = (u32)(((u64)at[j] * numerator + denominator / 2) /
			              denominator);
	}
}

static int topology_check(const struct reader *r, const char *path)
{
	const struct sim_machine *t = &r->machine->timing;
	u32 i, j;

	if (keys_missing(topology_keys, NR_TOPOLOGY, r->seen_topology, path) != 0)
		return -EINVAL;
	if (t->nr_sockets * t->cpus_per_socket > SIM_MAX_CPUS ||
	    t->cpus_per_socket > SIM_MAX_CPUS || r->nr_hops != t->nr_sockets) {
		fprintf(stderr, "%s: too many CPUs, or not a row of hops each socket\n",
		        path);
		return -EINVAL;
	}
	for (i = 0; i < t->nr_sockets; i++) {
		for (j = 0; j < t->nr_sockets; j++) {
			if ((t->hops[i][j] == 0) != (i == j) || t->hops[i][j] > 2 ||
			    t->hops[i][j] != t->hops[j][i]) {
				fprintf(stderr, "%s: hops from %u to %u\n", path, i, j);
				return -EINVAL;
			}
		}
	}
	return 0;
}

static const char *topology_file(const char *topology)
{
	return strcmp(topology, "host") == 0 ? "1x2" : topology;
}

static void topology_name(struct machine *m, const char *topology)
{
	snprintf(m->timing.name, sizeof(m->timing.name), "%s", keys_base(topology));
	if (strcmp(topology, "host") == 0) {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		m->timing.cpus_per_socket = n < 1              ? 1
		                            : n > SIM_MAX_CPUS ? SIM_MAX_CPUS
		                                               : (u32)n;
	}
}

int machine_read(const char *topology, const char *parameters,
                 struct machine *ret_machine)
{
	char path[KEYS_PATH_BYTES], hash[KEYS_HASH_BYTES];
	struct machine m = { .nr_bands = 0 };
	struct reader r = { .machine = &m };
	int err;

	err = keys_read("topologies", topology_file(topology), reader_topology, &r,
	                path, hash);
	if (!err)
		err = topology_check(&r, path);
	if (err)
		return err;
	topology_name(&m, topology);
	err = keys_read("parameters", parameters ? parameters : m.parameters,
	                reader_parameter, &r, path, m.hash);
	if (!err)
		err = keys_missing(parameter_keys, NR_PARAMETERS, r.seen, path);
	if (err)
		return err;
	if (parameters)
		snprintf(m.parameters, sizeof(m.parameters), "%s",
		         keys_base(parameters));
	/* Cycles of the machine that was measured become cycles of this one. */
	machine_scale(&m, m.table_cycle_ps, m.timing.cycle_ps);
	*ret_machine = m;
	return 0;
}

static struct sim_machine machine_with(const struct machine *machine, u32 parameter,
                                       u32 value)
{
	const struct keys_key *key = &parameter_keys[parameter];
	struct machine m = *machine;

	if (key->offset == offsetof(struct machine, table_cycle_ps))
		machine_scale(&m, value, machine->table_cycle_ps);
	*(u32 *)((char *)&m + key->offset) = value;
	return m.timing;
}

bool machine_at(const struct machine *machine, u32 band, u32 end,
                struct sim_machine *ret_timing, char ret_name[MACHINE_FIT_BYTES])
{
	const struct machine_band *b = &machine->bands[band];
	const struct keys_key *key;

	if (band >= machine->nr_bands)
		return false;
	key = &parameter_keys[b->parameter];
	if (b->ends[end] == *(const u32 *)((const char *)machine + key->offset))
		return false;
	*ret_timing = machine_with(machine, b->parameter, b->ends[end]);
	if (b->refitted[end]) {
		ret_timing->base_work = b->fits[end].base_work;
		ret_timing->same_socket_percent = b->fits[end].same_socket_percent;
	}
	snprintf(ret_name, MACHINE_FIT_BYTES, "%s%s", end_names[end], key->name);
	return true;
}

u32 machine_set(const struct machine *machine, struct sim_machine *ret_set)
{
	char name[MACHINE_FIT_BYTES];
	u32 nr = 0, i;

	ret_set[nr++] = machine->timing;
	for (i = 0; i < 2 * machine->nr_bands; i++)
		if (machine_at(machine, i / 2, i % 2, &ret_set[nr], name))
			nr++;
	return nr;
}
