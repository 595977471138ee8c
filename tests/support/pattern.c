/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* File contents. Contract: cache_fixture.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cache_fixture.h"

#define COPY_BYTES (64u << 10)
#define PATTERN_MASK (((u64)1 << 40) - 1)

u64 pattern_word(u64 file, u64 version, u64 index)
{
	u64 z = random_mix(fixture_seed() + file * RANDOM_STEP) + (version << 40 | index);

	return version << 40 | (random_mix(z) & PATTERN_MASK);
}

void pattern_fill(void *to, u64 file, u64 version, u64 offset, u64 bytes)
{
	u64 end = offset + bytes;
	u8 *p = to;
	u64 at, n;

	for (at = offset; at < end; at += n) {
		u64 word = pattern_word(file, version, at / 8);

		n = 8 - at % 8 < end - at ? 8 - at % 8 : end - at;
		memcpy(p + (at - offset), (u8 *)&word + at % 8, n);
	}
}

bool pattern_holds(const void *from, u64 file, u64 version, u64 offset, u64 bytes)
{
	u64 end = offset + bytes;
	const u8 *p = from;
	u64 at, n;

	for (at = offset; at < end; at += n) {
		u64 word = pattern_word(file, version, at / 8);

		n = 8 - at % 8 < end - at ? 8 - at % 8 : end - at;
		if (memcmp(p + (at - offset), (u8 *)&word + at % 8, n) != 0)
			return false;
	}
	return true;
}

void pattern_file_make(char path[FIXTURE_PATH_BYTES], const char *name, u64 file,
                       u64 version, u64 bytes)
{
	u8 *buffer = malloc(COPY_BYTES);
	u64 at, n;
	int fd;

	fixture_path(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	REQUIRE(fd >= 0 && buffer, "%s: %s", path, strerror(errno));
	for (at = 0; at < bytes; at += n) {
		n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
		pattern_fill(buffer, file, version, at, n);
		REQUIRE(write(fd, buffer, n) == (ssize_t)n, "%s: %s", path,
		        strerror(errno));
	}
	close(fd);
	free(buffer);
}
