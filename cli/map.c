/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic map -- CMD` runs an unmodified program with the shim of preload/ in it. This file
 * only puts the options into the environment and calls exec. So the program keeps its own
 * exit status, signals and process id.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/preload.h"
#include "preload/map_environment.h"
#include "preload/run_environment.h"

#define DEFAULT_BUDGET_BYTES (UINT64_C(1) << 30)
/* Enough reads to tell one pass from many in most small files. Few enough to cost nothing
 * in a program that ends soon. A guess, not a measurement. */
#define DEFAULT_MIN_READS 16

enum { KEY_BUDGET = 256, KEY_MIN_READS, KEY_INCLUDE, KEY_EXCLUDE };

struct map {
	uint64_t budget_bytes;
	uint64_t min_reads;
	char include[MAP_TEXT_BYTES];
	char exclude[MAP_TEXT_BYTES];
	const char *report;
	bool json;
	bool verbose;
	char **command; /* NULL: none was named */
};

static const char doc[] =
	"Run a program, and map into it the files that it reads again and again. A kernel "
	"with LODIC can then count the references of its read(2) in the program's own page "
	"table. Another kernel gains nothing. The program still reads by read(2) and never "
	"looks at the mapping."
	"\v"
	"A process that had a file mapped prints on stderr, when it ends, what that cost. So "
	"does a process of which --budget left a file out. "
	"It names files, bytes, page tables (expected, and measured as VmPTE) and reads. "
	"It also prints how many files it did not map, for each reason.\n"
	"\n"
	"The process maps a file after --min-reads calls of read, pread, readv or preadv "
	"that were not one pass from front to back. It does so only for descriptors that "
	"are open read-only, and only while they are open. Pages get their entries as they "
	"are read; this does no I/O of its own.\n"
	"\n"
	"GLOB may contain * ? and [set]. A GLOB with a slash must match the whole path, and "
	"its * matches slashes, too. Any other GLOB must match the file's name.\n"
	"\n"
	"Programs that are linked statically, are setuid, have another loader or are written in "
	"Go run as without this command, and a line says so. Reads that stdio makes inside libc "
	"(fread, fgets) are not seen.\n"
	"\n"
	"Exit status: that of the program; 126 when it is not one that you may run, 127 when it "
	"does not exist, 2 for a wrong option.\n"
	"\n"
	"Examples:\n"
	"  lodic map -- ./server --data /srv\n"
	"  lodic map --budget 4G --include '*.sst' --report map.json --json -- ./db\n";

static const struct argp_option option_list[] = {
	{ "budget", KEY_BUDGET, "SIZE", 0,
	  "In each process, map at most this many bytes of files at once, as 512M or 4G "
	  "(default: 1G). The page tables for them take up to SIZE/512",
	  0 },
	{ "min-reads", KEY_MIN_READS, "N", 0, "Map a file after N reads (default: 16)",
	  0 },
	{ "include", KEY_INCLUDE, "GLOB", 0,
	  "Map only files that match. May be repeated", 0 },
	{ "exclude", KEY_EXCLUDE, "GLOB", 0,
	  "Map no file that matches. May be repeated", 0 },
	{ "report", 'r', "FILE", 0,
	  "Write what it cost to FILE and not to stderr: a line for each process that "
	  "read anything",
	  0 },
	{ "json", 'j', NULL, 0, "Write it as JSON, an object in each line", 0 },
	{ "verbose", 'v', NULL, 0, "Print each file on stderr when it is mapped", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct map *m = state->input;

	switch (key) {
	case KEY_BUDGET:
		if (cli_parse_bytes(arg, &m->budget_bytes) != 0 || m->budget_bytes == 0)
			argp_error(state, "'%s' is not a size; write it as 512M or 4G",
			           arg);
		return 0;
	case KEY_MIN_READS:
		if (cli_parse_number(arg, 1, UINT32_MAX, &m->min_reads) != 0)
			argp_error(state, "'%s' is not a number above 0", arg);
		return 0;
	case KEY_INCLUDE:
		preload_add_glob(state, m->include, sizeof(m->include), arg);
		return 0;
	case KEY_EXCLUDE:
		preload_add_glob(state, m->exclude, sizeof(m->exclude), arg);
		return 0;
	case 'r': m->report = arg; return 0;
	case 'j': m->json = true; return 0;
	case 'v': m->verbose = true; return 0;
	case ARGP_KEY_ARG:
		m->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name the program to run, after the options");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Its patches count in /proc/vmstat. */
static bool kernel_has_lodic(void)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char line[128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lodic_", strlen("lodic_")) == 0;
	if (f)
		fclose(f);
	return found;
}

static int prepare(const struct map *m)
{
	static char report[MAP_TEXT_BYTES];
	int status =
		m->report ? preload_report(m->report, report, sizeof(report)) : CLI_OK;

	if (status == CLI_OK)
		status = preload_enter();
	if (status != CLI_OK)
		return status;
	if (preload_set_number(MAP_BUDGET, m->budget_bytes) ||
	    preload_set_number(MAP_MIN_READS, m->min_reads) ||
	    preload_set(MAP_INCLUDE, m->include) ||
	    preload_set(MAP_EXCLUDE, m->exclude) || preload_set(MAP_REPORT, report) ||
	    preload_set(MAP_JSON, m->json ? "1" : NULL) ||
	    preload_set(MAP_VERBOSE, m->verbose ? "1" : NULL) ||
	    preload_set(MAP_KERNEL, kernel_has_lodic() ? "1" : NULL) ||
	    preload_set(RUN_SOCKET, NULL) || preload_set(RUN_DOCTOR, NULL)) {
		cli_error("cannot set the environment: %s", strerror(errno));
		return CLI_FAILED;
	}
	return CLI_OK;
}

int command_map(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, "[--] CMD [ARG...]",
		                          doc,         NULL,  NULL,
		                          NULL };
	static struct map m = { .budget_bytes = DEFAULT_BUDGET_BYTES,
		                .min_reads = DEFAULT_MIN_READS };
	bool plain = false;
	int status;

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &m) != 0 || !m.command)
		return CLI_USAGE;
	status = preload_judge("map", m.command[0], false, &plain);
	if (status == CLI_OK && !plain)
		status = prepare(&m);
	return status == CLI_OK ? preload_become(m.command) : status;
}
