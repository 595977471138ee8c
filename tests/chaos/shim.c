/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that knows nothing of lodic. It calls pread(2) and mmap(2), and `lodic run --mmap`
 * serves these. It maps only files that nobody changes in place. So a mapping always has the bytes
 * of one generation, whether the kernel made it or the shim. Contract: chaos.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/chaos/chaos.h"

#define READ_BYTES (2 * LODIC_BLOCK_BYTES)
#define MOST_MAPS 4u
#define NO_EPOCH (~(u64)0)
#define MOST_COMPLAINTS 10u

struct map {
	void *data; /* NULL: none */
	u64 bytes, floor, generation;
	u32 file;
	bool served; /* it comes from the cache: at once, or later */
};

struct shim {
	struct chaos_world *world;
	struct shim_tally *tally;
	u64 random;
	int fds[CHAOS_WATCHED];
	u64 epochs[CHAOS_WATCHED];
	struct map maps[MOST_MAPS];
};

static void complain(struct shim *s, const char *what, u32 file, u64 offset, u64 detail)
{
	if (s->tally->wrong++ < MOST_COMPLAINTS)
		fprintf(stderr, "shim: %s: file %u offset %llu: %llx (seed=%llu)\n",
		        what, file, (unsigned long long)offset,
		        (unsigned long long)detail, (unsigned long long)fixture_seed());
}

static void shim_reopen(struct shim *s, u32 i)
{
	struct watched_file *w = &s->world->watched[i];
	u64 epoch = host_load_acquire(&w->epoch);

	if (s->epochs[i] == epoch)
		return;
	if (s->epochs[i] != NO_EPOCH)
		close(s->fds[i]);
	s->epochs[i] = epoch;
	s->fds[i] = fixture_open(w->path, O_RDONLY);
}

/* While the file changes: each word is one that was there, and none is too old. */
static void check_words(struct shim *s, u32 file, const u64 *floor, const u8 *bytes,
                        u64 n, u64 offset)
{
	struct watched_file *w = &s->world->watched[file];
	u64 newest = host_load_acquire(&w->phase) / 4 + 1;

	for (u64 at = 0; at + 8 <= n; at += 8) {
		u64 place = offset + at, word;

		memcpy(&word, bytes + at, 8);
		if (word == 0)
			continue; /* a hole */
		if (PATTERN_VERSION(word) > newest ||
		    word != pattern_word(w->number, PATTERN_VERSION(word), place / 8) ||
		    PATTERN_VERSION(word) < floor[place / LODIC_BLOCK_BYTES]) {
			complain(s, "an old word, or one that was never there", file,
			         place, word);
			return;
		}
	}
}

static void shim_read(struct shim *s)
{
	u32 file = (u32)random_below(&s->random, CHAOS_WATCHED);
	struct watched_file *w = &s->world->watched[file];
	u64 offset = random_below(&s->random, (WATCHED_MAX_BYTES - READ_BYTES) / 8) * 8;
	u64 n = 8 + random_below(&s->random, READ_BYTES / 8) * 8;
	u64 floor[WATCHED_MAX_BLOCKS], before, after, bytes, expected;
	u8 buffer[READ_BYTES];
	ssize_t got;
	bool same;

	/* Phase, then floor, then epoch, as in watched_file.c. */
	before = host_load_acquire(&w->phase);
	for (u32 i = 0; i < WATCHED_MAX_BLOCKS; i++)
		floor[i] = host_load_acquire(&w->floor[i]);
	shim_reopen(s, file);
	got = pread(s->fds[file], buffer, n, (off_t)offset);
	s->tally->reads++;
	if (got < 0) {
		complain(s, strerror(errno), file, offset, 0);
		return;
	}
	bytes = host_load_relaxed(&w->bytes);
	expected = offset >= bytes ? 0 : bytes - offset < n ? bytes - offset : n;
	same = (u64)got == expected &&
	       memcmp(buffer, w->shadow + offset, expected) == 0;
	host_fence_acquire(); /* the shadow's bytes before the phase */
	after = host_load_relaxed(&w->phase);
	if (before == after && before % 4 == WATCHED_QUIET) {
		if (!same)
			complain(s, "not what the file holds", file, offset, (u64)got);
		return;
	}
	check_words(s, file, floor, buffer, (u64)got, offset);
}

/* Is it the cache's memory that the shim has mapped? */
static bool map_is_served(const struct map *map)
{
	char line[256], begin[32];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool served = false;

	REQUIRE(maps, "no /proc");
	snprintf(begin, sizeof(begin), "%lx-", (unsigned long)map->data);
	while (fgets(line, sizeof(line), maps))
		if (strncmp(line, begin, strlen(begin)) == 0)
			served = strstr(line, "lodic-hold") != NULL;
	fclose(maps);
	return served;
}

static void map_look(struct shim *s, struct map *map)
{
	u64 generation = 0;
	const char *wrong = gen_file_judge(&s->world->replaced[map->file], map->data, 0,
	                                   map->bytes, map->floor, true, &generation);

	if (!wrong && map->generation && map->generation != generation)
		wrong = "another generation than before";
	if (wrong)
		complain(s, wrong, map->file, 0, generation);
	map->generation = generation;
	s->tally->looks++;
	if (!map->served && map_is_served(map)) {
		map->served = true;
		s->tally->served++;
	}
}

static void map_make(struct shim *s, struct map *map)
{
	const struct gen_file *f;
	struct stat st;
	int flags = random_below(&s->random, 3) ? MAP_PRIVATE : MAP_SHARED;
	u64 epoch;
	int fd;

	map->file = (u32)random_below(&s->random, CHAOS_REPLACED);
	f = &s->world->replaced[map->file];
	fd = gen_file_open(f, &epoch);
	if (fd < 0)
		return;
	map->floor = gen_file_floor(f, epoch);
	map->generation = 0;
	map->served = false;
	REQUIRE(fstat(fd, &st) == 0, "%s", strerror(errno));
	map->bytes = (u64)st.st_size;
	map->data = mmap(NULL, map->bytes, PROT_READ, flags, fd, 0);
	REQUIRE(map->data != MAP_FAILED, "%s", strerror(errno));
	close(fd);
	s->tally->maps++;
	map_look(s, map);
}

/* A child has its parent's mappings and descriptors. */
static void shim_fork(struct shim *s)
{
	pid_t pid = fixture_fork();

	if (pid == 0) {
		shim_read(s);
		for (u32 i = 0; i < MOST_MAPS; i++)
			if (s->maps[i].data)
				map_look(s, &s->maps[i]);
		_exit(0);
	}
	REQUIRE(fixture_wait(pid) == 0, "a child fails");
}

static void shim_step(struct shim *s)
{
	struct map *map = &s->maps[random_below(&s->random, MOST_MAPS)];
	u64 what = random_below(&s->random, 1000);

	if (what == 0) {
		shim_fork(s);
	} else if (what < 980) {
		shim_read(s);
	} else if (!map->data) {
		map_make(s, map);
	} else if (what < 994) {
		map_look(s, map);
	} else {
		map_look(s, map);
		munmap(map->data, map->bytes);
		map->data = NULL;
	}
}

void chaos_shim_main(struct chaos_world *world, u32 number, u64 birth)
{
	static struct shim shim;

	shim.world = world;
	shim.tally = &world->shims[number];
	shim.random = random_stream(birth);
	for (u32 i = 0; i < CHAOS_WATCHED; i++)
		shim.epochs[i] = NO_EPOCH;
	for (;;)
		shim_step(&shim);
}
