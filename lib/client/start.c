/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How the service is started: `lodic serve --daemon` returns when the service listens, or
 * says by its exit status why it does not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/client/start.h"

/* Where `lodic` is, seen from the folder of the library: built, or installed. So the library
 * carries no path of the machine that built it, and an installed tree may move. */
static const char *const start_places[] = { "lodic", "../bin/lodic",
	                                    "../../bin/lodic" };

/* A folder passes access(2) too, and where liblodic is installed there is one: the shim of
 * `lodic map` lies in LIBDIR/lodic. */
static bool start_is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *start_find_program(void)
{
	Dl_info info;
	char *path = NULL;
	const char *slash;

	if (dladdr((void *)start_find_program, &info) && info.dli_fname &&
	    (slash = strrchr(info.dli_fname, '/'))) {
		for (size_t i = 0; i < sizeof(start_places) / sizeof(*start_places);
		     i++) {
			if (asprintf(&path, "%.*s/%s", (int)(slash - info.dli_fname),
			             info.dli_fname, start_places[i]) < 0)
				return NULL;
			if (start_is_program(path))
				return path;
			free(path);
		}
	}
	return strdup("");
}

static int start_spawn(const char *program, char *const *arguments)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	extern char **environ;
	pid_t pid;
	int err, status;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	/* In a session of its own, so that a Ctrl-C in the program's terminal does not
	 * reach the service. */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
	err = posix_spawn(&pid, program, &files, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0; /* another wait of the program took the status */
	if (!WIFEXITED(status))
		return -ECHILD;
	/* EADDRINUSE: another process's service was faster. */
	return WEXITSTATUS(status) == EADDRINUSE ? 0 : -WEXITSTATUS(status);
}

int start_service(const struct start *start)
{
	static const char *const names[] = { "lodic", "atomic", "frozen", "hazard" };
	char memory[32], idle[32];
	char *arguments[] = {
		"lodic",
		"serve",
		"--daemon",
		"--quiet",
		"--socket",
		start->socket_path,
		"--scheme",
		(char *)names[start->scheme],
		"--idle-exit",
		idle,
		start->cache_bytes ? "--memory" : NULL,
		memory,
		NULL,
	};

	snprintf(memory, sizeof(memory), "%llu",
	         (unsigned long long)start->cache_bytes);
	snprintf(idle, sizeof(idle), "%u.%03u", start->idle_exit_ms / 1000,
	         start->idle_exit_ms % 1000);
	return start_spawn(start->program, arguments);
}
