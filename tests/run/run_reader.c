/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that reads files and does not know of `lodic run`; test_run.py runs it with and
 * without. Each of its ways does something that a shim could spoil, and looks whether the shim
 * did. With "cached" it also demands that reads are served. /proc/self/io counts the reads that
 * the kernel does for this process. A read that the cache serves is not among them.
 *
 *	run_reader WAY FOLDER plain|cached
 *
 * It ends with 0, or with 1 and a line on what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "host/host.h"
#include "tests/run/run_reader.h"

#define PATTERN UINT64_C(0x9e3779b97f4a7c15)
#define WARM_SECONDS 20
#define PATH_BYTES 4096
#define PLACES 4

int complain_fd = STDERR_FILENO;
bool cached;
const char *folder;

uint8_t file_byte(unsigned int n, uint64_t offset)
{
	return (uint8_t)((offset / 8 + 1 + n * 1000) * PATTERN >> (offset % 8 * 8));
}

const char *file_make(unsigned int n)
{
	static __thread char paths[PLACES][PATH_BYTES];
	static __thread unsigned int next;
	uint8_t bytes[FILE_BYTES];
	char *path = paths[next++ % PLACES];
	int fd;

	snprintf(path, PATH_BYTES, "%s/file%u", folder, n);
	if (access(path, F_OK) == 0)
		return path;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = file_byte(n, i);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	NEED(fd >= 0, "%s: %s", path, strerror(errno));
	NEED(write(fd, bytes, sizeof(bytes)) == FILE_BYTES, "%s", strerror(errno));
	close(fd);
	return path;
}

int file_open(unsigned int n)
{
	const char *path = file_make(n);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	NEED(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

void look(int fd, unsigned int n)
{
	const off_t at = 3 * BLOCK + 5;
	uint8_t bytes[300];
	ssize_t got;

	errno = 77;
	got = pread(fd, bytes, sizeof(bytes), at);
	NEED(got == (ssize_t)sizeof(bytes), "%zd of file %u: %s", got, n,
	     strerror(errno));
	NEED(errno == 77, "errno %d", errno);
	for (size_t i = 0; i < sizeof(bytes); i++)
		NEED(bytes[i] == file_byte(n, (uint64_t)at + i),
		     "byte %zu is not file %u's", i, n);
}

static u64 nr_getpids; /* atomic */

/* The shim takes this function in place of libc's. */
pid_t getpid(void)
{
	host_fetch_add(&nr_getpids, 1);
	return (pid_t)syscall(SYS_getpid);
}

long count_getpids(void)
{
	return (long)host_load_relaxed(&nr_getpids);
}

long count_reads(void)
{
	char text[512];
	int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	const char *at;

	NEED(n > 0, "/proc/self/io: %s", strerror(errno));
	close(fd);
	text[n] = '\0';
	at = strstr(text, "syscr: ");
	NEED(at, "no syscr in /proc/self/io");
	return atol(at + strlen("syscr: "));
}

bool is_served(int fd, unsigned int n)
{
	long before = count_reads();

	look(fd, n);
	return count_reads() - before == 1;
}

void warm(int fd, unsigned int n)
{
	time_t end = time(NULL) + WARM_SECONDS;

	do {
		for (int i = 0; i < 50; i++)
			look(fd, n);
		if (!cached)
			return;
		NEED(time(NULL) < end, "the cache does not serve file %u", n);
	} while (!is_served(fd, n));
}

int warm_open(unsigned int n)
{
	int fd = file_open(n);

	warm(fd, n);
	return fd;
}

void wait_until_told(void)
{
	char byte;

	dprintf(STDOUT_FILENO, "ready\n");
	NEED(read(STDIN_FILENO, &byte, 1) == 1, "%s", strerror(errno));
}

void wait_for(pid_t child)
{
	int status = -1;

	NEED(child > 0, "%s", strerror(errno));
	NEED(waitpid(child, &status, __WALL) == child, "%s", strerror(errno));
	NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

int main(int argc, char **argv)
{
	const struct way *lists[] = { descriptor_ways, process_ways, confined_ways,
		                      random_ways,     rights_ways,  thread_ways,
		                      map_ways,        mapped_ways,  past_ways,
		                      exec_ways };

	if (argc < 4) {
		fprintf(stderr, "usage: %s WAY FOLDER plain|cached\n", argv[0]);
		return 2;
	}
	folder = argv[2];
	cached = strcmp(argv[3], "cached") == 0;
	for (size_t i = 0; i < LENGTH(lists); i++)
		for (const struct way *way = lists[i]; way->name; way++)
			if (strcmp(argv[1], way->name) == 0) {
				way->run();
				return 0;
			}
	fprintf(stderr, "there is no way '%s'\n", argv[1]);
	return 2;
}
