/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A process of the doctor's own that reads a file in slots, and says what a read takes. Whether the
 * shim is in it, and which one, the parent has decided (try.c). */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor/reader.h"
#include "host/random.h"

#define NEW_PAUSE_NS 200000
/* Between two cold reads the reader goes over so many bytes, line by line. Our choice: the second
 * cache of most CPUs. */
#define WASHED ((size_t)1 << 20)

uint64_t doctor_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static off_t random_place(const struct doctor_order *o, uint64_t *seed)
{
	uint64_t n = random_next(seed);

	return (off_t)(o->askew ? n % (o->span - o->bytes + 1)
	                        : n % (o->span / o->bytes) * o->bytes);
}

/* In each slot the other readers have driven its lines out of the CPU. So as many reads go before,
 * and only the rest counts. */
static double read_hot(int fd, const struct doctor_order *o, char *to, uint64_t *seed)
{
	uint64_t began = 0;

	for (uint32_t i = 0; i < 2 * o->reads; i++) {
		if (i == o->reads)
			began = doctor_cpu_ns();
		if (pread(fd, to, o->bytes, random_place(o, seed)) < 0)
			return -1;
	}
	return (double)(doctor_cpu_ns() - began) / o->reads;
}

/* Once, from its begin. */
static double read_span(int fd, const struct doctor_order *o, char *to)
{
	uint64_t began = doctor_cpu_ns();

	for (uint64_t at = 0; at + o->bytes <= o->span; at += o->bytes)
		if (pread(fd, to, o->bytes, (off_t)at) < 0)
			return -1;
	return (double)(doctor_cpu_ns() - began);
}

/* What lies in the CPU's caches goes, as a program's own work makes it go. */
static void wash(void)
{
	static volatile char memory[WASHED];

	for (size_t i = 0; i < WASHED; i += 64)
		memory[i]++;
}

/* The median, because an interrupt may hit a read. */
static double read_cold(int fd, const struct doctor_order *o, char *to, uint64_t *seed)
{
	double at[DOCTOR_COLD_READS];
	struct series s = { .at = at, .nr_rounds = DOCTOR_COLD_READS };
	uint64_t began;
	off_t place;

	for (unsigned int i = 0; i < DOCTOR_COLD_READS; i++) {
		place = random_place(o, seed);
		wash();
		began = cli_now_ns();
		if (pread(fd, to, o->bytes, place) < 0)
			return -1;
		at[i] = (double)(cli_now_ns() - began);
	}
	return series_spread(&s).median;
}

/* Opens new files and reads them in turn, with pauses in which the service can answer. Returns
 * the time of one file. */
static double read_new(const char *path)
{
	const struct timespec pause = { .tv_nsec = NEW_PAUSE_NS };
	char name[PATH_MAX + 8], to[512];
	uint64_t began = doctor_cpu_ns();
	int fds[DOCTOR_NEW_FILES];

	for (unsigned int i = 0; i < DOCTOR_NEW_FILES; i++) {
		snprintf(name, sizeof(name), "%s-%u", path, i);
		fds[i] = open(name, O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0)
			return -1;
	}
	for (unsigned int r = 0; r < DOCTOR_NEW_READS; r++) {
		for (unsigned int i = 0; i < DOCTOR_NEW_FILES; i++)
			if (pread(fds[i], to, sizeof(to), 0) < 0)
				return -1;
		nanosleep(&pause, NULL);
	}
	return (double)(doctor_cpu_ns() - began) / DOCTOR_NEW_FILES;
}

int doctor_reader(const char *path)
{
	static char to[DOCTOR_MOST_READ];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t seed = 1;
	struct doctor_order o;
	double ns;

	while (fd >= 0 && recv(STDIN_FILENO, &o, sizeof(o), 0) == sizeof(o)) {
		if (o.span == 0)
			ns = read_new(getenv(DOCTOR_NEW_PLACE));
		else if (o.cold)
			ns = read_cold(fd, &o, to, &seed);
		else if (o.reads)
			ns = read_hot(fd, &o, to, &seed);
		else
			ns = read_span(fd, &o, to);
		if (send(STDIN_FILENO, &ns, sizeof(ns), MSG_NOSIGNAL) != sizeof(ns))
			break;
	}
	return CLI_OK;
}
