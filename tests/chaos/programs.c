/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Programs that use the cache, and the writers. Contract: chaos.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/chaos/chaos.h"

/* Between two changes. Files that change all the time are never cached. */
#define CHANGE_PAUSE_US 60000u

const char *const chaos_role_names[NR_ROLES] = { "watcher", "holder", "shim", "writer",
	                                         "replacer" };

struct chaos_world *chaos_world_map(const char *path, bool fresh)
{
	int fd = fixture_open(path, O_RDWR | (fresh ? O_CREAT | O_EXCL : 0));
	void *p;

	REQUIRE(!fresh || ftruncate(fd, sizeof(struct chaos_world)) == 0, "%s",
	        strerror(errno));
	p = mmap(NULL, sizeof(struct chaos_world), PROT_READ | PROT_WRITE, MAP_SHARED,
	         fd, 0);
	REQUIRE(p != MAP_FAILED, "%s", strerror(errno));
	close(fd);
	return p;
}

/* Reads, pins and views. */
static _Noreturn void watcher_run(struct chaos_world *world, u32 number, u64 birth)
{
	static struct watcher watcher;
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = world->holders.socket,
		                               .service = "/proc/self/exe" };
	int err;

	/* What a meddler's own leases send it. */
	signal(SIGURG, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	watcher.watched = world->watched;
	watcher.tally = &world->tallies[number];
	watcher.nr_files = CHAOS_WATCHED;
	watcher.number = number;
	watcher.meddles = number == 0;
	/* The service that is started, or found, may be killed or stopped at once. */
	while ((err = lodic_attach(&options, &watcher.lodic)) == -ECONNRESET ||
	       err == -ETIMEDOUT)
		watcher.tally->progress++;
	REQUIRE(err == 0, "not attached: %s", lodic_strerror(err));
	watcher_begin(&watcher);
	watcher.random = random_stream(birth);
	while (!host_load_acquire(&watcher.tally->stop))
		watcher_step(&watcher);
	watcher_end(&watcher);
	lodic_detach(watcher.lodic);
	_exit(watcher.tally->wrong > 0);
}

/* Changes watched files, in every way. */
static void writer_step(struct chaos_world *world, u64 *random)
{
	u64 file = random_below(random, CHAOS_WATCHED);
	u64 change = random_below(random, NR_CHANGES);

	watched_file_change(&world->watched[file], (enum watched_change)change, 0,
	                    random);
}

/* Changes files that programs hold, and replaces those that they map. */
static void replacer_step(struct chaos_world *world, u64 *random)
{
	u64 file = random_below(random, HOLDER_FILES + CHAOS_REPLACED);
	u64 change = random_below(random, GEN_NR_CHANGES);
	struct gen_file *f = file < HOLDER_FILES
	                             ? &world->holders.files[file]
	                             : &world->replaced[file - HOLDER_FILES];

	if (file >= HOLDER_FILES)
		change = change % 2 ? GEN_RENAME : GEN_UNLINK;
	gen_file_change(f, (enum gen_change)change, random);
}

static _Noreturn void writer_run(struct chaos_world *world, enum chaos_role role,
                                 u64 birth)
{
	u64 random = random_stream(birth);

	while (!host_load_acquire(&world->stop)) {
		if (role == ROLE_WRITER)
			writer_step(world, &random);
		else
			replacer_step(world, &random);
		host_fetch_add(&world->changes, 1);
		fixture_pause_us(random_below(&random, CHANGE_PAUSE_US));
	}
	_exit(0);
}

void chaos_run(struct chaos_world *world, enum chaos_role role, u32 number, u64 birth)
{
	if (role == ROLE_WATCHER)
		watcher_run(world, number, birth);
	if (role == ROLE_HOLDER)
		holder_run(&world->holders, &world->lives[number], birth);
	writer_run(world, role, birth);
}
