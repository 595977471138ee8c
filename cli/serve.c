/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic serve`: the cache's service in the foreground. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "measure/cli.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

#define MAX_IMMUTABLE 64
#define SOCKET_MAX_BYTES 4096
#define MIB_SHIFT 20 /* sizes are printed in MiB */

enum {
	KEY_SCHEME = 256,
	KEY_IDLE_EXIT,
	KEY_BUFFERED,
	KEY_QUOTA,
	KEY_FILES,
	KEY_ENTRIES,
	KEY_DAEMON
};

struct serve {
	struct service_options options;
	const char *immutable[MAX_IMMUTABLE + 1];
	unsigned int nr_immutable;
	bool quiet;
	bool daemon;
	int ready_pipe; /* --daemon: tells the parent that the service listens */
	char socket[SOCKET_MAX_BYTES];
};

static const char doc[] =
	"Run the service that fills and owns a cache. A program that uses liblodic starts "
	"it by itself. Run it by hand to choose its size, or to keep the cache when no "
	"program uses it."
	"\v"
	"Examples:\n"
	"  lodic serve --memory 4G\n"
	"  lodic serve --immutable '/srv/models/*' --immutable '/srv/index/*.sst'\n"
	"\n"
	"A file is cached while the service holds a read lease on it (ext4, xfs, btrfs, "
	"f2fs, tmpfs), if it has fs-verity, or if its file system's format cannot be "
	"written (squashfs, erofs, iso9660, cramfs). It is also cached if its path "
	"matches a glob given with --immutable: you then promise that nobody writes to "
	"it. The service ends on Ctrl-C or SIGTERM.";

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "Listen here (default: the user's own place)", 0 },
	{ "memory", 'm', "SIZE", 0, "Memory for cached blocks, as 256M or 4G", 0 },
	{ "scheme", KEY_SCHEME, "NAME", 0,
	  "How pins are counted: lodic (default), atomic, frozen, hazard", 0 },
	{ "idle-exit", KEY_IDLE_EXIT, "SECONDS", 0,
	  "End when no program has been connected for so long (default: never)", 0 },
	{ "immutable", 'i', "GLOB", 0,
	  "Files that you promise never change; may be given again", 0 },
	{ "buffered", KEY_BUFFERED, NULL, 0,
	  "Read files through the kernel's page cache, not by O_DIRECT", 0 },
	{ "quota", KEY_QUOTA, "N", 0,
	  "How many blocks one context may pin; chooses --entries", 0 },
	{ "files", KEY_FILES, "N", 0, "How many files the cache may hold at once", 0 },
	{ "entries", KEY_ENTRIES, "N", 0,
	  "How many entries a context's table has: a power of two", 0 },
	{ "daemon", KEY_DAEMON, NULL, 0,
	  "Go to the background once programs can connect; on failure the exit status "
	  "is the errno",
	  0 },
	{ "quiet", 'q', NULL, 0, "Print nothing but errors", 0 },
	{ 0 },
};

static void want_number(struct argp_state *state, const char *arg, uint32_t *ret)
{
	uint64_t n;

	if (cli_parse_number(arg, 1, UINT32_MAX, &n) != 0)
		argp_error(state, "'%s' is not a number above 0", arg);
	else
		*ret = (uint32_t)n;
}

static void add_immutable(struct argp_state *state, struct serve *s, const char *glob)
{
	if (s->nr_immutable == MAX_IMMUTABLE)
		argp_error(state, "at most %d globs with --immutable", MAX_IMMUTABLE);
	else
		s->immutable[s->nr_immutable++] = glob;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve *s = state->input;

	switch (key) {
	case 's': s->options.socket = arg; return 0;
	case 'm':
		if (cli_parse_bytes(arg, &s->options.cache_bytes) != 0 ||
		    s->options.cache_bytes < LODIC_BLOCK_BYTES)
			argp_error(state, "'%s' is not a size; write it as 256M or 4G",
			           arg);
		return 0;
	case KEY_SCHEME:
		if (cli_parse_scheme(arg, &s->options.scheme) != 0)
			argp_error(state,
			           "there is no scheme '%s'; choose lodic, atomic, "
			           "frozen or hazard",
			           arg);
		return 0;
	case KEY_IDLE_EXIT:
		if (cli_parse_seconds_ms(arg, &s->options.idle_exit_ms) != 0)
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case 'i': add_immutable(state, s, arg); return 0;
	case KEY_BUFFERED: s->options.buffered = true; return 0;
	case KEY_QUOTA: want_number(state, arg, &s->options.quota); return 0;
	case KEY_FILES: want_number(state, arg, &s->options.nr_files); return 0;
	case KEY_ENTRIES: want_number(state, arg, &s->options.nr_entries); return 0;
	case KEY_DAEMON: s->daemon = true; return 0;
	case 'q': s->quiet = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and serve takes nothing else",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void on_ready(void *arg)
{
	const struct serve *s = arg;
	uint64_t bytes = s->options.cache_bytes ? s->options.cache_bytes
	                                        : SERVICE_DEFAULT_CACHE_BYTES;

	if (s->ready_pipe >= 0) {
		int ok = 0;

		if (write(s->ready_pipe, &ok, sizeof(ok)) != sizeof(ok))
			return; /* the parent has gone */
		close(s->ready_pipe);
	}
	if (s->quiet)
		return;
	printf("lodic: serving %llu MiB at %s, counting by %s\n",
	       (unsigned long long)(bytes >> MIB_SHIFT), s->options.socket,
	       lodic_scheme_name((enum lodic_scheme)s->options.scheme));
	fflush(stdout);
}

static void on_say(void *arg, const char *line)
{
	const struct serve *s = arg;

	if (!s->quiet)
		cli_note("%s", line);
}

static int run(struct serve *s)
{
	const char *why = NULL;
	int error;

	signal(SIGXFSZ, SIG_IGN); /* a file size limit gives an error instead */
	error = service_run(&s->options, on_ready, s, &why);

	if (error && !(s->daemon && s->quiet))
		cli_error("cannot serve at %s: %s%s%s", s->options.socket,
		          strerror(-error), why ? "; " : "", why ? why : "");
	return error;
}

/* Runs the service in a child, in a session of its own. Returns in the parent: 0 once programs
 * can connect, or what went wrong as a positive errno. */
static int run_in_background(struct serve *s)
{
	int ends[2], answer;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return errno;
	pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0) {
		close(ends[0]);
		setsid();
		s->ready_pipe = ends[1];
		answer = -run(s);
		/* After on_ready() the pipe is closed, and the parent asks no more. */
		if (answer && write(ends[1], &answer, sizeof(answer)) < 0)
			_exit(CLI_FAILED);
		_exit(answer ? CLI_FAILED : CLI_OK);
	}
	close(ends[1]);
	do
		n = read(ends[0], &answer, sizeof(answer));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	return n == sizeof(answer) ? answer
	                           : ECHILD; /* the child died without an answer */
}

int command_serve(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct serve s = { .ready_pipe = -1 };
	int error;

	s.options.scheme = LODIC_LODIC;
	if (argp_parse(&argp, argc, argv, 0, NULL, &s) != 0)
		return CLI_USAGE;
	if (!s.options.socket) {
		error = path_default_socket(s.socket, sizeof(s.socket), true);
		if (error) {
			cli_error(
				"the default socket cannot be used: %s; name one with --socket",
				strerror(-error));
			return s.daemon ? -error : CLI_FAILED;
		}
		s.options.socket = s.socket;
	}
	s.options.immutable = s.immutable;
	s.options.say = on_say;
	s.options.say_arg = &s;
	if (s.daemon)
		return run_in_background(&s);
	return run(&s) ? CLI_FAILED : CLI_OK;
}
