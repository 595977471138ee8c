/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The proof that nobody changes the file, and what happens when it ends.
 *
 *   lease-break   a writer opens the file: the lease thread revokes, fences, gives the lease
 *                 back, and the writer goes on. What begins later must not use the cache;
 *                 pins from before are snapshots (S1). Then the file is admitted again,
 *                 under another id: old blocks are still there, and nobody's (S2)
 *   admit         the file comes back under another id, with another size (S3, O4)
 *   service-dies  the service is killed at any step; the kernel marks its futex and only
 *                 then lets go of the leases (L4 in lib/service/lease.c)
 */
#include "check/arena_world.h"

#define SIZE_AGAIN (7 * BLOCK_BYTES)
/* What the kernel sets in a robust futex whose owner died. */
#define OWNER_DIED 0x40000000u

/* The file is now that of another id. */
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

/* ---- lease-break ---- */

static void break_writer(void *arg)
{
	(void)arg;
	world->break_asked = true;
	check_wait(world_is_set, &world->lease_given_back);
	world->writer_open = true;
	check_note("has the file open for writing");
	writer_write();
	host_fence_full(); /* close() */
	world->writer_closed = true;
}

static void break_lease_thread(void *arg)
{
	(void)arg;
	check_wait(world_is_set, &world->break_asked);
	if (MUTANT(LEASE_BACK_FIRST))
		world->lease_given_back = true;
	file_proof_revoke(world->space);
	host_relax(); /* fcntl(F_UNLCK) */
	world->lease_given_back = true;
	check_wait(world_is_set, &world->writer_closed);
	file_proof_admit(world->space,
	                 MUTANT(ID_USED_AGAIN) ? WORLD_FILE : WORLD_FILE_AGAIN,
	                 SIZE_AGAIN);
}

/* The main thread, which knows of no break: it fills a frame from the file. */
static void break_service(void *arg)
{
	u32 i;

	(void)arg;
	if (!world_take(WORLD_SECOND))
		return;
	arena_fill_begin(&world->arena, WORLD_SECOND);
	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world_bytes(WORLD_SECOND)[i],
		                   host_load_relaxed(&world->disk[0][i]));
	world->owned[WORLD_SECOND] = false;
	if (file_proof_holds(world->space, WORLD_FILE))
		CHECK_ASSERT(arena_publish(&world->arena, WORLD_SECOND, world->c),
		             "the translation has room");
	else
		arena_fill_cancel(&world->arena, WORLD_SECOND);
}

/* A read of two blocks, one from the kernel and one from the cache: both are of the same
 * time only if the proof is looked at when both are there (S2). */
static void break_read_both(struct world_reader *r)
{
	u64 disk[WORLD_WORDS], cached[WORLD_WORDS];
	bool early = MUTANT(VOUCH_FIRST) &&
	             context_vouch(&r->context, world->space, WORLD_FILE);
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		disk[i] = host_load_relaxed(&world->disk[1][i]);
	if (!context_read(&r->context, world->a, 0, cached, WORLD_BYTES))
		return;
	if (!early && !context_vouch(&r->context, world->space, WORLD_FILE))
		return;
	for (i = 0; i < WORLD_WORDS; i++) {
		CHECK_ASSERT(cached[i] == world_truth(world->a, i),
		             "C4: bytes that are not the block's");
		CHECK_ASSERT(disk[i] == world_truth(world->d, i),
		             "S2: a read that is half old and half new");
	}
}

static void break_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *h = world_pin(r, world->a);

	break_read_both(r);
	world_read(r, world->c, false);
	if (h) {
		world_look(h); /* a snapshot, whatever the writer does */
		world_unpin(r, h);
	}
	world_visit(r, world->a);
}

static void break_setup(const void *arg)
{
	world_setup(arg);
	check_task("lease", 0, break_lease_thread, NULL);
	check_task("service", 1, break_service, NULL);
	check_task("writer", 2, break_writer, NULL);
	check_task("reader", 3, break_reader, &world->readers[0]);
}

static void break_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->writer_closed, "the writer came through");
	world_check();
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
	admit_look(WORLD_FILE, 4 * BLOCK_BYTES);
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

	world_read(r, world->b, false);
	world_read(r, world->c, true);
	if (h) {
		world_look(h);
		world_unpin(r, h);
	}
	world_visit(r, world->a);
}

static void dies_setup(const void *arg)
{
	world_setup(arg);
	world->first_task = check_task("service", 0, dies_service, NULL);
	check_task("reader", 1, dies_reader, &world->readers[0]);
	check_fault("kernel", dies_kernel, NULL);
}

static void dies_finish(const void *arg)
{
	(void)arg; /* no arena_check(): the service may have died in the middle of it */
	context_check(&world->readers[0].context);
	CHECK_ASSERT(context_nr_pinned(&world->readers[0].context) == 0,
	             "the reader has given all pins back");
}

void arena_lease_cases(struct check_list *list)
{
	static const struct arena_case one[ARENA_NR_SCHEMES] = {
		{ ARENA_SCANNED, 1, 1 },
		{ ARENA_ATOMIC, 1, 1 },
		{ ARENA_FROZEN, 1, 1 },
		{ ARENA_HAZARD, 1, 1 },
	};
	u32 i;

	for (i = 0; i < ARENA_NR_SCHEMES; i++)
		arena_add(list, "lease-break", &one[i], 4, break_setup, break_finish,
		          true);
	arena_add(list, "admit", &one[ARENA_SCANNED], 2, admit_setup, admit_finish,
	          false);
	arena_add(list, "service-dies", &one[ARENA_SCANNED], 2, dies_setup, dies_finish,
	          false);
}
