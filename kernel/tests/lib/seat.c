// SPDX-License-Identifier: GPL-2.0
#include "seat.h"
#include "clock.h"
#include "cpu.h"
#include "ktap.h"
#include "options.h"
#include "random.h"
#include "reader.h"
#include "text.h"

#include <pthread.h>
#include <sys/prctl.h>

void seat_populate(const struct seat *s)
{
	madvise(s->map, s->crew->flags & CREW_LARGE ? s->map_bytes : HOT_BYTES,
	        MADV_POPULATE_READ);
}

void seat_map(struct seat *s, char *at)
{
	char *p = mmap(at, s->map_bytes, s->prot, s->map_flags | MAP_FIXED, s->fd, 0);

	if (p == MAP_FAILED) {
		crew_bad(s->crew, "mmap at %p: %s", at, strerror(errno));
		return;
	}
	s->map = p;
}

/* One round of a process that does nothing else: the parent takes entries away. */
static void seat_refault(struct seat *s)
{
	if (s->crew->flags & CREW_UNMAP && s->round % 4 == 3)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	else
		seat_populate(s);
	clock_sleep_ms(1);
}

void seat_settle(struct seat *s)
{
	seat_populate(s);
	if (random_next(&s->rng) % 4 == 0)
		clock_sleep_ms(1);
	else
		sched_yield();
}

static void seat_open(struct seat *s)
{
	u32 flags = s->crew->flags;

	s->fd = open(s->crew->path,
	             (flags & CREW_WRITABLE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (s->fd < 0)
		crew_bad(s->crew, "open %s: %s", s->crew->path, strerror(errno));
	s->map_bytes = flags & (CREW_WHOLE | CREW_LARGE) ? FILE_BYTES : HOT_BYTES;
	s->prot = PROT_READ | (flags & CREW_EXEC ? PROT_EXEC : 0);
	if (flags & CREW_WRITABLE)
		s->prot |= PROT_WRITE;
	s->map_flags = flags & CREW_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	seat_map(s, AREA_A);
	seat_populate(s);
}

static void seat_run(struct seat *s)
{
	struct crew *c = s->crew;
	void (*round)(struct seat * s) = c->inside ? c->inside : seat_refault;

	while (!crew_stopped(c)) {
		round(s);
		s->round++;
		atomic_fetch_add(&c->board->rounds, 1);
	}
}

void seat_main(struct crew *c, u32 index)
{
	struct seat s = { .crew = c, .index = index, .fd = -1 };
	struct reader readers[MAX_THREADS];
	u32 i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (c->cgroup) {
		char path[160];

		snprintf(path, sizeof(path), "%s/cgroup.procs", c->cgroup);
		if (text_write(path, "0"))
			crew_bad(c, "%s: %s", path, strerror(errno));
	}
	cpu_pin(index);
	s.rng = random_mix(opt.seed + index);
	seat_open(&s);
	if (c->seat_setup && !c->board->bad && c->seat_setup(&s))
		crew_bad(c, "setting up: %s", strerror(errno));
	atomic_fetch_add(&c->board->ready, 1);
	for (i = 0; i < c->threads; i++) {
		readers[i].seat = &s;
		readers[i].index = i;
		if (pthread_create(&readers[i].thread, NULL, reader_main,
		                   &readers[i])) {
			crew_bad(c, "pthread_create");
			_exit(1);
		}
	}
	seat_run(&s);
	for (i = 0; i < c->threads; i++)
		pthread_join(readers[i].thread, NULL);
	_exit(0);
}
