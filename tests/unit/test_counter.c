/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic/counter.h: one object's life, each way to count, and where a process or a thread has no
 * restartable sequences. Many threads: test_counter_threads.c. */
#define _GNU_SOURCE
#include <errno.h>
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "lodic/counter.h"

#define FEW_ENTRIES 4u
#define MANY 40u
#define ROUNDS 200000u

struct object {
	struct lodic_counter counter;
	u32 nr_released;
};

static u32 nr_released;

static void object_release(struct lodic_counter *counter, void *arg)
{
	struct object *o = (struct object *)counter;

	assert_ptr_equal(arg, &nr_released);
	o->nr_released++;
	nr_released++;
}

static struct lodic_domain *domain_of(enum lodic_counter_scheme scheme, u32 entries)
{
	const struct lodic_domain_options options = { .scheme = scheme,
		                                      .entries = entries,
		                                      .release = object_release,
		                                      .arg = &nr_released };
	struct lodic_domain *d;

	assert_int_equal(lodic_domain_create(&options, &d), 0);
	return d;
}

static const enum lodic_counter_scheme schemes[] = { LODIC_COUNTER_PAYGO,
	                                             LODIC_COUNTER_PERCPU,
	                                             LODIC_COUNTER_ATOMIC };
#define NR_SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

static void create_with_bad_options_fails(void **state)
{
	struct lodic_domain *d;
	struct lodic_domain_options o = { .release = NULL };

	(void)state;
	assert_int_equal(lodic_domain_create(NULL, &d), -EINVAL);
	assert_int_equal(lodic_domain_create(&o, &d), -EINVAL);
	o.release = object_release;
	o.entries = (1u << 20) + 1;
	assert_int_equal(lodic_domain_create(&o, &d), -EINVAL);
	o.entries = 0;
	o.scheme = (enum lodic_counter_scheme)99;
	assert_int_equal(lodic_domain_create(&o, &d), -EINVAL);
	lodic_domain_destroy(NULL);
}

static void put_last_of_killed_releases_once(void **state)
{
	u32 i;

	(void)state;
	for (i = 0; i < NR_SCHEMES; i++) {
		struct lodic_domain *d = domain_of(schemes[i], 0);
		struct object o = { 0 };
		u64 a, b, c, none;

		assert_true(lodic_counter_try_get(d, &o.counter, &a));
		assert_true(lodic_counter_try_get(d, &o.counter, &b));
		assert_true(lodic_counter_query(d, &o.counter));
		assert_int_equal(lodic_counter_sum(d, &o.counter), 2);
		lodic_counter_put(d, &o.counter, a);
		assert_int_equal(lodic_counter_kill(d, &o.counter), 0);
		assert_int_equal(lodic_counter_kill(d, &o.counter), -EALREADY);
		assert_false(lodic_counter_try_get(d, &o.counter, &none));
		c = lodic_counter_get(d, &o.counter);
		assert_int_equal(lodic_counter_sum(d, &o.counter), 2);
		lodic_counter_put(d, &o.counter, b);
		assert_int_equal(o.nr_released, 0);
		assert_true(lodic_counter_query(d, &o.counter));
		lodic_counter_put(d, &o.counter, c);
		assert_int_equal(o.nr_released, 1);
		assert_false(lodic_counter_query(d, &o.counter));
		lodic_domain_destroy(d);
	}
}

static void kill_unheld_releases_at_once(void **state)
{
	u32 i, turn;

	(void)state;
	for (i = 0; i < NR_SCHEMES; i++) {
		struct lodic_domain *d = domain_of(schemes[i], 0);
		struct object o = { 0 };
		u64 token;

		for (turn = 1; turn <= 3; turn++) {
			assert_true(lodic_counter_try_get(d, &o.counter, &token));
			lodic_counter_put(d, &o.counter, token);
			assert_false(lodic_counter_query(d, &o.counter));
			assert_int_equal(o.nr_released, turn - 1);
			assert_int_equal(lodic_counter_kill(d, &o.counter), 0);
			assert_int_equal(o.nr_released, turn);
			lodic_counter_init(&o.counter); /* and again */
		}
		lodic_domain_destroy(d);
	}
}

/* More objects than a CPU has entries, each held several times: some count in their words. */
static void try_get_without_room_counts_in_word(void **state)
{
	u32 i, k, s;

	(void)state;
	for (s = 0; s < NR_SCHEMES; s++) {
		struct lodic_domain *d = domain_of(schemes[s], FEW_ENTRIES);
		struct object objects[MANY] = { 0 };
		u64 tokens[MANY][3];

		for (i = 0; i < MANY; i++)
			for (k = 0; k < 3; k++)
				assert_true(lodic_counter_try_get(
					d, &objects[i].counter, &tokens[i][k]));
		for (i = 0; i < MANY; i++)
			assert_int_equal(lodic_counter_sum(d, &objects[i].counter), 3);
		for (i = 0; i < MANY; i += 2)
			assert_int_equal(lodic_counter_kill(d, &objects[i].counter), 0);
		for (k = 0; k < 3; k++)
			for (i = 0; i < MANY; i++) {
				assert_int_equal(objects[i].nr_released, 0);
				lodic_counter_put(d, &objects[i].counter, tokens[i][k]);
			}
		for (i = 0; i < MANY; i++)
			assert_int_equal(objects[i].nr_released, i % 2 == 0);
		for (i = 1; i < MANY; i += 2)
			assert_int_equal(lodic_counter_kill(d, &objects[i].counter), 0);
		for (i = 0; i < MANY; i++)
			assert_int_equal(objects[i].nr_released, 1);
		lodic_domain_destroy(d);
	}
}

static bool go_to(u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* A packed word has 19 bits, and an object has two of them on this CPU. */
static void try_get_past_packed_count_is_counted(void **state)
{
	const u32 nr = 2 * ((1u << 19) - 1) + 1001;
	u64 *tokens = calloc(nr, sizeof(*tokens));
	struct lodic_domain *d = domain_of(LODIC_COUNTER_PERCPU, 0);
	struct object o = { 0 };
	cpu_set_t before;
	u32 i;

	(void)state;
	assert_non_null(tokens);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_true(go_to((u32)sched_getcpu()));
	for (i = 0; i < nr; i++)
		assert_true(lodic_counter_try_get(d, &o.counter, &tokens[i]));
	assert_int_equal(lodic_counter_sum(d, &o.counter), nr);
	/* A get that fits again looks at a word that counts, too, and is alive. */
	assert_true(o.counter.word & 1);
	lodic_counter_put(d, &o.counter, tokens[0]);
	assert_true(lodic_counter_try_get(d, &o.counter, &tokens[0]));
	for (i = 0; i < nr / 2; i++)
		lodic_counter_put(d, &o.counter, tokens[i]);
	assert_int_equal(lodic_counter_kill(d, &o.counter), 0);
	for (; i < nr; i++) {
		assert_int_equal(o.nr_released, 0);
		lodic_counter_put(d, &o.counter, tokens[i]);
	}
	assert_int_equal(o.nr_released, 1);
	sched_setaffinity(0, sizeof(before), &before);
	lodic_domain_destroy(d);
	free(tokens);
}

/* Taken here, given back there, before and after a kill. */
static void put_on_other_cpu_is_counted(void **state)
{
	struct lodic_domain *d = domain_of(LODIC_COUNTER_PAYGO, 0);
	struct object o = { 0 };
	cpu_set_t before;
	u64 tokens[4];
	u32 i;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	if (!go_to(0) || !go_to(1)) {
		sched_setaffinity(0, sizeof(before), &before);
		lodic_domain_destroy(d);
		skip();
	}
	for (i = 0; i < 4; i++) {
		assert_true(go_to(i % 2));
		assert_true(lodic_counter_try_get(d, &o.counter, &tokens[i]));
	}
	for (i = 0; i < 2; i++) {
		assert_true(go_to(1 - i));
		lodic_counter_put(d, &o.counter, tokens[i]);
		assert_int_equal(lodic_counter_sum(d, &o.counter), 3 - i);
	}
	assert_int_equal(lodic_counter_kill(d, &o.counter), 0);
	assert_int_equal(lodic_counter_sum(d, &o.counter), 2);
	for (; i < 4; i++) {
		assert_int_equal(o.nr_released, 0);
		assert_true(go_to(i % 2));
		lodic_counter_put(d, &o.counter, tokens[i]);
	}
	assert_int_equal(o.nr_released, 1);
	sched_setaffinity(0, sizeof(before), &before);
	lodic_domain_destroy(d);
}

/* ---- signals ---- */

static struct lodic_domain *alarm_domain;
static struct object alarm_object;
static volatile u32 nr_alarms;

static void on_alarm(int signal)
{
	u64 token;

	(void)signal;
	if (lodic_counter_try_get(alarm_domain, &alarm_object.counter, &token))
		lodic_counter_put(alarm_domain, &alarm_object.counter, token);
	nr_alarms++;
}

static void handler_in_the_middle_loses_nothing(void **state)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } },
			       never = { { 0, 0 }, { 0, 0 } };
	struct lodic_counter *counter = &alarm_object.counter;
	u64 end = host_now_ns() + 10000000000ull;
	u32 s;

	(void)state;
	for (s = 0; s < NR_SCHEMES; s++) {
		u64 token;

		alarm_domain = domain_of(schemes[s], 0);
		alarm_object = (struct object){ 0 };
		nr_alarms = 0;
		signal(SIGALRM, on_alarm);
		setitimer(ITIMER_REAL, &often, NULL);
		while (nr_alarms < 300 && host_now_ns() < end)
			if (lodic_counter_try_get(alarm_domain, counter, &token))
				lodic_counter_put(alarm_domain, counter, token);
		setitimer(ITIMER_REAL, &never, NULL);
		signal(SIGALRM, SIG_IGN); /* one may be on its way */
		assert_true(nr_alarms >= 300);
		assert_int_equal(lodic_counter_sum(alarm_domain, counter), 0);
		assert_int_equal(lodic_counter_kill(alarm_domain, counter), 0);
		assert_int_equal(alarm_object.nr_released, 1);
		lodic_domain_destroy(alarm_domain);
	}
}

/* ---- processes ---- */

/* Runs body in a child; it says what broke by its status. */
static int in_child(int (*body)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(body(arg));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

struct family {
	struct lodic_domain *d;
	struct object *o;
	u64 token;
};

static int child_of_fork(void *arg)
{
	struct family *f = arg;
	u64 token;

	if (lodic_counter_sum(f->d, &f->o->counter) != 1)
		return 1;
	if (!lodic_counter_try_get(f->d, &f->o->counter, &token))
		return 2;
	if (lodic_counter_kill(f->d, &f->o->counter) != 0 || f->o->nr_released != 0)
		return 3;
	lodic_counter_put(f->d, &f->o->counter, token);
	lodic_counter_put(f->d, &f->o->counter,
	                  f->token); /* its copy of the parent's */
	return f->o->nr_released == 1 ? 0 : 4;
}

static void child_of_fork_has_a_copy(void **state)
{
	u32 s;

	(void)state;
	for (s = 0; s < NR_SCHEMES; s++) {
		struct object o = { 0 };
		struct family f = { .d = domain_of(schemes[s], 0), .o = &o };

		assert_true(lodic_counter_try_get(f.d, &o.counter, &f.token));
		assert_int_equal(in_child(child_of_fork, &f), 0);
		assert_int_equal(lodic_counter_sum(f.d, &o.counter), 1);
		assert_int_equal(o.nr_released, 0);
		lodic_counter_put(f.d, &o.counter, f.token);
		assert_int_equal(lodic_counter_kill(f.d, &o.counter), 0);
		assert_int_equal(o.nr_released, 1);
		lodic_domain_destroy(f.d);
	}
}

/* From now on the call fails. */
static bool deny(int number)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* 0: counts, and says that it uses atomics. */
static int counts_by_atomics(void *arg)
{
	const int *denied = arg;
	struct lodic_domain_stat stat;
	struct lodic_domain *d;
	struct object o = { 0 };
	u64 a, b;

	if (denied && !deny(*denied))
		return 77;
	d = domain_of(LODIC_COUNTER_PAYGO, 0);
	lodic_domain_stat(d, &stat);
	if (stat.thread_sequences)
		return 1;
	if (!lodic_counter_try_get(d, &o.counter, &a) ||
	    !lodic_counter_try_get(d, &o.counter, &b))
		return 2;
	lodic_counter_put(d, &o.counter, a);
	if (lodic_counter_sum(d, &o.counter) != 1 ||
	    lodic_counter_kill(d, &o.counter) != 0 || o.nr_released != 0)
		return 3;
	lodic_counter_put(d, &o.counter, b);
	lodic_domain_destroy(d);
	return o.nr_released == 1 ? 0 : 4;
}

static void create_without_membarrier_uses_atomics(void **state)
{
	int number = __NR_membarrier, status = in_child(counts_by_atomics, &number);

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

/* The first call of the child's only thread comes after the filter. */
static void thread_that_may_not_ask_uses_atomics(void **state)
{
	int number = __NR_rseq, status = in_child(counts_by_atomics, &number);

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static int kill_without_fence(void *arg)
{
	struct lodic_domain *d = domain_of(LODIC_COUNTER_PAYGO, 0);
	struct lodic_domain_stat stat;
	struct object o = { 0 };
	u64 a, b;
	int err;

	(void)arg;
	lodic_domain_stat(d, &stat);
	/* On one CPU, so that both references come to one entry. */
	if (!go_to((u32)sched_getcpu()) || !lodic_counter_try_get(d, &o.counter, &a))
		return 1;
	if (!deny(__NR_membarrier))
		return 77;
	err = lodic_counter_kill(d, &o.counter);
	if (err != (stat.sequences ? -ENOSYS : 0))
		return 2;
	if (stat.sequences && !lodic_counter_try_get(d, &o.counter, &b))
		return 3; /* it must live on */
	if (stat.sequences && b != a)
		return 6; /* its key is not gated any more */
	if (stat.sequences)
		lodic_counter_put(d, &o.counter, b);
	if (lodic_counter_sum(d, &o.counter) != 1)
		return 4;
	lodic_counter_put(d, &o.counter, a);
	lodic_domain_destroy(d);
	return o.nr_released == !stat.sequences ? 0 : 5;
}

static void kill_without_fence_leaves_object_alive(void **state)
{
	int status = in_child(kill_without_fence, NULL);

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static const char *program;

/* This program again, in a process whose C library does not register. */
static void process_without_sequences_uses_atomics(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		execl(program, program, "--by-atomics", NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- a thread that the C library did not make ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(HOST_TSAN)
#define STACK_BYTES (256u << 10)
#define TLS_BYTES (1u << 20)

struct stranger {
	struct lodic_domain *d;
	struct object *o;
	u64 done; /* by host_*; 1: by atomics, 2: it thought that it had sequences */
};

static int stranger_main(void *arg)
{
	struct stranger *s = arg;
	struct lodic_domain_stat stat;
	u64 token;
	u32 i;

	lodic_domain_stat(s->d, &stat);
	for (i = 0; i < ROUNDS; i++)
		if (lodic_counter_try_get(s->d, &s->o->counter, &token))
			lodic_counter_put(s->d, &s->o->counter, token);
	host_store_release(&s->done, stat.thread_sequences ? 2 : 1);
	syscall(SYS_exit, 0);
	return 0;
}

static void *memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	               0);

	assert_true(p != MAP_FAILED);
	return p;
}

/* Zeros all around its thread pointer: that looks like a registered thread on CPU 0. */
static void thread_of_clone_uses_atomics(void **state)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
	                  CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
	char *stack = memory(STACK_BYTES), *tls = memory(TLS_BYTES);
	void **self = (void **)(tls + TLS_BYTES / 2);
	u64 end = host_now_ns() + 20000000000ull, token;
	struct object o = { 0 };
	struct stranger s = { .d = domain_of(LODIC_COUNTER_PAYGO, 0), .o = &o };

	(void)state;
	self[0] = self[2] = self;
	assert_true(clone(stranger_main, stack + STACK_BYTES, flags, &s, NULL, self) >
	            0);
	while (!host_load_acquire(&s.done) && host_now_ns() < end)
		if (lodic_counter_try_get(s.d, &o.counter, &token))
			lodic_counter_put(s.d, &o.counter, token);
	assert_int_equal(host_load_acquire(&s.done), 1);
	assert_int_equal(lodic_counter_sum(s.d, &o.counter), 0);
	assert_int_equal(lodic_counter_kill(s.d, &o.counter), 0);
	assert_int_equal(o.nr_released, 1);
	lodic_domain_destroy(s.d);
}
#else
static void thread_of_clone_uses_atomics(void **state)
{
	(void)state;
	skip(); /* a sanitizer does not know such threads */
}
#endif

/* ---- figures that a caller may ask for ---- */

static void stat_says_what_is_used(void **state)
{
	struct lodic_domain_stat stat;
	struct lodic_domain *d = domain_of(LODIC_COUNTER_PAYGO, 1000);

	(void)state;
	lodic_domain_stat(d, &stat);
	printf("path: %s; %u CPUs, %u entries, %lu bytes a CPU, %lu an object\n",
	       stat.thread_sequences ? "restartable sequences" : "atomics",
	       stat.nr_cpus, stat.entries, (unsigned long)stat.cpu_bytes,
	       (unsigned long)stat.object_bytes);
	assert_int_equal(stat.entries, 1024);
	assert_int_equal(stat.cpu_bytes, 32 * 1024);
	assert_int_equal(stat.object_bytes, 8);
	assert_int_equal(stat.nr_cpus, host_nr_cpus());
	assert_int_equal(stat.scheme == LODIC_COUNTER_PAYGO, stat.sequences);
	lodic_domain_destroy(d);
	d = domain_of(LODIC_COUNTER_ATOMIC, 0);
	lodic_domain_stat(d, &stat);
	assert_false(stat.sequences);
	assert_int_equal(stat.scheme, LODIC_COUNTER_ATOMIC);
	lodic_domain_destroy(d);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_with_bad_options_fails),
		/* Before this process asks the kernel about its threads. */
		cmocka_unit_test(thread_that_may_not_ask_uses_atomics),
		cmocka_unit_test(stat_says_what_is_used),
		cmocka_unit_test(put_last_of_killed_releases_once),
		cmocka_unit_test(kill_unheld_releases_at_once),
		cmocka_unit_test(try_get_without_room_counts_in_word),
		cmocka_unit_test(try_get_past_packed_count_is_counted),
		cmocka_unit_test(put_on_other_cpu_is_counted),
		cmocka_unit_test(handler_in_the_middle_loses_nothing),
		cmocka_unit_test(child_of_fork_has_a_copy),
		cmocka_unit_test(create_without_membarrier_uses_atomics),
		cmocka_unit_test(kill_without_fence_leaves_object_alive),
		cmocka_unit_test(process_without_sequences_uses_atomics),
		cmocka_unit_test(thread_of_clone_uses_atomics),
	};

	program = argv[0];
	if (argc == 2 && argv[1][0] == '-')
		return counts_by_atomics(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
