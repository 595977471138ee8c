/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See settle.h. */
#define _GNU_SOURCE
#include "python/settle.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "python/binding.h"

/* lodic_close() may wait twice for a service that is stopped, 2 s each. */
#define SETTLE_CALLS_NS UINT64_C(5000000000)
/* Our choice. A thread that computes so long does not end its task at just this moment. */
#define SETTLE_BUSY_NS UINT64_C(1000000000)
#define SETTLE_PAUSE_NS 200000

static uint64_t calls;  /* under way, without the interpreter's lock; atomic */
static uint64_t others; /* has a thread called that is not the first one? atomic */

/* A forked child has one thread, and the others' calls do not end there. */
static void settle_forked(void)
{
	host_store_relaxed(&calls, 0);
	host_store_relaxed(&others, 0);
}

int settle_begin(void)
{
	return -pthread_atfork(NULL, NULL, settle_forked);
}

void settle_enter(void)
{
	static _Thread_local bool known;

	if (!known) {
		known = true;
		if (gettid() != getpid())
			host_store_relaxed(&others, 1);
	}
	host_fetch_add(&calls, 1);
}

void settle_leave(void)
{
	host_fetch_add(&calls, -(uint64_t)1);
}

/* What a look has seen of the threads. */
struct settle_look {
	uint64_t threads;
	uint64_t switches; /* how often the kernel has taken the CPU from them */
	bool busy;         /* one of them runs, wants to, or waits for a disk */
};

/* Adds a thread, whose file "status" this is. */
static void settle_add(struct settle_look *look, const char *status)
{
	static const char *const counts[] = { "\nvoluntary_ctxt_switches:",
		                              "\nnonvoluntary_ctxt_switches:" };
	const char *state = strstr(status, "\nState:\t");

	look->threads++;
	if (state)
		look->busy |= strchr("RD", state[strlen("\nState:\t")]) != NULL;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const char *at = strstr(status, counts[i]);

		if (at)
			look->switches += strtoull(at + strlen(counts[i]), NULL, 10);
	}
}

/* Looks at all threads but this one. Without /proc it sees none. */
static struct settle_look settle_look(void)
{
	struct settle_look look = { 0 };
	DIR *threads = opendir("/proc/self/task");
	struct dirent *thread;

	while (threads && (thread = readdir(threads))) {
		char path[64], status[4096];
		ssize_t n = -1;
		int fd;

		if (atoi(thread->d_name) <= 0 || atoi(thread->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/status",
		         atoi(thread->d_name));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			n = read(fd, status, sizeof(status) - 1);
			close(fd);
		}
		if (n < 0)
			continue; /* it has ended */
		status[n] = '\0';
		settle_add(&look, status);
	}
	if (threads)
		closedir(threads);
	return look;
}

/* Were all threads asleep at one moment, outside of this module? That moment is between the two
 * looks: a thread that has run since the first one has been switched away from once more. */
static bool settle_asleep(void)
{
	struct settle_look first = settle_look(), second;

	if (first.busy)
		return false;
	second = settle_look();
	return !second.busy && second.threads == first.threads &&
	       second.switches == first.switches && host_load_acquire(&calls) == 0;
}

void settle_wait(void)
{
	const struct timespec pause = { .tv_nsec = SETTLE_PAUSE_NS };
	uint64_t begun = host_now_ns(), most;

	if (!host_load_relaxed(&others))
		return;
	do {
		if (settle_asleep())
			return;
		nanosleep(&pause, NULL);
		most = host_load_acquire(&calls) ? SETTLE_CALLS_NS : SETTLE_BUSY_NS;
	} while (host_now_ns() - begun < most);
}
