/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic map` says to the shim. It says so through the environment, to reach the
 * program's children too. The names are those of the options. */
#define _GNU_SOURCE
#include "preload/map_options.h"

#include <stdlib.h>
#include <string.h>

#include "preload/glob.h"

/* false: not set, or not a number. */
static bool read_number(const char *name, u64 *ret)
{
	const char *text = port_variable(name);
	char *end;

	if (!text)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text && *end == '\0';
}

/* Copies the text, because the program may write over its environment. */
static bool read_text(const char *name, char *ret, size_t size)
{
	const char *text = port_variable(name);
	size_t n = text ? strlen(text) : 0;

	if (n >= size)
		return false;
	if (n)
		memcpy(ret, text, n);
	ret[n] = '\0';
	return true;
}

bool map_options_read(void)
{
	struct shim_map_options *o = &shim.map.options;

	o->json = port_variable(MAP_JSON) != NULL;
	o->verbose = port_variable(MAP_VERBOSE) != NULL;
	o->kernel_has_lodic = port_variable(MAP_KERNEL) != NULL;
	return read_number(MAP_BUDGET, &o->budget_bytes) &&
	       read_number(MAP_MIN_READS, &o->min_reads) && o->min_reads > 0 &&
	       read_text(MAP_INCLUDE, o->include, sizeof(o->include)) &&
	       read_text(MAP_EXCLUDE, o->exclude, sizeof(o->exclude)) &&
	       read_text(MAP_REPORT, o->report, sizeof(o->report));
}

const char *map_path(int fd)
{
	char *path = shim.map.state->path;

	if (port_path_of(fd, path, sizeof(shim.map.state->path)) != 0)
		path[0] = '\0';
	return path;
}

bool map_options_want(int fd)
{
	const struct shim_map_options *o = &shim.map.options;
	const char *path;

	if (!o->include[0] && !o->exclude[0])
		return true;
	path = map_path(fd);
	return (!o->include[0] || glob_lists(o->include, path)) &&
	       !glob_lists(o->exclude, path);
}
