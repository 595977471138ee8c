/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See fuzz.h. */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No execution takes so long on a loaded machine, under a sanitizer. */
#define HANGS_SECONDS 60u
#define LOOK_EACH 256u
#define MEMORY_FOLDER "/dev/shm"
#define PROGRESS 100000u

static struct {
	u64 nr, from, done, begun_ns;
	bool ended;
} fuzz = { .nr = 1 };

static void fuzz_say_where(const char *what)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "%s in execution %llu; seed=%llu\n", what,
	                 (unsigned long long)(fuzz.from + fuzz.done - 1),
	                 (unsigned long long)fixture_seed());

	(void)!write(STDERR_FILENO, text, (size_t)n);
}

/* The next time, the signal does what it does without a handler. */
static void fuzz_on_signal(int signal)
{
	fuzz_say_where(signal == SIGALRM ? "a hang" : "a crash");
	if (signal == SIGALRM || signal == SIGPIPE)
		raise(signal);
}

/* A failed REQUIRE() comes by here. */
static void fuzz_on_exit(void)
{
	if (!fuzz.ended)
		fuzz_say_where("a failure");
}

static void fuzz_catch(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
		                       SIGABRT, SIGPIPE, SIGALRM, SIGTRAP };
	struct sigaction action = { .sa_handler = fuzz_on_signal,
		                    .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };

	for (u32 i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

void fuzz_begin(int argc, char **argv, u64 nr_executions)
{
	const struct fixture_option options[] = {
		{ .name = "--executions", .number = &fuzz.nr },
		{ .name = "--from", .number = &fuzz.from },
		{ 0 },
	};

	fuzz.nr = nr_executions;
	/* A disk would take most of the time. */
	if (!getenv("TMPDIR") && access(MEMORY_FOLDER, W_OK | X_OK) == 0)
		setenv("TMPDIR", MEMORY_FOLDER, 1);
	fixture_begin(argc, argv, options);
	fuzz_catch();
	atexit(fuzz_on_exit);
	fuzz.begun_ns = host_now_ns();
}

bool fuzz_next(u64 *ret_random)
{
	if (fuzz.done % LOOK_EACH == 0)
		alarm(HANGS_SECONDS);
	if (fuzz.done > 0 && fuzz.done % PROGRESS == 0) {
		printf("%llu executions so far\n", (unsigned long long)fuzz.done);
		fflush(stdout);
	}
	if (fuzz.done == fuzz.nr)
		return false;
	*ret_random = random_stream(fuzz.from + fuzz.done++);
	return true;
}

void fuzz_end(const char *format, ...)
{
	va_list args;

	alarm(0);
	fuzz.ended = true;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n%llu executions: 0 crashes, in %.1f s\n",
	       (unsigned long long)fuzz.done,
	       (double)(host_now_ns() - fuzz.begun_ns) / 1e9);
}
