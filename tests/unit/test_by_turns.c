/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files of a service that is this process's, and makes a turn when the test says so. So two
 * requests are there at once, and a file's state is what the test needs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/file/nameless.h"
#include "lib/service/file/proof.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/mover.h"
#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/succession/whole.h"
#include "tests/support/cache_fixture.h"

#define NR_FILES 3u
#define NR_BLOCKS 8u
#define DEADLINE_S 60

static struct service *s;
static char paths[NR_FILES][FIXTURE_PATH_BYTES];
static u32 slots[NR_FILES];

static void hold(u32 i)
{
	static struct passed_file p;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "turns%u", i);
	pattern_file_make(paths[i], name, i + 1, 1, NR_BLOCKS * LODIC_BLOCK_BYTES);
	fd = fixture_open(paths[i], O_RDONLY);
	proof_look(&s->options, &fd, &p);
	service_close(&fd);
	assert_int_equal(files_open(&s->files, &p, 0, &slots[i]), 0);
	files_close(&s->files, slots[i], s->files.slots[slots[i]].id, 1);
}

static struct held_file *file(u32 i)
{
	return &s->files.slots[slots[i]];
}

static int begin(void **state)
{
	static char socket[FIXTURE_PATH_BYTES];
	struct service_options options = { .place.socket = socket,
		                           .sizes.cache_bytes = 1 << 20,
		                           .sizes.fast_bytes = 1 << 19,
		                           .keeping.nr_files = NR_FILES,
		                           .keeping.buffered = true };
	const char *why = NULL;
	sigset_t all, old;

	(void)state;
	fixture_path(socket, "turns");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	for (u32 i = 0; i < NR_FILES; i++)
		hold(i);
	alarm(DEADLINE_S);
	return 0;
}

static int end(void **state)
{
	(void)state;
	alarm(0);
	service_shut(s);
	for (u32 i = 0; i < NR_FILES; i++)
		unlink(paths[i]);
	return 0;
}

/* A read fails: nothing of it is cached. The next one is as good as if there had been none. */
static void fill_of_a_failing_read_caches_nothing(void **state)
{
	int fd = file(0)->fd, own = dup(fd), folder = fixture_open("/", O_RDONLY);
	const u64 *nr_errors = &s->memory.arena.header->nr_errors;

	(void)state;
	assert_int_equal(dup2(folder, fd), fd);
	fill_want(&s->frames, file(0)->id, 0, NR_BLOCKS);
	while (host_load_relaxed(nr_errors) == 0)
		service_turn(s);
	assert_int_equal(file(0)->nr_frames, 0);
	assert_int_equal(dup2(own, fd), fd);
	fill_want(&s->frames, file(0)->id, 0, NR_BLOCKS);
	while (file(0)->nr_frames < NR_BLOCKS)
		service_turn(s);
	assert_int_equal(host_load_relaxed(nr_errors), 1);
	close(folder);
	close(own);
}

static void moves_of_files_at_once_all_end(void **state)
{
	(void)state;
	for (u32 i = 0; i < NR_FILES; i++) {
		fill_want(&s->frames, file(i)->id, 0, NR_BLOCKS);
		while (file(i)->nr_frames < NR_BLOCKS)
			service_turn(s);
		assert_int_equal(file(i)->nr_fast, NR_BLOCKS);
	}
	for (u32 i = 0; i < NR_FILES; i++)
		assert_int_equal(mover_file(&s->frames, slots[i], TIER_SLOW), 0);
	for (u32 i = 0; i < NR_FILES; i++)
		while (file(i)->nr_fast > 0)
			service_turn(s);
}

static void leave_mounts_lets_idle_files_go(void **state)
{
	(void)state;
	for (u32 i = 0; i < NR_FILES; i++)
		file(i)->idle_since_ns = host_now_ns() - SERVICE_DEFAULT_KEEP_AWAY_MS * NS_PER_MS;
	file(0)->away = file(1)->away = true;
	assert_int_equal(files_keep(&s->files, file(0)->dev, file(0)->ino), 0);
	nameless_tick(&s->files);
	assert_int_equal(file(0)->state, FILE_HELD); /* a user has loaded it */
	assert_int_equal(file(1)->state, FILE_FREE);
	assert_int_equal(file(2)->state, FILE_HELD);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fill_of_a_failing_read_caches_nothing, begin, end),
		cmocka_unit_test_setup_teardown(moves_of_files_at_once_all_end, begin, end),
		cmocka_unit_test_setup_teardown(leave_mounts_lets_idle_files_go, begin, end),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("by_turns", tests, NULL, NULL);
}
