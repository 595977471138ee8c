/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files whose file system does not answer. One program passes such a file, and waits or gives
 * up. The service must go on for all others. An unanswered fanotify permission event stands
 * for a dead server, and a FUSE file whose server is this test for one in user space.
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
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/wire.h"
#include "tests/outside/others.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_PROGRAMS 10u
#define OPENS_EACH 2u
#define MOST_OPENS 9u
#define NR_STRAYS 12u
#define NR_WAITING 20u /* more than there are workers */
#define NR_READERS 20u /* the same */
#define SCANNED_BYTES ((u64)4 << 20)

static void open_unanswered_others_attach_and_open(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	int sockets[MOST_OPENS];
	struct test_bed b;
	u32 nr = 0;
	int fd, fan, answer;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "hangs", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	fan = hang_file(path, FAN_OPEN_PERM);
	/* One program asks again and again, as after time-outs. Soon it is refused. */
	do {
		sockets[nr] = raw_connect(&b.service);
		raw_send(sockets[nr], WIRE_FILE_OPEN, fd);
		answer = raw_answer(sockets[nr++], 200);
		assert_others_are_served(&b.service, b.path, 0);
	} while (answer == 1 && nr < MOST_OPENS);
	assert_int_equal(answer, -EBUSY);
	close(fan); /* the kernel lets all of them go on */
	assert_int_equal(raw_answer(sockets[0], FIXTURE_DEADLINE_MS), 0);
	for (u32 i = 0; i < nr; i++)
		close(sockets[i]);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static void open_unanswered_by_many_refused_at_once_then_served(void **state)
{
	u64 *nr_sent = fixture_shared(sizeof(*nr_sent));
	char path[FIXTURE_PATH_BYTES];
	pid_t pids[NR_PROGRAMS];
	struct test_bed b;
	struct lodic_file *file = NULL;
	int fd, other, fan, cached;
	u8 buffer[BLOCK];

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "hangs", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	fan = hang_file(path, FAN_OPEN_PERM);
	for (u32 i = 0; i < NR_PROGRAMS; i++) {
		pids[i] = fixture_fork();
		if (pids[i] != 0)
			continue;
		close(fan);
		for (u32 k = 0; k < OPENS_EACH; k++)
			raw_send(raw_connect(&b.service), WIRE_FILE_OPEN, fd);
		host_fetch_add(nr_sent, 1);
		for (;;)
			pause();
	}
	assert_true(WAIT_UNTIL(host_load_acquire(nr_sent) == NR_PROGRAMS));
	pattern_file_make(path, "another", 1, 1, BLOCK);
	other = fixture_open(path, O_RDONLY);
	/* Those who wait are told when the workers are known to be stuck. So is this one, if the
	 * library does not give up before: then it asks again. */
	assert_true(WAIT_UNTIL(({
		lodic_close(file);
		assert_int_equal(lodic_open(b.lodic, other, &file), 0);
		cached = lodic_file_cached(file);
		!(cached == -ETIMEDOUT || cached == -ESTALE);
	})));
	assert_int_equal(cached, -EBUSY);
	assert_others_are_served(&b.service, b.path, -EBUSY);
	close(fan);
	assert_true(WAIT_UNTIL(lodic_read(b.context, file, buffer, BLOCK, 0) == BLOCK &&
	                       lodic_file_cached(file) == 0));
	lodic_close(file);
	close(other);
	close(fd);
	for (u32 i = 0; i < NR_PROGRAMS; i++) {
		kill(pids[i], SIGKILL);
		fixture_wait(pids[i]);
	}
	test_bed_free(&b);
	(void)state;
}

/* How many pages of the first bytes of fd the kernel's page cache has. */
static u32 nr_pages_cached(int fd, u64 bytes)
{
	static u8 pages[SCANNED_BYTES / 4096];
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	u32 nr = 0;

	assert_true(at != MAP_FAILED);
	assert_int_equal(mincore(at, bytes, pages), 0);
	for (u64 i = 0; i < bytes / (u64)sysconf(_SC_PAGESIZE); i++)
		nr += pages[i] & 1;
	munmap(at, bytes);
	return nr;
}

static int open_cold(const char *path, u64 bytes)
{
	int fd = fixture_open(path, O_RDONLY);

	fsync(fd);
	assert_true(WAIT_UNTIL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
	                       nr_pages_cached(fd, bytes) == 0));
	return fd;
}

/* The service's open of path waits for a scanner. Returns the scanner. */
static int service_is_scanned(const struct test_bed *b, int fan)
{
	struct pollfd wait = { .fd = fan, .events = POLLIN };
	struct fanotify_event_metadata event;

	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	assert_int_equal(read(fan, &event, sizeof(event)), sizeof(event));
	assert_int_equal(event.pid, b->service.pid);
	return event.fd;
}

/* A scanner takes its time with what the service opens to read a cold file with O_DIRECT. */
static void cold_read_is_scanned_nobody_waits(void **state)
{
	char path[FIXTURE_PATH_BYTES], other[FIXTURE_PATH_BYTES];
	const u64 half = SCANNED_BYTES / 2;
	struct lodic_file *file;
	struct lodic_hold *hold;
	struct test_bed b;
	int fd, fan, scanned;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = 2 * SCANNED_BYTES;
	b.service.options.sizes.hold_bytes = SCANNED_BYTES;
	test_bed_make(&b, BLOCK);
	if (test_service_stat(b.lodic).direct_io == 0)
		fixture_skip("no O_DIRECT where temporary files are: set TMPDIR");
	pattern_file_make(other, "other", 1, 1, BLOCK);
	close(open_cold(other, BLOCK));
	pattern_file_make(path, "scanned", 2, 1, SCANNED_BYTES);
	fd = open_cold(path, SCANNED_BYTES);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), 0);
	fan = hang_file(path, FAN_OPEN_PERM);
	assert_int_equal(lodic_prefetch(b.context, file, 0, half, 0), 0);
	scanned = service_is_scanned(&b, fan);
	assert_int_equal(test_service_stat(b.lodic).files, 2); /* answered */
	assert_others_are_served(&b.service, other, 0);
	/* Neither this file's blocks wait for the scanner, nor a hold. */
	assert_int_equal(lodic_prefetch(b.context, file, 0, half, LODIC_WAIT), 0);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).cached >= half / BLOCK));
	assert_int_equal(lodic_hold(b.lodic, file, 0, 0, LODIC_WAIT, &hold), 0);
	assert_true(pattern_holds(lodic_hold_data(hold), 2, 1, 0, SCANNED_BYTES));
	lodic_release(hold);
	assert_int_equal(test_service_stat(b.lodic).errors, 0);
	close(scanned);
	close(fan); /* the kernel lets the open go on */
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* A worker opens the description. What is read by it does not come to the page cache. */
static void cold_reads_pass_by_the_page_cache(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	const u64 half = SCANNED_BYTES / 2;
	struct lodic_file *file;
	struct lodic_hold *hold;
	struct test_bed b;
	int fd;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = 2 * SCANNED_BYTES;
	b.service.options.sizes.hold_bytes = SCANNED_BYTES;
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "cold", 2, 1, SCANNED_BYTES);
	fd = open_cold(path, SCANNED_BYTES);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_prefetch(b.context, file, 0, half, LODIC_WAIT), 0);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).cached >= half / BLOCK));
	assert_int_equal(nr_pages_cached(fd, SCANNED_BYTES), 0);
	assert_int_equal(lodic_hold(b.lodic, file, 0, 0, LODIC_WAIT, &hold), 0);
	assert_int_equal(nr_pages_cached(fd, SCANNED_BYTES), 0);
	lodic_release(hold);
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* A successor opens each file anew. It leaves one behind that a scanner keeps. */
static void successor_file_is_scanned_stays_behind(void **state)
{
	struct test_bed b;
	int fan;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	test_bed_fill(&b);
	fan = hang_file(b.path, FAN_OPEN_PERM);
	test_bed_succeed(&b);
	assert_int_equal(test_service_stat(b.lodic).files, 0);
	close(fan);
	test_bed_come_back(&b);
	test_bed_free(&b);
	(void)state;
}

/* Answers the kernel's next request of this kind: no error, and so many bytes. */
static void fuse_answer(int device, u32 opcode, const void *bytes, size_t n)
{
	static u8 request[1 << 17];
	const struct fuse_in_header *in = (const void *)request;
	u8 reply[sizeof(struct fuse_out_header) + 256];
	struct fuse_out_header *out = (void *)reply;

	REQUIRE(read(device, request, sizeof(request)) > 0, "%s", strerror(errno));
	REQUIRE(in->opcode == opcode, "%u", in->opcode);
	*out = (struct fuse_out_header){ (u32)(sizeof(*out) + n), 0, in->unique };
	memcpy(out + 1, bytes, n);
	REQUIRE(write(device, reply, out->len) == (ssize_t)out->len, "%s",
	        strerror(errno));
}

static int fuse_device = -1;

static void fuse_end(void)
{
	if (fuse_device >= 0)
		close(fuse_device); /* the kernel ends all requests */
	fuse_device = -1;
}

/* A FUSE file system that is one file, with a server that answers until the file is open.
 * Returns the file's descriptor. */
static int fuse_file_open(const char *path)
{
	struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096 };
	struct fuse_open_out open_reply = { .fh = 1 };
	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char data[128];
	pid_t pid;
	int fd;

	if (device < 0)
		fixture_skip("no /dev/fuse");
	close(fixture_open(path, O_WRONLY | O_CREAT));
	snprintf(data, sizeof(data), "fd=%d,rootmode=100444,user_id=0,group_id=0",
	         device);
	outside_mount("slow", path, "fuse", MS_NOSUID | MS_NODEV, data);
	fuse_answer(device, FUSE_INIT, &init, sizeof(init));
	pid = fixture_fork();
	if (pid == 0) {
		fuse_answer(device, FUSE_OPEN, &open_reply, sizeof(open_reply));
		_exit(0);
	}
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(fixture_wait(pid), 0);
	umount2(path, MNT_DETACH); /* who removes the folder must not meet it */
	fuse_device = device;
	return fd;
}

/* Whatever the service asks such a descriptor waits for ever: poll, stat, close. */
static void fuse_descriptor_passed_others_are_served(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	int fd, sockets[NR_STRAYS + 1];
	struct other others[2];
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < 2;
	     i++) /* before: their ends would wait for the file, too */
		others[i] = other_start(&b.service, b.path, 0);
	fixture_path(path, "fuse");
	fd = fuse_file_open(path);
	for (u32 i = 0; i < NR_STRAYS; i++) { /* the service must close each */
		sockets[i] = raw_connect(&b.service);
		raw_send(sockets[i], WIRE_HELLO, fd);
	}
	assert_other_is_served(&others[0]);
	sockets[NR_STRAYS] = raw_connect(&b.service);
	raw_send(sockets[NR_STRAYS], WIRE_FILE_OPEN, fd);
	assert_other_is_served(&others[1]);
	for (u32 i = 0; i <= NR_STRAYS; i++)
		close(sockets[i]);
	fuse_end();
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* Each asks for one file of a server that never says what it is; counts those that are refused. */
static pid_t fuse_reader(const struct test_service *service, int fd, u64 *nr_refused)
{
	pid_t pid = fixture_fork();
	int socket;

	if (pid != 0)
		return pid;
	close(fuse_device); /* its end would wait for the file, and keep the server */
	socket = raw_connect(service);
	raw_send(socket, WIRE_FILE_OPEN, fd);
	if (raw_answer(socket, FIXTURE_DEADLINE_MS) == -EBUSY)
		host_fetch_add(nr_refused, 1);
	for (;;)
		pause();
}

static void fuse_read_by_many_others_are_served(void **state)
{
	u64 *nr_refused = fixture_shared(sizeof(*nr_refused));
	char path[FIXTURE_PATH_BYTES];
	pid_t readers[NR_READERS];
	struct other others[2];
	struct test_bed b;
	int fd;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < 2; i++)
		others[i] = other_start(&b.service, b.path, 0);
	fixture_path(path, "fuse-many");
	fd = fuse_file_open(path);
	for (u32 i = 0; i < NR_READERS; i++)
		readers[i] = fuse_reader(&b.service, fd, nr_refused);
	/* One of them waits for the server. */
	assert_true(WAIT_UNTIL(host_load_acquire(nr_refused) == NR_READERS - 1));
	assert_other_is_served(&others[0]);
	for (u32 i = 0; i < NR_READERS; i++) /* an end waits for the file, too */
		kill(readers[i], SIGKILL);
	assert_other_is_served(&others[1]);
	fuse_end();
	for (u32 i = 0; i < NR_READERS; i++)
		fixture_wait(readers[i]);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* Starts a service at the same socket when the test says so. Ends with 0 if that works. */
static _Noreturn void successor_run(const struct test_service *service, const u64 *go)
{
	struct test_service next = *service;

	while (!host_load_acquire(go))
		fixture_pause_us(100);
	if (!WAIT_UNTIL_MS(test_service_start(&next) == 0, SOON_MS))
		_exit(1);
	_exit(test_service_stop(&next));
}

/* The service ends while such descriptors wait for a worker. Its process may stay until the
 * kernel has closed them, but the next service can begin. */
static void fuse_descriptors_wait_service_ends_next_begins(void **state)
{
	u64 *go = fixture_shared(sizeof(*go));
	char path[FIXTURE_PATH_BYTES];
	int fd, sockets[NR_WAITING];
	struct test_bed b;
	pid_t successor;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	successor = fixture_fork(); /* before: its end would wait for the file, too */
	if (successor == 0)
		successor_run(&b.service, go);
	fixture_path(path, "fuse-end");
	fd = fuse_file_open(path);
	for (u32 i = 0; i < NR_WAITING; i++) {
		sockets[i] = raw_connect(&b.service);
		raw_send(sockets[i], WIRE_FILE_OPEN, fd);
	}
	close(raw_connect(&b.service)); /* the service has the others now */
	kill(b.service.pid, SIGTERM);
	host_store_release(go, 1);
	assert_int_equal(fixture_wait(successor), 0);
	for (u32 i = 0; i < NR_WAITING; i++)
		close(sockets[i]);
	fuse_end();
	close(fd);
	assert_int_equal(fixture_wait(b.service.pid), 0);
	b.service.pid = 0;
	lodic_close(b.file);
	lodic_context_close(b.context);
	lodic_detach(b.lodic);
	close(b.fd);
	unlink(b.path);
	(void)state;
}

/* From now on this process and its children get no io_uring, as in many containers. */
static void forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
	        "%s", strerror(errno));
}

/* The service's own read waits. Put this last: the filter stays. */
static void read_unanswered_without_io_uring_others_are_served(void **state)
{
	struct fanotify_event_metadata event;
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct lodic_pin pin;
	struct pollfd wait;
	struct test_bed b;
	int fd;

	forbid_io_uring();
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	assert_int_equal(test_service_stat(b.lodic).io_uring, 0);
	pattern_file_make(path, "silent", 2, 1, BLOCK);
	/* Before any open: newer kernels ask only for files opened afterwards. */
	wait = (struct pollfd){ .fd = hang_file(path, FAN_ACCESS_PERM),
		                .events = POLLIN };
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), 0);
	assert_int_equal(lodic_prefetch(b.context, file, 0, 0, 0), 0);
	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	assert_int_equal(read(wait.fd, &event, sizeof(event)), sizeof(event));
	assert_int_equal(test_service_stat(b.lodic).cached, 0); /* answered */
	/* Another file's block comes, and who waits for all does not wait for that one. */
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(test_service_stat(b.lodic).cached, 1);
	close(event.fd);
	close(wait.fd); /* the kernel lets the read go on */
	assert_true(WAIT_UNTIL(lodic_pin(b.context, file, 0, &pin) == 0));
	assert_true(pattern_holds(pin.data, 2, 1, 0, BLOCK));
	lodic_unpin(b.context, &pin);
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* A file that nobody has open stays for a while, and then no longer holds its disk. */
static void closed_file_leaves_after_keep_umount_works(void **state)
{
	char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct test_bed b;
	u64 start;
	int fd;

	outside_folder(folder, "mounted");
	outside_mount_ext4(folder);
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.keep_ms = 300;
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "mounted/file", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), 0);
	close(fd);
	start = host_now_ns();
	lodic_close(file);
	/* EBUSY as long as it is warm. On a loaded machine even the first try may come later. */
	assert_true(WAIT_UNTIL_MS(umount(folder) == 0, SOON_MS));
	assert_true(host_now_ns() - start >= b.service.options.keeping.keep_ms * 1000000);
	assert_int_equal(lodic_file_cached(b.file), 0); /* this one is open */
	test_bed_free(&b);
	(void)state;
}

/* On a mount that may go a file does not stay for long, if nobody says how long. */
static void closed_file_on_a_mount_leaves_umount_works(void **state)
{
	char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct test_bed b;
	int fd;

	outside_folder(folder, "disk");
	outside_mount_ext4(folder);
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "disk/file", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), 0);
	close(fd);
	lodic_close(file);
	assert_int_equal(umount(folder), -1); /* it is warm */
	lodic_close(b.file);
	b.file = NULL;
	assert_true(WAIT_UNTIL(umount(folder) == 0));
	assert_int_equal(test_service_stat(b.lodic).files, 1); /* that of / stays */
	test_bed_free(&b);
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

/* Also after a failure: a process that inherits the file would wait for it. */
static int fuse_teardown(void **state)
{
	(void)state;
	fuse_end();
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(open_unanswered_others_attach_and_open),
		TEST(open_unanswered_by_many_refused_at_once_then_served),
		TEST(cold_read_is_scanned_nobody_waits),
		TEST(cold_reads_pass_by_the_page_cache),
		TEST(successor_file_is_scanned_stays_behind),
		TEST(closed_file_leaves_after_keep_umount_works),
		TEST(closed_file_on_a_mount_leaves_umount_works),
		cmocka_unit_test_setup_teardown(
			fuse_descriptor_passed_others_are_served, guard_set,
			fuse_teardown),
		cmocka_unit_test_setup_teardown(fuse_read_by_many_others_are_served,
		                                guard_set, fuse_teardown),
		cmocka_unit_test_setup_teardown(
			fuse_descriptors_wait_service_ends_next_begins, guard_set,
			fuse_teardown),
		TEST(read_unanswered_without_io_uring_others_are_served),
	};

	outside_begin(argc, argv);
	return cmocka_run_group_tests_name("opens", tests, NULL, NULL);
}
