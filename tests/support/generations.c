/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: generations.h. */
#define _GNU_SOURCE
#include "tests/support/generations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const gen_change_names[GEN_NR_CHANGES] = { "rewritten", "truncated",
	                                               "replaced", "unlinked" };

/* What the writer is about to write. */
static u8 *gen_bytes(const struct gen_file *f, u64 generation, u64 bytes)
{
	static u8 *buffer;

	if (!buffer)
		buffer = malloc(GEN_MOST_BYTES);
	REQUIRE(buffer, "no memory");
	pattern_fill(buffer, f->number, generation, 0, bytes);
	return buffer;
}

static void gen_write(int fd, const u8 *from, u64 bytes)
{
	ssize_t n;

	for (u64 at = 0; at < bytes; at += (u64)n) {
		n = pwrite(fd, from + at, bytes - at, (off_t)at);
		REQUIRE(n > 0, "%s", strerror(errno));
	}
}

static void gen_store(int fd, const u8 *from, u64 bytes)
{
	u8 *at;

	REQUIRE(ftruncate(fd, (off_t)bytes) == 0, "%s", strerror(errno));
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(at != MAP_FAILED, "%s", strerror(errno));
	memcpy(at, from, bytes);
	munmap(at, bytes);
}

static u64 gen_size(u64 *random)
{
	u64 most = (GEN_MOST_BYTES - GEN_LEAST_BYTES) / 8;

	return GEN_LEAST_BYTES + random_below(random, most + 1) * 8;
}

/* From now on bytes of a new generation may exist. */
static u64 gen_begin(struct gen_file *f, u64 bytes)
{
	u64 generation = f->begun + 1;

	host_store_release(&f->sizes[generation % GEN_SIZES], bytes);
	host_store_release(&f->begun, generation);
	return generation;
}

static void gen_write_in_place(struct gen_file *f, bool truncates, u64 *random)
{
	u64 bytes = gen_size(random);
	bool maps = random_below(random, 2);
	u64 way = random_below(random, 3);
	u64 generation = gen_begin(f, bytes);
	u64 old = f->sizes[(generation - 1) % GEN_SIZES];
	const u8 *from = gen_bytes(f, generation, bytes);
	int fd;

	if (truncates && way == 0) {
		host_store_release(&f->sizes[(generation - 1) % GEN_SIZES], 0);
		REQUIRE(truncate(f->path, (off_t)(old / 2)) == 0, "%s",
		        strerror(errno));
	}
	fd = fixture_open(f->path, O_RDWR | (truncates && way == 1 ? O_TRUNC : 0));
	host_store_release(&f->floor, generation);
	if (truncates && way == 2)
		REQUIRE(ftruncate(fd, 0) == 0, "%s", strerror(errno));
	if (maps) {
		gen_store(fd, from, bytes);
	} else {
		gen_write(fd, from, bytes);
		REQUIRE(ftruncate(fd, (off_t)bytes) == 0, "%s", strerror(errno));
	}
	close(fd);
}

/* Makes a file of the next generation at path. */
static u64 gen_write_new(struct gen_file *f, const char *path, u64 *random)
{
	u64 bytes = gen_size(random);
	u64 generation = gen_begin(f, bytes);
	int fd = fixture_open(path, O_WRONLY | O_CREAT | O_EXCL);

	gen_write(fd, gen_bytes(f, generation, bytes), bytes);
	close(fd);
	return generation;
}

static void gen_replace(struct gen_file *f, bool renames, u64 *random)
{
	char other[FIXTURE_PATH_BYTES + 8];
	u64 generation;

	snprintf(other, sizeof(other), "%s.new", f->path);
	/* The full fence: floor, which is raised later, is never seen without this. */
	host_fetch_add(&f->epoch, 1);
	if (renames) {
		generation = gen_write_new(f, other, random);
		REQUIRE(rename(other, f->path) == 0, "%s", strerror(errno));
	} else {
		REQUIRE(unlink(f->path) == 0, "%s", strerror(errno));
		generation = gen_write_new(f, f->path, random);
	}
	host_store_release(&f->floor, generation);
	host_fetch_add(&f->epoch, 1);
}

void gen_file_make(struct gen_file *f, const char *name, u64 number, u64 *random)
{
	f->number = number;
	fixture_path(f->path, name);
	f->floor = gen_write_new(f, f->path, random);
}

void gen_file_change(struct gen_file *f, enum gen_change change, u64 *random)
{
	switch (change) {
	case GEN_REWRITE: gen_write_in_place(f, false, random); break;
	case GEN_TRUNCATE: gen_write_in_place(f, true, random); break;
	default: gen_replace(f, change == GEN_RENAME, random);
	}
}

int gen_file_open(const struct gen_file *f, u64 *ret_epoch)
{
	u64 epoch = host_load_acquire(&f->epoch);
	int fd = epoch % 2 ? -1 : open(f->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (host_load_acquire(&f->epoch) != epoch) {
		close(fd);
		return -1;
	}
	*ret_epoch = epoch;
	return fd;
}

u64 gen_file_floor(const struct gen_file *f, u64 epoch)
{
	/* In this order: a floor of the next file comes with the next epoch. */
	u64 floor = host_load_acquire(&f->floor);

	return host_load_acquire(&f->epoch) == epoch ? floor : 0;
}

const char *gen_file_judge(const struct gen_file *f, const void *data, u64 offset,
                           u64 bytes, u64 floor, bool to_end, u64 *ret_generation)
{
	u64 begun = host_load_acquire(&f->begun);
	u64 generation, size, word;

	if (bytes < 16)
		return "of no length";
	/* The first whole word. */
	memcpy(&word, (const u8 *)data + (8 - offset % 8) % 8, 8);
	generation = PATTERN_VERSION(word);
	if (!pattern_holds(data, f->number, generation, offset, bytes))
		return "torn";
	if (generation > begun)
		return "of no generation";
	if (generation < floor)
		return "stale";
	*ret_generation = generation;
	if (begun - generation > GEN_SIZES / 2)
		return NULL;
	size = host_load_acquire(&f->sizes[generation % GEN_SIZES]);
	if (size == 0) /* truncate(2) has been there */
		return NULL;
	if (offset + bytes > size)
		return "longer than the file";
	return to_end && offset + bytes < size ? "shorter than the file" : NULL;
}
