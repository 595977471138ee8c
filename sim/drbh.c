/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FxMark's DRBH: sim/drbh.h. One read is
 *
 *   half of the base work   system call, VFS, locks that are not shared
 *   lookup                  two dependent loads, the page cache's tree; read-only
 *   ref                     the scheme's own source; sim/kernel.h says who locks for it
 *   a look at the frame     flags, twice; is it still the block's?
 *   copy                    4 KiB into the thread's own buffer
 *   a look at the frame     compound_head() of put_page()
 *   unref, the other half
 *
 * Where the frame's flags lie matters. Linux keeps a page's count in struct page, next
 * to the flags that every reader looks at. So a reader fetches the line for the flags
 * too. A scheme that has one line for each object and nothing else counts as Linux does:
 * its flags are on that line (drbh_counts_in_frame()). Other schemes leave struct page
 * alone while they count.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/owned/count_owned.h"
#include "sim/drbh.h"
#include "sim/kernel.h"

#define COPY_BYTES 4096u
#define FILE_ID 1u
#define WARM_NS 50000u
#define WINDOW_NS 100000u
/* A window with fewer turns of a CPU than this, on average, may begin before some CPUs
 * have begun. It is then run again, once, with all times longer. */
#define OPS_ENOUGH_PER_CPU 100u
#define LONGER 8u
/* LODIC counts in a pte only if several processes share the block (LODIC s.4.4). These
 * processes share it and read nothing, so that a run with few readers has sharers too. */
#define IDLE_SHARERS 4u
/* FxMark's file is the fifth range of its process, from above (LODIC s.4.4.2, Table 2).
 * So many ranges of other files come first. */
#define RANGES_ABOVE 4u
#define OTHER_FILE_ID 2u
/* The papers' texts do not give an epoch's length. RefCache's is 10 ms; few windows
 * would see such a tick. So the model ticks as often as Linux's timer does. */
#define TICK_NS 1000000u

struct drbh_world {
	struct count count;
	struct frame *frame;
	u64 *root, *slot; /* the page cache's tree */
	u64 *flags;       /* the frame's */
	u8 *data;
	struct kernel_rwlock space_locks; /* one for each user */
	u32 base_work;
};

struct drbh_thread {
	struct drbh_world *world;
	u8 *buffer;
	u32 user;
};

static bool drbh_ref(struct drbh_world *w, const struct drbh_thread *t, u64 *ret_token)
{
	bool taken;

	kernel_rwlock_read_begin(&w->space_locks, t->user);
	taken = count_ref(&w->count, 0, t->user, ret_token);
	kernel_rwlock_read_end(&w->space_locks, t->user);
	return taken;
}

static void drbh_unref(struct drbh_world *w, const struct drbh_thread *t, u64 token)
{
	kernel_rwlock_read_begin(&w->space_locks, t->user);
	count_unref(&w->count, 0, t->user, token);
	kernel_rwlock_read_end(&w->space_locks, t->user);
}

static void drbh_read(struct drbh_world *w, const struct drbh_thread *t)
{
	u64 token;

	sim_work(w->base_work / 2);
	host_load_dep(w->root);
	host_load_dep(w->slot);
	/* No task freezes the block, so a scheme that refuses here is broken. */
	if (!drbh_ref(w, t, &token))
		host_fail("a reference to a live block", __FILE__, __LINE__);
	host_load_relaxed(w->flags);
	host_load_relaxed(w->slot);
	host_load_relaxed(w->flags);
	host_copy(t->buffer, w->data, COPY_BYTES);
	host_load_relaxed(w->flags);
	drbh_unref(w, t, token);
	sim_work(w->base_work - w->base_work / 2);
	sim_op_done();
}

static void drbh_body(void *arg)
{
	const struct drbh_thread *t = arg;

	while (!sim_stopping())
		drbh_read(t->world, t);
}

static void drbh_tick(void *arg, u32 cpu)
{
	struct drbh_world *w = arg;

	count_tick(&w->count, cpu);
}

/* A line of memory for a purpose of its own. */
static void *drbh_alloc(u64 bytes, const char *name)
{
	void *p = host_alloc(bytes, COUNT_LINE_BYTES);

	if (p)
		sim_name(p, bytes, name);
	return p;
}

bool drbh_counts_in_frame(const struct count *c)
{
	struct count_cost cost;

	count_cost(c, &cost);
	return !c->scheme->has_ptes && cost.object_bytes == COUNT_LINE_BYTES &&
	       cost.cpu_bytes == 0 && cost.user_bytes == 0;
}

/* Everything that was allocated since mark belongs to name. */
static void drbh_name_since(u8 *mark, const char *name)
{
	u8 *end = host_alloc(COUNT_LINE_BYTES, COUNT_LINE_BYTES);

	if (end && end > mark)
		sim_name(mark, (size_t)(end - mark), name);
}

/* A process maps the block, as a fault on it would. */
static int drbh_share(struct drbh_world *w, u32 user)
{
	u64 page;
	u32 i;
	int err = 0;

	/* Only schemes with ptes have process spaces, where ranges lie one above another. */
	if (w->count.scheme->has_ptes)
		for (i = 0; i < RANGES_ABOVE && !err; i++)
			err = count_owned_mmap(&w->count, user, OTHER_FILE_ID + i, 0, 1,
			                       &page);
	return err ? err : count_share(&w->count, user, 0);
}

static int drbh_make(struct drbh_world *w, const struct drbh *setup, u32 nr_users)
{
	u8 *mark;
	u32 user;
	int err;

	w->root = drbh_alloc(COUNT_LINE_BYTES, "lookup");
	w->slot = drbh_alloc(COUNT_LINE_BYTES, "lookup");
	w->frame = drbh_alloc(COUNT_LINE_BYTES, "frame");
	w->data = drbh_alloc(COPY_BYTES, "data");
	mark = host_alloc(COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	if (!w->root || !w->slot || !w->frame || !w->data || !mark)
		return -ENOMEM;
	err = count_init(&w->count, setup->scheme, w->frame, 1, nr_users);
	if (err)
		return err;
	drbh_name_since(mark, "counter");
	frame_fill_begin(w->frame);
	frame_fill_end(w->frame, block_id(FILE_ID, 0));
	count_thaw(&w->count, 0);
	w->flags = (u64 *)w->frame + 2;
	if (drbh_counts_in_frame(&w->count))
		w->flags = (u64 *)w->count.state + 1;
	mark = host_alloc(COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	for (user = 0; user < nr_users && !setup->unmapped && !err; user++)
		err = drbh_share(w, user);
	if (mark)
		drbh_name_since(mark, "process space");
	if (err || setup->unmapped || setup->no_space_lock ||
	    !kernel_locks_space(setup->scheme))
		return err;
	return kernel_rwlock_make(&w->space_locks, nr_users, "address-space lock");
}

static int drbh_start(struct drbh_world *w, const struct drbh *setup,
                      struct drbh_thread *threads, u32 nr_processes)
{
	u32 i;

	for (i = 0; i < setup->nr_cpus; i++) {
		struct drbh_thread *t = &threads[i];

		t->world = w;
		t->user = setup->scatter ? i % nr_processes
		                         : i / setup->threads_per_process;
		t->buffer = drbh_alloc(COPY_BYTES, "buffers");
		if (!t->buffer)
			return -ENOMEM;
		sim_task(i, drbh_body, t);
	}
	if (setup->scheme->tick)
		sim_every(TICK_NS, drbh_tick, w);
	return 0;
}

int drbh_run(const struct sim_machine *machine, u64 seed, const struct drbh *setup,
             struct sim_result *ret_result)
{
	u32 nr_processes = (setup->nr_cpus + setup->threads_per_process - 1) /
	                   setup->threads_per_process;
	struct drbh_world w;
	struct drbh_thread *threads = calloc(setup->nr_cpus, sizeof(*threads));
	u64 times = 1;
	u32 tries;
	int err = threads ? 0 : -ENOMEM;

	for (tries = 0; tries < 2 && !err; tries++) {
		w = (struct drbh_world){ .base_work = machine->base_work };
		sim_begin(machine, seed);
		err = drbh_make(&w, setup, nr_processes + IDLE_SHARERS);
		if (!err)
			err = drbh_start(&w, setup, threads, nr_processes);
		if (err)
			break;
		sim_run(WARM_NS * times, WINDOW_NS * times, ret_result);
		if (ret_result->ops >= (u64)OPS_ENOUGH_PER_CPU * setup->nr_cpus)
			break;
		times *= LONGER;
	}
	free(threads);
	return err;
}

int drbh_measure(const struct sim_machine *set, u32 nr, u64 seed,
                 struct drbh_point *point)
{
	struct sim_result result;
	u32 i;
	int err;

	for (i = 0; i < nr; i++) {
		err = drbh_run(&set[i], seed + i, &point->setup, &result);
		if (err)
			return err;
		if (i == 0) {
			point->result = result;
			point->low = point->high = result.mops;
		}
		if (result.mops < point->low)
			point->low = result.mops;
		if (result.mops > point->high)
			point->high = result.mops;
	}
	return 0;
}

double drbh_transfers_per_op(const struct sim_result *result)
{
	return result->ops ? (double)result->transfers / (double)result->ops : 0;
}
