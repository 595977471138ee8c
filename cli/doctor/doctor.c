/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic doctor`: its options, and the order of its steps. See doctor.h. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/doctor/advice.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/host.h"
#include "cli/doctor/reader.h"
#include "cli/doctor/report.h"
#include "cli/doctor/run.h"
#include "cli/doctor/try.h"
#include "cli/leftover.h"
#include "cli/preload.h"

#define DEFAULT_WATCH_MS 5000u
/* Free bytes of a folder in memory. Our choice: the counts of some hundred processes. */
#define ROOM_LEAST ((uint64_t)16 << 20)

enum { KEY_PID = 256, KEY_SECONDS, KEY_READER };

static const char doc[] =
	"Run a program, or watch one that runs, and say what lodic would gain for it here, and "
	"what to do for that. The program reads as without lodic: nothing is served. Its children "
	"are watched as well, also as other users."
	"\v"
	"When the program has ended, the doctor asks a private service which of its files could "
	"be cached, and which more by a promise (immutable, see doc/settings.md). It asks the "
	"same of the service that runs already, if there is one. Then it measures for a second "
	"what reads cost on this machine. It prints on stderr which reads `lodic run' could "
	"serve, why not the others, what the program would gain in CPU time, and what to do: "
	"the lines to put into a file, and the commands.\n"
	"\n"
	"It says that there is nothing to gain only if it saw most of what the program used, "
	"and nobody has interrupted that. Otherwise it says how much it saw, and what to try "
	"instead.\n"
	"\n"
	"--pid says less: /proc counts the bytes of all reads, but not how they were read.\n"
	"\n"
	"A gain is CPU time without lodic, divided by CPU time with it, once the cache has the "
	"files. Its range allows for the spread of the measured times. Programs that are linked "
	"statically or are setuid cannot be watched from inside; use --pid for them. "
	"doc/doctor.md says how the range is made, and how often it was right.\n"
	"\n"
	"Exit status: that of the program; 126 when it cannot be watched this way, 127 when it "
	"does not exist, 1 for another failure, 2 for a wrong option. With --pid: 0.\n"
	"\n"
	"Examples:\n"
	"  lodic doctor -- db_bench --use_existing_db=1 --benchmarks=readrandom\n"
	"  lodic doctor --json=doctor.json -- ./server --data /srv\n"
	"  lodic doctor --pid 1234 --seconds 10\n";

static const struct argp_option option_list[] = {
	{ "pid", KEY_PID, "PID", 0, "Watch this process, and run no program", 0 },
	{ "seconds", KEY_SECONDS, "S", 0, "Watch it for so long (default: 5)", 0 },
	{ "json", 'j', "FILE", 0, "Write all numbers to FILE, as one JSON object", 0 },
	{ "reader", KEY_READER, "FILE", OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

struct options {
	struct doctor *d;
	const char *reader;
	bool seconds;
};

static void check(struct argp_state *state, const struct options *o)
{
	const struct doctor *d = o->d;

	if (o->reader)
		return;
	if (!d->command && !d->pid)
		argp_error(state,
		           "name the program to run, after the options; or a --pid");
	else if (d->command && d->pid)
		argp_error(state, "choose one: --pid, or a program to run");
	else if (o->seconds && !d->pid)
		argp_error(state,
		           "--seconds is for --pid; a program is watched to its end");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	uint64_t n;

	switch (key) {
	case KEY_PID:
		if (cli_parse_number(arg, 1, INT_MAX, &n) != 0)
			argp_error(state, "'%s' is not the number of a process", arg);
		o->d->pid = (int)n;
		return 0;
	case KEY_SECONDS:
		if (cli_parse_seconds_ms(arg, &o->d->watch_ms) != 0 ||
		    o->d->watch_ms == 0)
			argp_error(state, "'%s' is not a number of seconds above 0",
			           arg);
		o->seconds = true;
		return 0;
	case 'j':
		if (arg[0] == '-')
			argp_error(
				state,
				"--json needs the name of a file: --json=doctor.json");
		o->d->json = arg;
		return 0;
	case KEY_READER: o->reader = arg; return 0;
	case ARGP_KEY_ARG:
		o->d->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END: check(state, o); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* A folder that goes with this program. In memory where possible, because the program writes its
 * counts with each read. */
static int make_folder(char folder[DOCTOR_FOLDER_BYTES], mode_t mode)
{
	static const char *const roots[] = { "/dev/shm", "/tmp" };
	struct statvfs fs;
	int error = -ENOENT;

	for (unsigned int i = 0; error && i < sizeof(roots) / sizeof(*roots); i++) {
		snprintf(folder, DOCTOR_FOLDER_BYTES, "%s/lodic-doctor-XXXXXX",
		         roots[i]);
		if (access(roots[i], W_OK) != 0 || statvfs(roots[i], &fs) != 0 ||
		    (i == 0 && (uint64_t)fs.f_bavail * fs.f_bsize < ROOM_LEAST))
			continue;
		error = leftover_name(folder);
		/* The umask may take bits away that are needed. */
		if (!error && (mkdir(folder, 0700) != 0 || chmod(folder, mode) != 0))
			error = -errno;
	}
	if (error)
		cli_error("cannot make a folder in /dev/shm or /tmp: %s",
		          strerror(-error));
	return error ? CLI_FAILED : CLI_OK;
}

/* Root's program may become other users. They come through the folder of the counts to their own
 * folders in it, and can list nothing (preload/run_watched.c). */
static int make_folders(struct doctor *d)
{
	int status = make_folder(d->folder, 0700);

	return status == CLI_OK ? make_folder(d->counts_folder, d->user ? 0700 : 0711)
	                        : status;
}

/* Opened first: a program that runs for an hour must not have run for nothing. */
static int open_json(struct doctor *d)
{
	d->json_fd = -1;
	if (!d->json)
		return CLI_OK;
	d->json_fd = open(d->json, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (d->json_fd >= 0)
		return CLI_OK;
	cli_error("cannot write %s: %s", d->json, strerror(errno));
	return CLI_FAILED;
}

static int report(struct doctor *d)
{
	int error;

	doctor_forecast(d);
	doctor_advise(d);
	/* stdout is the program's. */
	fflush(stdout);
	if (d->command && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return CLI_FAILED;
	doctor_print(d);
	fflush(stdout);
	error = d->json ? doctor_write_json(d) : 0;
	if (error)
		cli_error("cannot write %s: %s", d->json, strerror(-error));
	return error ? CLI_FAILED : CLI_OK;
}

/* Ends as the program has ended. */
static int end_as(int status)
{
	const struct rlimit none = { 0 };

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	leftover_sweep();
	setrlimit(RLIMIT_CORE, &none);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int examine(struct doctor *d)
{
	int status, ended = 0;

	doctor_memory_look(&d->memory, d->pid);
	doctor_settings_look(d);
	if (!d->pid) {
		status = doctor_run(d, &ended);
		cli_catch_signals();
	} else {
		cli_catch_signals();
		status = doctor_watch(d);
		d->interrupted = cli_stopped;
		cli_stopped = 0; /* a Ctrl-C has ended the watch, and not the answer */
	}
	if (status != CLI_OK)
		return status;
	doctor_try(d);
	if (cli_stopped) /* what was seen is told all the same: the program is over */
		snprintf(d->price.why, sizeof(d->price.why),
		         "interrupted while it measured");
	d->price.known = d->price.known && !cli_stopped;
	d->interrupted = d->interrupted || cli_stopped;
	status = report(d);
	if (status != CLI_OK || cli_stopped)
		return status == CLI_OK ? CLI_STOPPED : status;
	return end_as(ended);
}

int command_doctor(int argc, char **argv)
{
	static const struct argp argp = {
		option_list, parse, "[--] PROGRAM [ARG...]\n--pid PID", doc, NULL,
		NULL,        NULL
	};
	static struct doctor d = { .watch_ms = DEFAULT_WATCH_MS };
	struct options options = { .d = &d };
	int status = CLI_OK;

	d.user = geteuid();
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options) != 0)
		return CLI_USAGE;
	if (options.reader)
		return doctor_reader(options.reader);
	if (d.command)
		status = preload_check("doctor", d.command[0]);
	if (status == CLI_OK)
		status = open_json(&d);
	if (status == CLI_OK)
		status = make_folders(&d);
	if (status == CLI_OK)
		status = examine(&d);
	free(d.files);
	settings_free(&d.settings);
	leftover_sweep();
	return status;
}
