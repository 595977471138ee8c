/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Many files go at once: they are deleted, or all revoked. No turn of the main loop lets more than
 * MOST_IN_A_TURN go. The service is this process's, and makes a turn when the test says so. It has
 * no ticks, so that it hears of each file by its watch or its lease.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/file/files.h"
#include "lib/service/file/proof.h"
#include "lib/service/succession/whole.h"
#include "lib/service/file/held.h"
#include "tests/support/cache_fixture.h"

#define NR_FILES 600u
#define MOST_IN_A_TURN 64u
#define DEADLINE_S 60

static char paths[NR_FILES][FIXTURE_PATH_BYTES];

static void hold(struct service *s, u32 i)
{
	static struct passed_file p;
	char name[32];
	u32 slot;
	int fd;

	snprintf(name, sizeof(name), "many%u", i);
	pattern_file_make(paths[i], name, 1, 1, LODIC_BLOCK_BYTES);
	fd = fixture_open(paths[i], O_RDONLY);
	proof_look(&s->options, &fd, &p);
	service_close(&fd);
	assert_int_equal(files_open(&s->files, &p, 0, &slot), 0);
	files_close(&s->files, slot, s->files.slots[slot].id, 1);
}

static struct service *begin(void)
{
	static char socket[FIXTURE_PATH_BYTES];
	struct service_options options = { .place.socket = socket,
		                           .sizes.cache_bytes = 1 << 20,
		                           .tables.barrier = SERVICE_BARRIER_LOCK,
		                           .keeping.nr_files = 2 * NR_FILES };
	const char *why = NULL;
	struct service *s;
	sigset_t all, old;

	fixture_path(socket, "many");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	s->next_tick_ns = UINT64_MAX;
	for (u32 i = 0; i < NR_FILES; i++)
		hold(s, i);
	return s;
}

static void all_go_in_pieces(struct service *s)
{
	u32 before;

	alarm(DEADLINE_S); /* a turn may sleep for ever */
	while ((before = s->files.nr_held) > 0) {
		service_turn(s);
		assert_in_range(before - s->files.nr_held, 0, MOST_IN_A_TURN);
	}
	alarm(0);
	service_shut(s);
}

static void deleted_files_go_in_pieces(void **state)
{
	struct service *s = begin();

	(void)state;
	for (u32 i = 0; i < NR_FILES; i++)
		assert_int_equal(unlink(paths[i]), 0);
	all_go_in_pieces(s);
}

static void revoked_files_go_in_pieces(void **state)
{
	struct service *s = begin();

	(void)state;
	for (u32 i = 0; i < NR_FILES; i++) {
		assert_int_equal(open(paths[i], O_WRONLY | O_NONBLOCK), -1);
		assert_int_equal(errno, EWOULDBLOCK);
	}
	all_go_in_pieces(s);
	for (u32 i = 0; i < NR_FILES; i++)
		unlink(paths[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deleted_files_go_in_pieces),
		cmocka_unit_test(revoked_files_go_in_pieces),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("nameless_many", tests, NULL, NULL);
}
