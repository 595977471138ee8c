/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Mappings, and what else happens to a process or a file: the ways of run_reader.c for
 * `lodic run --mmap` with children, writers, threads, signals and filters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "host/host.h"
#include "tests/run/run_maps.h"

/* Longer than an mmap() takes when it does not wait, and less than when it does. */
#define SLOW_MS 700
#define TOLD_MS 2500

static int map_in_child(void *arg)
{
	int fd = *(int *)arg;
	uint8_t *p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);

	NEED(p != MAP_FAILED, "%s", strerror(errno));
	see(p, BIG_PAGES_BYTES, 2, 0);
	munmap(p, BIG_BYTES);
	_exit(0);
}

/* This child has descriptors of its own: another file at this number. */
static int map_after_dup(void *arg)
{
	const int *fds = arg;

	NEED(dup2(fds[1], fds[0]) == fds[0], "dup2");
	return map_in_child(arg);
}

static void way_children(void)
{
	static char stack[256 * 1024] __attribute__((aligned(16)));
	int fd = big_open(1), other = big_open(2), fds[] = { fd, other };
	uint8_t *p = map_all(fd);
	pid_t child = fork();

	if (child == 0) {
		see(p, BIG_PAGES_BYTES, 1, 0);
		see(map_all(fd), BIG_PAGES_BYTES, 1, 0); /* it attaches anew */
		NEED(munmap(p, BIG_BYTES) == 0, "%s", strerror(errno));
		_exit(0);
	}
	wait_for(child);
	see(p, BIG_PAGES_BYTES, 1, 0);
	for (int i = 0; i < 3; i++) {
		child = vfork();
		if (child == 0)
			map_after_dup(fds);
		wait_for(child);
		wait_for(clone(map_after_dup, stack + sizeof(stack),
		               CLONE_VM | CLONE_VFORK | SIGCHLD, fds));
		see(map_all(fd), BIG_PAGES_BYTES, 1, 0);
		child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (child == 0)
			map_in_child(&other);
		wait_for(child);
	}
	NEED(dup2(other, fd) == fd, "dup2");
	see(map_all(fd), BIG_PAGES_BYTES, 2, 0);
	close(fd);
	NEED(big_open(1) == fd, "the same number");
	see(map_all(fd), BIG_PAGES_BYTES, 1, 0);
}

#define LAST 25

/* A mapping shows all that was written before it, by whomever. */
static void way_rewritten(void)
{
	int fd = big_open(1), writer, nr_served = 0;
	uint8_t *old = map_all(fd), *p;

	for (unsigned int g = 2; g <= LAST; g++) {
		writer = open(big_path(1), O_WRONLY | O_CLOEXEC);
		NEED(writer >= 0, "%s", strerror(errno));
		big_write(writer, g);
		if (g % 2) /* while it is open nothing is cached */
			close(writer);
		p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
		NEED(p != MAP_FAILED, "%s", strerror(errno));
		see(p, BIG_PAGES_BYTES, g, 0);
		nr_served += is_hold(p);
		munmap(p, BIG_BYTES);
		if (g % 2 == 0)
			close(writer);
		if (g % 8 == 0) {
			p = map_all(fd);
			see(p, BIG_PAGES_BYTES, g, 0);
			munmap(p, BIG_BYTES);
		}
	}
	if (cached)
		see(old, BIG_PAGES_BYTES, 1, 0);
	NEED(cached || nr_served == 0, "%d", nr_served);
	/* Truncated: a snapshot stays, and the next mapping knows. */
	p = map_all(fd);
	NEED(truncate(big_path(1), BIG_BYTES - 100 * BLOCK) == 0, "%s",
	     strerror(errno));
	if (cached)
		see(p, BIG_PAGES_BYTES, LAST, 0);
	p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	NEED(p != MAP_FAILED, "%s", strerror(errno));
	NEED(fault_of(p + BIG_BYTES - 50 * BLOCK) == SIGBUS, "behind the new end");
	NEED(p[BLOCK] == file_byte(LAST, BLOCK), "before it");
	NEED(unlink(big_path(1)) == 0 && fault_of(p) == 0, "deleted");
}

#define THREADS 4
#define THREAD_ROUNDS 150

static u64 threads_served; /* atomic */

static void *threads_body(void *arg)
{
	unsigned int number = (unsigned int)(uintptr_t)arg, n;
	int fd = -1;

	for (unsigned int i = 0; i < THREAD_ROUNDS; i++) {
		size_t page = (i * 131 + number * 17) % (BIG_BLOCKS - 8);
		uint8_t *p;

		n = 1 + (i / 8 + number) % 3;
		if (i % 8 == 0) {
			if (fd >= 0)
				close(fd);
			fd = big_open(n);
		}
		p = mmap(NULL, 8 * BLOCK, PROT_READ, MAP_PRIVATE, fd,
		         (off_t)(page * BLOCK));
		NEED(p != MAP_FAILED, "%s", strerror(errno));
		see(p, 8 * BLOCK, n, page * BLOCK);
		host_fetch_add(&threads_served, cached && i % 8 == 7 && is_hold(p));
		NEED(munmap(p, 8 * BLOCK) == 0, "%s", strerror(errno));
	}
	return NULL;
}

static int signal_fd;
static volatile sig_atomic_t signals;

static void signal_maps(int number)
{
	int error = errno;
	uint8_t *p = mmap(NULL, 2 * BLOCK, PROT_READ, MAP_PRIVATE, signal_fd, BLOCK);

	(void)number;
	NEED(p != MAP_FAILED, "%s", strerror(errno));
	see(p, 2 * BLOCK, 2, BLOCK);
	munmap(p, 2 * BLOCK);
	signals = signals + 1;
	errno = error;
}

static void way_threads(void)
{
	const struct itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
	struct sigaction act = { .sa_handler = signal_maps, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];
	timer_t timer;

	for (unsigned int n = 1; n <= 3; n++)
		close(big_open(n));
	signal_fd = big_open(2);
	map_all(signal_fd);
	sigaction(SIGALRM, &act, NULL);
	NEED(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 &&
	             timer_settime(timer, 0, &every, NULL) == 0,
	     "%s", strerror(errno));
	for (uintptr_t i = 0; i < THREADS; i++)
		NEED(pthread_create(&threads[i], NULL, threads_body, (void *)i) == 0,
		     "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	timer_delete(timer);
	NEED(signals > 0, "no signal came");
	NEED(!cached || host_load_relaxed(&threads_served) > 0, "nothing was served");
}

/* A handler that jumps out of mmap() must leave the shim whole. */
static void way_jumped(void)
{
	const struct itimerspec soon = { { 0, 0 }, { 0, 300000 } };
	struct sigaction act = { .sa_handler = fault_caught };
	int fd = big_open(1);
	timer_t timer;

	sigaction(SIGALRM, &act, NULL);
	NEED(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0, "%s", strerror(errno));
	for (int i = 0; i < 40; i++) {
		if (sigsetjmp(fault_jump, 1) == 0) {
			timer_settime(timer, 0, &soon, NULL);
			for (;;)
				mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, 0);
		}
	}
	timer_delete(timer);
	see(map_all(fd), BIG_PAGES_BYTES, 1, 0);
}

static void way_limited(void)
{
	struct rlimit limit = { (rlim_t)8 << 30, (rlim_t)8 << 30 };
	int fd = big_open(1);

	map_all(fd);
	NEED(setrlimit(RLIMIT_AS, &limit) == 0, "%s", strerror(errno));
	map_kernel(fd, BIG_BYTES, PROT_READ, MAP_PRIVATE, 1, 0);
}

/* The shim does not see that another file comes to this number. */
static void way_unseen(void)
{
	int fd = big_open(1), other = big_open(2);
	int (*unseen_dup2)(int, int) =
		(int (*)(int, int))dlsym(dlopen("libc.so.6", RTLD_NOW), "dup2");
	uint8_t *p;

	NEED(unseen_dup2 && (!cached || unseen_dup2 != dup2), "libc's own dup2()");
	map_all(fd);
	map_all(other);
	NEED(unseen_dup2(other, fd) == fd, "%s", strerror(errno));
	for (int i = 0; i < 10; i++) {
		p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
		NEED(p != MAP_FAILED, "%s", strerror(errno));
		see(p, BIG_PAGES_BYTES, 2, 0);
	}
}

static void way_descriptors(void)
{
	struct rlimit limit = { 1100, 1100 };
	int fd = big_open(1), last = -1, more;
	uint8_t *p;

	NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
	map_all(fd);
	while ((more = dup(fd)) >= 0)
		last = more;
	for (int i = 0; i < 10; i++) {
		errno = 77;
		p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
		NEED(p != MAP_FAILED && errno == 77, "%s", strerror(errno));
		see(p, BIG_PAGES_BYTES, 1, 0);
	}
	close(last);
	NEED(!is_hold(p), "its memory could not come");
	see(map_all(fd), BIG_PAGES_BYTES, 1, 0);
}

static void way_confined(void)
{
	static const unsigned int allowed[] = { SYS_mmap, SYS_munmap, SYS_write,
		                                SYS_exit_group, SYS_close };
	int fd = big_open(1), other = big_open(2);
	uint8_t *p = map_all(fd);

	confine(allowed, LENGTH(allowed), 0);
	for (int i = 0; i < 20; i++) {
		uint8_t *q = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE,
		                  i % 2 ? fd : other, 0);

		NEED(q != MAP_FAILED, "%s", strerror(errno));
		see(q, BIG_PAGES_BYTES, i % 2 ? 1 : 2, 0);
		munmap(q, BIG_BYTES);
	}
	see(p, BIG_PAGES_BYTES, 1, 0);
	munmap(p, BIG_BYTES);
	close(fd);
	_exit(0);
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Maps the file once, and adds to the counts: is it served, has it taken long? */
static void told_map(int fd, int *nr_served, int *nr_slow)
{
	long long begun = now_ms();
	uint8_t *p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);

	*nr_slow += now_ms() - begun > SLOW_MS;
	NEED(p != MAP_FAILED, "%s", strerror(errno));
	*nr_served += is_hold(p);
	see(p, BIG_PAGES_BYTES, 1, 0);
	munmap(p, BIG_BYTES);
}

/* Holds file 1, and looks at all of it at each order. At "u" it unmaps the file, at "m" it maps it
 * until that is served. At "t" it maps the file for a while. It answers how many of these
 * mappings were served, and how many took long. */
static void way_told(void)
{
	int fd = big_open(1), nr_served = 0, nr_slow = 0;
	uint8_t *p = map_all(fd);
	long long begun;
	char order;

	dprintf(STDOUT_FILENO, "ready\n");
	while (read(STDIN_FILENO, &order, 1) == 1) {
		see(p, BIG_PAGES_BYTES, 1, 0);
		if (order == 'u') {
			NEED(munmap(p, BIG_BYTES) == 0, "%s", strerror(errno));
			p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		} else if (order == 'm') {
			p = map_all(fd);
		}
		begun = now_ms();
		while (order == 't' && now_ms() - begun < TOLD_MS)
			told_map(fd, &nr_served, &nr_slow);
		dprintf(STDOUT_FILENO, "%d %d\n", nr_served, nr_slow);
	}
}

const struct way mapped_ways[] = {
	{ "map_children", way_children },
	{ "map_rewritten", way_rewritten },
	{ "map_threads", way_threads },
	{ "map_jumped", way_jumped },
	{ "map_limited", way_limited },
	{ "map_unseen", way_unseen },
	{ "map_descriptors", way_descriptors },
	{ "map_confined", way_confined },
	{ "map_told", way_told },
	{ NULL, NULL },
};
