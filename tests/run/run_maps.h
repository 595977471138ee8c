/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the ways of `lodic run --mmap` share. A mapping that is served shows in /proc/self/maps. */
#ifndef LODIC_TESTS_RUN_RUN_MAPS_H
#define LODIC_TESTS_RUN_RUN_MAPS_H

#include <setjmp.h>

#include "tests/run/run_reader.h"

#define BIG_BLOCKS 516 /* more than a huge page, and with a tail */
#define BIG_BYTES ((BIG_BLOCKS - 1) * BLOCK + TAIL)
#define BIG_PAGES_BYTES (BIG_BLOCKS * BLOCK)
/* The user promises the files of this number and the like: test_run_maps.py. */
#define PROMISED 9

/* The folder's large file number n; big_open() makes it first, and opens it O_RDONLY. */
const char *big_path(unsigned int n);
int big_open(unsigned int n);
/* Writes all of a file as if it had number g. */
void big_write(int fd, unsigned int g);

/* Is there a hold at this address? */
bool is_hold(const void *at);
/* The mapping's bytes must be those of number g, and zeros behind the end. */
void see(const uint8_t *p, size_t n, unsigned int g, size_t offset);
/* Maps again and again until the mapping is served, with a cache; map_all() maps all of it. */
uint8_t *map_served(int fd, void *address, size_t n, int flags, off_t offset);
uint8_t *map_all(int fd);
/* A mapping that must not be served, of number g from offset on. */
void map_kernel(int fd, size_t n, int protection, int flags, unsigned int g,
                off_t offset);

/* The signal that a look at p brings; 0: none. */
int fault_of(const volatile uint8_t *p);
/* A handler that jumps there. */
extern sigjmp_buf fault_jump;
void fault_caught(int number);

#endif
