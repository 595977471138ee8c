// SPDX-License-Identifier: GPL-2.0
#include "crowd.h"
#include "clock.h"
#include "data.h"
#include "ktap.h"
#include "options.h"
#include "random.h"

static void crowd_bad(struct crowd *c, const char *what, u32 page, ssize_t n)
{
	if (!atomic_fetch_add(&c->bad, 1))
		snprintf(c->bad_text, sizeof(c->bad_text),
		         "%s: page %u, pread %zd (%s)", what, page, n,
		         n < 0 ? strerror(errno) : "no error");
}

/*
 * The destination is dropped before the read, so the copy faults. A mover asks for another
 * processor after it. Other threads of the guest make it move during the fault as well.
 */
static void crowd_read(struct crowd *c, u8 *to, u32 page, bool drop)
{
	size_t at, zeros;
	ssize_t n;

	if (drop)
		madvise(to, PAGE, MADV_DONTNEED);
	n = pread(c->fd, to, PAGE, page * PAGE);
	if (n != (ssize_t)PAGE && !(c->zeros_ok && n >= 0))
		crowd_bad(c, "read", page, n);
	else if (data_check(to, c->expect + page * PAGE, n, c->zeros_ok, &at, &zeros))
		crowd_bad(c, "wrong byte", page, n);
	atomic_fetch_add(&c->reads, 1);
}

static void crowd_pin(struct crowd *c, pthread_t thread, u64 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % c->cpus, &set);
	pthread_setaffinity_np(thread, sizeof(set), &set);
}

static void *crowd_main(void *arg)
{
	struct crowd *c = arg;
	u32 index = atomic_fetch_add(&c->started, 1);
	u64 rng = random_mix(opt.seed + index);
	u8 *to = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	              -1, 0);

	if (to == MAP_FAILED)
		ktap_bail("memory of a reader");
	crowd_pin(c, pthread_self(), index);
	while (!atomic_load(&c->stop)) {
		u64 r = random_next(&rng);

		crowd_read(c, to, r % c->pages, r >> 32 & 1);
		if (c->moves && (r >> 40) % 8 == 0)
			crowd_pin(c, pthread_self(), r >> 48);
	}
	munmap(to, PAGE);
	return NULL;
}

/* Moves the threads wherever they are: a thread that sleeps in its copy wakes elsewhere. */
static void *crowd_mover(void *arg)
{
	struct crowd *c = arg;
	u64 rng = random_mix(opt.seed + CROWD_MOST);

	while (!atomic_load(&c->stop)) {
		u64 r = random_next(&rng);

		crowd_pin(c, c->thread[r % (c->threads - 1)], r >> 16);
		sched_yield();
	}
	return NULL;
}

void crowd_start(struct crowd *c)
{
	u32 i;

	if (c->threads > CROWD_MOST || !c->threads || !c->pages)
		ktap_bail("crowd of %u", c->threads);
	c->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	/* The last one is the mover. */
	for (i = 0; i < c->threads; i++) {
		bool mover = c->moves && i && i == c->threads - 1;

		if (pthread_create(&c->thread[i], NULL,
		                   mover ? crowd_mover : crowd_main, c))
			ktap_bail("pthread_create");
	}
}

void crowd_wait(struct crowd *c, unsigned long nr)
{
	unsigned long until = atomic_load(&c->reads) + nr;
	u64 end = clock_now_ns() + 30000000000ull;

	while (atomic_load(&c->reads) < until && clock_now_ns() < end)
		clock_sleep_ms(1);
}

void crowd_stop(struct crowd *c)
{
	u32 i;

	atomic_store(&c->stop, true);
	for (i = 0; i < c->threads; i++)
		pthread_join(c->thread[i], NULL);
	if (atomic_load(&c->bad))
		ktap_fail("%u reads were wrong; %s", atomic_load(&c->bad), c->bad_text);
	if (!atomic_load(&c->reads))
		ktap_fail("nobody read anything");
}
