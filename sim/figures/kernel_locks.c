/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Locks of the modelled kernel: sim/figures/kernel_locks.h. */
#include <errno.h>

#include "core/count/count.h"
#include "sim/figures/kernel_locks.h"

#define WRITER ((u64)1 << 32)
#define QUEUE ((u64)1 << 33) /* somebody is in the queue */
/* A sleeping task looks so often whether it was woken. This adds half of it to a sleep. */
#define LOOK_NS 500u

static u64 *kernel_line(u32 nr, const char *name)
{
	u64 bytes = (u64)nr * COUNT_LINE_BYTES;
	u64 *p = host_alloc(bytes, COUNT_LINE_BYTES);

	if (p && name)
		sim_name(p, bytes, name);
	return p;
}

int kernel_rwsem_make(struct kernel_rwsem *s, const struct sim_machine *machine,
                      const char *name)
{
	*s = (struct kernel_rwsem){ .word = kernel_line(1, name),
		                    .queue_lock = kernel_line(1, name),
		                    .switch_ns = machine->switch_ns };
	return s->word && s->queue_lock ? 0 : -ENOMEM;
}

static u32 kernel_readers(u64 v)
{
	return (u32)v;
}

/* Under queue_lock: takes the first nr that are to be woken out of the queue. They have the lock
 * from now on. */
static u32 kernel_rwsem_grant(struct kernel_rwsem *s, struct kernel_sleeper **ret_woken)
{
	bool writer = s->queue[0]->writer;
	u32 nr = 0, left = 0, i;

	for (i = 0; i < s->nr_queued; i++) {
		bool wake = writer ? i == 0 : !s->queue[i]->writer;

		if (wake)
			ret_woken[nr++] = s->queue[i];
		else
			s->queue[left++] = s->queue[i];
	}
	s->nr_queued = left;
	host_fetch_add(s->word, (writer ? WRITER : nr) - (left ? 0 : QUEUE));
	return nr;
}

/* Wakes whom the lock's state lets go on. Another reader that is about to enter the queue makes
 * it seem taken. That reader then comes here itself. */
static void kernel_rwsem_wake(struct kernel_rwsem *s)
{
	struct kernel_sleeper *woken[KERNEL_MAX_SLEEPERS];
	u32 nr = 0, i;
	u64 v;

	host_lock(s->queue_lock);
	v = host_load_relaxed(s->word);
	if (s->nr_queued > 0 && !(v & WRITER) && kernel_readers(v) == 0)
		nr = kernel_rwsem_grant(s, woken);
	host_unlock(s->queue_lock);
	for (i = 0; i < nr; i++) {
		sim_sleep(KERNEL_WAKE_NS); /* busy with it; nothing else runs here */
		woken[i]->granted = true;
	}
}

/* owed: what the caller has added to the word and must take back. */
static void kernel_rwsem_sleep(struct kernel_rwsem *s, bool writer, u64 owed)
{
	struct kernel_sleeper self = { .writer = writer };

	host_lock(s->queue_lock);
	if (s->nr_queued == KERNEL_MAX_SLEEPERS)
		host_fail("room in a lock's queue", __FILE__, __LINE__);
	host_fetch_add(s->word, (s->nr_queued ? 0 : QUEUE) - owed);
	s->queue[s->nr_queued++] = &self;
	host_unlock(s->queue_lock);
	kernel_rwsem_wake(s);
	s->nr_sleeps++;
	while (!self.granted && !sim_stopping())
		sim_sleep(LOOK_NS);
	sim_sleep(2 * s->switch_ns + KERNEL_WOKEN_NS);
}

void kernel_rwsem_read_begin(struct kernel_rwsem *s)
{
	if (host_fetch_add(s->word, 1) & (WRITER | QUEUE))
		kernel_rwsem_sleep(s, false, 1);
}

void kernel_rwsem_read_end(struct kernel_rwsem *s)
{
	u64 v = host_fetch_add(s->word, -(u64)1);

	if (kernel_readers(v) == 1 && v & QUEUE)
		kernel_rwsem_wake(s);
}

void kernel_rwsem_write_begin(struct kernel_rwsem *s)
{
	if (!host_cas(s->word, 0, WRITER))
		kernel_rwsem_sleep(s, true, 0);
}

void kernel_rwsem_write_end(struct kernel_rwsem *s)
{
	if (host_fetch_add(s->word, -WRITER) & QUEUE)
		kernel_rwsem_wake(s);
}
