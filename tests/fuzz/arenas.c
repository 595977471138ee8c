/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See arenas.h. */
#define _GNU_SOURCE
#include "tests/fuzz/arenas.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cache/cache.h"
#include "core/pte.h"
#include "tests/support/cache_fixture.h"

#define NR_FRAMES 24u
#define NR_FILES 4u
#define NR_ENTRIES 16u
#define NR_KINDS (ARENA_NR_SCHEMES * ARENA_NR_BARRIERS)
/* Of the memory behind a descriptor: more than a lie can ask for and be believed. */
#define CONTROL_ROOM ((u64)1 << 24)
#define SMALL_ROOM ((u64)1 << 16)

static struct arena_shape arenas_shape(u32 scheme, u32 barrier)
{
	return (struct arena_shape){ NR_FRAMES, NR_FILES,
		                     scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS
		                                            : NR_ENTRIES,
		                     scheme, barrier };
}

static void memory_make(struct arenas_memory *m, u64 bytes, u64 right_bytes, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char path[40];

	REQUIRE(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "%s", strerror(errno));
	m->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	m->right = calloc(NR_KINDS, right_bytes);
	REQUIRE(m->at != MAP_FAILED && m->right, "%s", strerror(errno));
	m->bytes = bytes;
	m->right_bytes = right_bytes;
	m->fd = fd;
	if (!(seals & F_SEAL_WRITE)) {
		REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0, "%s", strerror(errno));
		return;
	}
	/* A hold: nobody can write it, and its description is for reading alone. */
	pattern_fill(m->at, 1, 1, 0, bytes);
	munmap(m->at, bytes);
	REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0, "%s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m->fd = fixture_open(path, O_RDONLY);
	close(fd);
}

/* Fills what is right for one kind, as a service does. */
static void arenas_fill(struct arenas *all, u32 scheme, u32 barrier, u32 file)
{
	struct arena_shape shape = arenas_shape(scheme, barrier);
	u32 kind = scheme * ARENA_NR_BARRIERS + barrier;
	u8 *control = all->control.right + kind * all->control.right_bytes;
	u8 *data = all->data.right + kind * all->data.right_bytes;
	u8 *shared = all->shared.right + kind * all->shared.right_bytes;
	struct cache_file f = { .id = file };
	struct arena a;

	arena_format(control, &shape, ARENAS_GENERATION);
	REQUIRE(arena_open(&a, control, arena_control_bytes(&shape), data,
	                   (u64)NR_FRAMES << BLOCK_SHIFT, shared),
	        "no arena");
	host_store_relaxed(&a.header->alive, ARENAS_ALIVE);
	f.proof = &a.files[0];
	file_proof_admit(&a.files[0], file, ARENAS_FILE_BYTES);
	for (u32 i = 0; i < ARENAS_BLOCKS - 1; i++) { /* one is not cached */
		u32 frame = FRAME_FIRST + i;

		cache_fill_begin(&a, frame);
		pattern_fill(arena_frame_bytes(&a, frame), 1, 1, (u64)i * BLOCK_BYTES,
		             BLOCK_BYTES);
		cache_fill_end(&a, &f, frame, block_id(file, i), true);
	}
}

static void odd_make(struct arenas *a)
{
	int ends[2], pair[2];
	int big = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 &&
	                socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0,
	        "%s", strerror(errno));
	while (write(ends[1], a, 4096) > 0) /* it takes no more */
		;
	fcntl(ends[1], F_SETFL, 0);
	close(pair[1]);
	REQUIRE(ftruncate(big, (off_t)CONTROL_ROOM) == 0 && ftruncate(small, 1) == 0,
	        "%s", strerror(errno));
	a->odd[0] = big;
	a->odd[1] = small;
	a->odd[2] = ends[0];
	a->odd[3] = ends[1]; /* a write to it waits for ever */
	a->odd[4] = pair[0]; /* a write to it is a SIGPIPE */
	a->odd[5] = fixture_open("/dev/null", O_RDWR);
	a->odd[6] = fixture_open("/proc/self/status", O_RDONLY);
	a->odd[7] = fixture_open("/", O_RDONLY | O_DIRECTORY);
	a->odd[8] = fixture_open("/dev/zero", O_RDWR);
}

void arenas_make(struct arenas *a, u32 file)
{
	struct arena_shape shape = arenas_shape(ARENA_ATOMIC, ARENA_BARRIER_LOCK);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	memory_make(&a->control, CONTROL_ROOM, arena_control_bytes(&shape), seals);
	memory_make(&a->data, CONTROL_ROOM, (u64)NR_FRAMES << BLOCK_SHIFT, seals);
	memory_make(&a->shared, SMALL_ROOM, arena_shared_bytes(&shape), seals);
	memory_make(&a->context, SMALL_ROOM,
	            arena_context_bytes(ARENA_HAZARD_SLOTS, ARENAS_QUOTA), seals);
	memory_make(&a->hold, ARENAS_HOLD_BYTES, 8, seals | F_SEAL_WRITE);
	for (u32 scheme = 0; scheme < ARENA_NR_SCHEMES; scheme++)
		for (u32 barrier = 0; barrier < ARENA_NR_BARRIERS; barrier++)
			arenas_fill(a, scheme, barrier, file);
	a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	odd_make(a);
}

static void memory_restore(struct arenas_memory *m, u32 kind)
{
	memcpy(m->at, m->right + kind * m->right_bytes, m->right_bytes);
}

void arenas_choose(struct arenas *a, u64 *random)
{
	u32 kind;

	a->scheme = (u32)random_below(random, ARENA_NR_SCHEMES);
	a->barrier = (u32)random_below(random, ARENA_NR_BARRIERS);
	kind = a->scheme * ARENA_NR_BARRIERS + a->barrier;
	memory_restore(&a->control, kind);
	memory_restore(&a->data, kind);
	memory_restore(&a->shared, kind);
	memory_restore(&a->context, kind);
}

void arenas_sizes(const struct arenas *a, u64 *ret_control, u64 *ret_data,
                  u64 *ret_shared)
{
	const struct arena_header *h = (const struct arena_header *)a->control.at;
	struct arena_shape shape = arenas_shape(a->scheme, a->barrier);

	/* As the header has it: a lie that is told twice. */
	*ret_control = h->bytes;
	*ret_data = h->data_bytes;
	*ret_shared = arena_shared_bytes(&shape);
}

u64 arenas_context_bytes(const struct arenas *a)
{
	const struct arena_header *h = (const struct arena_header *)a->control.at;

	return arena_context_bytes((u32)h->nr_entries, ARENAS_QUOTA);
}

u64 arenas_odd(u64 *random)
{
	static const u64 odd[] = { 0,
		                   1,
		                   7,
		                   NR_FRAMES - 1,
		                   NR_FRAMES,
		                   64,
		                   1023,
		                   1024,
		                   4096,
		                   1u << 20,
		                   UINT32_MAX - 1,
		                   UINT32_MAX,
		                   (u64)1 << 32,
		                   (u64)1 << 47,
		                   (u64)1 << 63,
		                   ~(u64)0 - 1,
		                   ~(u64)0 };

	if (random_below(random, 2))
		return random_next(random) >> random_below(random, 64);
	return odd[random_below(random, sizeof(odd) / sizeof(*odd))];
}

int arenas_odd_fd(const struct arenas *a, u64 i)
{
	return i < ARENAS_NR_ODD ? a->odd[i] : -1;
}

void arenas_break_header(struct arenas *a, u64 *random)
{
	u64 *words = (u64 *)a->control.at;
	struct arena_shape shape;

	if (random_below(random, 3) > 0) {
		words[random_below(random, sizeof(struct arena_header) / 8)] =
			arenas_odd(random);
		return;
	}
	/* One that agrees with itself. */
	shape = (struct arena_shape){
		.nr_frames =
			2 + (u32)random_below(random, 1u << random_below(random, 12)),
		.nr_files =
			1 + (u32)random_below(random, 1u << random_below(random, 8)),
		.nr_entries = 8u << random_below(random, 10),
		.scheme = (u32)random_below(random, ARENA_NR_SCHEMES),
		.barrier = (u32)random_below(random, ARENA_NR_BARRIERS),
	};
	arena_format(a->control.at, &shape, ARENAS_GENERATION);
}

/* A word of what a right arena has there, so that most lies are looked at. */
void arenas_break(struct arenas *a, u64 *random)
{
	struct arenas_memory *const all[] = { &a->control, &a->control, &a->control,
		                              &a->shared, &a->context };
	struct arenas_memory *m = all[random_below(random, 5)];

	for (u64 left = 1 + random_below(random, 8); left > 0; left--) {
		u64 *word = (u64 *)m->at + random_below(random, m->right_bytes / 8);

		switch (random_below(random, 4)) {
		case 0: *word = arenas_odd(random); break;
		case 1: *word ^= (u64)1 << random_below(random, 64); break;
		case 2: *(u32 *)word = (u32)arenas_odd(random); break;
		default: *word += random_below(random, 3) - 1; break;
		}
	}
}
