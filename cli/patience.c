/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/patience.h. */
#include "cli/patience.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "cli/cli.h"

#define FIRST_S 2
#define NEXT_S 3

static struct {
	pthread_mutex_t lock;
	pthread_cond_t over;
	pthread_t thread;
	bool waits, runs;
	const char *what;
} patience = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *patience_run(void *arg)
{
	struct timespec until;
	int seconds = FIRST_S;

	pthread_mutex_lock(&patience.lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += FIRST_S;
	while (patience.waits) {
		if (pthread_cond_timedwait(&patience.over, &patience.lock, &until) == 0)
			continue;
		cli_note("%s: %d s so far", patience.what, seconds);
		until.tv_sec += NEXT_S;
		seconds += NEXT_S;
	}
	pthread_mutex_unlock(&patience.lock);
	return arg;
}

void patience_begin(const char *what)
{
	pthread_condattr_t attributes;
	sigset_t all, old;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&patience.over, &attributes);
	pthread_condattr_destroy(&attributes);
	patience.what = what;
	patience.waits = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	patience.runs = pthread_create(&patience.thread, NULL, patience_run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void patience_end(void)
{
	pthread_mutex_lock(&patience.lock);
	patience.waits = false;
	pthread_cond_signal(&patience.over);
	pthread_mutex_unlock(&patience.lock);
	if (patience.runs)
		pthread_join(patience.thread, NULL);
	pthread_cond_destroy(&patience.over);
}
