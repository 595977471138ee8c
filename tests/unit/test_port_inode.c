/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel tells of a file, and of its changes, what port/inode.h and port/watch.h say. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/port/inode.h"
#include "lib/port/watch.h"
#include "tests/support/cache_fixture.h"

#define BYTES 4096u
#define QUEUE_FILE "/proc/sys/fs/inotify/max_queued_events"
#define MOST_QUEUED 200000u
/* POSIX.1e's list, as the kernel takes it: version 2, and who may do what. */
#define ACL_BYTES 36u
static const u8 acl[ACL_BYTES] = {
	2,    0, 0, 0,                     /* version */
	1,    0, 6, 0, 255, 255, 255, 255, /* the owner */
	4,    0, 4, 0, 255, 255, 255, 255, /* the group */
	0x10, 0, 4, 0, 255, 255, 255, 255, /* the mask */
	0x20, 0, 4, 0, 255, 255, 255, 255, /* others */
};

struct file {
	char path[FIXTURE_PATH_BYTES];
	int fd;
};

static void file_make(struct file *f, const char *name)
{
	pattern_file_make(f->path, name, 1, 1, BYTES);
	f->fd = fixture_open(f->path, O_RDONLY);
}

static void file_free(struct file *f)
{
	port_close(f->fd);
	unlink(f->path);
}

static void file_write(const struct file *f)
{
	int fd = fixture_open(f->path, O_WRONLY);

	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

/* ---- what a file is ---- */

static void look_says_which_file(void **state)
{
	struct port_file a, b;
	struct stat st;
	struct file f;

	file_make(&f, "looked");
	assert_int_equal(chmod(f.path, 02640), 0);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(port_look(f.fd, &a), 0);
	assert_int_equal(port_look_at(f.path, false, &b), 0);
	assert_int_equal(a.dev, st.st_dev);
	assert_int_equal(a.ino, st.st_ino);
	assert_int_equal(a.gid, st.st_gid);
	assert_int_equal(a.rights, 02640);
	assert_int_equal(a.nr_names, 1);
	assert_true(a.dev == b.dev && a.ino == b.ino);
	file_free(&f);
	(void)state;
}

static void path_of_moved_or_deleted_is_the_kernels(void **state)
{
	char path[FIXTURE_PATH_BYTES + 16], other[FIXTURE_PATH_BYTES + 8];
	char cut[8];
	struct file f;

	file_make(&f, "named");
	snprintf(other, sizeof(other), "%s.other", f.path);
	assert_int_equal(port_path_of(f.fd, path, sizeof(path)), 0);
	assert_string_equal(path, f.path);
	assert_int_equal(rename(f.path, other), 0);
	assert_int_equal(port_path_of(f.fd, path, sizeof(path)), 0);
	assert_string_equal(path, other);
	assert_int_equal(port_path_of(f.fd, cut, sizeof(cut)), 0);
	assert_int_equal(strlen(cut), sizeof(cut) - 1);
	assert_memory_equal(cut, other, sizeof(cut) - 1);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(port_path_of(f.fd, path, sizeof(path)), 0);
	assert_int_equal(strncmp(path, other, strlen(other)), 0);
	assert_string_equal(path + strlen(other), " (deleted)");
	file_free(&f);
	assert_int_equal(port_path_of(f.fd, path, sizeof(path)), -ENOENT);
	(void)state;
}

static void names_are_counted_down_to_zero(void **state)
{
	char other[FIXTURE_PATH_BYTES + 8];
	struct port_names names;
	struct stat st;
	struct file f;

	file_make(&f, "named");
	snprintf(other, sizeof(other), "%s.other", f.path);
	assert_int_equal(stat(f.path, &st), 0);
	for (u32 nr = 1; nr <= 2; nr++) {
		assert_int_equal(port_names(f.fd, &names), 0);
		assert_true(names.known);
		assert_int_equal(names.nr, nr);
		if (nr == 1)
			assert_int_equal(link(f.path, other), 0);
	}
	assert_int_equal(unlink(other), 0);
	assert_int_equal(unlink(f.path), 0);
	assert_int_equal(port_names(f.fd, &names), 0);
	assert_int_equal(names.nr, 0);
	assert_true(names.dev == st.st_dev && names.ino == st.st_ino);
	port_close(f.fd);
	assert_int_equal(port_names(f.fd, &names), -EBADF);
	(void)state;
}

static void place_of_fd_and_path_is_the_same(void **state)
{
	struct port_place of_fd, of_path, of_proc;
	struct stat st;
	struct file f;
	int proc;

	file_make(&f, "placed");
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(port_place(f.fd, &of_fd), 0);
	assert_int_equal(port_place_at(f.path, &of_path), 0);
	assert_int_equal(of_fd.dev, st.st_dev);
	assert_true(of_fd.dev == of_path.dev && of_fd.mount == of_path.mount);
	assert_int_equal(of_fd.mount_for_ever, of_path.mount_for_ever);
	proc = port_system_open("/proc/self/status");
	assert_int_equal(port_place(proc, &of_proc), 0);
	assert_true(of_proc.dev != of_fd.dev);
	assert_true(of_fd.mount == 0 || of_proc.mount != of_fd.mount);
	port_close(proc);
	assert_int_equal(port_place(proc, &of_proc), -EBADF);
	assert_int_equal(port_place_at("/none/at/all", &of_proc), -ENOENT);
	file_free(&f);
	(void)state;
}

static void system_of_memory_and_of_proc_are_told_apart(void **state)
{
	int memory = port_memory_file("test"),
	    proc = port_system_open("/proc/self/status");
	enum port_system system;

	assert_int_equal(port_system(memory, &system), 0);
	assert_int_equal(system, PORT_SYSTEM_TMPFS);
	assert_int_equal(port_system(proc, &system), 0);
	assert_int_equal(system, PORT_SYSTEM_OTHER);
	assert_false(port_has_verity(memory));
	port_close(memory);
	port_close(proc);
	assert_int_equal(port_system(memory, &system), -EBADF);
	(void)state;
}

static void reopen_at_once_is_another_description(void **state)
{
	unsigned int mode;
	struct file f;
	int own;

	file_make(&f, "opened");
	assert_int_equal(lseek(f.fd, 100, SEEK_SET), 100);
	own = port_reopen_at_once(f.fd, PORT_LEAVES_ATIME);
	assert_true(own >= 0);
	assert_int_equal(lseek(own, 0, SEEK_CUR), 0);
	assert_int_equal(port_mode(own, &mode), 0);
	assert_int_equal(mode, PORT_MAY_READ);
	assert_true(fcntl(own, F_GETFL) & O_NOATIME);
	if (port_reads_past_cache(own)) {
		int past = port_reopen_at_once(own, PORT_PAST_CACHE);

		assert_true(past >= 0);
		assert_int_equal(port_mode(past, &mode), 0);
		assert_int_equal(mode, PORT_MAY_READ | PORT_DIRECT);
		assert_false(fcntl(past, F_GETFL) & O_NOATIME);
		port_close(past);
	}
	assert_int_equal(port_mode(own, &mode), 0);
	assert_int_equal(mode, PORT_MAY_READ);
	port_close(own);
	assert_int_equal(port_reopen_at_once(own, 0), -ENOENT);
	file_free(&f);
	(void)state;
}

static void reopen_at_once_writers_lease_does_not_wait(void **state)
{
	struct file f;
	int holder;

	file_make(&f, "leased");
	port_close(f.fd);
	holder = fixture_open(f.path, O_RDWR);
	f.fd = holder;
	if (fcntl(holder, F_SETSIG, 0) != 0 || fcntl(holder, F_SETOWN, 0) != 0 ||
	    fcntl(holder, F_SETLEASE, F_WRLCK) != 0) {
		file_free(&f);
		skip();
	}
	assert_int_equal(fcntl(holder, F_SETOWN, 0), 0); /* its signal is for nobody */
	assert_int_equal(port_reopen_at_once(holder, 0), -EWOULDBLOCK);
	assert_int_equal(fcntl(holder, F_SETLEASE, F_UNLCK), 0);
	holder = port_reopen_at_once(f.fd, 0);
	assert_true(holder >= 0);
	port_close(holder);
	file_free(&f);
	(void)state;
}

static void access_list_is_found(void **state)
{
	struct file f;
	int bytes;

	file_make(&f, "listed");
	bytes = port_access_list(f.path);
	assert_true(bytes == -ENODATA || bytes == -EOPNOTSUPP);
	if (setxattr(f.path, "system.posix_acl_access", acl, sizeof(acl), 0) == 0 &&
	    bytes == -ENODATA)
		assert_int_equal(port_access_list(f.path), ACL_BYTES);
	unlink(f.path);
	assert_int_equal(port_access_list(f.path), -ENOENT);
	file_free(&f);
	(void)state;
}

/* ---- watches ---- */

/* The next news is this, and no other waits. */
static void expect(int watches, int watch, unsigned int what)
{
	struct port_news news[PORT_NEWS_AT_ONCE];

	assert_int_equal(port_watch_next(watches, news), 1);
	assert_int_equal(news[0].watch, watch);
	assert_int_equal(news[0].what, what);
}

static void expect_none(int watches)
{
	struct port_news news[PORT_NEWS_AT_ONCE];

	assert_int_equal(port_ready(watches, PORT_INPUT), 0);
	assert_int_equal(port_watch_next(watches, news), 0);
}

static void watch_tells_of_bytes_and_of_rights(void **state)
{
	char other[FIXTURE_PATH_BYTES + 8], byte;
	int watches = port_watches(), watch;
	struct file f;

	file_make(&f, "watched");
	snprintf(other, sizeof(other), "%s.other", f.path);
	watch = port_watch_add(watches, f.fd, false);
	assert_true(watch > 0);
	expect_none(watches);
	file_write(&f);
	expect(watches, watch, PORT_NEWS_BYTES);
	close(fixture_open(f.path, O_RDONLY | O_TRUNC));
	expect(watches, watch, PORT_NEWS_BYTES);
	assert_int_equal(chmod(f.path, 0640), 0);
	expect(watches, watch, PORT_NEWS_RIGHTS);
	assert_int_equal(link(f.path, other), 0);
	expect(watches, watch, PORT_NEWS_RIGHTS);
	assert_int_equal(unlink(other), 0);
	expect(watches, watch, PORT_NEWS_RIGHTS);
	assert_int_equal(rename(f.path, other), 0);
	assert_int_equal(pread(f.fd, &byte, 1, 0), 0);
	expect_none(watches);
	assert_int_equal(port_watch_add(watches, f.fd, true), watch);
	assert_int_equal(rename(other, f.path), 0);
	expect(watches, watch, PORT_NEWS_RIGHTS);
	file_free(&f);
	port_close(watches);
	(void)state;
}

/* The kernel takes the bits of set-user-id away as the file is cut. */
static void watch_tells_of_both_at_once(void **state)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
	int watches = port_watches(), watch;
	struct file f;
	pid_t pid;

	file_make(&f, "watched");
	assert_int_equal(chmod(f.path, 06755), 0);
	watch = port_watch_add(watches, f.fd, false);
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(syscall(SYS_capget, &head, rights) == 0, "%s", strerror(errno));
		rights[0].effective &= ~(1u << CAP_FSETID);
		REQUIRE(syscall(SYS_capset, &head, rights) == 0, "%s", strerror(errno));
		close(fixture_open(f.path, O_RDONLY | O_TRUNC));
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	expect(watches, watch, PORT_NEWS_BYTES | PORT_NEWS_RIGHTS);
	file_free(&f);
	port_close(watches);
	(void)state;
}

static void watch_removed_tells_the_rest_and_that(void **state)
{
	struct port_news news[PORT_NEWS_AT_ONCE];
	int watches = port_watches(), watch;
	struct file f;

	file_make(&f, "watched");
	watch = port_watch_add(watches, f.fd, false);
	file_write(&f);
	file_write(&f); /* the same news */
	assert_true(port_watch_remove(watches, watch));
	assert_false(port_watch_remove(watches, watch));
	file_write(&f);
	assert_int_equal(port_watch_next(watches, news), 2);
	assert_int_equal(news[0].what, PORT_NEWS_BYTES);
	assert_int_equal(news[1].what, PORT_NEWS_GONE);
	assert_int_equal(news[1].watch, watch);
	assert_int_equal(port_watch_add(watches, f.fd, false), watch + 1);
	file_free(&f);
	port_close(watches);
	(void)state;
}

static u32 queue_room(void)
{
	char text[32] = "";

	port_system_text(QUEUE_FILE, text, sizeof(text));
	return (u32)strtoul(text, NULL, 10);
}

/* News of two files in turn, so that none is like the one before. */
static void watch_queue_is_full_says_so_once(void **state)
{
	static const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	struct port_news news[PORT_NEWS_AT_ONCE];
	int watches = port_watches(), watch[2];
	u32 room = queue_room(), nr = 0, got;
	struct file f[2];

	if (room == 0 || room > MOST_QUEUED)
		skip();
	for (u32 i = 0; i < 2; i++) {
		file_make(&f[i], i ? "one" : "other");
		watch[i] = port_watch_add(watches, f[i].fd, false);
	}
	for (u32 i = 0; i < room + 2; i++)
		assert_int_equal(utimensat(AT_FDCWD, f[i % 2].path, times, 0), 0);
	assert_true(
		port_watch_remove(watches, watch[0])); /* there is no room for this */
	while ((got = port_watch_next(watches, news)) > 0) {
		nr += got;
		for (u32 i = 0; i + 1 < got; i++)
			assert_int_equal(news[i].what, PORT_NEWS_RIGHTS);
		if (nr <= room)
			assert_int_equal(news[got - 1].what, PORT_NEWS_RIGHTS);
		else
			assert_int_equal(news[got - 1].what, PORT_NEWS_LOST);
	}
	assert_int_equal(nr, room + 1);
	file_write(&f[1]);
	expect(watches, watch[1], PORT_NEWS_BYTES);
	for (u32 i = 0; i < 2; i++)
		file_free(&f[i]);
	port_close(watches);
	(void)state;
}

static void watch_add_without_right_says_why(void **state)
{
	int watches = port_watches();
	struct file f;

	file_make(&f, "watched");
	assert_int_equal(port_watch_add(f.fd, f.fd, false), -EINVAL);
	assert_int_equal(port_watch_add(watches, -1, false), -ENOENT);
	if (geteuid() == 0) { /* root may read everything */
		pid_t pid = fixture_fork();

		assert_int_equal(chmod(f.path, 0600), 0);
		if (pid == 0)
			_exit(setresuid(54321, 54321, 54321) != 0 ||
			      port_watch_add(watches, f.fd, false) != -EACCES);
		assert_int_equal(fixture_wait(pid), 0);
	}
	port_close(watches);
	assert_int_equal(port_watch_add(watches, f.fd, false), -EBADF);
	file_free(&f);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look_says_which_file),
		cmocka_unit_test(path_of_moved_or_deleted_is_the_kernels),
		cmocka_unit_test(names_are_counted_down_to_zero),
		cmocka_unit_test(place_of_fd_and_path_is_the_same),
		cmocka_unit_test(system_of_memory_and_of_proc_are_told_apart),
		cmocka_unit_test(reopen_at_once_is_another_description),
		cmocka_unit_test(reopen_at_once_writers_lease_does_not_wait),
		cmocka_unit_test(access_list_is_found),
		cmocka_unit_test(watch_tells_of_bytes_and_of_rights),
		cmocka_unit_test(watch_tells_of_both_at_once),
		cmocka_unit_test(watch_removed_tells_the_rest_and_that),
		cmocka_unit_test(watch_queue_is_full_says_so_once),
		cmocka_unit_test(watch_add_without_right_says_why),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("port_inode", tests, NULL, NULL);
}
