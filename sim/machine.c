/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Machines from text files: sim/machine.h. */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/machine.h"

#define FILE_BYTES_MAX 65536u
#define PATH_BYTES 512u

/* What files may say, and where a key's numbers go. The parameters up to and with
 * load_memory are in cycles of the machine that they were measured on (table_cycle_ps). */
struct key {
	const char *name;
	size_t offset; /* in struct machine */
	u32 nr;        /* numbers in a row */
	u32 least;
};

#define KEY(field, nr, least) \
	{ \
#field, offsetof(struct machine, timing.field), nr, least \
	}

static const struct key parameter_keys[] = {
	KEY(load_dirty, 3, 1),
	KEY(load_shared, 3, 1),
	KEY(rmw_dirty, 3, 1),
	KEY(rmw_shared, 3, 1),
	KEY(load_memory, 1, 1),
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
	{ "base_work", offsetof(struct machine, base_work), 1, 0 },
	{ "table_cycle_ps", offsetof(struct machine, table_cycle_ps), 1, 1 },
};
#define NR_PARAMETERS (sizeof(parameter_keys) / sizeof(*parameter_keys))

static const struct key topology_keys[] = {
	KEY(nr_sockets, 1, 1),
	KEY(cpus_per_socket, 1, 1),
	KEY(cycle_ps, 1, 1),
};
#define NR_TOPOLOGY (sizeof(topology_keys) / sizeof(*topology_keys))

/* One "name = value ...  # comment" of a file. */
struct setting {
	const char *path;
	u32 line;
	char *name, *value, *comment;
};

static int setting_wrong(const struct setting *s, const char *why)
{
	fprintf(stderr, "%s:%u: %s: %s\n", s->path, s->line, s->name, why);
	return -EINVAL;
}

static char *text_trim(char *text)
{
	char *end;

	while (*text == ' ' || *text == '\t')
		text++;
	end = text + strlen(text);
	while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		*--end = 0;
	return text;
}

/* 0 and a name, or 0 and none: an empty line. */
static int setting_parse(struct setting *s, char *text)
{
	char *hash = strchr(text, '#');
	char *equals;

	s->name = "line";
	s->value = NULL;
	s->comment = "";
	if (hash) {
		*hash = 0;
		s->comment = hash + 1;
	}
	text = text_trim(text);
	if (!*text)
		return 0;
	equals = strchr(text, '=');
	if (!equals)
		return setting_wrong(s, "neither empty nor NAME = VALUE");
	*equals = 0;
	s->name = text_trim(text);
	s->value = text_trim(equals + 1);
	return 0;
}

static int setting_numbers(const struct setting *s, u32 nr, u32 least, u32 *ret_numbers)
{
	u32 numbers[SIM_MAX_SOCKETS];
	char *at = s->value, *end;
	u32 i;

	for (i = 0; i < nr; i++) {
		unsigned long v;

		errno = 0;
		v = strtoul(at, &end, 10);
		if (end == at || errno || *at == '-' || v < least || v > 1000000000)
			return setting_wrong(s, "not the numbers that it takes");
		numbers[i] = (u32)v;
		at = end;
	}
	if (*text_trim(at))
		return setting_wrong(s, "more than the numbers that it takes");
	memcpy(ret_numbers, numbers, nr * sizeof(*numbers));
	return 0;
}

static int setting_band(const struct setting *s, struct machine *m, u32 parameter)
{
	const char *at = strstr(s->comment, "band ");
	struct machine_band band = { parameter, 0, 0 };

	if (!at)
		return 0;
	if (parameter < NR_TABLE_KEYS || parameter_keys[parameter].nr != 1)
		return setting_wrong(s, "no band for what stands in the table");
	if (sscanf(at, "band %u..%u", &band.low, &band.high) != 2 ||
	    band.low > band.high || band.low < parameter_keys[parameter].least)
		return setting_wrong(s, "not band LOW..HIGH");
	if (m->nr_bands == MACHINE_MAX_BANDS)
		return setting_wrong(s, "too many bands");
	m->bands[m->nr_bands++] = band;
	return 0;
}

struct reader {
	struct machine *machine;
	bool seen[NR_PARAMETERS];
	bool seen_topology[NR_TOPOLOGY];
	u32 nr_hops; /* rows */
};

static int reader_topology(struct reader *r, const struct setting *s)
{
	struct machine *m = r->machine;
	u32 i;

	if (strcmp(s->name, "parameters") == 0) {
		snprintf(m->parameters, sizeof(m->parameters), "%s", s->value);
		return 0;
	}
	if (strcmp(s->name, "hops") == 0) {
		u32 *row = m->timing.hops[r->nr_hops];

		if (r->nr_hops >= m->timing.nr_sockets)
			return setting_wrong(s, "more rows than sockets before them");
		for (i = 0; i < m->timing.nr_sockets; i++)
			row[i] = 0;
		r->nr_hops++;
		return setting_numbers(s, m->timing.nr_sockets, 0, row);
	}
	for (i = 0; i < NR_TOPOLOGY; i++) {
		const struct key *key = &topology_keys[i];

		if (strcmp(s->name, key->name) != 0)
			continue;
		r->seen_topology[i] = true;
		if (setting_numbers(s, 1, key->least, (u32 *)((char *)m + key->offset)))
			return -EINVAL;
		if (m->timing.nr_sockets > SIM_MAX_SOCKETS)
			return setting_wrong(s, "more sockets than the model knows");
		return 0;
	}
	return setting_wrong(s, "no such word in a topology");
}

static int reader_parameter(struct reader *r, const struct setting *s)
{
	struct machine *m = r->machine;
	u32 i;
	int err;

	if (!*text_trim(s->comment))
		return setting_wrong(s, "a number without its source");
	for (i = 0; i < NR_PARAMETERS; i++) {
		const struct key *key = &parameter_keys[i];

		if (strcmp(s->name, key->name) != 0)
			continue;
		if (r->seen[i])
			return setting_wrong(s, "twice");
		r->seen[i] = true;
		err = setting_numbers(s, key->nr, key->least,
		                      (u32 *)((char *)m + key->offset));
		return err ? err : setting_band(s, m, i);
	}
	return setting_wrong(s, "no such parameter");
}

static char home[PATH_BYTES]; /* of topologies/ and parameters/ */

int machine_look_in(const char *folder)
{
	char path[PATH_BYTES];

	if (snprintf(path, sizeof(path), "%s/topologies", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, R_OK | X_OK) != 0)
		return -errno;
	snprintf(home, sizeof(home), "%s", folder);
	return 0;
}

/* Lists on stderr what a name without a slash may be: the files of the folder. */
static void folder_list(const char *folder)
{
	char path[PATH_BYTES];
	const struct dirent *entry;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/%s", home, folder) >= (int)sizeof(path) ||
	    !(dir = opendir(path))) {
		fprintf(stderr,
		        "; the folder %s is not there: is lodic completely "
		        "installed?\n",
		        folder);
		return;
	}
	fprintf(stderr, "; known %s:", folder);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			fprintf(stderr, " %s", entry->d_name);
	fprintf(stderr, ", or a file's path with a slash\n");
	closedir(dir);
}

/* A name without a slash is a file of ours; anything else is a path. */
static int file_path(const char *folder, const char *name, char *ret_path)
{
	bool ours = !strchr(name, '/');
	int n = snprintf(ret_path, PATH_BYTES, "%s%s%s%s%s", ours ? home : "",
	                 ours ? "/" : "", ours ? folder : "", ours ? "/" : "", name);

	return n < (int)PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Reads the whole file that name means in folder, and ends the text with a 0. */
static int file_read(const char *folder, const char *name, char *ret_path,
                     char *ret_text, size_t room)
{
	const char *path = ret_path;
	FILE *f = NULL;
	size_t n;

	errno = -file_path(folder, name, ret_path);
	if (!errno)
		f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "lodic-sim: %s: %s", name, strerror(errno));
		if (strchr(name, '/'))
			fprintf(stderr, "\n");
		else
			folder_list(folder);
		return -ENOENT;
	}
	n = fread(ret_text, 1, room, f);
	fclose(f);
	if (n == room) {
		fprintf(stderr, "%s: too long\n", path);
		return -EINVAL;
	}
	ret_text[n] = 0;
	return 0;
}

static int file_settings(const char *path, char *text, struct reader *r,
                         int (*take)(struct reader *, const struct setting *))
{
	struct setting s = { .path = path };
	char *line;
	int err = 0;

	while (!err && (line = strsep(&text, "\n"))) {
		s.line++;
		err = setting_parse(&s, line);
		if (!err && s.value)
			err = take(r, &s);
	}
	return err;
}

/* FNV-1a: it tells parameter files apart and protects from nothing. */
static void text_hash(const char *text, char ret_hash[17])
{
	u64 h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (u8)*text) * 0x100000001b3u;
	snprintf(ret_hash, 17, "%016llx", (unsigned long long)h);
}

/* Multiplies what stands in the table by numerator / denominator. */
static void machine_scale(struct machine *m, u32 numerator, u32 denominator)
{
	u32 i, j;

	for (i = 0; i < NR_TABLE_KEYS; i++) {
		const struct key *key = &parameter_keys[i];
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

	for (i = 0; i < NR_TOPOLOGY; i++) {
		if (!r->seen_topology[i]) {
			fprintf(stderr, "%s: no %s\n", path, topology_keys[i].name);
			return -EINVAL;
		}
	}
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

static int parameters_check(const struct reader *r, const char *path)
{
	u32 i;

	for (i = 0; i < NR_PARAMETERS; i++) {
		if (!r->seen[i]) {
			fprintf(stderr, "%s: no %s\n", path, parameter_keys[i].name);
			return -EINVAL;
		}
	}
	return 0;
}

static const char *topology_file(const char *topology)
{
	return strcmp(topology, "host") == 0 ? "1x2" : topology;
}

static const char *file_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void topology_name(struct machine *m, const char *topology)
{
	snprintf(m->timing.name, sizeof(m->timing.name), "%s", file_base(topology));
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
	static char text[FILE_BYTES_MAX];
	char path[PATH_BYTES];
	struct machine m = { .nr_bands = 0 };
	struct reader r = { .machine = &m };
	int err;

	err = file_read("topologies", topology_file(topology), path, text,
	                sizeof(text));
	if (!err)
		err = file_settings(path, text, &r, reader_topology);
	if (!err)
		err = topology_check(&r, path);
	if (err)
		return err;
	topology_name(&m, topology);
	err = file_read("parameters", parameters ? parameters : m.parameters, path,
	                text, sizeof(text));
	if (err)
		return err;
	if (parameters)
		snprintf(m.parameters, sizeof(m.parameters), "%s",
		         file_base(parameters));
	text_hash(text, m.hash);
	err = file_settings(path, text, &r, reader_parameter);
	if (!err)
		err = parameters_check(&r, path);
	if (err)
		return err;
	/* Cycles of the machine that was measured become cycles of this one. */
	machine_scale(&m, m.table_cycle_ps, m.timing.cycle_ps);
	*ret_machine = m;
	return 0;
}

static struct sim_machine machine_with(const struct machine *machine, u32 parameter,
                                       u32 value)
{
	const struct key *key = &parameter_keys[parameter];
	struct machine m = *machine;

	if (key->offset == offsetof(struct machine, table_cycle_ps))
		machine_scale(&m, value, machine->table_cycle_ps);
	*(u32 *)((char *)&m + key->offset) = value;
	return m.timing;
}

u32 machine_set(const struct machine *machine, struct sim_machine *ret_set)
{
	u32 nr = 0, i;

	ret_set[nr++] = machine->timing;
	for (i = 0; i < machine->nr_bands; i++) {
		const struct machine_band *band = &machine->bands[i];
		u32 value = *(const u32 *)((const char *)machine +
		                           parameter_keys[band->parameter].offset);

		if (band->low != value)
			ret_set[nr++] =
				machine_with(machine, band->parameter, band->low);
		if (band->high != value)
			ret_set[nr++] =
				machine_with(machine, band->parameter, band->high);
	}
	return nr;
}
