/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the commands of lodic-sim share: sim/command.h. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/command.h"
#include "sim/keys.h"

/* Progress comes after so long. Then a terminal rewrites it so often, and a log gets a line. */
#define QUIET_S 2.0
#define REWRITE_S 0.2
#define LOG_S 5.0

const char *command_version(void)
{
	return LODIC_VERSION;
}

const char *command_commit(void)
{
	return LODIC_COMMIT;
}

/* The data lies beside this program in a build folder, and below share/ where it is
 * installed. So the program carries no path of the machine that built it. */
static void command_find_data(void)
{
	static const char *const places[] = { "sim", "../share/lodic/sim" };
	char program[PATH_MAX], folder[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[n > 0 ? n : 0] = '\0';
	program[strrchr(program, '/') ? strrchr(program, '/') - program : 0] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(folder, sizeof(folder), "%s/%s", program, places[i]);
		if (keys_look_in(folder) == 0)
			return;
	}
}

/* stdio writes late: without this check a full disk would look like success. */
static void command_check_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	command_fail("standard output", errno ? -errno : -EIO);
	_exit(COMMAND_FAILED);
}

void command_begin(void)
{
	argp_program_version = "lodic-sim " LODIC_VERSION " (" LODIC_COMMIT ")";
	argp_err_exit_status = COMMAND_USAGE;
	atexit(command_check_output);
	command_find_data();
}

int command_fail(const char *what, int err)
{
	fprintf(stderr, "lodic-sim: %s: %s\n", what, strerror(-err));
	return COMMAND_FAILED;
}

u64 command_number(const char *arg, const char *what, u64 least, u64 most,
                   struct argp_state *state)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (errno || end == arg || *end || *arg < '0' || *arg > '9' || n < least ||
	    n > most)
		argp_error(state, "'%s' is not %s, %llu to %llu", arg, what,
		           (unsigned long long)least, (unsigned long long)most);
	return n;
}

bool command_shows_name(const char *name)
{
	const struct count_scheme *scheme = count_scheme_find(name);

	return !scheme || count_scheme_is_shown(scheme);
}

void command_csv_cells(FILE *f, const char *parameters, const char *hash, u64 seed)
{
	fprintf(f, "%s,%s,\"%s%s%s\",%llu", LODIC_VERSION, LODIC_COMMIT, parameters,
	        *hash ? " " : "", hash, (unsigned long long)seed);
}

int command_csv_close(FILE *f)
{
	bool failed = ferror(f);

	/* The last write says why, if it fails too. */
	if (fclose(f) != 0)
		return -errno;
	return failed ? -EIO : 0;
}

int command_csv_check(const char *path)
{
	FILE *f = path ? fopen(path, "ae") : NULL;

	if (path && !f)
		return command_fail(path, -errno);
	if (f)
		fclose(f);
	return 0;
}

static double command_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One command runs in a process, so one line of progress is enough. */
static struct {
	double start, shown; /* seconds; 0: not yet */
} progress;

void command_progress(u32 done, u32 nr)
{
	bool terminal = isatty(STDERR_FILENO);
	double now = command_seconds();

	if (progress.start == 0)
		progress.start = now;
	if (now - progress.start < QUIET_S ||
	    now - progress.shown < (terminal ? REWRITE_S : LOG_S))
		return;
	progress.shown = now;
	fprintf(stderr, terminal ? "\r%u" : "lodic-sim: %u", done);
	if (nr)
		fprintf(stderr, " of %u", nr);
	fprintf(stderr, " points, %.0f s%s", now - progress.start, terminal ? " " : "\n");
}

void command_progress_end(void)
{
	if (progress.shown > 0 && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%40s\r", "");
	progress.shown = 0;
}
