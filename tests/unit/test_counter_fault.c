/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A kill in the middle of a restartable sequence, by a fault there: the sequence has looked at
 * the object's word and not yet committed. The handler kills the object. Linux must then begin
 * the sequence again. If it went on, it would count a reference of a released object. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "lodic/counter.h"

static struct lodic_domain *domain;
static struct lodic_counter counter;
static u32 nr_released;
static u64 gate;
static void *shut;
static size_t shut_bytes;
static volatile sig_atomic_t nr_faults;

static void count_release(struct lodic_counter *released, void *arg)
{
	(void)released;
	(void)arg;
	nr_released++;
}

static void on_fault(int signal)
{
	(void)signal;
	if (nr_faults++ || mprotect(shut, shut_bytes, PROT_READ | PROT_WRITE) != 0)
		_exit(98);
	gate = HOST_STEP_CLOSED;
	if (domain)
		lodic_counter_kill(domain, &counter);
}

/* The next access to the memory faults. */
static void shut_memory(void *p, size_t bytes)
{
	shut = p;
	shut_bytes = bytes;
	nr_faults = 0;
	gate = 0;
	signal(SIGSEGV, on_fault);
	assert_int_equal(mprotect(p, bytes, PROT_NONE), 0);
}

static void after_fault(void)
{
	signal(SIGSEGV, SIG_DFL);
	assert_int_equal(nr_faults, 1);
}

static const enum lodic_counter_scheme schemes[] = { LODIC_COUNTER_PAYGO,
	                                             LODIC_COUNTER_PERCPU };
#define NR_SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* A domain in which the object's entry is there, and one reference of it if it is held. */
static void make_domain(enum lodic_counter_scheme scheme, bool held, u64 *ret_token)
{
	const struct lodic_domain_options options = { .scheme = scheme,
		                                      .release = count_release };
	struct lodic_domain_stat stat;

	assert_int_equal(lodic_domain_create(&options, &domain), 0);
	lodic_counter_init(&counter);
	nr_released = 0;
	assert_true(lodic_counter_try_get(domain, &counter, ret_token));
	if (!held)
		lodic_counter_put(domain, &counter, *ret_token);
	lodic_domain_stat(domain, &stat);
	shut_memory(((const struct lodic_counter_tables *)domain)->entries,
	            stat.nr_cpus * stat.cpu_bytes);
}

static void end_domain(void)
{
	after_fault();
	assert_int_equal(nr_released, 1);
	assert_int_equal(lodic_counter_sum(domain, &counter), 0);
	lodic_domain_destroy(domain);
	domain = NULL;
}

static void kill_inside_get_refuses_it(void **state)
{
	u64 token;
	u32 s;

	(void)state;
	for (s = 0; s < NR_SCHEMES; s++) {
		make_domain(schemes[s], false, &token);
		assert_false(lodic_counter_try_get(domain, &counter, &token));
		end_domain();
	}
}

static void kill_inside_put_releases(void **state)
{
	u64 token;
	u32 s;

	(void)state;
	for (s = 0; s < NR_SCHEMES; s++) {
		make_domain(schemes[s], true, &token);
		lodic_counter_put(domain, &counter, token);
		end_domain();
	}
}

/* The sequence of the library's own calls. */
static void step_with_gate_closed_inside_does_not_commit(void **state)
{
	struct lodic_domain_stat stat;
	u64 guard = 7, token;
	enum host_step end;
	u64 *p;

	(void)state;
	make_domain(LODIC_COUNTER_PAYGO, false, &token);
	assert_int_equal(mprotect(shut, shut_bytes, PROT_READ | PROT_WRITE), 0);
	lodic_domain_stat(domain, &stat);
	lodic_domain_destroy(domain);
	domain = NULL;
	if (!stat.thread_sequences)
		skip();
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	         0);
	assert_true(p != MAP_FAILED);
	do { /* until the thread is still on the CPU that it asked for */
		shut_memory(p, 4096);
		end = host_percpu_step(&gate, &guard, 7, p, host_cpu(), 0, 1);
	} while (!nr_faults);
	after_fault();
	assert_int_equal(end, HOST_STEP_OTHER);
	assert_int_equal(*p, 0);
	assert_int_equal(host_percpu_step(&gate, &guard, 7, p, host_cpu(), 0, 1),
	                 HOST_STEP_SHUT);
	munmap(p, 4096);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	/* Its atomics take locks: a handler of a fault inside one waits for itself. There are
	 * no sequences under it, so nothing is left to show. */
	puts("SKIP: the thread sanitizer has locks where this test faults");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_inside_get_refuses_it),
		cmocka_unit_test(kill_inside_put_releases),
		cmocka_unit_test(step_with_gate_closed_inside_does_not_commit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
