/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds of a file whose file system errs, or does not answer: a FUSE file that the user has
 * promised not to change. Its server is a process of this test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fuse.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/outside.h"
#include "tests/support/hold_watch.h"
#include "tests/support/wire_caller.h"

#define TEST_SECONDS 120
#define FILE_BYTES ((u64)12 << 20)
#define BAD_AT ((u64)9 << 20)
#define FUSE_BYTES (1u << 18)
#define HOLDS_EACH 64u /* as lib/service/hold/holds.h has it */
/* How long others wait for the memory of a cancelled range (lib/service/hold/hold_table.c). */
#define FRESH_NS ((u64)1000000000)

enum fuse_mood { FUSE_GOOD, FUSE_EIO, FUSE_EINTR, FUSE_EAGAIN, FUSE_SILENT };

/* One FUSE file system that is one file. */
struct fuse_file {
	char path[FIXTURE_PATH_BYTES];
	int device;
	pid_t server;
	u64 *mood; /* enum fuse_mood: how it answers reads from BAD_AT on */
};

static struct fuse_file fuse = { .device = -1 };

static void fuse_reply(int device, const struct fuse_in_header *in, int error,
                       const void *bytes, size_t n)
{
	static u8 reply[sizeof(struct fuse_out_header) + FUSE_BYTES];
	struct fuse_out_header *out = (void *)reply;

	*out = (struct fuse_out_header){ (u32)(sizeof(*out) + n), error, in->unique };
	if (n > 0)
		memcpy(out + 1, bytes, n);
	if (write(device, reply, out->len) != (ssize_t)out->len && errno != ENOENT)
		_exit(1);
}

static void fuse_serve_read(int device, const struct fuse_in_header *in, u64 mood)
{
	static u8 bytes[FUSE_BYTES];
	const struct fuse_read_in *r = (const void *)(in + 1);
	u64 n = r->offset < FILE_BYTES ? FILE_BYTES - r->offset : 0;

	n = n < r->size ? n : r->size;
	if (r->offset + n > BAD_AT && mood == FUSE_SILENT)
		return;
	if (r->offset + n > BAD_AT && mood != FUSE_GOOD) {
		fuse_reply(device, in,
		           mood == FUSE_EINTR    ? -EINTR
		           : mood == FUSE_EAGAIN ? -EAGAIN
		                                 : -EIO,
		           NULL, 0);
		return;
	}
	pattern_fill(bytes, 1, 1, r->offset, n);
	fuse_reply(device, in, 0, bytes, n);
}

static _Noreturn void fuse_serve(const struct fuse_file *f)
{
	static u8 request[1 << 17];
	const struct fuse_in_header *in = (const void *)request;
	const struct fuse_init_out init = {
		.major = 7, .minor = 31, .max_readahead = 1 << 17, .max_write = 1 << 16
	};
	const struct fuse_open_out opened = { .fh = 1 };
	const struct fuse_attr_out attr = { .attr_valid = 1000,
		                            .attr = { .ino = 1,
		                                      .size = FILE_BYTES,
		                                      .mode = S_IFREG | 0444,
		                                      .nlink = 1,
		                                      .blksize = 4096 } };
	const struct fuse_statfs_out statfs = { .st = { .bsize = 4096 } };

	while (read(f->device, request, sizeof(request)) > 0) {
		switch (in->opcode) {
		case FUSE_INIT:
			fuse_reply(f->device, in, 0, &init, sizeof(init));
			break;
		case FUSE_OPEN:
			fuse_reply(f->device, in, 0, &opened, sizeof(opened));
			break;
		case FUSE_GETATTR:
			fuse_reply(f->device, in, 0, &attr, sizeof(attr));
			break;
		case FUSE_STATFS:
			fuse_reply(f->device, in, 0, &statfs, sizeof(statfs));
			break;
		case FUSE_READ:
			fuse_serve_read(f->device, in, host_load_acquire(f->mood));
			break;
		case FUSE_FORGET:
		case FUSE_INTERRUPT: break;
		case FUSE_RELEASE:
		case FUSE_FLUSH: fuse_reply(f->device, in, 0, NULL, 0); break;
		default: fuse_reply(f->device, in, -ENOSYS, NULL, 0);
		}
	}
	_exit(0);
}

static void fuse_begin(enum fuse_mood mood)
{
	char data[128];

	fuse.device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse.device < 0)
		fixture_skip("no /dev/fuse");
	fuse.mood = fixture_shared(sizeof(*fuse.mood));
	host_store_release(fuse.mood, mood);
	fixture_path(fuse.path, "fuse.bin");
	close(fixture_open(fuse.path, O_WRONLY | O_CREAT));
	snprintf(data, sizeof(data), "fd=%d,rootmode=100444,user_id=0,group_id=0",
	         fuse.device);
	outside_mount("held", fuse.path, "fuse", MS_NOSUID | MS_NODEV, data);
	fuse.server = fixture_fork();
	if (fuse.server == 0)
		fuse_serve(&fuse);
}

/* The kernel ends all requests. */
static void fuse_end(void)
{
	if (fuse.device < 0)
		return;
	kill(fuse.server, SIGKILL);
	fixture_wait(fuse.server);
	close(fuse.device);
	fuse.device = -1;
	umount2(fuse.path, MNT_DETACH);
}

/* With room for holds of so many bytes. stuck: a job is left to a worker at the end, and looks
 * leaked. */
static void serve_room(struct test_service *service, const char *name, u64 hold_bytes,
                       bool stuck)
{
	static const char *globs[2];

	globs[0] = fuse.path;
	test_service_init(service, name);
	service->inherits = stuck;
	service->options.sizes.hold_bytes = hold_bytes;
	service->options.keeping.immutable = globs;
	assert_int_equal(test_service_start(service), 0);
}

static void serve(struct test_service *service, const char *name, bool stuck)
{
	serve_room(service, name, (u64)64 << 20, stuck);
}

/* Nothing is held in part, and the memory comes back. What can be read can be held. */
static void hold_eio_midway_fails_whole_memory_comes_back(void **state)
{
	struct test_service service;
	struct wire_caller c;
	u32 nr;
	u64 id;
	int fd;

	fuse_begin(FUSE_EIO);
	serve(&service, "eio", false);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	nr = caller_nr_descriptors(&service);
	assert_int_equal(caller_hold(&c, &service, id, 0, 0), -EIO);
	assert_int_equal(caller_stat(&c).hold_bytes, 0);
	assert_int_equal(c.reply.stat.holds, 0);
	assert_int_equal(c.reply.stat.holds_failed, 1);
	assert_int_equal(caller_nr_descriptors(&service), nr);
	fd = caller_hold(&c, &service, id, 0, (u64)8 << 20);
	assert_true(fd >= 0);
	assert_true(caller_holds_pattern(fd, 1, 1, 0, (u64)8 << 20));
	close(fd);
	host_store_release(fuse.mood, FUSE_GOOD);
	fd = caller_hold(&c, &service, id, 0, 0);
	assert_true(fd >= 0);
	assert_true(caller_holds_pattern(fd, 1, 1, 0, FILE_BYTES));
	close(fd);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	fuse_end();
	(void)state;
}

static void assert_interrupted_ends(enum fuse_mood mood, const char *name)
{
	struct lodic_context *context;
	struct test_service service;
	struct lodic_hold *hold;
	struct lodic_file *file;
	struct lodic *lodic;
	int fd;

	fuse_begin(mood);
	serve(&service, name, false);
	fd = fixture_open(fuse.path, O_RDONLY);
	assert_int_equal(test_service_attach(&service, &lodic), 0);
	assert_int_equal(lodic_context_open(lodic, &context), 0);
	assert_int_equal(lodic_open(lodic, fd, &file), 0);
	/* The service reads this, and the library the next. */
	assert_int_equal(lodic_hold(lodic, file, 0, 0, LODIC_WAIT, &hold), -EIO);
	assert_int_equal(lodic_hold(lodic, file, BAD_AT, LODIC_BLOCK_BYTES, LODIC_WAIT,
	                            &hold),
	                 -EIO);
	/* A block that cannot be read is given up, and a program that waits hears of it. */
	assert_int_equal(lodic_prefetch(context, file, BAD_AT, LODIC_BLOCK_BYTES,
	                                LODIC_WAIT),
	                 0);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	close(fd);
	assert_int_equal(test_service_stop(&service), 0);
	fuse_end();
}

/* Its file system says so of its own will, and each time. A worker must not ask for ever. */
static void hold_interrupted_each_time_eio(void **state)
{
	assert_interrupted_ends(FUSE_EINTR, "eintr");
	assert_interrupted_ends(FUSE_EAGAIN, "eagain");
	(void)state;
}

/* A file that does not answer has pieces under way for ever. Others are read meanwhile. One who
 * waits hears when the file is dropped. */
static void hold_unanswered_others_are_read_drop_ends_it(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c, d, waiting, hasty;
	u64 id, other, number;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve(&service, "silent", false);
	pattern_file_make(path, "other.bin", 2, 1, (u64)20 << 20);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	for (u64 i = 0; i < HOLDS_EACH; i++) /* and two of them stick */
		assert_int_equal(caller_ask(&c, WIRE_HOLD, id, (i << 12) + BAD_AT,
		                            4096 - i),
		                 -EINPROGRESS);
	number = c.reply.hold.number;
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 1), -EAGAIN);
	caller_connect(&waiting, &service);
	caller_send(&waiting, WIRE_HOLD_WAIT, number, 0, 0, -1);
	caller_connect(&hasty, &service);
	caller_send(&hasty, WIRE_HOLD_WAIT, number, 0, 0, -1);
	close(hasty.socket);
	caller_hello(&d, &service);
	other = caller_open(&d, path);
	fd = caller_hold(&d, &service, other, 0, 0);
	assert_true(fd >= 0);
	assert_true(caller_holds_pattern(fd, 2, 1, 0, (u64)20 << 20));
	close(fd);
	assert_int_equal(hold_watch_drop(service.socket), 0);
	assert_int_equal(caller_receive(&waiting), -ESTALE);
	close(waiting.socket);
	close(d.socket);
	fuse_end();
	/* The pieces come back with an error, and so does the memory. */
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == 0));
	assert_int_equal(c.reply.stat.holds, 0);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* The service ends in order while a worker is stuck, and another range is being read. */
static void hold_unanswered_service_ends(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c, waiting;
	u64 id;

	fuse_begin(FUSE_SILENT);
	serve(&service, "ends", true);
	pattern_file_make(path, "ends.bin", 2, 1, (u64)20 << 20);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, BAD_AT, 0), -EINPROGRESS);
	caller_connect(&waiting, &service);
	caller_send(&waiting, WIRE_HOLD_WAIT, c.reply.hold.number, 0, 0, -1);
	id = caller_open(&c, path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -EINPROGRESS);
	kill(service.pid, SIGTERM);
	/* Its process stays until the kernel has ended the stuck read. */
	assert_true(WAIT_UNTIL(wire_receive(waiting.socket, &waiting.reply,
	                                    sizeof(waiting.reply), waiting.fds,
	                                    &waiting.nr_fds) == -ECONNRESET));
	close(waiting.socket);
	close(c.socket);
	fuse_end();
	assert_int_equal(fixture_wait(service.pid), 0);
	(void)state;
}

/* A piece of a file that was dropped is still under way when another arena takes over. */
static void hold_unanswered_dropped_resized_comes_back(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c, asks;
	u64 id;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve(&service, "dropped", false);
	pattern_file_make(path, "dropped.bin", 2, 1, (u64)2 << 20);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, BAD_AT, 0), -EINPROGRESS);
	assert_int_equal(hold_watch_drop(service.socket), 0);
	close(c.socket);
	caller_connect(&asks, &service);
	assert_int_equal(caller_ask(&asks, WIRE_RESIZE, (u64)2 << 20, 0, 0), 0);
	assert_true(WAIT_UNTIL(caller_ask(&asks, WIRE_RESIZE, 0, 0, 0) == 0 &&
	                       asks.reply.resize.state == LOOK_RESIZE_DONE));
	fuse_end();
	assert_true(WAIT_UNTIL(caller_stat(&asks).hold_bytes == 0));
	/* All slots of the new arena are as they were. */
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	assert_true(caller_holds_pattern(fd, 2, 1, 0, (u64)2 << 20));
	close(fd);
	close(c.socket);
	close(asks.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* The memory of a range that nobody may have, but that a worker may still write, does not come
 * back. Nobody waits for it for ever. */
static void hold_unanswered_takes_room_others_hear_enospc(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c;
	u64 id, number;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve_room(&service, "takes", (u64)4 << 20, false);
	pattern_file_make(path, "takes.bin", 2, 1, FILE_BYTES);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, BAD_AT, 0), -EINPROGRESS);
	number = c.reply.hold.number;
	assert_int_equal(hold_watch_drop(service.socket), 0);
	assert_int_equal(caller_wait_settled(&service, number), -ESTALE);
	id = caller_open(&c, path);
	assert_int_equal(caller_hold(&c, &service, id, 0, (u64)2 << 20), -ENOSPC);
	fd = caller_hold(&c, &service, id, 0, (u64)1 << 20); /* this has room */
	assert_true(caller_holds_pattern(fd, 2, 1, 0, (u64)1 << 20));
	close(fd);
	fuse_end();
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == (u64)1 << 20));
	fd = caller_hold(&c, &service, id, 0, (u64)4 << 20);
	assert_true(caller_holds_pattern(fd, 2, 1, 0, (u64)4 << 20));
	close(fd);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A program that gives up ranges while they are being read may ask for others. */
static void hold_unanswered_released_counts_no_more(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c, waiting;
	u64 id;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve(&service, "released", false);
	pattern_file_make(path, "released.bin", 2, 1, (u64)2 << 20);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	for (u64 i = 0; i < HOLDS_EACH; i++) {
		assert_int_equal(caller_ask(&c, WIRE_HOLD, id, (i << 12) + BAD_AT,
		                            4096 - i),
		                 -EINPROGRESS);
		caller_connect(&waiting, &service);
		caller_send(&waiting, WIRE_HOLD_WAIT, c.reply.hold.number, 0, 0, -1);
		close(waiting.socket);
	}
	id = caller_open(&c, path);
	assert_true(WAIT_UNTIL((fd = caller_hold(&c, &service, id, 0, 0)) != -EAGAIN));
	assert_true(caller_holds_pattern(fd, 2, 1, 0, (u64)2 << 20));
	close(fd);
	fuse_end();
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A request waits for room. Since then a loaded machine may have let the time for that go by. */
static void assert_waits_for_room(int err, u64 since_ns)
{
	if (err != -ENOSPC || host_now_ns() - since_ns < FRESH_NS)
		assert_int_equal(err, -EINPROGRESS);
}

/* A program that waits for room, and ends. Nothing is read for it. */
static void hold_waits_for_room_given_up_is_not_read(void **state)
{
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller c, d;
	u64 id, number, since;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve_room(&service, "given-up", (u64)4 << 20, false);
	pattern_file_make(path, "given-up.bin", 2, 1, (u64)4 << 20);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, BAD_AT, 0), -EINPROGRESS);
	number = c.reply.hold.number;
	since = host_now_ns();
	assert_int_equal(hold_watch_drop(service.socket), 0);
	assert_int_equal(caller_wait_settled(&service, number), -ESTALE);
	caller_hello(&d, &service);
	id = caller_open(&d, path);
	assert_waits_for_room(caller_ask(&d, WIRE_HOLD, id, 0, (u64)2 << 20), since);
	close(d.socket);
	assert_int_equal(caller_open(&c, path), id);
	assert_waits_for_room(caller_ask(&c, WIRE_HOLD, id, (u64)2 << 20, 0), since);
	fuse_end();
	assert_true(WAIT_UNTIL((fd = caller_hold(&c, &service, id, (u64)2 << 20, 0)) !=
	                       -ENOSPC));
	assert_true(caller_holds_pattern(fd, 2, 1, (u64)2 << 20, (u64)2 << 20));
	close(fd);
	assert_int_equal(caller_stat(&c).holds_read, 1);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* Two ranges at once, of which the machine has memory for one. */
static void hold_two_at_once_memory_for_one_enomem(void **state)
{
	static const char text[] = "MemAvailable: 4096 kB\n";
	char path[FIXTURE_PATH_BYTES], fake[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id, other;
	int fd;

	fuse_begin(FUSE_SILENT);
	serve(&service, "memory", false);
	pattern_file_make(path, "memory.bin", 2, 1, FILE_BYTES);
	fixture_path(fake, "meminfo");
	fd = fixture_open(fake, O_WRONLY | O_CREAT);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	outside_mount(fake, "/proc/meminfo", NULL, MS_BIND, NULL);
	caller_hello(&c, &service);
	id = caller_open(&c, fuse.path);
	other = caller_open(&c, path);
	fd = caller_hold(&c, &service, other, 0, (u64)2 << 20);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, BAD_AT, 0), -EINPROGRESS);
	assert_int_equal(caller_hold(&c, &service, other, (u64)4 << 20, (u64)2 << 20),
	                 -ENOMEM);
	fuse_end();
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == (u64)2 << 20));
	fd = caller_hold(&c, &service, other, (u64)4 << 20, (u64)2 << 20);
	assert_true(caller_holds_pattern(fd, 2, 1, (u64)4 << 20, (u64)2 << 20));
	close(fd);
	umount2("/proc/meminfo", MNT_DETACH);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* From now on the kernel knows no leases; for this process and its children. */
static void lease_forbid(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		         offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLEASE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { .len = 6, .filter = steps };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
	        "no filter");
}

/* Where nothing tells that nobody has a hold, there is none: it would count for ever. */
static void hold_kernel_without_leases_eopnotsupp(void **state)
{
	struct test_service service;
	struct wire_caller c;
	pid_t pid;
	u64 id;

	fuse_begin(FUSE_GOOD);
	pid = fixture_fork();
	if (pid == 0) {
		lease_forbid();
		serve(&service, "leases", false);
		caller_hello(&c, &service);
		id = caller_open(&c, fuse.path);
		REQUIRE(caller_hold(&c, &service, id, 0, 0) == -EOPNOTSUPP, "%d",
		        c.reply.error);
		REQUIRE(caller_stat(&c).hold_bytes == 0, "memory is left");
		close(c.socket);
		REQUIRE(test_service_stop(&service) == 0, "no end in order");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	fuse_end();
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

static int fuse_teardown(void **state)
{
	(void)state;
	fuse_end();
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, guard_set, fuse_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(hold_eio_midway_fails_whole_memory_comes_back),
		TEST(hold_interrupted_each_time_eio),
		TEST(hold_unanswered_others_are_read_drop_ends_it),
		TEST(hold_unanswered_service_ends),
		TEST(hold_unanswered_dropped_resized_comes_back),
		TEST(hold_unanswered_takes_room_others_hear_enospc),
		TEST(hold_unanswered_released_counts_no_more),
		TEST(hold_waits_for_room_given_up_is_not_read),
		TEST(hold_two_at_once_memory_for_one_enomem),
		TEST(hold_kernel_without_leases_eopnotsupp),
	};

	outside_begin(argc, argv);
	return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}
