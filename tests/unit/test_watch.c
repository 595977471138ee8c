/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The second ear (L5, L6): the service hears of changes that break no lease, and by chmod() in a
 * group. An open() with O_RDONLY and O_TRUNC stands for all such changes here; the rows of
 * doc/proofs.md are in outside/proof_table.c.
 *
 * --rounds N prints how long after such an open() readers still believe the old bytes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define ROUNDS 300u
#define LOOK_NS 20000000u
/* A mutant does not hear at all. */
#define HEARD_MS (TEST_MUTANT ? 3000u : FIXTURE_DEADLINE_MS)
#define NR_FILES 3u
/* The kernel's default is 16384. */
#define QUEUE_FILE "/proc/sys/fs/inotify/max_queued_events"
#define MOST_QUEUED 200000u
#define WATCHES_LEFT 2u
#define EXHAUSTIONS 100u

static u64 rounds = ROUNDS;

/* Cuts the file to 0 bytes, and breaks no lease. */
static void cut(const char *path)
{
	close(fixture_open(path, O_RDONLY | O_TRUNC));
}

struct opened {
	char path[FIXTURE_PATH_BYTES];
	int fd;
	struct lodic_file *file;
};

static void opened_make(struct test_bed *b, struct opened *o, u32 i)
{
	char name[32];

	snprintf(name, sizeof(name), "file%u", i);
	pattern_file_make(o->path, name, 2 + i, 1, BLOCK);
	o->fd = fixture_open(o->path, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, o->fd, &o->file), 0);
}

static void opened_free(struct opened *o)
{
	lodic_close(o->file);
	close(o->fd);
	unlink(o->path);
}

static bool is_cached(const struct opened *o)
{
	return lodic_file_cached(o->file) == 0;
}

/* Waits until the service has handled all that the kernel has told it so far: it is told in
 * order. */
static void let_hear(struct test_bed *b)
{
	struct opened o;

	opened_make(b, &o, 99);
	assert_true(is_cached(&o));
	cut(o.path);
	assert_true(WAIT_UNTIL(!is_cached(&o)));
	opened_free(&o);
}

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* No read is stale for longer than the service takes to hear. */
static void cut_by_readonly_open_soon_revoked(void **state)
{
	u64 *ns = calloc(rounds, sizeof(*ns));
	struct test_bed b;

	assert_non_null(ns);
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u64 i = 0; i < rounds; i++) {
		u8 buffer[BLOCK];
		u64 start_ns;

		pattern_file_make(b.path, "bed-file", 1, 1, BLOCK);
		test_bed_fill(&b);
		test_bed_come_back(&b);
		cut(b.path);
		start_ns = host_now_ns();
		while (lodic_file_cached(b.file) == 0 &&
		       host_now_ns() - start_ns < LOOK_NS)
			host_relax(); /* a pause would be longer than what it measures */
		assert_true(WAIT_UNTIL(lodic_file_cached(b.file) != 0));
		ns[i] = host_now_ns() - start_ns;
		assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, 0), 0);
	}
	qsort(ns, rounds, sizeof(*ns), compare_u64);
	printf("heard after open() had returned: median %.1f us, p99 %.1f us, most %.1f us, "
	       "of %llu\n",
	       (double)ns[rounds / 2] / 1e3, (double)ns[rounds * 99 / 100] / 1e3,
	       (double)ns[rounds - 1] / 1e3, (unsigned long long)rounds);
	test_bed_free(&b);
	free(ns);
	(void)state;
}

/* Does all that touches the attributes of a file and leaves its bytes alone. The file has its first
 * name at the end. */
static void touch_all(const char *path)
{
	char other[FIXTURE_PATH_BYTES + 8];
	char byte;
	int fd;

	snprintf(other, sizeof(other), "%s.other", path);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(rename(other, path), 0);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	close(fd);
}

static void attributes_changed_stays_cached(void **state)
{
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	test_bed_fill(&b);
	touch_all(b.path);
	let_hear(&b);
	assert_int_equal(lodic_file_cached(b.file), 0);
	assert_true(test_bed_reads_hit(&b, 0));
	test_bed_free(&b);
	(void)state;
}

/* Cuts the file as a program does that may not keep the bits of set-user-id. */
static void cut_without_rights(const char *path)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
	pid_t pid = fixture_fork();
	int status;

	if (pid == 0) {
		REQUIRE(syscall(SYS_capget, &head, rights) == 0, "%s", strerror(errno));
		rights[0].effective &= ~(1u << CAP_FSETID);
		REQUIRE(syscall(SYS_capset, &head, rights) == 0, "%s", strerror(errno));
		cut(path);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The kernel takes the bits away as it cuts the file, and tells of both changes at once. */
static void cut_with_bits_of_set_user_id_revoked(void **state)
{
	struct opened o;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	opened_make(&b, &o, 0);
	assert_int_equal(chmod(o.path, 06755), 0);
	let_hear(&b);
	assert_true(is_cached(&o));
	cut_without_rights(o.path);
	assert_true(WAIT_UNTIL_MS(!is_cached(&o), HEARD_MS));
	opened_free(&o);
	test_bed_free(&b);
	(void)state;
}

/* The service learns that the last name is gone, and gives the file up when nobody reads it. */
static void last_name_gone_given_up(void **state)
{
	struct opened o;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	opened_make(&b, &o, 0);
	assert_true(is_cached(&o));
	opened_free(&o);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).files == 1));
	test_bed_free(&b);
	(void)state;
}

/* The folders must let the group pass. false: one above the fixture's does not. */
static bool folder_is_open(void)
{
	char folder[FIXTURE_PATH_BYTES];
	struct stat st;

	fixture_path(folder, "");
	if (chmod(folder, 0755) != 0)
		return false;
	for (char *slash; (slash = strrchr(folder, '/')) > folder;) {
		*slash = '\0';
		if (stat(folder, &st) != 0 || (st.st_mode & 0011) != 0011)
			return false;
	}
	return true;
}

/* What the group may not open any more is not served to it any more, whatever proves that the bytes
 * stand still. */
static void group_loses_rights_revoked(const char *const *promises, int then)
{
	static const mode_t wrong[] = { 0600, 0640 };
	char other[FIXTURE_PATH_BYTES + 8];
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sharing.for_group = true;
	b.service.options.sharing.group =
		54321; /* nobody's, so that other users' rights count */
	b.service.options.keeping.immutable = promises;
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < 2; i++) {
		test_bed_fill(&b);
		assert_true(test_bed_reads_hit(&b, 0));
		assert_int_equal(chmod(b.path, wrong[i]), 0);
		assert_true(WAIT_UNTIL(lodic_file_cached(b.file) == then ||
		                       (test_bed_reads_hit(&b, 0), false)));
		assert_false(test_bed_reads_hit(&b, 0));
		assert_int_equal(chmod(b.path, 0644), 0);
		test_bed_come_back(&b);
	}
	/* Elsewhere they may not reach it. */
	snprintf(other, sizeof(other), "%s.other", b.path);
	test_bed_fill(&b);
	assert_int_equal(rename(b.path, other), 0);
	assert_true(WAIT_UNTIL(lodic_file_cached(b.file) != 0));
	assert_int_equal(rename(other, b.path), 0);
	test_bed_free(&b);
}

static void group_may_not_open_any_more_revoked(void **state)
{
	static const char *const all[] = { "/*", "/*/*", "/*/*/*", "/*/*/*/*", NULL };
	static const char *const none[] = { NULL };

	(void)state;
	if (!folder_is_open()) {
		print_message("skipped: a folder above is closed to others\n");
		skip();
	}
	group_loses_rights_revoked(none, -EPERM);
	group_loses_rights_revoked(all, -EPERM);
}

/* More changes than the kernel can tell of, while the service is stopped. The last one is lost. */
static void queue_overflows_all_revoked(void **state)
{
	static const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	struct opened o[NR_FILES];
	unsigned int queued = 0;
	FILE *f = fopen(QUEUE_FILE, "r");
	struct test_bed b;

	if (f) {
		assert_int_equal(fscanf(f, "%u", &queued), 1);
		fclose(f);
	}
	if (queued == 0 || queued > MOST_QUEUED)
		skip();
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < NR_FILES; i++) {
		opened_make(&b, &o[i], i);
		assert_true(is_cached(&o[i]));
	}
	test_service_freeze(&b.service);
	for (u32 i = 0; i <= queued; i++) /* two in a row of one file would be one */
		assert_int_equal(utimensat(AT_FDCWD, o[i % 2].path, times, 0), 0);
	cut(o[2].path);
	assert_int_equal(kill(b.service.pid, SIGCONT), 0);
	assert_true(WAIT_UNTIL_MS(!is_cached(&o[2]), HEARD_MS));
	for (u32 i = 0; i < NR_FILES; i++)
		opened_free(&o[i]);
	test_bed_free(&b);
	(void)state;
}

static bool writer_gets_in(const char *path)
{
	int fd = -1;

	if (!WAIT_UNTIL((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0))
		return false;
	close(fd);
	return true;
}

/* poll(2) refuses to wait for more descriptors than the limit allows, and would do so each time. */
static void limit_of_descriptors_is_zero_both_ears_hear(void **state)
{
	struct rlimit none, before;
	struct opened o[2];
	struct test_bed b;
	bool believed;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < 2; i++) {
		opened_make(&b, &o[i], i);
		assert_true(is_cached(&o[i]));
	}
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, NULL, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, &none, NULL), 0);
	/* After lease-break-time the kernel lets the writer in in any case. */
	assert_true(writer_gets_in(o[0].path));
	believed = is_cached(&o[0]);
	cut(o[1].path);
	believed |= !WAIT_UNTIL(!is_cached(&o[1]));
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_false(believed);
	for (u32 i = 0; i < 2; i++)
		opened_free(&o[i]);
	test_bed_free(&b);
	(void)state;
}

/* As the kernel says in /proc: how many watches the service has. */
static u32 nr_watches(pid_t pid)
{
	char folder[64], path[384], line[256];
	struct dirent *entry;
	u32 nr = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fdinfo", pid);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			nr += strncmp(line, "inotify wd:", 11) == 0;
		if (f)
			fclose(f);
	}
	closedir(dir);
	return nr;
}

/* A watch goes with its file, in whatever way that goes. */
static void watches_are_as_many_as_files(void **state)
{
	struct opened o[NR_FILES];
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < NR_FILES; i++)
		opened_make(&b, &o[i], i);
	assert_int_equal(nr_watches(b.service.pid), 1 + NR_FILES);
	cut(o[0].path);
	close(fixture_open(o[1].path, O_WRONLY));
	assert_true(WAIT_UNTIL(nr_watches(b.service.pid) == NR_FILES - 1));
	for (u32 i = 0; i < NR_FILES; i++)
		opened_free(&o[i]);
	assert_true(WAIT_UNTIL(nr_watches(b.service.pid) == 1));
	test_bed_free(&b);
	(void)state;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	REQUIRE(n == (ssize_t)strlen(text), "%s: %s", path, strerror(errno));
	close(fd);
}

#define INSTANCES_FILE "/proc/sys/user/max_inotify_instances"

/* What the test and the namespace's first process tell each other. */
struct told {
	u64 ready, more;
};

/* A service in a user namespace that grants few watches, and an instance only when it is told that
 * there shall be more. It is the same user outside. false: there are no such namespaces here. */
static bool start_with_few_watches(struct test_service *service, struct told *told)
{
	char text[64];
	pid_t pid;
	uid_t uid = geteuid();

	service->options.place.socket = service->socket;
	pid = fixture_fork();
	if (pid == 0) {
		struct test_service own = *service;

		if (unshare(CLONE_NEWUSER) != 0)
			_exit(FIXTURE_SKIP);
		snprintf(text, sizeof(text), "0 %u 1", uid);
		put("/proc/self/uid_map", text);
		snprintf(text, sizeof(text), "%u", WATCHES_LEFT);
		put("/proc/sys/user/max_inotify_watches", text);
		put(INSTANCES_FILE, "0");
		REQUIRE(test_service_start(&own) == 0, "%s", own.why);
		host_store_release(&told->ready, (u64)own.pid);
		REQUIRE(WAIT_UNTIL(host_load_acquire(&told->more)), "nobody asks");
		put(INSTANCES_FILE, "1");
		for (;;)
			pause();
	}
	if (!WAIT_UNTIL(host_load_acquire(&told->ready) > 0 ||
	                waitpid(pid, NULL, WNOHANG) == pid))
		return false;
	service->pid = (pid_t)host_load_acquire(&told->ready);
	return service->pid > 0;
}

static bool open_until_cached(struct test_bed *b, struct opened *o)
{
	return WAIT_UNTIL(({
		bool there;

		assert_int_equal(lodic_open(b->lodic, o->fd, &o->file), 0);
		there = is_cached(o);
		if (!there)
			lodic_close(o->file);
		there;
	}));
}

/* A promised file is cached without a watch. It has none to give to a file that needs one. */
static void promised_stays_while_others_are_refused(struct test_bed *b,
                                                    const char *path)
{
	struct opened o = { .fd = fixture_open(path, O_RDONLY) };

	assert_int_equal(lodic_open(b->lodic, o.fd, &o.file), 0);
	assert_true(is_cached(&o));
	lodic_close(o.file);
	close(o.fd);
	opened_make(b, &o, 0);
	assert_int_equal(lodic_file_cached(o.file), -ENOLCK);
	assert_int_equal(test_service_stat(b->lodic).files, 1);
	opened_free(&o);
}

/* No file is cached without a watch, and the first that comes when there is one again is. */
static void watches_run_out_and_come_back(void **state)
{
	char promised[FIXTURE_PATH_BYTES];
	const char *const globs[] = { promised, NULL };
	struct told *told = fixture_shared(sizeof(*told));
	struct opened o[NR_FILES];
	struct test_service service;
	struct test_bed b = { 0 };
	u64 worst_ns = 0;

	(void)state;
	test_service_init(&service, "few");
	pattern_file_make(promised, "promised", 1, 1, BLOCK);
	service.options.keeping.immutable = globs;
	if (!start_with_few_watches(&service, told)) {
		print_message("skipped: no user namespaces\n");
		skip();
	}
	assert_int_equal(test_service_attach(&service, &b.lodic), 0);
	promised_stays_while_others_are_refused(&b, promised);
	unlink(promised);
	opened_make(&b, &o[0], 0);
	assert_int_equal(lodic_file_cached(o[0].file), -ENOLCK);
	lodic_close(o[0].file);
	host_store_release(&told->more, 1);
	assert_true(open_until_cached(&b, &o[0]));
	opened_free(&o[0]);
	for (u32 round = 0; round < EXHAUSTIONS; round++) {
		u64 start_ns;

		for (u32 i = 0; i < NR_FILES; i++)
			opened_make(&b, &o[i], i);
		for (u32 i = 0; i < WATCHES_LEFT; i++)
			assert_true(is_cached(&o[i]));
		assert_int_equal(lodic_file_cached(o[WATCHES_LEFT].file), -ENOLCK);
		lodic_close(o[WATCHES_LEFT].file);
		/* One that no program has open gives its watch. It has a name, so it would
		 * stay for long otherwise. */
		lodic_close(o[0].file);
		close(o[0].fd);
		start_ns = host_now_ns();
		assert_true(open_until_cached(&b, &o[WATCHES_LEFT]));
		if (host_now_ns() - start_ns > worst_ns)
			worst_ns = host_now_ns() - start_ns;
		for (u32 i = 1; i < NR_FILES; i++)
			opened_free(&o[i]);
		unlink(o[0].path);
		assert_true(WAIT_UNTIL(test_service_stat(b.lodic).files == 0));
	}
	printf("cached again after a shortage: %.1f ms at most, of %u\n",
	       (double)worst_ns / 1e6, EXHAUSTIONS);
	lodic_detach(b.lodic);
	fixture_end(service.pid);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { "--rounds", &rounds, NULL },
		                                  { 0 } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_by_readonly_open_soon_revoked),
		cmocka_unit_test(attributes_changed_stays_cached),
		cmocka_unit_test(cut_with_bits_of_set_user_id_revoked),
		cmocka_unit_test(last_name_gone_given_up),
		cmocka_unit_test(group_may_not_open_any_more_revoked),
		cmocka_unit_test(queue_overflows_all_revoked),
		cmocka_unit_test(limit_of_descriptors_is_zero_both_ears_hear),
		cmocka_unit_test(watches_are_as_many_as_files),
		cmocka_unit_test(watches_run_out_and_come_back),
	};

	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
