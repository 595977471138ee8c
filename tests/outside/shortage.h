/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shortages: each function drives one to its end, sees that the service refuses something, and
 * ends it. It returns when that was. A program that comes then is to be served.
 */
#ifndef LODIC_TESTS_OUTSIDE_SHORTAGE_H
#define LODIC_TESTS_OUTSIDE_SHORTAGE_H

#include "tests/outside/outside.h"

/* The deadline for what must come back. */
#define SHORTAGE_MS 60000u
/* A limit below the number of any descriptor that the service could get. */
#define SHORTAGE_NO_FDS 8u

/* The service that meets all of them, but for the disk's; it has one reader. */
extern struct test_bed shortage_bed;

/* No descriptor is left, not even in place of another one, and a program waits to be let in. */
u64 shortage_descriptors_none(void);
/* Two are left, and more programs connect. */
u64 shortage_descriptors_few(void);
/* The service's process gets no more memory; or no more that it can share. */
u64 shortage_memory_mapped(void);
u64 shortage_memory_shared(void);
u64 shortage_contexts(void);
/* Programs that connect and do nothing; ordinary readers. */
u64 shortage_connections_idle(void);
u64 shortage_connections_readers(void);
/* The file system of the log, the metrics and a lock file is full. This is `lodic serve`, at a
 * socket of its own: program is the path of `lodic`. */
void shortage_disk_begin(const char *program);
u64 shortage_disk_full(void);
void shortage_disk_end(void);

/* Does all that a new program does, once. true: its read came from the cache. */
bool shortage_is_served(void);
/* The descriptors that the process has open. */
u32 shortage_nr_descriptors(pid_t pid);
/* Sets a soft limit of the process, RLIMIT_NOFILE or another one. */
void shortage_limit(pid_t pid, int what, u64 value);
/* Connects without waiting, and sends nothing. -1: nobody is let in just now. */
int shortage_connect(const char *path);
bool shortage_is_hung_up(int fd);

#endif
