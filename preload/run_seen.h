/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim of `lodic run` and `lodic doctor` counts in one process: its reads and mappings,
 * for each file and reason. `lodic doctor` shares this memory with each process, through a file in
 * its folder. So the counts outlive a process that is killed.
 */
#ifndef LODIC_PRELOAD_RUN_SEEN_H
#define LODIC_PRELOAD_RUN_SEEN_H

#include <stdint.h>

#ifndef SEEN_FILES
#define SEEN_FILES 4096u /* a power of two */
#endif
#define SEEN_PATH_BYTES 256u
#define SEEN_NAME_BYTES 64u
/* Threads count in so many places, so that two threads seldom share a line. */
#define SEEN_STRIPES 8u
#define SEEN_BLOCK_BYTES 4096u

/* What became of a read, or of a mapping. */
enum run_why {
	RUN_SERVED,
	RUN_KEEPS_OFFSET, /* read(2), readv(2): the kernel keeps their offset */
	RUN_FIRST_READ,   /* of a descriptor: it may be the only one */
	RUN_NOT_CACHED,   /* not all of it, yet */
	RUN_REFUSED,      /* the service does not cache the file */
	RUN_LOCKED,       /* U17 */
	RUN_AWAY,         /* nobody listens at the service's socket */
	RUN_ASKED,        /* the service is there, and has not answered yet */
	RUN_WRITABLE,
	RUN_DIRECT,
	RUN_NOT_REGULAR,
	RUN_UNUSUAL, /* flags, or an offset or a size that only the kernel can judge */
	RUN_TABLE_FULL,
	RUN_BUSY,    /* in a signal handler, or at the end of a thread */
	RUN_STOPPED, /* the shim has stepped aside in this process */
	RUN_GONE,    /* it has given up rights, and the shim stays away (U25) */
	RUN_COULD,   /* `lodic doctor` alone: `lodic run` would ask the cache */
	RUN_NR_WHYS,
	/* Of mappings alone. */
	RUN_SHARED =
		RUN_NR_WHYS, /* MAP_SHARED, and the user has not promised anything */
	RUN_OTHER_KIND,      /* to be written or executed; unusual flags */
	RUN_SMALL,           /* the file: below 1 MiB */
	RUN_BEYOND_END,      /* it has pages after the file's last one */
	RUN_NO_ROOM,         /* the service has none for the hold */
	RUN_GIVEN_BACK,      /* it was served, until somebody opened the file to write */
	RUN_NR_MAP_WHYS
};

/* Its name in a report; people read it with blanks. */
static inline const char *run_why_name(enum run_why why)
{
	static const char *const names[RUN_NR_MAP_WHYS] = {
		[RUN_SERVED] = "served",
		[RUN_KEEPS_OFFSET] = "read_keeps_offset",
		[RUN_FIRST_READ] = "first_read_of_descriptor",
		[RUN_NOT_CACHED] = "not_cached_yet",
		[RUN_REFUSED] = "refused",
		[RUN_LOCKED] = "locked",
		[RUN_AWAY] = "service_away",
		[RUN_ASKED] = "not_answered_yet",
		[RUN_WRITABLE] = "opened_for_writing",
		[RUN_DIRECT] = "opened_direct",
		[RUN_NOT_REGULAR] = "not_regular",
		[RUN_UNUSUAL] = "unusual_read",
		[RUN_TABLE_FULL] = "too_many_files",
		[RUN_BUSY] = "busy",
		[RUN_STOPPED] = "stepped_aside",
		[RUN_GONE] = "rights_given_up",
		[RUN_COULD] = "could_be_served",
		[RUN_SHARED] = "shared_not_promised",
		[RUN_OTHER_KIND] = "other_kind_of_mapping",
		[RUN_SMALL] = "too_small",
		[RUN_BEYOND_END] = "beyond_the_end",
		[RUN_NO_ROOM] = "no_room",
		[RUN_GIVEN_BACK] = "given_back",
	};

	return names[why];
}

/* Reads of RUN_COULD by their size: up to each of these, and above. A time that is linear in the
 * size within each of these needs no more than their number and bytes. */
#define SEEN_SIZES 5u
static const uint32_t seen_size_ends[SEEN_SIZES - 1] = { 512, 4096, 16384, 65536 };

struct seen_counts {
	uint64_t reads[RUN_NR_WHYS];
	uint64_t bytes[RUN_NR_WHYS];
	uint64_t size_reads[SEEN_SIZES];
	uint64_t size_bytes[SEEN_SIZES];
	/* Of RUN_COULD: of reads that begin where the last one of the descriptor has ended. */
	uint64_t in_order_bytes;
	/* Of RUN_COULD: reads that lie in one block more than so many bytes must. */
	uint64_t askew_reads;
	uint64_t maps[RUN_NR_MAP_WHYS]; /* mappings */
	uint64_t mapped_bytes;          /* that were served */
} __attribute__((aligned(64)));

/* A file that was read. Any thread counts; the counts and owner are atomic. */
struct seen {
	uint64_t owner; /* 0: free, 1: being filled, 2: filled */
	uint64_t dev, ino;
	uint64_t size;     /* bytes, as first seen */
	uint64_t mtime_ns; /* the same */
	uint64_t reason;   /* the service's, for RUN_REFUSED: an errno with its reason (RE1) */
	uint64_t
		blocks; /* different ones that reads of RUN_COULD came to; doctor alone */
	char path[SEEN_PATH_BYTES];
	struct seen_counts counts[SEEN_STRIPES];
};

/* For `lodic doctor`, each thread takes the time of some of its reads of RUN_COULD, by the clock.
 * A place is for times that differ by an eighth at most: SEEN_STEPS from one power of two to the
 * next. What waits for a device or for a CPU stands far to the right. */
#define SEEN_STEPS 8u
#define SEEN_TIMES (24u * SEEN_STEPS)

static inline unsigned int seen_time_place(uint64_t ns)
{
	unsigned int power, place;

	if (ns < SEEN_STEPS)
		return 0;
	power = 63 - (unsigned int)__builtin_clzll(ns);
	place = (power - 3) * SEEN_STEPS + (unsigned int)(ns >> (power - 3)) -
	        SEEN_STEPS;
	return place < SEEN_TIMES ? place : SEEN_TIMES - 1;
}

/* The middle of a place's times. */
static inline double seen_time_ns(unsigned int place)
{
	return (SEEN_STEPS + place % SEEN_STEPS + 0.5) *
	       (double)(UINT64_C(1) << place / SEEN_STEPS);
}

/* What a process has that no count shows. */
#define SEEN_RING UINT64_C(1)  /* of io_uring, by liburing or a bare call */
#define SEEN_GO UINT64_C(2)    /* code in Go, which calls the kernel past libc */
#define SEEN_BLIND UINT64_C(4) /* a filter for system calls: the shim counts no more */

struct seen_process {
	uint64_t pid;
	uint64_t user;  /* the effective one, as last changed; atomic */
	uint64_t marks; /* SEEN_RING, SEEN_GO, SEEN_BLIND; atomic */
	/* What the kernel counted of it and its children when it ended (/proc/self/io). Its
	 * parent may not be allowed to read that of a process that has ended. */
	uint64_t io_known; /* 1: these are */
	uint64_t io_bytes, io_reads, io_device_bytes;
	uint64_t times[SEEN_SIZES][SEEN_TIMES]; /* how many; atomic */
	char name[SEEN_NAME_BYTES];             /* of its program */
	struct seen files[SEEN_FILES + 1];      /* the last: all that have no place */
};

#endif
