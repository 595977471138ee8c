/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cgroup.h. In a container the path in /proc may be the host's. So the walk up goes on to
 * where the groups are mounted: the container's own group is there. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lines.h"
#include "lib/cgroup.h"
#include "lib/service/service.h"

#define PATH_BYTES 4096
/* Our choice, as tmpfs has it: the other half is for programs, and for what they read elsewhere. */
#define BUDGET_PART 2u

static const struct cgroup cgroup_without_limit = { UINT64_MAX, UINT64_MAX,
	                                            UINT64_MAX };

bool cgroup_read_number(const char *path, const char *key, uint64_t *ret)
{
	size_t key_bytes = key ? strlen(key) : 0;
	struct lines file = { .fd = port_system_open(path), .read = port_system_read };
	bool found = false;
	char line[256];

	if (file.fd < 0)
		return false;
	while (!found && lines_next(&file, line, sizeof(line))) {
		const char *p = line + key_bytes;

		if (key && strncmp(line, key, key_bytes) != 0)
			continue;
		while (*p == ':' || *p == ' ')
			p++;
		if (!isdigit((unsigned char)*p))
			continue;
		*ret = strtoull(p, NULL, 10);
		found = true;
	}
	port_close(file.fd);
	return found;
}

static uint64_t cgroup_number_in(const char *folder, const char *name, const char *key)
{
	char path[PATH_BYTES + 64];
	uint64_t n = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return cgroup_read_number(path, key, &n) ? n : 0;
}

/* Its limit; 0: it has none. Above memory.high the kernel lets the group's programs wait, and takes
 * what it can. So that is a limit, too. */
static uint64_t cgroup_limit(const char *folder, bool second)
{
	uint64_t limit, high;

	if (!second)
		return cgroup_number_in(folder, "memory.limit_in_bytes", NULL);
	limit = cgroup_number_in(folder, "memory.max", NULL);
	high = cgroup_number_in(folder, "memory.high", NULL);
	return high != 0 && (limit == 0 || high < limit) ? high : limit;
}

/* What one control group leaves. Cached files count as free, because the kernel drops them. */
static struct cgroup cgroup_of_group(const char *folder, bool second)
{
	uint64_t limit = cgroup_limit(folder, second);
	uint64_t used = cgroup_number_in(
		folder, second ? "memory.current" : "memory.usage_in_bytes", NULL);
	uint64_t files =
		cgroup_number_in(folder, "memory.stat",
	                         second ? "inactive_file " : "total_inactive_file ") +
		cgroup_number_in(folder, "memory.stat",
	                         second ? "active_file " : "total_active_file ");

	if (limit == 0)
		return cgroup_without_limit;
	used -= files < used ? files : used;
	return (struct cgroup){ limit, limit > used ? limit - used : 0, limit };
}

/* Of two, the one that leaves less; the least limit is of both. */
static struct cgroup cgroup_less(const struct cgroup *a, const struct cgroup *b)
{
	struct cgroup room = a->left < b->left ? *a : *b;

	room.least = a->least < b->least ? a->least : b->least;
	return room;
}

/* The least that this group and those around it leave. */
static struct cgroup cgroup_least(const char *mount, const char *group, bool second)
{
	struct cgroup room, least = cgroup_without_limit;
	char folder[PATH_BYTES];
	size_t root = strlen(mount);
	char *slash;

	if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >=
	    (int)sizeof(folder))
		return least;
	for (;;) {
		room = cgroup_of_group(folder, second);
		least = cgroup_less(&room, &least);
		slash = strrchr(folder, '/');
		if (strlen(folder) <= root || !slash)
			return least;
		*slash = '\0';
	}
}

void cgroup_look(const char *list, const char *mount, struct cgroup *ret)
{
	struct lines file = { .fd = port_system_open(list), .read = port_system_read };
	char line[PATH_BYTES / 2], first[PATH_BYTES / 2];
	struct cgroup found;

	*ret = cgroup_without_limit;
	if (file.fd < 0)
		return;
	snprintf(first, sizeof(first), "%s/memory", mount);
	while (lines_next(&file, line, sizeof(line))) {
		const char *name = strchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			found = cgroup_least(mount, line + 3, true);
		else if (name && strncmp(name, ":memory:", 8) == 0)
			found = cgroup_least(first, name + 8, false);
		else
			continue;
		*ret = cgroup_less(&found, ret);
	}
	port_close(file.fd);
}

void cgroup_look_all(struct cgroup *ret)
{
	uint64_t available, all = port_machine_bytes(); /* without /proc, too */
	struct cgroup machine = cgroup_without_limit, groups;

	if (all > 0 &&
	    cgroup_read_number("/proc/meminfo", "MemAvailable", &available)) {
		available <<= 10;
		machine =
			(struct cgroup){ all, available < all ? available : all, all };
	}
	cgroup_look(CGROUP_LIST, CGROUP_MOUNT, &groups);
	*ret = cgroup_less(&machine, &groups);
}

uint64_t cgroup_budget(uint64_t machine_bytes, uint64_t least_limit)
{
	uint64_t all = machine_bytes == 0 || least_limit < machine_bytes
	                       ? least_limit
	                       : machine_bytes;
	uint64_t part = all / BUDGET_PART;

	if (all == UINT64_MAX)
		return SERVICE_DEFAULT_CACHE_BYTES;
	if (part < SERVICE_MIN_CACHE_BYTES)
		return SERVICE_MIN_CACHE_BYTES;
	return part < SERVICE_MAX_CACHE_BYTES ? part : SERVICE_MAX_CACHE_BYTES;
}

uint64_t cgroup_default_budget(void)
{
	struct cgroup groups;

	cgroup_look(CGROUP_LIST, CGROUP_MOUNT, &groups);
	return cgroup_budget(port_machine_bytes(), groups.least);
}
