/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: held.h. */
#define _GNU_SOURCE
#include "tests/support/held.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct lodic_hold *held_range(struct test_bed *b, u64 offset, u64 n)
{
	struct lodic_hold *h = NULL;
	int err = lodic_hold(b->lodic, b->file, (off_t)offset, n, LODIC_WAIT, &h);

	REQUIRE(err == 0, "not held: %s", lodic_strerror(err));
	REQUIRE(lodic_hold_ready(h) == 1, "not ready");
	return h;
}

bool held_has(const struct lodic_hold *h, u64 file, u64 version, u64 offset, u64 n)
{
	return lodic_hold_bytes(h) == n &&
	       pattern_holds(lodic_hold_data(h), file, version, offset, n);
}

u32 held_nr_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	u32 n = 0;

	REQUIRE(folder, "no /proc");
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

u32 held_nr_mappings(const char *name)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096];
	u32 n = 0;

	REQUIRE(file, "no /proc");
	while (fgets(line, sizeof(line), file))
		n += !name || strstr(line, name);
	fclose(file);
	return n;
}

/* Is it a descriptor of the right bytes, which nobody can change? */
bool held_descriptor_is_right(int fd, off_t at, u64 offset, u64 n)
{
	u8 *bytes = malloc(n);
	bool right;
	void *map;

	right = pread(fd, bytes, n, at) == (ssize_t)n &&
	        pattern_holds(bytes, 1, 1, offset, n) &&
	        (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY &&
	        (fcntl(fd, F_GETFD) & FD_CLOEXEC) &&
	        (fcntl(fd, F_GET_SEALS) &
	         (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)) ==
	                (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
	map = mmap(NULL, (u64)at + n, PROT_READ, MAP_SHARED, fd, 0);
	right = right && map != MAP_FAILED &&
	        pattern_holds((u8 *)map + at, 1, 1, offset, n);
	munmap(map, (u64)at + n);
	free(bytes);
	return right;
}

bool held_thread_sleeps(u64 thread_id)
{
	char path[64], text[256] = "";
	FILE *file;
	size_t n;

	if (!thread_id)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%llu/stat",
	         (unsigned long long)thread_id);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	return n > 0 && strstr(text, ") S ");
}
