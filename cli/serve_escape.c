/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See serve_escape.h. A service stays in the group of the program that has started it, so that the
 * group's limit holds for the cache. But it ends with that group, also if programs of other groups
 * use it. Only the groups that count memory matter here; lib/cgroup.c reads their limits.
 */
#define _GNU_SOURCE
#include "cli/serve_escape.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/cgroup.h"

#define NAME "/lodic"

static int enter(const char *folder)
{
	bool made = mkdir(folder, 0755) == 0;
	char path[PATH_MAX + sizeof("/cgroup.procs")];
	int error = 0, fd;

	if (!made && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || write(fd, "0", 1) != 1) /* the process that writes */
		error = -errno;
	if (fd >= 0)
		close(fd);
	if (error && made)
		rmdir(folder);
	return error;
}

/* Tries the groups around this one, from the top down. */
static int leave(const char *mount, const char *group, char *ret_group, size_t bytes)
{
	const char *rest = group;
	char folder[PATH_MAX];
	int error = 0;

	while (rest && rest[0] == '/' && rest[1]) {
		if (snprintf(folder, sizeof(folder), "%s%.*s" NAME, mount,
		             (int)(rest - group), group) >= (int)sizeof(folder))
			return -ENAMETOOLONG;
		error = strcmp(rest, NAME) == 0 ? 0 : enter(folder);
		if (!error) {
			snprintf(ret_group, bytes, "%s", folder);
			return 0;
		}
		rest = strchr(rest + 1, '/');
	}
	return error;
}

int serve_escape(char *ret_group, size_t bytes)
{
	FILE *list = fopen(CGROUP_LIST, "re");
	char line[PATH_MAX / 2];
	int error = 0;

	*ret_group = '\0';
	if (!list)
		return -errno;
	while (!error && fgets(line, sizeof(line), list)) {
		const char *kinds = strchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		/* Beside version 1 the second one is mounted elsewhere, and counts no memory. */
		if (strncmp(line, "0::", 3) == 0 &&
		    access(CGROUP_MOUNT "/cgroup.controllers", F_OK) == 0)
			error = leave(CGROUP_MOUNT, line + 3, ret_group, bytes);
		else if (kinds && strncmp(kinds, ":memory:", 8) == 0)
			error = leave(CGROUP_MOUNT "/memory", kinds + 8, ret_group,
			              bytes);
	}
	fclose(list);
	return error;
}
