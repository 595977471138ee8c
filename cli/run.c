/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic run -- PROGRAM` runs an unmodified program, whose pread(2) is served from the cache.
 * This file finds or starts the service, puts the options into the environment and calls exec. So
 * the program keeps its own exit status, signals and process id, and nothing is left behind.
 *
 * Without a cache the program runs all the same, as if it had been called without this command,
 * and a line says why. An option that is wrong stops it, and so does a file that an option names
 * and that cannot be written.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/patience.h"
#include "cli/preload.h"
#include "cli/report.h"
#include "lib/settings.h"
#include "lodic/lodic.h"
#include "preload/map_environment.h"
#include "preload/run_environment.h"
#include "preload/run_recorded.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* --mmap-wait without a number; and the most that it takes. */
#define MMAP_WAIT_SECONDS 300.0
#define MMAP_WAIT_MOST_SECONDS 86400.0
/* A service that this command starts waits so long for its next client. The first program is
 * connected all the time; this is for one that leaves its children behind. */
#define IDLE_EXIT_MS 60000
/* 8 million events of 32 bytes. The file takes as much of the disk as there are events. */
#define RECORD_BYTES (UINT64_C(256) << 20)
#define LEAST_RECORD_BYTES (UINT64_C(64) << 10)

struct run {
	const char *socket; /* NULL: what the settings say */
	uint64_t memory_bytes;
	const char *report; /* NULL: none; "": stderr */
	const char *record; /* NULL: none */
	uint64_t record_bytes;
	bool json, all;
	bool mmap;
	bool waits;
	uint64_t wait_ms;
	bool require;    /* no cache, no program */
	char why[1024];  /* there is no cache */
	bool by_default; /* the socket is the user's own */
	char promised[RUN_TEXT_BYTES]; /* globs, a line each */
	char **command;                /* NULL: none was named */
};

enum { KEY_MMAP = 256, KEY_MMAP_WAIT, KEY_RECORD, KEY_RECORD_SIZE, KEY_REQUIRE };

static const char doc[] =
	"Run a program, and serve what it reads by pread, pread64, preadv or preadv2 from the "
	"cache, as far as the cache has it. The program and its children need no change, and "
	"see the same bytes, errors and signals. What the cache does not have, the program "
	"reads from the kernel as before."
	"\v"
	"The command starts the cache's service if none runs, and then becomes the program. "
	"Where there can be no cache, the program runs as without this command, and a line on "
	"stderr says why, and what to do about it. With --require it does not run then. "
	"doc/missing.md lists the causes.\n"
	"\n"
	"A descriptor is served if it was opened read-only, without O_DIRECT, and is read "
	"twice. The service must be able to prove that nobody changes the file (see "
	"doc/settings.md): the file belongs to the service's user, or is promised by "
	"--immutable. read(2), readv(2) and what stdio reads stay with the kernel, and so "
	"does mmap(2) without --mmap.\n"
	"\n"
	"With --mmap the program also gets its private mappings (MAP_PRIVATE) of files from 1 MiB "
	"on from the cache: as holds, in huge pages as far as the kernel gives them. Such a "
	"mapping is a snapshot of the file. A shared mapping shows what others write, so it stays "
	"with the kernel. --mmap=GLOB serves it as well, for files that match: you promise that "
	"the program need not see them change at once. When somebody opens such a file for "
	"writing, the mapping goes back to the kernel at the program's next lock on a file, or "
	"soon after. GLOB is as for `lodic map'.\n"
	"\n"
	"An mmap() waits 0.25 s while the service reads the file. Then the kernel maps the file. "
	"The hold takes its place later, when the program opens, reads or closes a file, or waits "
	"for events. That does not happen to a mapping that the program may write to, nor in a "
	"program that only computes after its mmap(). For these there is --mmap-wait. An mmap() "
	"also waits a second for a service that does not answer, once.\n"
	"\n"
	"--report prints for each process, when it ends, how many reads were served, and why "
	"others were not. The same follows for the ten files with most bytes, each with what to "
	"do about it; --all and --json print every file. PROGRAM also says what all processes "
	"have read together, or that it saw no read. A process that is killed, or that runs "
	"another program in its place, prints nothing; `lodic who' shows those that run. Counting "
	"makes reads slower.\n"
	"\n"
	"--record writes down what the program and its children do to files: opens, closes, and "
	"reads with their offsets, whether they are served or not. `lodic-sim tier --trace' takes "
	"the file, and doc/tier-trace.md says what it has. Each read then takes one to two "
	"microseconds more.\n"
	"\n"
	"Programs that are linked statically, are setuid, have another loader or are written in "
	"Go run as without this command. A line says so of PROGRAM, and --report of a child in "
	"Go. doc/hazards.md says what else differs.\n"
	"\n"
	"Exit status: that of the program; 126 when it is not one that you may run, 127 when it "
	"does not exist, 1 when there is no cache and --require is given, or a file that an option "
	"names cannot be written, 2 for a wrong option.\n"
	"\n"
	"Examples:\n"
	"  lodic run -- nginx -c /srv/nginx.conf\n"
	"  lodic run --mmap='*.gguf' --mmap-wait -- llama-server -m model.gguf\n"
	"  lodic run --report=run.txt -- db_bench --use_existing_db=1 "
	"--benchmarks=readrandom\n"
	"  lodic run --record=run.trace -- python3 job.py\n";

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "The service's socket (default: the user's own)",
	  0 },
	{ "memory", 'm', "SIZE", 0,
	  "The cache's size, if this command starts the service, as 512M or 4G (default: "
	  "what the settings say)",
	  0 },
	{ "mmap", KEY_MMAP, "GLOB", OPTION_ARG_OPTIONAL,
	  "Serve mmap, too; and shared mappings of files that match GLOB, of which the program "
	  "need see no change. May be repeated",
	  0 },
	{ "mmap-wait", KEY_MMAP_WAIT, "SECONDS", OPTION_ARG_OPTIONAL,
	  "Have each mmap wait so long at most (300 if SECONDS is left out; default: 0.25) while "
	  "the service reads the file. It needs --mmap",
	  0 },
	{ "require", KEY_REQUIRE, NULL, 0,
	  "Do not run the program if it gets no cache itself (default: run it without)", 0 },
	{ "report", 'r', "FILE", OPTION_ARG_OPTIONAL,
	  "Print at the end of each process what was served, to FILE or else to stderr",
	  0 },
	{ "all", 'a', NULL, 0, "Print every file, not only those with most bytes", 0 },
	{ "record", KEY_RECORD, "FILE", 0,
	  "Write opens, closes and reads down, for `lodic-sim tier --trace'", 0 },
	{ "record-size", KEY_RECORD_SIZE, "SIZE", 0,
	  "The record ends at this size (default: 256M, 8 million events)", 0 },
	{ "json", 'j', NULL, 0, "Print it as JSON, an object in each line", 0 },
	{ 0 },
};

static void parse_wait(struct run *r, const char *arg, struct argp_state *state)
{
	double seconds = MMAP_WAIT_SECONDS;
	char *end = NULL;

	if (arg) {
		seconds = strtod(arg, &end);
		/* Not a number is in no range. */
		if (end == arg || *end || !(seconds >= 0) ||
		    seconds > MMAP_WAIT_MOST_SECONDS)
			argp_error(state,
			           "'%s' is not a number of seconds from 0 to 86400",
			           arg);
	}
	r->waits = true;
	r->wait_ms = (uint64_t)(seconds * 1000);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	switch (key) {
	case 's': r->socket = arg; return 0;
	case 'm':
		if (cli_parse_bytes(arg, &r->memory_bytes) != 0 || r->memory_bytes == 0)
			argp_error(state, "'%s' is not a size; write it as 512M or 4G",
			           arg);
		return 0;
	case KEY_MMAP:
		r->mmap = true;
		if (arg)
			preload_add_glob(state, r->promised, sizeof(r->promised), arg);
		return 0;
	case KEY_MMAP_WAIT: parse_wait(r, arg, state); return 0;
	case 'r': r->report = arg ? arg : ""; return 0;
	case 'j': r->json = true; return 0;
	case KEY_REQUIRE: r->require = true; return 0;
	case 'a': r->all = true; return 0;
	case KEY_RECORD: r->record = arg; return 0;
	case KEY_RECORD_SIZE:
		if (cli_parse_bytes(arg, &r->record_bytes) != 0 ||
		    r->record_bytes < LEAST_RECORD_BYTES)
			argp_error(state, "'%s' is not a size of 64K or more", arg);
		return 0;
	case ARGP_KEY_ARG:
		r->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name the program to run, after the options");
		return 0;
	case ARGP_KEY_END:
		if (r->record_bytes && !r->record)
			argp_error(state,
			           "--record-size is that of the --record; ask for "
			           "that too");
		if (r->waits && !r->mmap)
			argp_error(state,
			           "--mmap-wait says how long an mmap waits to be "
			           "served; ask for --mmap too");
		if (r->all && !r->report)
			argp_error(state, "--all says how to print the --report; ask for "
			                  "that too");
		if (r->json && !r->report)
			argp_error(state, "--json says how to print the --report; ask "
			                  "for that too");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Notes why there is no cache. */
__attribute__((format(printf, 2, 3))) static bool lacks(struct run *r,
                                                        const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why, sizeof(r->why), format, args);
	va_end(args);
	return false;
}

/* The socket as an absolute path: the program may change its folder. false: see why. */
static bool find_socket(struct run *r)
{
	static struct settings settings;
	static char absolute[SETTINGS_SOCKET_BYTES];
	char *folder;
	int n;

	if (!r->socket) {
		if (settings_find_socket(&settings, true) != 0)
			return lacks(r, "%s", settings.why);
		r->socket = settings.socket;
		r->by_default = !settings.from[SETTING_SOCKET];
	}
	if (*r->socket == '/')
		return true;
	folder = realpath(".", NULL);
	n = folder ? snprintf(absolute, sizeof(absolute), "%s/%s", folder, r->socket)
	           : -1;
	free(folder);
	if (n < 0)
		return lacks(r, "this folder, in which the socket %s would be, has gone",
		             r->socket);
	if (n >= (int)sizeof(absolute))
		return lacks(r, "the path of the socket %s is too long", r->socket);
	r->socket = absolute;
	return true;
}

/* Is there a service? If not, this call starts one. The attachment ends with this program; the
 * shim makes its own. */
static bool find_service(struct run *r)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = r->socket,
		                         .service = cli_program(),
		                         .cache_bytes = r->memory_bytes,
		                         .idle_exit_ms = IDLE_EXIT_MS };
	struct lodic *lodic;
	int err;

	patience_begin("waiting for the cache's service");
	err = lodic_attach(&options, &lodic);
	patience_end();
	if (err && strstr(lodic_strerror(err), r->socket))
		return lacks(r, "%s", lodic_strerror(err));
	if (err)
		return lacks(r, "%s: %s", r->socket, lodic_strerror(err));
	lodic_detach(lodic);
	return true;
}

/* An empty record at path, of so many bytes, with holes. A limit on the size of files would end
 * this program by a signal. 0 or -1 and errno. */
static int fill_record(const char *path, uint64_t bytes)
{
	struct recorded_head *head = MAP_FAILED;
	struct rlimit limit;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	int error;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		bytes = limit.rlim_cur;
	if (bytes < LEAST_RECORD_BYTES)
		errno = EFBIG;
	else if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		            0);
	if (head != MAP_FAILED && madvise(head, sizeof(*head), MADV_POPULATE_WRITE) &&
	    errno != EINVAL) {
		munmap(head, sizeof(*head));
		head = MAP_FAILED;
		errno = ENOSPC;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	if (head == MAP_FAILED)
		return -1;
	*head = (struct recorded_head){
		.magic = RECORDED_MAGIC,
		.event_bytes = sizeof(struct recorded),
		.nr_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.room = (bytes - RECORDED_HEAD_BYTES) / sizeof(struct recorded),
	};
	return munmap(head, sizeof(*head));
}

/* Another program may be writing a record there. It would get a SIGBUS if the file became shorter;
 * so it keeps its file, without a name. */
static void remove_record(const char *name)
{
	char *path = realpath(name, NULL);
	struct stat st;

	if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		unlink(path);
	free(path);
}

/* Makes the record, and names it to the shim. */
static int make_record(const struct run *r)
{
	static char path[RUN_TEXT_BYTES];
	int status = CLI_OK;

	if (r->record)
		remove_record(r->record);
	if (r->record)
		status = preload_report(r->record, path, sizeof(path));
	if (r->record && status == CLI_OK &&
	    fill_record(path, r->record_bytes ? r->record_bytes : RECORD_BYTES) != 0) {
		cli_error("cannot write %s: %s", r->record, strerror(errno));
		status = CLI_FAILED;
	}
	if (status == CLI_OK && preload_set(RUN_RECORD, path) != 0) {
		cli_error("cannot set the environment: %s", strerror(errno));
		status = CLI_FAILED;
	}
	return status;
}

static char report[RUN_TEXT_BYTES]; /* as the shim gets it */

/* The report's file is there in any case: a script may read it afterwards. */
static int make_report(const struct run *r)
{
	if (r->report && *r->report)
		return preload_report(r->report, report, sizeof(report));
	if (r->report)
		strcpy(report, RUN_REPORT_STDERR);
	return CLI_OK;
}

/* The shim reads no settings itself. */
static int set_trust(void)
{
	uint32_t trusted = settings_trusted();

	return trusted == SETTINGS_NO_USER ? preload_set(RUN_TRUST, NULL)
	                                   : preload_set_number(RUN_TRUST, trusted);
}

/* Puts the shim before the program. false: see why. */
static bool prepare(struct run *r)
{
	if (preload_set(RUN_SOCKET, r->socket) ||
	    preload_set_number(RUN_FIRST, (uint64_t)getpid()) ||
	    preload_set_number(RUN_USER, geteuid()) || set_trust() ||
	    preload_set(RUN_DEFAULT, r->by_default ? "1" : NULL) ||
	    preload_set(RUN_PROGRAM, cli_program()) ||
	    preload_set_number(RUN_MEMORY, r->memory_bytes) ||
	    preload_set_number(RUN_FILTERS, preload_count_filters()) ||
	    preload_set(RUN_REPORT, report) ||
	    preload_set(RUN_JSON, r->json ? "1" : NULL) ||
	    preload_set(RUN_ALL, r->all ? "1" : NULL) ||
	    (r->report ? report_totals() : preload_set(RUN_TOTALS, NULL)) ||
	    preload_set(RUN_MMAP, !r->mmap         ? NULL
	                          : r->promised[0] ? r->promised
	                                           : "\n") ||
	    (r->waits ? preload_set_number(RUN_MMAP_WAIT, r->wait_ms)
	              : preload_set(RUN_MMAP_WAIT, NULL)) ||
	    preload_set(MAP_BUDGET, NULL) || preload_set(RUN_DOCTOR, NULL))
		return lacks(r, "the environment cannot be set: %s", strerror(errno));
	return preload_try(r->why, sizeof(r->why));
}

/* Gets the program a cache, or the shim alone, if that is to report or to record. */
static int find_cache(struct run *r)
{
	bool found = find_socket(r) && find_service(r);

	if (found || (!r->require && r->socket && *r->socket == '/' &&
	              (r->report || r->record)))
		found = prepare(r) && found;
	if (found)
		return CLI_OK;
	if (r->require) {
		cli_error("no cache for %s, and so it is not run: %s", r->command[0],
		          r->why);
		return CLI_FAILED;
	}
	cli_note("%s runs without a cache: %s", r->command[0], r->why);
	return CLI_OK;
}

int command_run(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, "[--] PROGRAM [ARG...]",
		                          doc,         NULL,  NULL,
		                          NULL };
	static struct run r;
	bool plain = false;
	int status;

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &r) != 0 || !r.command)
		return CLI_USAGE;
	status = preload_judge("run", r.command[0], r.require, &plain);
	if (status == CLI_OK && !plain)
		status = make_record(&r);
	if (status == CLI_OK)
		status = make_report(&r);
	if (status == CLI_OK && !plain)
		status = find_cache(&r);
	return status == CLI_OK ? preload_become(r.command) : status;
}
