/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program that reads files by pread() and knows nothing of `lodic run`. */
#ifndef LODIC_TESTS_RUN_RUN_READER_H
#define LODIC_TESTS_RUN_RUN_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#define BLOCK 4096
#define FILE_BLOCKS 16
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define TAIL 100 /* bytes of the last block */
#define FILE_BYTES ((FILE_BLOCKS - 1) * BLOCK + TAIL)

#define NEED(condition, ...) \
	do { \
		if (!(condition)) { \
			dprintf(complain_fd, "line %d: %s: ", __LINE__, #condition); \
			dprintf(complain_fd, __VA_ARGS__); \
			dprintf(complain_fd, "\n"); \
			_exit(1); \
		} \
	} while (0)

extern int complain_fd;
extern const char *folder;
extern bool cached; /* the program runs under the shim, with a service */

/* Makes the folder's file number n, whose bytes depend on n. Returns its path, in one of a few
 * places. */
const char *file_make(unsigned int n);
int file_open(unsigned int n); /* makes it first, and opens it O_RDONLY */
uint8_t file_byte(unsigned int n, uint64_t offset);

/* Reads block 3 of file n; the bytes must be right. */
void look(int fd, unsigned int n);
/* How often the shim, or a way, has asked for the process's number: the shim does so each time
 * that it takes its lock. */
long count_getpids(void);
/* Reads that the kernel has done for this process. Each call is one more. */
long count_reads(void);
/* Did a pread() of fd just now make no system call? */
bool is_served(int fd, unsigned int n);
/* Reads the file until it is served from the cache, for at most 20 s. Without a cache it only
 * reads. */
void warm(int fd, unsigned int n);
/* warm(), of a new descriptor of file n. */
int warm_open(unsigned int n);

/* Says that all is ready, and waits for a byte of stdin. */
void wait_until_told(void);
/* From now on any system call but these kills the process. flags are those of seccomp(2). */
void confine(const unsigned int *allowed, unsigned short nr, unsigned int flags);
/* The child must end with 0. */
void wait_for(pid_t child);

/* The ways; each is a case of test_run.py. */
struct way {
	const char *name;
	void (*run)(void);
};
extern const struct way descriptor_ways[], process_ways[], confined_ways[],
	random_ways[], rights_ways[], thread_ways[], map_ways[], mapped_ways[],
	past_ways[], exec_ways[];

#endif
