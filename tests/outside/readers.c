/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Readers that leave, or seem to: when the service takes a context back. What is pinned must
 * stand still while any process has the context's memory, and no context may stay when no
 * process has it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/outside.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_BLOCKS 64u
#define NR_EXECS 128u
#define PASSES 8u
#define STACK_BYTES (64u << 10)
/* Ten ticks of the service and more. */
#define SOON_MS 5000u

/* What a reader and the test tell each other. */
struct talk {
	u64 pinned;  /* the reader holds its pin, and has done what it does */
	u64 evicted; /* the test has pushed other blocks through the cache */
	u64 looked;  /* the reader has looked at its pin again */
	u64 changed; /* bytes of the pin that were not the file's any more */
};

static struct lodic_pin pin_first(const struct test_service *service, const char *path,
                                  struct lodic_context **ret_context)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	struct lodic_pin pin;
	int fd = fixture_open(path, O_RDONLY);

	REQUIRE(test_service_attach(service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fd, &file) == 0, "not opened");
	REQUIRE(lodic_prefetch(context, file, 0, BLOCK, LODIC_WAIT) == 0, "not cached");
	REQUIRE(lodic_pin(context, file, 0, &pin) == 0, "not pinned");
	*ret_context = context;
	return pin;
}

static void look_again(struct talk *t, const struct lodic_pin *pin)
{
	static u8 right[BLOCK];

	pattern_fill(right, 1, 1, 0, BLOCK);
	while (!host_load_acquire(&t->evicted))
		host_relax();
	for (u32 i = 0; i < BLOCK; i++)
		t->changed += ((const u8 *)pin->data)[i] != right[i];
	host_store_release(&t->looked, 1);
}

/* As an old container's seccomp profile has it. */
static void forbid_pidfd_open(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
	        "%s", strerror(errno));
}

static _Noreturn void closing_reader_run(struct test_bed *b, struct talk *t)
{
	struct lodic_context *context;
	struct lodic_pin pin;

	forbid_pidfd_open();
	pin = pin_first(&b->service, b->path, &context);
	REQUIRE(close_range(3, ~0u, 0) == 0, "%s", strerror(errno));
	host_store_release(&t->pinned, 1);
	look_again(t, &pin);
	_exit(0);
}

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = (u64)NR_BLOCKS * BLOCK;
	b->service.options.tables.quota = 16; /* two may pin */
	test_bed_make(b, (u64)NR_BLOCKS * BLOCK);
}

/* Another file of the cache's size goes through the cache, so each frame that nobody has
 * pinned changes. */
static void push_everything_out(struct test_bed *b)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	int fd;

	pattern_file_make(path, "other", 2, 1, 2 * (u64)NR_BLOCKS * BLOCK);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, fd, &file), 0);
	for (u32 i = 0; i < PASSES; i++)
		assert_int_equal(lodic_prefetch(b->context, file, 0, 0, LODIC_WAIT), 0);
	lodic_close(file);
	close(fd);
}

static void assert_contexts_soon(struct test_bed *b, u64 nr)
{
	if (!WAIT_UNTIL_MS(test_service_stat(b->lodic).contexts == nr, SOON_MS))
		assert_int_equal(test_service_stat(b->lodic).contexts, nr);
}

static void pinned_reader_closes_all_descriptors_pin_holds(void **state)
{
	struct talk *t = fixture_shared(sizeof(*t));
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	pid = fixture_fork();
	if (pid == 0)
		closing_reader_run(&b, t);
	assert_true(WAIT_UNTIL(host_load_acquire(&t->pinned)));
	push_everything_out(&b);
	assert_int_equal(test_service_stat(b.lodic).contexts, 2);
	host_store_release(&t->evicted, 1);
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(t->changed, 0);
	assert_contexts_soon(&b, 1);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

static struct talk *heir_talk;
static struct lodic_pin heir_pin;

static int heir_run(void *arg)
{
	(void)arg;
	look_again(heir_talk, &heir_pin);
	syscall(SYS_exit, 0);
	return 0;
}

/* The process dies, and another one has the same memory: vfork() and CLONE_VM make such. */
static void pinned_reader_dies_another_has_its_memory_pin_holds(void **state)
{
	struct lodic_context *context;
	struct test_bed b;
	char *stack;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message(
		"TSan does not know of a process that shares another one's memory\n");
	skip();
#endif
	heir_talk = fixture_shared(sizeof(*heir_talk));
	bed_make(&b);
	pid = fixture_fork();
	if (pid == 0) {
		heir_pin = pin_first(&b.service, b.path, &context);
		stack = malloc(STACK_BYTES);
		/* Not PR_SET_PDEATHSIG: the heir ends when the test has pushed. */
		REQUIRE(stack && clone(heir_run, stack + STACK_BYTES, CLONE_VM, NULL) >
		                         0,
		        "%s", strerror(errno));
		host_store_release(&heir_talk->pinned, 1);
		_exit(0);
	}
	assert_true(WAIT_UNTIL(host_load_acquire(&heir_talk->pinned)));
	assert_int_equal(fixture_wait(pid), 0);
	push_everything_out(&b);
	host_store_release(&heir_talk->evicted, 1);
	assert_true(WAIT_UNTIL(host_load_acquire(&heir_talk->looked)));
	assert_int_equal(heir_talk->changed, 0);
	assert_contexts_soon(&b, 1);
	test_bed_free(&b);
	(void)state;
}

/* argv: this program, "--heir", socket, path, how many more, descriptor of talk. */
static int exec_reader_run(char **argv)
{
	struct test_service service;
	struct lodic_context *context;
	struct talk *t;
	u64 left = strtoull(argv[4], NULL, 10);
	char number[24];

	if (left == 0) {
		t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED,
		         atoi(argv[5]), 0);
		REQUIRE(t != MAP_FAILED, "%s", strerror(errno));
		host_store_release(&t->pinned, 1);
		for (;;)
			pause();
	}
	snprintf(service.socket, sizeof(service.socket), "%s", argv[2]);
	(void)pin_first(&service, argv[3], &context);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)left - 1);
	execl("/proc/self/exe", argv[0], argv[1], argv[2], argv[3], number, argv[5],
	      NULL);
	return 1;
}

/* exec() keeps the process's number and pidfd, and takes its memory. */
static void reader_execs_often_its_contexts_leave(void **state)
{
	int fd = memfd_create("talk", 0); /* not close-on-exec */
	char number[24], talk[24];
	struct test_bed b;
	struct talk *t;
	pid_t pid;

	assert_int_equal(ftruncate(fd, sizeof(*t)), 0);
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bed_make(&b);
	snprintf(number, sizeof(number), "%u", NR_EXECS);
	snprintf(talk, sizeof(talk), "%d", fd);
	pid = fixture_fork();
	if (pid == 0) {
		execl("/proc/self/exe", "readers", "--heir", b.service.socket, b.path,
		      number, talk, NULL);
		_exit(1);
	}
	assert_true(WAIT_UNTIL(host_load_acquire(&t->pinned)));
	assert_contexts_soon(&b, 1);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	assert_int_equal(test_service_stat(b.lodic).clients, 1);
	kill(pid, SIGKILL);
	fixture_wait(pid);
	munmap(t, sizeof(*t));
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(pinned_reader_closes_all_descriptors_pin_holds),
		TEST(pinned_reader_dies_another_has_its_memory_pin_holds),
		TEST(reader_execs_often_its_contexts_leave),
	};

	if (argc == 6 && strcmp(argv[1], "--heir") == 0)
		return exec_reader_run(argv);
	outside_begin(argc, argv);
	return cmocka_run_group_tests_name("readers", tests, NULL, NULL);
}
