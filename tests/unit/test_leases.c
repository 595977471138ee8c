/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The main thread takes and drops leases, and the lease thread answers breaks. No writer is
 * forgotten, whenever it comes. A writer that is forgotten would wait for 45 s.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/file/lease.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "tests/support/cache_fixture.h"

#define BYTES 4096u
/* A mutant does not hear at all. */
#define HEARD_MS (TEST_MUTANT ? 3000u : FIXTURE_DEADLINE_MS)

static struct service service;

/* The leases of a service that are not begun; nothing else of it is there. */
static struct service *leases_shape(u32 nr_files)
{
	struct service *s = &service;

	memset(s, 0, sizeof(*s));
	service_wire(s);
	s->memory.shape.nr_files = nr_files;
	s->memory.arena.files = calloc(nr_files, sizeof(*s->memory.arena.files));
	s->memory.arena.header = calloc(1, sizeof(*s->memory.arena.header));
	assert_non_null(s->memory.arena.files);
	assert_non_null(s->memory.arena.header);
	s->memory.arena.header->generation = 7;
	return s;
}

static struct service *leases_make(u32 nr_files)
{
	struct service *s = leases_shape(nr_files);
	const char *why;

	assert_int_equal(lease_start(&s->files, &why), 0);
	assert_int_not_equal(host_load_acquire(&s->memory.arena.header->alive),
	                     ARENA_DEAD);
	return s;
}

static void leases_free(struct service *s)
{
	lease_stop(&s->files);
	assert_int_equal(s->memory.arena.header->alive, ARENA_DEAD);
	free(s->memory.arena.header);
	free(s->memory.arena.files);
}

/* Makes file number i, and opens it. */
static int make_file(char path[FIXTURE_PATH_BYTES], u32 i)
{
	char name[32];

	snprintf(name, sizeof(name), "file%u", i);
	pattern_file_make(path, name, i, 1, BYTES);
	return fixture_open(path, O_RDONLY);
}

/* Opens a file for writing when its lease is gone; asks again and again, for the deadline's
 * sake. */
static bool opens_for_writing(const char *path)
{
	int fd = -1;

	if (!WAIT_UNTIL((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0))
		return false;
	close(fd);
	return true;
}

static u32 nr_broken;

static void note_broken(void *ctx, u32 slot)
{
	(void)ctx;
	(void)slot;
	nr_broken++;
}

struct writer {
	const char *path;
	struct service *s;
	u64 stop;
	u64 nr_opens, nr_failed, nr_believed;
};

static void *writer_run(void *arg)
{
	struct writer *w = arg;
	int fd;

	while (!host_load_relaxed(&w->stop)) {
		fd = -1;
		if (!WAIT_UNTIL((fd = open(w->path,
		                           O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0)) {
			host_store_relaxed(&w->nr_failed, 1);
			break;
		}
		w->nr_believed +=
			host_load_acquire(&w->s->memory.arena.files[0].live) !=
			FILE_NONE;
		close(fd);
		w->nr_opens++;
	}
	return NULL;
}

/* Each lease is on a new description, mostly with the number of the one before. */
static void breaks_while_leases_come_and_go_are_all_answered(void **state)
{
	enum { LEAST_TAKEN = 100, LEAST_BROKEN = 30 };
	struct service *s = leases_make(1);
	char path[FIXTURE_PATH_BYTES];
	struct writer w = { .path = path, .s = s };
	int fd = make_file(path, 0), err;
	u64 taken = 0, size = 0;
	pthread_t thread;
	u32 id = 1;

	(void)state;
	err = lease_take(&s->files, fd, 0, id, &size);
	if (err == -EOPNOTSUPP) {
		leases_free(s);
		fixture_skip("there are no leases in the folder");
	}
	assert_int_equal(err, 0);
	assert_int_equal(size, BYTES);
	lease_drop(&s->files, 0);
	nr_broken = 0;
	assert_int_equal(pthread_create(&thread, NULL, writer_run, &w), 0);
	assert_true(WAIT_UNTIL(({
		close(fd);
		fd = fixture_open(path, O_RDONLY);
		err = lease_take(&s->files, fd, 0, ++id, &size);
		taken += err == 0;
		if (id % 2)
			lease_drop(&s->files, 0);
		else if (err == 0) /* only the writer ends this one */
			while (file_proof_holds(&s->memory.arena.files[0], id) &&
			       !host_load_relaxed(&w.nr_failed))
				fixture_pause_us(50);
		lease_drop(&s->files, 0);
		lease_each_broken(&s->files, UINT32_MAX, note_broken);
		(taken >= LEAST_TAKEN && nr_broken >= LEAST_BROKEN) ||
			host_load_relaxed(&w.nr_failed);
	})));
	host_store_relaxed(&w.stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(w.nr_failed, 0);
	assert_int_equal(w.nr_believed, 0);
	assert_true(w.nr_opens > 0);
	close(fd);
	leases_free(s);
}

/* The kernel has no room for a signal with a descriptor, and sends one that has none. The lease
 * thread then looks at all leases: at the first one last, in another piece than the last one. */
static void break_without_a_descriptor_in_its_signal_is_answered(void **state)
{
	enum { NR_FILES = 600, NR_BROKEN = 3 };
	static const u32 broken[NR_BROKEN] = { 0, 300, NR_FILES - 1 };
	static char paths[NR_FILES][FIXTURE_PATH_BYTES];
	static int fds[NR_FILES];
	struct service *s = leases_make(NR_FILES);
	struct rlimit limit, none;
	u64 size;
	int err = 0;

	(void)state;
	for (u32 i = 0; i < NR_FILES && !err; i++) {
		fds[i] = make_file(paths[i], i);
		err = lease_take(&s->files, fds[i], i, i + 1, &size);
	}
	assert_int_equal(err, 0);
	assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	for (u32 k = 0; k < NR_BROKEN; k++) {
		assert_true(opens_for_writing(paths[broken[k]]));
		assert_int_equal(
			host_load_acquire(&s->memory.arena.files[broken[k]].live),
			FILE_NONE);
	}
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
	nr_broken = 0;
	WAIT_UNTIL(({
		lease_each_broken(&s->files, UINT32_MAX, note_broken);
		nr_broken == NR_BROKEN;
	}));
	assert_int_equal(nr_broken, NR_BROKEN);
	for (u32 i = 0; i < NR_FILES; i++) {
		bool gone = i == broken[0] || i == broken[1] || i == broken[2];

		assert_int_equal(file_proof_holds(&s->memory.arena.files[i], i + 1),
		                 !gone);
	}
	/* The end gives all others back. */
	leases_free(s);
	for (u32 i = 0; i < NR_FILES; i++) {
		int fd = open(paths[i], O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		assert_true(fd >= 0);
		close(fd);
		close(fds[i]);
	}
}

struct cutter {
	const char *path;
	u64 spins;
};

static void *cutter_run(void *arg)
{
	const struct cutter *c = arg;

	for (u64 i = 0; i < c->spins; i++)
		host_relax();
	close(fixture_open(c->path, O_RDONLY | O_TRUNC));
	return NULL;
}

/* Somebody cuts a file beside its admission, and breaks no lease. Either the service saw the new
 * size, or it hears of the change (L5). */
static void cut_beside_an_admission_is_seen_or_heard(void **state)
{
	enum { ROUNDS = 300, MOST_SPINS = 5000 };
	struct service *s = leases_make(1);
	u64 random = random_stream(1);
	char path[FIXTURE_PATH_BYTES];
	u32 nr_seen = 0, nr_heard = 0;

	(void)state;
	for (u32 id = 1; id <= ROUNDS; id++) {
		struct cutter c = { path, random_below(&random, MOST_SPINS) };
		u64 spins = random_below(&random, 2 * MOST_SPINS), size = 0;
		int fd = make_file(path, 0), err;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, cutter_run, &c), 0);
		for (u64 i = 0; i < spins; i++)
			host_relax();
		err = lease_take(&s->files, fd, 0, id, &size);
		pthread_join(thread, NULL);
		if (err) {
			/* While the kernel cuts, the cutter counts as a writer. */
			assert_true(err == -ENODATA || err == -ETXTBSY);
			nr_seen++;
		} else {
			assert_int_equal(size, BYTES);
			assert_true(WAIT_UNTIL_MS(
				!file_proof_holds(&s->memory.arena.files[0], id),
				HEARD_MS));
			nr_heard++;
		}
		lease_drop(&s->files, 0);
		close(fd);
	}
	printf("seen %u times, heard %u times\n", nr_seen, nr_heard);
	leases_free(s);
}

static void forbid_marks(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_robust_list, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s",
	        strerror(errno));
}

/* Nobody would hear of the death of such a service, so it does not live. */
static void service_whose_death_is_not_marked_does_not_start(void **state)
{
	pid_t pid = fixture_fork();
	const char *why = NULL;
	struct service *s;
	int err;

	(void)state;
	if (pid == 0) {
		s = leases_shape(1);
		forbid_marks();
		err = lease_start(&s->files, &why);
		REQUIRE(err == -EPERM && why, "%d", err);
		REQUIRE(!s->files.lease, "it has a thread");
		REQUIRE(s->memory.arena.header->alive == ARENA_DEAD, "it lives");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(breaks_while_leases_come_and_go_are_all_answered),
		cmocka_unit_test(break_without_a_descriptor_in_its_signal_is_answered),
		cmocka_unit_test(cut_beside_an_admission_is_seen_or_heard),
		cmocka_unit_test(service_whose_death_is_not_marked_does_not_start),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
