/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Many threads: the ways of run_reader.c about what each of them has at the service. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "tests/run/run_reader.h"

#define STACK_BYTES (64 << 10)
#define ENDED 8
#define REPLACED 4000u
#define CONTEXTS 1024 /* that a service has for all programs */

static u64 nr_warm; /* atomic */
static pthread_mutex_t over = PTHREAD_MUTEX_INITIALIZER;

static pthread_barrier_t barrier;

static void *end_body(void *fd)
{
	warm(*(int *)fd, 1);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* How many lines of /proc/self/maps have the word. */
static unsigned int count_maps(const char *word)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int nr = 0;
	char line[4096];

	NEED(f, "%s", strerror(errno));
	while (fgets(line, sizeof(line), f))
		nr += strstr(line, word) != NULL;
	fclose(f);
	return nr;
}

/* Threads have read, and end. Then another service takes the first one's place. */
static void way_threads_ended(void)
{
	pthread_t threads[ENDED];
	int fd = file_open(1);

	pthread_barrier_init(&barrier, NULL, ENDED);
	for (int i = 0; i < ENDED; i++)
		pthread_create(&threads[i], NULL, end_body, &fd);
	for (int i = 0; i < ENDED; i++)
		pthread_join(threads[i], NULL);
	wait_until_told();
	warm(fd, 1);
	for (int i = 0; i < 3000; i++) {
		if (count_maps("memfd:lodic-data") == 1 &&
		    count_maps("memfd:lodic-context") == 1)
			break;
		look(fd, 1);
		usleep(1000);
	}
	NEED(count_maps("memfd:lodic-data") == 1, "%u caches are mapped",
	     count_maps("memfd:lodic-data"));
	NEED(count_maps("memfd:lodic-context") == 1, "%u contexts are mapped",
	     count_maps("memfd:lodic-context"));
}

static void *warm_body(void *fd)
{
	warm(*(int *)fd, 1);
	host_fetch_add(&nr_warm, 1);
	pthread_mutex_lock(&over); /* and stays */
	pthread_mutex_unlock(&over);
	return NULL;
}

/* There is no context left. It reads from the kernel, and seldom asks for one. */
static void *late_body(void *fd)
{
	long before = count_getpids();

	for (int i = 0; i < 1000; i++)
		look(*(int *)fd, 1);
	NEED(count_getpids() - before < 100, "%ld locks", count_getpids() - before);
	return NULL;
}

static void way_threads_many(void)
{
	unsigned int nr = (unsigned int)atoi(getenv("THREADS"));
	pthread_t threads[CONTEXTS], late;
	pthread_attr_t small;
	int fd = file_open(1);

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	pthread_mutex_lock(&over);
	for (unsigned int i = 0; i < nr && i < CONTEXTS; i++) {
		NEED(pthread_create(&threads[i], &small, warm_body, &fd) == 0, "%u", i);
		while (host_load_relaxed(&nr_warm) == i)
			usleep(100);
	}
	for (unsigned int i = CONTEXTS; i < nr; i++) {
		pthread_create(&late, &small, late_body, &fd);
		pthread_join(late, NULL);
	}
	wait_until_told();
	pthread_mutex_unlock(&over);
	for (unsigned int i = 0; i < nr && i < CONTEXTS; i++)
		pthread_join(threads[i], NULL);
}

/* Reads there as often as it can, so that the shim looks at what is open there all the time. */
static void *replaced_body(void *number)
{
	uint8_t byte;

	while (!host_load_acquire(&nr_warm))
		NEED(pread(*(int *)number, &byte, 1, 5) == 1 &&
		             (byte == file_byte(1, 5) || byte == file_byte(2, 5)),
		     "%#x", byte);
	return NULL;
}

/* Two threads, one number. This one puts one file there, then the other, and reads. */
static void way_threads_replaced(void)
{
	int fds[] = { warm_open(1), warm_open(2) };
	int number = dup(fds[0]);
	pthread_t thread;

	pthread_create(&thread, NULL, replaced_body, &number);
	for (unsigned int i = 0; i < REPLACED; i++) {
		NEED(dup2(fds[i % 2], number) == number, "%s", strerror(errno));
		for (int k = 0; k < 4; k++)
			look(number, i % 2 + 1);
	}
	host_store_release(&nr_warm, 1);
	pthread_join(thread, NULL);
}

const struct way thread_ways[] = {
	{ "threads_replaced", way_threads_replaced },
	{ "threads_ended", way_threads_ended },
	{ "threads_many", way_threads_many },
	{ NULL, NULL },
};
