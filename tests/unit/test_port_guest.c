/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door of the shim keeps what lib/port/guest.h promises, where the kernel alone does not. Here
 * the calls are libc's own; in the shim they go past its hooks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/port/guest.h"

#define TEST_SECONDS 60
#define PATH_BYTES 256
#define PAGES 4u

static char folder[] = "/tmp/lodic-guest-XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* ---- memory ---- */

static bool old_kernel;
int __real_ioctl(int fd, unsigned long command, void *arg);
int __wrap_ioctl(int fd, unsigned long command, void *arg);

int __wrap_ioctl(int fd, unsigned long command, void *arg)
{
	if (!old_kernel)
		return __real_ioctl(fd, command, arg);
	errno = ENOTTY;
	return -1;
}

static int mapped_at(const void *at, bool by_list, struct port_mapped *ret)
{
	char room[61]; /* so that many lines are read in pieces */
	int err;

	old_kernel = by_list;
	err = port_mapped_at((uint64_t)at, room, sizeof(room), ret);
	old_kernel = false;
	return err;
}

static void mapped_at_old_kernel_says_the_same(void **state)
{
	const uint64_t page = port_page_bytes();
	int fd = port_create_both(in_folder("mapped"));
	struct port_mapped a, b;
	struct port_file is;
	char *p;

	assert_true(fd >= 0);
	assert_int_equal(port_resize(fd, PAGES * page), 0);
	assert_int_equal(port_look(fd, &is), 0);
	p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_ptr_equal(
		mmap(p, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)page), p);
	assert_int_equal(mprotect(p + page, page, PROT_READ | PROT_EXEC), 0);
	for (int by_list = 0; by_list < 2; by_list++) {
		assert_int_equal(mapped_at(p, by_list, &a), 0);
		assert_true(a.begin == (uint64_t)p && a.end == (uint64_t)p + page);
		assert_true(a.offset == page && a.dev == is.dev && a.ino == is.ino);
		assert_true(a.reads_only && a.shared);
		assert_int_equal(mapped_at(p + page, by_list, &a), 0);
		assert_true(!a.reads_only && !a.shared && a.ino == 0);
		assert_int_equal(mapped_at((void *)page, by_list, &a), -ENOENT);
	}
	/* A hole between two. */
	assert_int_equal(munmap(p + 2 * page, page), 0);
	assert_int_equal(mapped_at(p + 2 * page, false, &a),
	                 mapped_at(p + 2 * page, true, &b));
	for (char *at = p; at < p + PAGES * page; at += page)
		assert_int_equal(mapped_at(at, false, &a), mapped_at(at, true, &b));
	munmap(p, PAGES * page);
	port_shut(fd);
	(void)state;
}

static void fault_in_behind_the_end_fails(void **state)
{
	const uint64_t page = port_page_bytes();
	int fd = port_create_both(in_folder("short"));
	void *p;

	assert_true(fd >= 0 && port_resize(fd, page) == 0);
	assert_int_equal(port_map(NULL, 2 * page, PORT_READ | PORT_WRITE, PORT_SHARED,
	                          fd, 0, &p),
	                 0);
	for (int write = 0; write < 2; write++) {
		assert_int_equal(port_fault_in(p, page, write), 0);
		assert_int_equal(port_fault_in(p, 2 * page, write), -EFAULT);
	}
	port_unmap(p, 2 * page);
	port_shut(fd);
	(void)state;
}

static void segment_gone_is_einval(void **state)
{
	int segment = shmget(IPC_PRIVATE, 3 * 4096, 0600);
	uint64_t bytes = 0;
	void *p;

	assert_true(segment >= 0);
	assert_int_equal(port_segment_bytes(segment, &bytes), 0);
	assert_int_equal(bytes, 3 * 4096);
	assert_int_equal(port_segment_map(segment, &p), 0);
	*(int *)p = 7;
	port_segment_end(segment);
	assert_int_equal(*(int *)p, 7);
	port_segment_unmap(p);
	assert_int_equal(port_segment_bytes(segment, &bytes), -EINVAL);
	assert_int_equal(port_segment_map(segment, &p), -EINVAL);
	(void)state;
}

/* ---- threads ---- */

static void put_nobody_reads_brings_no_signal(void **state)
{
	struct port_quiet before;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	port_quiet_begin(&before);
	assert_int_equal(port_quiet_signals(), 0);
	assert_int_equal(port_put(fds[1], "a", 1), -EPIPE);
	assert_int_equal(port_quiet_signals(), PORT_BROKEN_PIPE);
	port_quiet_drop(PORT_FILE_LIMIT);
	assert_int_equal(port_quiet_signals(), PORT_BROKEN_PIPE);
	port_quiet_drop(PORT_BROKEN_PIPE);
	assert_int_equal(port_quiet_signals(), 0);
	port_quiet_end(&before); /* it would end this program */
	close(fds[1]);
	(void)state;
}

static void put_file_too_long_brings_no_signal(void **state)
{
	int fd = port_append(in_folder("limit"));
	struct rlimit limit, was;
	struct port_quiet before;

	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = was;
	limit.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	port_quiet_begin(&before);
	assert_int_equal(port_put(fd, "ab", 2), 1);
	assert_int_equal(port_put(fd, "b", 1), -EFBIG);
	assert_int_equal(port_quiet_signals(), PORT_FILE_LIMIT);
	port_quiet_drop(PORT_FILE_LIMIT | PORT_BROKEN_PIPE);
	port_quiet_end(&before);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	port_shut(fd);
	(void)state;
}

static void quiet_keeps_the_mask(void **state)
{
	sigset_t before, after, usr1;
	struct port_quiet quiet;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	port_quiet_begin(&quiet);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&after, SIGINT) && sigismember(&after, SIGRTMAX));
	port_quiet_end(&quiet);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	for (int i = 1; i < SIGRTMAX; i++)
		assert_int_equal(sigismember(&before, i), sigismember(&after, i));
	(void)state;
}

static void lock_of_zeros_is_free(void **state)
{
	struct port_lock lock = { 0 };

	assert_true(port_lock_try(&lock));
	assert_false(port_lock_try(&lock));
	port_lock_give(&lock);
	port_lock_take(&lock);
	port_lock_give(&lock);
	(void)state;
}

/* ---- the program ---- */

static int nr_ran;

static void ran(void)
{
	nr_ran++;
}

static void child_runs_what_was_asked(void **state)
{
	pid_t pid;
	int status;

	assert_int_equal(port_run_in_child(ran), 0);
	pid = fork();
	if (pid == 0)
		_exit(nr_ran);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(nr_ran, 0);
	(void)state;
}

static void process_text_is_its_beginning(void **state)
{
	char text[8] = "";

	assert_int_equal(port_process_text("status", text, 5), 5);
	assert_string_equal(text, "Name:");
	assert_int_equal(port_process_text("nothing", text, 5), -ENOENT);
	assert_string_equal(text, "Name:");
	(void)state;
}

static void variable_is_emptied_in_place(void **state)
{
	const char *text;

	setenv("LODIC_GUEST", "value", 1);
	text = port_variable("LODIC_GUEST");
	port_variable_empty("LODIC_GUEST");
	assert_ptr_equal(port_variable("LODIC_GUEST"), text);
	assert_string_equal(text, "");
	port_variable_empty("LODIC_GUEST_NOT_SET");
	(void)state;
}

static void listens_only_who_listens(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char long_path[PATH_BYTES];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strcpy(address.sun_path, in_folder("socket"));
	assert_int_equal(port_listens(address.sun_path), -ENOENT);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(port_listens(address.sun_path), -ECONNREFUSED);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(port_listens(address.sun_path), 0);
	close(fd);
	assert_int_equal(port_listens(address.sun_path), -ECONNREFUSED);
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	assert_int_equal(port_listens(long_path), -ENAMETOOLONG);
	(void)state;
}

/* ---- descriptors and files ---- */

static void position_of_a_pipe_is_espipe(void **state)
{
	int fds[2], fd = port_create_both(in_folder("position"));

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(port_position(fds[0]), -ESPIPE);
	assert_int_equal(port_put(fd, "abc", 3), 3);
	assert_int_equal(port_position(fd), 3);
	close(fds[0]);
	close(fds[1]);
	port_shut(fd);
	assert_int_equal(port_position(fd), -EBADF);
	(void)state;
}

static void dup_above_is_the_lowest_free(void **state)
{
	int a = port_dup_above(STDERR_FILENO, 100), b = port_dup_above(a, 100);

	assert_int_equal(a, 100);
	assert_int_equal(b, 101);
	assert_int_equal(fcntl(b, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	port_shut(a);
	assert_int_equal(port_dup_above(b, 0) < 100, true);
	assert_int_equal(port_dup_above(b, 1 << 30), -EINVAL);
	assert_int_equal(port_dup_above(a, 0), -EBADF);
	port_shut(b);
	(void)state;
}

static void hang_up_is_an_end_for_both(void **state)
{
	int fds[2], event = port_event();
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	port_hang_up(fds[0]);
	assert_int_equal(read(fds[0], &byte, 1), 0);
	assert_int_equal(read(fds[1], &byte, 1), 0);
	close(fds[0]);
	close(fds[1]);
	port_hang_up(event);
	assert_true(port_event_tell(event));
	port_close(event);
	(void)state;
}

static void path_is_cut(void **state)
{
	const char *path = in_folder("path");
	int fd = port_create_both(path);
	char whole[PATH_BYTES], few[5];

	assert_int_equal(port_path_of(fd, whole, sizeof(whole)), 0);
	assert_string_equal(whole, path);
	assert_int_equal(port_path_of(fd, few, sizeof(few)), 0);
	assert_string_equal(few, "/tmp");
	port_shut(fd);
	assert_int_equal(port_path_of(fd, few, sizeof(few)), -ENOENT);
	(void)state;
}

static void birth_stays(void **state)
{
	int fd = port_create_both(in_folder("birth")), fds[2];
	struct port_birth a, b;
	struct port_file is;

	assert_int_equal(port_birth(fd, &a), 0);
	assert_int_equal(port_put(fd, "abc", 3), 3);
	assert_int_equal(port_birth(fd, &b), 0);
	assert_int_equal(port_look(fd, &is), 0);
	assert_true(a.regular && a.ns == b.ns);
	assert_true(a.dev == is.dev && a.ino == is.ino && is.nr_names == 1);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(port_birth(fds[0], &b), 0);
	assert_false(b.regular);
	close(fds[0]);
	close(fds[1]);
	port_shut(fd);
	(void)state;
}

static void append_waits_for_no_reader(void **state)
{
	struct port_file is;
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = port_append(in_folder("append"));
		assert_int_equal(port_put(fd, "abc", 3), 3);
		assert_int_equal(port_look(fd, &is), 0);
		port_shut(fd);
	}
	assert_int_equal(is.bytes, 6);
	assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
	assert_int_equal(port_append(in_folder("fifo")), -ENXIO);
	(void)state;
}

static void output_waits_for_room(void **state)
{
	char bytes[4096] = { 0 };
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_int_equal(port_wait(fds[1], PORT_OUTPUT, 0), 1);
	while (port_put(fds[1], bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(port_put(fds[1], bytes, 1), -EAGAIN);
	assert_int_equal(port_wait(fds[1], PORT_OUTPUT, 1), 0);
	close(fds[0]);
	assert_int_equal(port_wait(fds[1], PORT_OUTPUT, 0), 1);
	close(fds[1]);
	(void)state;
}

static void folder_in_use_is_not_removed(void **state)
{
	char path[PATH_BYTES];
	int fd;

	strcpy(path, in_folder("folder"));
	assert_int_equal(port_make_folder(path), 0);
	assert_int_equal(port_give(path, port_user()), 0);
	strcat(path, "/file");
	fd = port_create_both(path);
	assert_true(fd >= 0);
	port_shut(fd);
	assert_int_equal(port_create_both(path), -EEXIST);
	fd = port_open_both(path);
	assert_int_equal(port_put(fd, "a", 1), 1);
	port_shut(fd);
	assert_int_equal(port_remove_folder(in_folder("folder")), -ENOTEMPTY);
	assert_int_equal(port_remove(path), 0);
	assert_int_equal(port_remove_folder(in_folder("folder")), 0);
	assert_int_equal(port_give(in_folder("folder"), port_user()), -ENOENT);
	(void)state;
}

static int folder_make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
	char command[PATH_BYTES];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	(void)state;
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped_at_old_kernel_says_the_same),
		cmocka_unit_test(fault_in_behind_the_end_fails),
		cmocka_unit_test(segment_gone_is_einval),
		cmocka_unit_test(put_nobody_reads_brings_no_signal),
		cmocka_unit_test(put_file_too_long_brings_no_signal),
		cmocka_unit_test(quiet_keeps_the_mask),
		cmocka_unit_test(lock_of_zeros_is_free),
		cmocka_unit_test(child_runs_what_was_asked),
		cmocka_unit_test(process_text_is_its_beginning),
		cmocka_unit_test(variable_is_emptied_in_place),
		cmocka_unit_test(listens_only_who_listens),
		cmocka_unit_test(position_of_a_pipe_is_espipe),
		cmocka_unit_test(dup_above_is_the_lowest_free),
		cmocka_unit_test(hang_up_is_an_end_for_both),
		cmocka_unit_test(path_is_cut),
		cmocka_unit_test(birth_stays),
		cmocka_unit_test(append_waits_for_no_reader),
		cmocka_unit_test(output_waits_for_room),
		cmocka_unit_test(folder_in_use_is_not_removed),
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
