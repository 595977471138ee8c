/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See group.h. */
#include "host/whole/group.h"

#include <stdio.h>
#include <string.h>

#define MOST_GROUPS 8u
#define MOUNT "/sys/fs/cgroup"

static struct group groups[MOST_GROUPS];
static u32 nr_groups;
struct memory_says memory_says;
void (*groups_heard)(const struct group *group, const char *name);

void group_begin(void)
{
	memset(groups, 0, sizeof(groups));
	memset(&memory_says, 0, sizeof(memory_says));
	nr_groups = 0;
	groups_heard = NULL;
}

struct group *group_new(struct group *outer, const char *path)
{
	struct group *g = &groups[nr_groups];

	if (nr_groups++ == MOST_GROUPS)
		machine_fail("too many groups for the machine");
	*g = (struct group){ .outer = outer, .first = outer && outer->first };
	snprintf(g->path, sizeof(g->path), "%s", path);
	return g;
}

static bool group_has(const struct group *group, const struct process *process)
{
	const struct group *g = process->group;

	while (g && g != group)
		g = g->outer;
	return g != NULL;
}

void group_freeze(const struct group *group, bool frozen)
{
	machine_note("group %s %s", group->path, frozen ? "is frozen" : "goes on");
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (group_has(group, &machine.processes[i]))
			machine.processes[i].frozen = frozen;
}

/* ---- memory ---- */

u64 group_used(const struct group *group)
{
	return group->charged + group->others + group->files;
}

u64 group_left(const struct group *group)
{
	u64 used = group->charged + group->others;

	if (group->limit == 0)
		return UINT64_MAX;
	return used < group->limit ? group->limit - used : 0;
}

/* The one with most memory. NULL: nobody lives there. */
static struct process *group_victim(const struct group *group)
{
	struct process *most = NULL;

	for (u32 i = 0; i < machine.nr_processes; i++) {
		struct process *p = &machine.processes[i];

		if (!p->dead && group_has(group, p) &&
		    (!most || mappings_bytes(p) > mappings_bytes(most)))
			most = p;
	}
	return most;
}

static void group_has_no_room(struct group *group)
{
	struct process *victim = group_victim(group);

	group->nr_kills++;
	machine_note("group %s has no room: %llu of %llu bytes", group->path,
	             (unsigned long long)group_used(group),
	             (unsigned long long)group->limit);
	if (victim)
		process_kill(victim);
}

void group_charge(struct group *group, const char *name, u64 bytes)
{
	struct group *full = NULL;

	for (struct group *g = group; g; g = g->outer) {
		g->charged += bytes;
		if (g->limit > 0 && g->charged + g->others > g->limit)
			full = g;
		else if (g->limit > 0 && group_used(g) > g->limit)
			g->files = g->limit - g->charged - g->others;
	}
	if (groups_heard)
		groups_heard(full ? full : group, name);
	if (full)
		group_has_no_room(full);
}

void group_uncharge(struct group *group, u64 bytes)
{
	for (struct group *g = group; g; g = g->outer)
		g->charged -= bytes;
}

/* ---- files ---- */

static int text_number(char *to, size_t room, u64 bytes, const char *none)
{
	if (bytes == 0 && none)
		return snprintf(to, room, "%s\n", none);
	return snprintf(to, room, "%llu\n", (unsigned long long)bytes);
}

static bool group_file(const struct group *g, const char *name, char *to, size_t room)
{
	const char *const all = g->first ? "total_" : "";

	if (strcmp(name, g->first ? "memory.limit_in_bytes" : "memory.max") == 0)
		text_number(to, room, g->limit, g->first ? "9223372036854771712" : "max");
	else if (!g->first && strcmp(name, "memory.high") == 0)
		text_number(to, room, g->high, "max");
	else if (strcmp(name, g->first ? "memory.usage_in_bytes" : "memory.current") == 0)
		text_number(to, room, group_used(g), NULL);
	else if (strcmp(name, "memory.stat") == 0)
		snprintf(to, room, "anon %llu\n%sinactive_file %llu\n%sactive_file %llu\n",
		         (unsigned long long)g->others, all,
		         (unsigned long long)(g->files / 2), all,
		         (unsigned long long)(g->files - g->files / 2));
	else
		return false;
	return true;
}

static bool groups_file(const char *path, char *to, size_t room)
{
	for (u32 i = 0; i < nr_groups; i++) {
		const struct group *g = &groups[i];
		char folder[64];
		int n = snprintf(folder, sizeof(folder), MOUNT "%s%s/",
		                 g->first ? "/memory" : "", g->path);

		if (strncmp(path, folder, (size_t)n) == 0 && !strchr(path + n, '/'))
			return group_file(g, path + n, to, room);
	}
	return false;
}

bool group_text(const struct process *process, const char *path, char *to, size_t room)
{
	const struct group *g = process->group;

	if (strcmp(path, "/proc/self/cgroup") == 0 && nr_groups > 0)
		return snprintf(to, room, groups[0].first ? "5:cpu:/\n4:memory:%s\n" : "0::%s\n",
		                g ? g->path : "/") > 0;
	if (strcmp(path, "/proc/meminfo") == 0 && memory_says.available > 0)
		return snprintf(to, room, "MemTotal: 1048576 kB\nMemAvailable: %llu kB\n",
		                (unsigned long long)(memory_says.available >> 10)) > 0;
	if (strcmp(path, "/proc/pressure/memory") == 0 && memory_says.has_pressure)
		return snprintf(to, room, "some avg10=%u.%02u avg60=0.00 avg300=0.00 total=0\n",
		                memory_says.pressure / 100, memory_says.pressure % 100) > 0;
	return groups_file(path, to, room);
}
