/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The proof that nobody changes the file, and what happens when it ends.
 *
 *   lease-take    the main thread admits the file while a writer opens it: its size is the one
 *                 that it has under the lease (S4). The lease thread answers the writer's break
 *                 whenever it comes (S5): else the writer waits for ever
 *   lease-drop    the same, and the main thread drops the lease meanwhile: one of the two threads
 *                 ends the proof, and the other finds nothing
 *   lease-break   a writer opens the file: the lease thread revokes, fences, gives the lease
 *                 back, and the writer goes on. What begins later must not use the cache;
 *                 pins from before are snapshots (S1). Then the file is admitted again,
 *                 under another id: old blocks are still there, and nobody's (S2)
 *   admit         the file comes back under another id, with another size (S3, O4)
 *   service-dies  the service is killed at any step. The kernel marks its futex and only
 *                 then drops the leases (L4 in lib/service/file/mark.h).
 *   service-ends  the service ends in order: it says so, and only then its proofs end (O21)
 *   ends-fill     the same while a fill is under way. The file's own proof is not revoked,
 *                 and the file changes. So the fill publishes bytes that no reader may
 *                 believe, because the service has said that it ends (O21, O22)
 */
#include "check/arena_world.h"

#define SIZE_AGAIN (7 * BLOCK_BYTES)
/* What the kernel sets in a robust futex whose owner died. */
#define OWNER_DIED 0x40000000u

/* The file's content is now that of another id. */
static void writer_write(void)
{
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world->disk[1][i],
		                   world_truth(block_id(WORLD_FILE_AGAIN, 1), i));
	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world->disk[0][i],
		                   world_truth(block_id(WORLD_FILE_AGAIN, 0), i));
}

/* fcntl(F_UNLCK). A writer that waits goes on. */
static void lease_give_back(void *ctx)
{
	(void)ctx;
	host_relax();
	world->lease_given_back = true;
	world->lease_held = false;
}

/* ---- lease-take, lease-drop ---- */

static bool leases_lock_is_free(void *arg)
{
	(void)arg;
	return world->leases_lock == 0;
}

static void leases_lock(void *ctx)
{
	(void)ctx;
	do
		check_wait(leases_lock_is_free, NULL);
	while (!host_cas(&world->leases_lock, 0, 1));
}

static void leases_unlock(void *ctx)
{
	(void)ctx;
	host_store_release(&world->leases_lock, 0);
}

static bool take_may_open(void *arg)
{
	(void)arg;
	return !world->lease_held;
}

static void take_writer(void *arg)
{
	(void)arg;
	host_relax(); /* open() */
	if (world->lease_held) {
		world->break_asked = true; /* the kernel's signal */
		check_wait(take_may_open, NULL);
	}
	world->writer_open = true;
	host_fence_release(); /* the file's lock: its readers know of the lease */
	check_note("has the file open for writing");
	CHECK_ASSERT(world->space->live == FILE_NONE, "S1: revoked before the writer");
	host_store_relaxed(&world->disk_size, SIZE_AGAIN);
	host_fence_full(); /* close() */
	world->writer_open = false;
	world->writer_closed = true;
}

static int take_lease(void *ctx)
{
	(void)ctx;
	host_relax(); /* fcntl(F_RDLCK): refused while a writer has the file open */
	if (world->writer_open)
		return -1;
	check_told(); /* what writers wrote before */
	world->lease_held = true;
	return 0;
}

static int take_size(void *ctx, u64 *ret_size)
{
	(void)ctx;
	*ret_size = host_load_relaxed(&world->disk_size); /* fstat() */
	return 0;
}

static void take_enter(void *ctx)
{
	(void)ctx;
	host_relax();
	world->lease_entered = true;
	CHECK_ASSERT(host_load_relaxed(&world->space->size) == world->disk_size,
	             "S4: the size that the file has under the lease");
}

/* As lease_revoke() in lib/service/file/lease.c, which drops and answers end with. */
static void take_end(void)
{
	leases_lock(NULL);
	if (world->lease_entered) {
		file_proof_end(world->space, lease_give_back, NULL);
		world->lease_entered = false;
	}
	leases_unlock(NULL);
}

/* wait: until the writer has come and gone. */
static void take_main(void *wait)
{
	static const struct file_proof_ops ops = { leases_lock,     take_lease,
		                                   take_size,       take_enter,
		                                   lease_give_back, leases_unlock };
	u64 size;

	if (file_proof_begin(world->space, WORLD_FILE_AGAIN, &ops, NULL, &size) != 0)
		return;
	if (wait)
		check_wait(world_is_set, &world->writer_closed);
	take_end();
}

static bool take_lease_thread_wakes(void *arg)
{
	(void)arg;
	return world->break_asked || world->writer_closed;
}

static void take_lease_thread(void *arg)
{
	(void)arg;
	check_wait(take_lease_thread_wakes, NULL);
	if (world->break_asked)
		take_end();
}

static void take_reader(void *arg)
{
	u64 seen, real;

	(void)arg;
	if (!file_proof_holds(world->space, WORLD_FILE_AGAIN))
		return;
	seen = host_load_relaxed(&world->space->size);
	real = host_load_relaxed(&world->disk_size);
	host_fence_acquire();
	if (file_proof_holds(world->space, WORLD_FILE_AGAIN))
		CHECK_ASSERT(seen == real, "S4: the size that the file has");
}

static void take_setup_some(const void *arg, bool wait)
{
	world_setup(arg);
	file_proof_revoke(world->space);
	check_task("main", 0, take_main, wait ? world : NULL);
	check_task("lease", 1, take_lease_thread, NULL);
	check_task("writer", 2, take_writer, NULL);
	check_task("reader", 3, take_reader, NULL);
}

static void take_setup(const void *arg)
{
	take_setup_some(arg, true);
}

static void drop_setup(const void *arg)
{
	take_setup_some(arg, false);
}

static void take_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->writer_closed && !world->lease_held &&
	                     !world->lease_entered,
	             "the writer came through, the lease is given back");
	CHECK_ASSERT(world->space->live == FILE_NONE, "S1: nobody vouches any more");
	world_check();
}

/* ---- lease-break ---- */

static void break_writer(void *arg)
{
	(void)arg;
	world->break_asked = true;
	check_wait(world_is_set, &world->lease_given_back);
	world->writer_open = true;
	host_fence_release(); /* the file's lock, as above */
	check_note("has the file open for writing");
	writer_write();
	host_fence_full(); /* close() */
	world->writer_closed = true;
}

static void break_lease_thread(void *arg)
{
	(void)arg;
	check_wait(world_is_set, &world->break_asked);
	file_proof_end(world->space, lease_give_back, NULL);
	check_wait(world_is_set, &world->writer_closed);
	file_proof_admit(world->space, file_proof_next_id(WORLD_FILE, WORLD_FILES),
	                 SIZE_AGAIN);
}

/* The main thread, which knows of no break: it fills a frame from the file. */
static void break_service(void *arg)
{
	u32 i;

	(void)arg;
	if (!world_take(WORLD_SECOND))
		return;
	world_fill_begin(WORLD_SECOND, world->c);
	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world_bytes(WORLD_SECOND)[i],
		                   host_load_relaxed(&world->disk[0][i]));
	world_fill_end(WORLD_SECOND, world->c);
}

/* pread() of block next, which is not cached. */
static bool break_pread(void *ctx, u8 *to, u64 n, u64 offset)
{
	u64 *words = (u64 *)to;
	u32 i;

	(void)ctx;
	CHECK_ASSERT(n == WORLD_BYTES && offset == BLOCK_BYTES,
	             "what is not cached comes from the file, and nothing else");
	for (i = 0; i < WORLD_WORDS; i++)
		words[i] = host_load_relaxed(&world->disk[1][i]);
	return true;
}

/* A read of blocks a and next, one from the cache and one from the kernel. Both are of the
 * same time only if cache_read() looks at the proof when both are there (S2, O22). */
static void break_read_both(struct world_reader *r)
{
	const struct cache_file f = { world->space, WORLD_FILE };
	u64 got[2][WORLD_WORDS], hits;
	const struct cache_read wanted = { &f, (u8 *)got,   2 * WORLD_BYTES,
		                           0,  break_pread, NULL };
	u32 i;

	if (!cache_read(&r->context, &wanted, &hits))
		return;
	CHECK_ASSERT(hits == 1, "one block came from the cache");
	for (i = 0; i < WORLD_WORDS; i++) {
		CHECK_ASSERT(got[0][i] == world_truth(world->a, i),
		             "C4: bytes that are not the block's");
		CHECK_ASSERT(got[1][i] == world_truth(world->next, i),
		             "S2: a read that is half old and half new");
	}
}

static void break_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *h = world_pin(r, world->a);

	break_read_both(r);
	world_read_drawn(r, world->c, 0);
	if (h) {
		world_look(h); /* a snapshot, whatever the writer does */
		world_unpin(r, h);
	}
	world_visit(r, world->a);
}

static void break_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("lease", 0, break_lease_thread, NULL);
	check_task("service", 1, break_service, NULL);
	check_task("writer", 2, break_writer, NULL);
	check_task("reader", 3, break_reader, &world->readers[0]);
}

static void break_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->writer_closed, "the writer came through");
	world_check_unpinned(&world->readers[0]);
	world_check();
	world_take_all();
}

/* ---- admit ---- */

static void admit_service(void *arg)
{
	(void)arg;
	file_proof_revoke(world->space);
	file_proof_admit(world->space, WORLD_FILE_AGAIN, SIZE_AGAIN);
}

static void admit_look(u32 id, u64 size)
{
	u64 seen;

	if (!file_proof_holds(world->space, id))
		return;
	seen = host_load_relaxed(&world->space->size);
	host_fence_acquire();
	if (file_proof_holds(world->space, id))
		CHECK_ASSERT(seen == size, "S3: the size that belongs to the id");
}

static void admit_reader(void *arg)
{
	(void)arg;
	admit_look(WORLD_FILE, WORLD_FILE_BYTES);
	admit_look(WORLD_FILE_AGAIN, SIZE_AGAIN);
	admit_look(WORLD_FILE_AGAIN, SIZE_AGAIN);
}

static void admit_setup(const void *arg)
{
	world_setup(arg);
	check_task("lease", 0, admit_service, NULL);
	check_task("reader", 1, admit_reader, NULL);
}

static void admit_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(file_proof_holds(world->space, WORLD_FILE_AGAIN),
	             "the file is there again");
	world_check();
}

/* ---- service-dies ---- */

static void dies_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_SECOND, world->c);
	world_refill(WORLD_FIRST, world->b);
}

static void dies_kernel(void *arg)
{
	(void)arg;
	check_kill(world->first_task);
	/* exit_mm() walks the robust list ... */
	host_fetch_add(&world->arena.header->alive, OWNER_DIED);
	/* ... and exit_files() comes later: the lease falls, a writer goes on. */
	world->writer_open = true;
	check_note("lets a writer open the file");
	writer_write();
}

static void dies_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *h = world_pin(r, world->a);

	world_read_drawn(r, world->b, 0);
	world_read_drawn(r, world->c, 1);
	if (h) {
		world_look(h);
		world_unpin(r, h);
	}
	world_visit(r, world->a);
}

static void dies_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	world->first_task = check_task("service", 0, dies_service, NULL);
	check_task("reader", 1, dies_reader, &world->readers[0]);
	check_fault("kernel", dies_kernel, NULL);
}

static void dies_finish(const void *arg)
{
	(void)arg; /* no arena_check(): the service may have died in the middle of it */
	context_check(&world->readers[0].context);
	world_check_unpinned(&world->readers[0]);
}

/* ---- service-ends ---- */

static void ends_lease_thread(void *arg)
{
	(void)arg;
	arena_end(world->arena.header);
	/* Nobody watches the file's proof any more, were it a lease or another one. */
	world->writer_open = true;
	check_note("lets a writer open the file");
	writer_write();
}

static void ends_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("lease", 0, ends_lease_thread, NULL);
	check_task("reader", 1, dies_reader, &world->readers[0]);
}

static void ends_finish(const void *arg)
{
	(void)arg;
	world_check_unpinned(&world->readers[0]);
	world_check();
	world_take_all();
}

/* ---- ends-fill ---- */

static void ends_fill_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->c);
	world_read_drawn(r, world->c, 0);
	world_visit(r, world->c);
}

static void ends_fill_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("lease", 0, ends_lease_thread, NULL);
	check_task("service", 1, break_service, NULL);
	check_task("reader", 2, ends_fill_reader, &world->readers[0]);
}

/* No world_check(): a frame may hold what no reader believes. */
static void ends_fill_finish(const void *arg)
{
	(void)arg;
	world_check_unpinned(&world->readers[0]);
	context_check(&world->readers[0].context);
	world_take_all();
}

void arena_lease_cases(struct check_list *list)
{
	static const struct arena_case one[ARENA_NR_SCHEMES] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_ATOMIC, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_FROZEN, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LOCK, false },
	};
	static const struct arena_case inlined = { ARENA_SCANNED, 1, 1,
		                                   ARENA_BARRIER_LIGHT, true };
	u32 i;

	arena_add(list, "lease-break", &inlined, 4, break_setup, break_finish, true);
	for (i = 0; i < ARENA_NR_SCHEMES; i++) {
		arena_add(list, "lease-break", &one[i], 4, break_setup, break_finish,
		          true);
		arena_add(list, "ends-fill", &one[i], 3, ends_fill_setup,
		          ends_fill_finish, false);
	}
	arena_add(list, "lease-take", &one[ARENA_SCANNED], 4, take_setup, take_finish,
	          false);
	arena_add(list, "lease-drop", &one[ARENA_SCANNED], 4, drop_setup, take_finish,
	          false);
	arena_add(list, "service-ends", &one[ARENA_SCANNED], 2, ends_setup, ends_finish,
	          false);
	arena_add(list, "admit", &one[ARENA_SCANNED], 2, admit_setup, admit_finish,
	          false);
	arena_add(list, "service-dies", &one[ARENA_SCANNED], 2, dies_setup, dies_finish,
	          false);
}
