/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How programs speak, stop and read numbers. Contract: cli/cli.h. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "lib/escape.h"
#include "lib/value.h"

#define NS_PER_S UINT64_C(1000000000)
#define PROGRESS_TTY_NS (NS_PER_S / 10)
#define PROGRESS_FIRST_NS (2 * NS_PER_S)
#define PROGRESS_LOG_NS (5 * NS_PER_S)
#define PROGRAM_MAX_BYTES 4096

volatile sig_atomic_t cli_stopped;

/* Does a progress line stand on the terminal without its line end? */
static bool progress_open;
static uint64_t progress_due_ns;

static void cli_end_progress(void)
{
	if (progress_open)
		fputs("\r\033[K", stderr);
	progress_open = false;
}

void cli_print(FILE *to, const char *format, va_list args)
{
	char one[ESCAPE_BYTES], *text = NULL;
	unsigned int n;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	for (const char *s = text ? text : format; *s; s += n) {
		n = escape_next(s, false, one);
		fputs(one, to);
	}
	fputc('\n', to);
	free(text);
}

static void cli_speak(const char *format, va_list args)
{
	cli_end_progress();
	fputs("lodic: ", stderr);
	cli_print(stderr, format, args);
}

void cli_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	cli_speak(format, args);
	va_end(args);
}

void cli_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	cli_speak(format, args);
	va_end(args);
}

/* Not by fflush() alone: what an earlier one could not write is no longer there. */
static void cli_close_output(void)
{
	bool failed = ferror(stdout);

	if (fflush(stdout) != 0)
		cli_error("cannot write the output: %s", strerror(errno));
	else if (failed)
		cli_error("cannot write the output");
	else
		return;
	fflush(stderr);
	_exit(CLI_FAILED);
}

void cli_check_output(void)
{
	atexit(cli_close_output);
}

void cli_progress(const char *phase, unsigned int percent)
{
	bool terminal = isatty(STDERR_FILENO);
	uint64_t now = cli_now_ns();

	if (percent > 100) {
		cli_end_progress();
		return;
	}
	if (progress_due_ns == 0 && !terminal)
		progress_due_ns = now + PROGRESS_FIRST_NS;
	if (now < progress_due_ns)
		return;
	progress_due_ns = now + (terminal ? PROGRESS_TTY_NS : PROGRESS_LOG_NS);
	if (terminal) {
		fprintf(stderr, "\r\033[K%s: %u %%", phase, percent);
		fflush(stderr);
		progress_open = true;
	} else {
		fprintf(stderr, "lodic: %s: %u %%\n", phase, percent);
	}
}

/* Calls only what a signal handler may call. */
static void cli_on_signal(int number)
{
	static volatile sig_atomic_t caught[NSIG];

	cli_stopped = 1;
	if (!caught[number]) {
		caught[number] = 1;
		return;
	}
	signal(number, SIG_DFL);
	raise(number);
}

void cli_catch_signals(void)
{
	/* Without SA_RESTART: a wait must end, too. */
	struct sigaction action = { .sa_handler = cli_on_signal };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int cli_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	return value_parse_bytes(text, ret_bytes) == 0 ? 0 : -EINVAL;
}

int cli_parse_seconds_ms(const char *text, uint64_t *ret_ms)
{
	return value_parse_ms(text, ret_ms);
}

int cli_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
	return value_parse_number(text, least, most, ret);
}

const char *cli_program(void)
{
	static char path[PROGRAM_MAX_BYTES];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *called = (const char *)getauxval(AT_EXECFN);

	if (n <= 0 && called && realpath(called, path)) /* no /proc */
		return path;
	/* When the program was rebuilt meanwhile, the text of the link leads nowhere. The
	 * link itself still does. */
	if (n <= 0 || access(path, X_OK) != 0)
		return "/proc/self/exe";
	path[n] = '\0';
	return path;
}

int cli_find(const char *folder, const char *name, char *ret_path, size_t size)
{
	const char *program = cli_program(), *slash = strrchr(program, '/');
	int n = slash ? (int)(slash - program) : 0;

	snprintf(ret_path, size, "%.*s/%s", n, program, name);
	if (access(ret_path, R_OK) == 0)
		return 0;
	snprintf(ret_path, size, "%.*s/%s/%s", n, program, folder, name);
	return access(ret_path, R_OK) == 0 ? 0 : -errno;
}

uint64_t cli_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}
