/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What all sub-commands share. Contract: measure/cli.h. */
#include "measure/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lodic/lodic.h"

#define NS_PER_S UINT64_C(1000000000)
#define PROGRESS_TTY_NS (NS_PER_S / 10)
#define PROGRESS_LOG_NS (5 * NS_PER_S)
#define PROGRAM_MAX_BYTES 4096

volatile sig_atomic_t cli_stopped;

/* Is a progress line standing on the terminal without its line end? */
static bool progress_open;
static uint64_t progress_said_ns;

static void progress_end(void)
{
	if (progress_open)
		fputs("\r\033[K", stderr);
	progress_open = false;
}

static void speak(const char *format, va_list args)
{
	progress_end();
	fputs("lodic: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void cli_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	speak(format, args);
	va_end(args);
}

void cli_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	speak(format, args);
	va_end(args);
}

void cli_progress(const char *phase, unsigned int percent)
{
	bool terminal = isatty(STDERR_FILENO);
	uint64_t now = cli_now_ns();
	uint64_t pause = terminal ? PROGRESS_TTY_NS : PROGRESS_LOG_NS;

	if (percent > 100) {
		progress_end();
		return;
	}
	if (progress_said_ns == 0 && !terminal)
		progress_said_ns = now; /* nothing to say in the first seconds */
	if (now - progress_said_ns < pause)
		return;
	progress_said_ns = now;
	if (terminal) {
		fprintf(stderr, "\r\033[K%s: %u %%", phase, percent);
		fflush(stderr);
		progress_open = true;
	} else {
		fprintf(stderr, "lodic: %s: %u %%\n", phase, percent);
	}
}

static void on_signal(int signal)
{
	(void)signal;
	cli_stopped = 1;
}

void cli_catch_signals(void)
{
	/* Without SA_RESTART: a wait must end too. The second one finds the default. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* How far the letter behind a number shifts it; -1: not one we know. */
static int unit_shift(const char *unit)
{
	static const char letters[] = "KMGT";
	const char *at;

	if (unit[0] == '\0')
		return 0;
	at = strchr(letters, unit[0] & ~0x20);
	if (!at || *at == '\0')
		return -1;
	if (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0)
		return -1;
	return (int)(at - letters + 1) * 10;
}

int cli_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	unsigned long long n;
	char *end;
	int shift;

	errno = 0;
	n = strtoull(text, &end, 10);
	shift = unit_shift(end);
	if (errno || end == text || text[0] == '-' || shift < 0 ||
	    n > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = (uint64_t)n << shift;
	return 0;
}

int cli_parse_seconds_ms(const char *text, uint64_t *ret_ms)
{
	const double most = 1e9;
	char *end;
	double s;

	errno = 0;
	s = strtod(text, &end);
	if (errno || end == text || *end != '\0' || !(s >= 0 && s <= most))
		return -EINVAL;
	*ret_ms = (uint64_t)(s * 1000 + 0.5);
	return 0;
}

int cli_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *end != '\0' || text[0] == '-' || n < least ||
	    n > most)
		return -EINVAL;
	*ret = n;
	return 0;
}

int cli_parse_scheme(const char *text, uint32_t *ret_scheme)
{
	for (uint32_t s = LODIC_LODIC; s <= LODIC_HAZARD; s++) {
		if (strcmp(lodic_scheme_name((enum lodic_scheme)s), text) != 0)
			continue;
		*ret_scheme = s;
		return 0;
	}
	return -EINVAL;
}

const char *cli_program(void)
{
	static char path[PROGRAM_MAX_BYTES];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	/* Rebuilt under our feet: the link's text is of no use, the link still is. */
	if (n <= 0 || access(path, X_OK) != 0)
		return "/proc/self/exe";
	path[n] = '\0';
	return path;
}

uint64_t cli_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}
