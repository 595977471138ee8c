// SPDX-License-Identifier: GPL-2.0
#include "crew.h"
#include "clock.h"
#include "ktap.h"
#include "seat.h"

#include <signal.h>

void crew_bad(struct crew *c, const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&c->board->bad, 1))
		return;
	va_start(ap, fmt);
	vsnprintf(c->board->bad_text, sizeof(c->board->bad_text), fmt, ap);
	va_end(ap);
}

void crew_fork(struct crew *c, u32 index)
{
	fflush(stdout);
	c->generation++;
	c->pid[index] = fork();
	if (c->pid[index] < 0)
		ktap_bail("fork");
	if (c->pid[index] == 0)
		seat_main(c, index);
}

void crew_start(struct crew *c)
{
	u64 deadline = clock_now_ns() + 30000000000ull;
	u32 i;

	c->board = mmap(NULL, sizeof(*c->board), PROT_READ | PROT_WRITE,
	                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->board == MAP_FAILED)
		ktap_bail("no memory for the board");
	for (i = 0; i < c->procs; i++)
		crew_fork(c, i);
	while (atomic_load(&c->board->ready) < c->procs && clock_now_ns() < deadline)
		clock_sleep_ms(5);
	if (atomic_load(&c->board->ready) < c->procs)
		ktap_fail("readers are not ready after 30 s");
}

void crew_replace(struct crew *c, u32 index)
{
	int status;

	waitpid(c->pid[index], &status, 0);
	crew_fork(c, index);
}

/* Waits for one process; false when the deadline has passed. */
static bool crew_wait(struct crew *c, u32 i, u64 deadline)
{
	int status = 0;
	pid_t got;

	while (!(got = waitpid(c->pid[i], &status, WNOHANG))) {
		if (clock_now_ns() > deadline)
			return false;
		clock_sleep_ms(5);
	}
	if (got < 0)
		return true; /* an OOM victim that was waited for already */
	if (WIFSIGNALED(status) &&
	    !(c->flags & CREW_KILLED && WTERMSIG(status) == SIGKILL))
		ktap_fail("reader %u ended by signal %d", i, WTERMSIG(status));
	if (WIFEXITED(status) && WEXITSTATUS(status))
		ktap_fail("reader %u ended with status %d", i, WEXITSTATUS(status));
	return true;
}

struct crew_total crew_stop(struct crew *c)
{
	struct crew_total sum = { 0 };
	u64 deadline;
	u32 i;

	atomic_store(&c->board->stop, 1);
	deadline = clock_now_ns() + 30000000000ull;
	for (i = 0; i < c->procs; i++) {
		if (crew_wait(c, i, deadline))
			continue;
		ktap_fail("reader %u has not ended in 30 s", i);
		kill(c->pid[i], SIGKILL);
		crew_wait(c, i, clock_now_ns() + 5000000000ull);
	}
	if (atomic_load(&c->board->bad))
		ktap_fail("%u bad reads: %s", atomic_load(&c->board->bad),
		          c->board->bad_text);
	for (i = 0; i < MAX_PROCS * MAX_THREADS; i++) {
		struct tally *t = &c->board->tally[i];

		sum.reads += atomic_load(&t->reads);
		sum.bytes += atomic_load(&t->bytes);
		sum.zeros += atomic_load(&t->zeros);
		sum.shorts += atomic_load(&t->shorts);
		sum.errors += atomic_load(&t->errors);
	}
	sum.rounds = atomic_load(&c->board->rounds);
	munmap(c->board, sizeof(*c->board));
	if (!sum.reads)
		ktap_fail("no reader read anything");
	return sum;
}
