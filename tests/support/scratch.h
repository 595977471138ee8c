/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Files for one test: with these bytes, and what stands in a trace. */
#ifndef LODIC_TESTS_SUPPORT_SCRATCH_H
#define LODIC_TESTS_SUPPORT_SCRATCH_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/host.h"

static inline char *file_with(const void *bytes, size_t n)
{
	char *path = strdup("/tmp/lodic-tier-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	close(fd);
	return path;
}

static inline void file_gone(char *path)
{
	unlink(path);
	free(path);
}

/* A request of libCacheSim's oracleGeneral: 24 bytes. */
static inline void oracle_record(u8 *to, u64 object, u32 bytes)
{
	memset(to, 0xff, 24);
	memcpy(to + 4, &object, 8);
	memcpy(to + 12, &bytes, 4);
}

#endif
