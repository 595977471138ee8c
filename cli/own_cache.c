/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A cache of the program's own. Contract: cli/own_cache.h. */
#define _GNU_SOURCE
#include "cli/own_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/leftover.h"

/* So many contexts can pin in a cache of any size. By default a table has 1/128 as many
 * entries as there are frames, and all tables together may have 3/4. */
#define DEFAULT_CONTEXTS 96
/* With more contexts each table has so many entries, as each context has hazard slots. */
#define FEW_ENTRIES 64

#define IDLE_EXIT_S 5 /* a service that nobody ends outlives this program so long */
#define STOP_WAIT_MS 3000
#define STOP_STEP_MS 5
#define STOP_STEP_US (1000 * STOP_STEP_MS)
#define REPORT_FD 3

int own_cache_folder_make(char *path, unsigned int bytes)
{
	const char *root = getenv("TMPDIR");
	int error;

	/* The path of a socket must be short, so a long TMPDIR would not fit. */
	if (!root || !root[0] || strlen(root) > bytes - sizeof("/lodic-bench-XXXXXX"))
		root = "/tmp";
	snprintf(path, bytes, "%s/lodic-bench-XXXXXX", root);
	error = leftover_name(path);
	if (!error && mkdir(path, 0700) != 0)
		error = -errno;
	if (error)
		path[0] = '\0';
	return error;
}

/* As users have it. */
static const struct own_cache_kind own_cache_usual = { "lodic", LODIC_LODIC, "auto" };

static const char *own_cache_program; /* NULL: this one */

void own_cache_serve_by(const char *path)
{
	own_cache_program = path;
}

const char *own_cache_served_by(void)
{
	return own_cache_program ? own_cache_program : cli_program();
}

/* Starts the program with the write end of a pipe as REPORT_FD. What it writes there, and
 * its end without a word, is the outcome. */
static int own_cache_spawn(char *const *arguments)
{
	posix_spawn_file_actions_t files;
	extern char **environ;
	int ends[2], answer, error;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], REPORT_FD);
	error = posix_spawn(&pid, own_cache_served_by(), &files, NULL, arguments,
	                    environ);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	do
		n = error ? 0 : read(ends[0], &answer, sizeof(answer));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (error)
		return -error;
	return n == sizeof(answer) ? -answer : -ECONNRESET;
}

/* Runs a service, as liblodic does (lib/client/start.h). Returns when it listens. -errno. */
static int own_cache_serve(const struct own_cache *cache,
                           const struct own_cache_kind *kind, uint64_t cache_bytes,
                           unsigned int nr_contexts, const char *huge_pages)
{
	char memory[32], holds[32], idle[32], entries[32];
	char *arguments[20 + 2 * OWN_CACHE_GLOBS] = {
		"lodic",
		"serve",
		"--report-fd",
		"3", /* REPORT_FD */
		"--socket",
		(char *)cache->socket,
		"--scheme",
		(char *)lodic_scheme_name(kind->scheme),
		"--barrier",
		(char *)kind->barrier,
		"--memory",
		memory,
		"--holds",
		holds,
		"--idle-exit",
		idle,
		"--huge-pages",
		(char *)(huge_pages ? huge_pages : "auto"),
		nr_contexts > DEFAULT_CONTEXTS ? "--entries" : NULL,
		nr_contexts > DEFAULT_CONTEXTS ? entries : NULL,
	};
	unsigned int nr = 0;
	uint64_t least =
		(uint64_t)nr_contexts * FEW_ENTRIES / 3 * 4 * LODIC_BLOCK_BYTES;

	if (nr_contexts > DEFAULT_CONTEXTS && cache_bytes < least)
		cache_bytes = least;
	snprintf(memory, sizeof(memory), "%llu",
	         (unsigned long long)(cache_bytes + cache->hold_bytes));
	snprintf(holds, sizeof(holds), "%llu", (unsigned long long)cache->hold_bytes);
	snprintf(idle, sizeof(idle), "%d", IDLE_EXIT_S);
	snprintf(entries, sizeof(entries), "%d", FEW_ENTRIES);
	while (arguments[nr])
		nr++;
	for (unsigned int i = 0;
	     cache->immutable && cache->immutable[i] && i < OWN_CACHE_GLOBS; i++) {
		arguments[nr++] = "--immutable";
		arguments[nr++] = (char *)cache->immutable[i];
	}
	return own_cache_spawn(arguments);
}

int own_cache_take_seat(struct own_cache_seat *seat, const char *socket, int fd)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = socket,
		                         .service = "" };
	int error = lodic_attach(&options, &seat->lodic);

	if (error)
		goto out_nothing;
	error = lodic_context_open(seat->lodic, &seat->context);
	if (error)
		goto out_detach;
	error = lodic_open(seat->lodic, fd, &seat->file);
	if (error)
		goto out_context;
	return 0;
out_context:
	lodic_context_close(seat->context);
out_detach:
	lodic_detach(seat->lodic);
out_nothing:
	*seat = (struct own_cache_seat){ 0 };
	return error;
}

void own_cache_leave_seat(struct own_cache_seat *seat)
{
	if (!seat->lodic)
		return;
	lodic_close(seat->file);
	lodic_context_close(seat->context);
	lodic_detach(seat->lodic);
	*seat = (struct own_cache_seat){ 0 };
}

int own_cache_start(struct own_cache *cache, const char *folder,
                    const struct own_cache_kind *kind, uint64_t cache_bytes,
                    unsigned int nr_contexts, const char *huge_pages, int fd)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = cache->socket,
		                         .service = "" };
	struct lodic_stat stat;
	struct lodic *lodic;
	int error;

	if (!kind)
		kind = &own_cache_usual;
	if (snprintf(cache->socket, sizeof(cache->socket), "%s/%s", folder,
	             kind->name) >= (int)sizeof(cache->socket))
		return -ENAMETOOLONG;
	error = own_cache_serve(cache, kind, cache_bytes, nr_contexts, huge_pages);
	if (!error)
		error = lodic_attach(&options, &lodic);
	if (error)
		return error;
	if (lodic_stat(lodic, &stat, sizeof(stat)) == 0)
		cache->service_pid = stat.service_pid;
	error = own_cache_take_seat(&cache->seat, cache->socket, fd);
	lodic_detach(lodic);
	return error ? error : lodic_file_cached(cache->seat.file);
}

/* What a service has left if it was killed, and the settings that each one leaves. */
static void own_cache_remove(const char *socket)
{
	char settings[OWN_CACHE_SOCKET_BYTES + 8];

	unlink(socket);
	snprintf(settings, sizeof(settings), "%s.conf", socket);
	unlink(settings);
}

void own_cache_stop(struct own_cache *cache)
{
	pid_t pid = (pid_t)cache->service_pid;

	own_cache_leave_seat(&cache->seat);
	if (pid > 0)
		kill(pid, SIGTERM);
	for (unsigned int ms = 0; pid > 0 && ms < STOP_WAIT_MS; ms += STOP_STEP_MS) {
		if (waitpid(pid, NULL, WNOHANG) == pid || kill(pid, 0) != 0)
			break;
		usleep(STOP_STEP_US);
	}
	if (cache->socket[0])
		own_cache_remove(cache->socket);
	*cache = (struct own_cache){ 0 };
}
