/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See preload.h. */
#define _GNU_SOURCE
#include "cli/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/map_program.h"
#include "lib/service/service.h"
#include "lib/settings.h"
#include "preload/map_environment.h"

/* The statuses that shells and env(1) return. */
#define STATUS_CANNOT_RUN 126
#define STATUS_NOT_FOUND 127

static int find(const char *name, char *ret_path, size_t size)
{
	int error = map_program_find(name, ret_path, size);

	if (!error)
		return CLI_OK;
	cli_error(error == -ENOENT ? "%s: not found"
	                           : "%s: not a program that you may run",
	          name);
	return error == -ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

int preload_check(const char *verb, const char *name)
{
	static char path[MAP_PROGRAM_PATH_BYTES];
	int status = find(name, path, sizeof(path));
	enum map_program is;
	const char *why;

	if (status != CLI_OK)
		return status;
	is = map_program_judge(path, &why);
	if (is == MAP_PROGRAM_TAKES || is == MAP_PROGRAM_GO)
		return CLI_OK;
	cli_error(
		"%s %s; run it without `lodic %s', and watch it by `lodic %s --pid PID'",
		name, why, verb, verb);
	return STATUS_CANNOT_RUN;
}

int preload_judge(const char *verb, const char *name, bool require, bool *ret_plain)
{
	static char path[MAP_PROGRAM_PATH_BYTES];
	int status = find(name, path, sizeof(path));
	enum map_program is;
	const char *why;

	if (status != CLI_OK)
		return status;
	is = map_program_judge(path, &why);
	*ret_plain = is == MAP_PROGRAM_LOSES;
	if (is == MAP_PROGRAM_TAKES)
		return CLI_OK;
	if (require)
		cli_error("no cache for %s, and so it is not run: it %s", name, why);
	else
		cli_note("%s %s: it runs as without `lodic %s'%s", name, why, verb,
		         *ret_plain ? ", and so do its children" : "");
	return require ? CLI_FAILED : CLI_OK;
}

/* The loader takes a list of paths, and changes what is behind a dollar. So a library with one of
 * these in its path gets a link below the folder of the user's socket. Its folder's name is made of
 * that path, so that two builds do not share a link. false: there can be none. */
static bool link_library(char *path, size_t size)
{
	char folder[SETTINGS_SOCKET_BYTES], target[PATH_MAX], fresh[PATH_MAX];
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	ssize_t n;

	for (const char *c = path; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	if (path_default_socket(folder, sizeof(folder), true) != 0)
		return false;
	*strrchr(folder, '/') = '\0';
	snprintf(fresh, sizeof(fresh), "%s/preload-%016" PRIx64, folder, hash);
	if (mkdir(fresh, 0700) != 0 && errno != EEXIST)
		return false;
	strcat(fresh, "/" MAP_LIBRARY);
	if (symlink(path, fresh) != 0 && errno != EEXIST)
		return false;
	n = readlink(fresh, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return strcmp(target, path) == 0 &&
	       snprintf(path, size, "%s", fresh) < (int)size;
}

int preload_set(const char *name, const char *value)
{
	return value && *value ? setenv(name, value, 1) : unsetenv(name);
}

int preload_set_number(const char *name, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	return setenv(name, text, 1);
}

/* Puts the library in front of what is preloaded already, unless it is there. */
static int set_preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	char *all;
	int error;

	if (!others || !*others)
		return setenv("LD_PRELOAD", library, 1);
	if (strstr(others, library))
		return 0;
	if (asprintf(&all, "%s:%s", library, others) < 0)
		return -1;
	error = setenv("LD_PRELOAD", all, 1);
	free(all);
	return error;
}

bool preload_try(char *why, size_t size)
{
	static char library[MAP_PROGRAM_PATH_BYTES];
	int error =
		cli_find(LODIC_LIBDIR_FROM_BIN, MAP_LIBRARY, library, sizeof(library));

	if (error)
		snprintf(why, size, "%s cannot be read: %s; install lodic completely",
		         library, strerror(-error));
	else if (strpbrk(library, " :$\n") &&
	         !link_library(library, sizeof(library)))
		snprintf(why, size,
		         "the loader takes no path with a space, a colon, a dollar, as "
		         "%s has; install lodic elsewhere",
		         library);
	else if (set_preload(library) != 0)
		snprintf(why, size, "the environment cannot be set: %s",
		         strerror(errno));
	else
		return true;
	return false;
}

int preload_enter(void)
{
	static char why[MAP_PROGRAM_PATH_BYTES + 128];

	if (preload_try(why, sizeof(why)))
		return CLI_OK;
	cli_error("%s", why);
	return CLI_FAILED;
}

void preload_add_glob(struct argp_state *state, char *globs, size_t size,
                      const char *glob)
{
	size_t n = strlen(globs);

	if (*glob == '\0' || strchr(glob, '\n'))
		argp_error(state, "'%s' is not a glob", glob);
	else if (n + strlen(glob) + 2 > size)
		argp_error(state, "too many globs: at most %zu bytes", size);
	else
		snprintf(globs + n, size - n, "%s\n", glob);
}

uint64_t preload_count_filters(void)
{
	static const char name[] = "Seccomp_filters:";
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t n = prctl(PR_GET_SECCOMP) == 0 ? 0 : UINT64_MAX;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, sizeof(name) - 1) == 0)
			n = strtoull(line + sizeof(name) - 1, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static int make_report(const char *report, char *ret_path, size_t size)
{
	int fd = open(report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	char *path;

	if (fd < 0)
		return -errno;
	close(fd);
	path = realpath(report, NULL);
	if (!path)
		return -errno;
	if (strlen(path) >= size) {
		free(path);
		return -ENAMETOOLONG;
	}
	strcpy(ret_path, path);
	free(path);
	return 0;
}

int preload_report(const char *path, char *ret_path, size_t size)
{
	int error = make_report(path, ret_path, size);

	if (error)
		cli_error("cannot write %s: %s", path, strerror(-error));
	return error ? CLI_FAILED : CLI_OK;
}

int preload_become(char **command)
{
	int error;

	execvp(command[0], command);
	error = errno;
	cli_error("cannot run %s: %s", command[0], strerror(error));
	return error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}
