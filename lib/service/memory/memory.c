/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The memory that readers map. All of it is there when the service starts, so that no
 * process meets a SIGBUS later. Its size cannot change. Readers get descriptors through
 * which control and data cannot be written, whatever a reader does with them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/huge.h"
#include "lib/cgroup.h"
#include "lib/service/memory/memory.h"
#include "lib/service/memory/pages.h"
#include "lib/service/memory/state.h"
#include "lib/service/base/base.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Our choice: then what is added to make huge pages whole is an eighth at most. */
#define HUGE_MIN_FRAMES 4096u
#define MIB_SHIFT 20
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int memory_check_room(u64 bytes, const char **ret_why)
{
	struct cgroup room;

	cgroup_look_all(&room);
	if (bytes <= room.left)
		return 0;
	*ret_why = service_why(
		"the cache needs %llu MiB and %llu MiB are free: give it less "
		"memory, or free some",
		(unsigned long long)(bytes >> MIB_SHIFT),
		(unsigned long long)(room.left >> MIB_SHIFT));
	return -ENOMEM;
}

bool memory_is_tight(const struct cgroup *group)
{
	return group->limit != UINT64_MAX &&
	       group->left < group->limit / MEMORY_TIGHT_PART;
}

int memory_check_hold(u64 bytes, const char **ret_why)
{
	struct cgroup group;

	cgroup_look(CGROUP_LIST, CGROUP_MOUNT, &group);
	if (group.limit == UINT64_MAX || group.left < bytes)
		return memory_check_room(bytes, ret_why);
	group.left -= bytes;
	if (!memory_is_tight(&group))
		return memory_check_room(bytes, ret_why);
	*ret_why = "the control group would have little left for its programs";
	return -ENOMEM;
}

int memory_make_fd(const char *name, unsigned int flags)
{
	int fd = memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING |
	                                    MFD_NOEXEC_SEAL);

	/* Linux before 6.3 does not know that flag. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

static int memory_make_shared(struct memory *s, struct shared_memory *m,
                              const char *name, u64 bytes, unsigned int flags,
                              bool huge)
{
	int err;

	m->bytes = bytes;
	m->fd = memory_make_fd(name, flags);
	if (m->fd < 0)
		return m->fd;
	if (ftruncate(m->fd, (off_t)bytes) != 0)
		return -errno;
	err = huge_map(m->fd, bytes, PROT_READ | PROT_WRITE, &m->at);
	if (err)
		return err;
	/* A core dump of gigabytes would keep dead leases alive while it is written. */
	madvise(m->at, bytes, MADV_DONTDUMP);
	if (m == &s->data)
		s->bind(s->tiers, m->at);
	return pages_fill(s->base, m, huge);
}

static void memory_free_shared(struct shared_memory *m)
{
	if (m->at)
		munmap(m->at, m->bytes);
	if (m->reader_fd >= 0 && m->reader_fd != m->fd)
		close(m->reader_fd);
	if (m->fd >= 0)
		close(m->fd);
	*m = (struct shared_memory){ .fd = -1, .reader_fd = -1 };
}

int memory_open_again(int fd, int flags)
{
	char path[64];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, flags | O_CLOEXEC);
	return other < 0 ? -errno : other;
}

/* From now on there is no new way to write to it; the service's own mapping stands. The
 * descriptor for readers is opened read-only as well, which is a second wall. Without
 * /proc the seal must do. */
static int memory_close_to_writers(struct shared_memory *m, bool for_group)
{
	/* Linux before 5.1 lacks the seal against future writers. There the read-only
	 * description is the only wall. */
	if (fcntl(m->fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
		/* Another user could open the description again, for writing. */
		if (for_group)
			return -ENOTSUP;
		if (fcntl(m->fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0)
			return -errno;
	}
	m->reader_fd = memory_open_again(m->fd, O_RDONLY);
	if (m->reader_fd < 0)
		m->reader_fd = m->fd;
	return 0;
}

static int memory_share(struct shared_memory *m)
{
	m->reader_fd = m->fd;
	return fcntl(m->fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0 ? 0 : -errno;
}

/* Has the administrator set aside enough huge pages? */
static bool memory_huge_pages_are_reserved(u64 bytes)
{
	u64 nr_free = 0, nr_reserved = 0, size_kib = 0;

	cgroup_read_number("/proc/meminfo", "HugePages_Free", &nr_free);
	cgroup_read_number("/proc/meminfo", "HugePages_Rsvd", &nr_reserved);
	cgroup_read_number("/proc/meminfo", "Hugepagesize", &size_kib);
	return size_kib << 10 == HUGE_PAGE_BYTES && nr_free > nr_reserved &&
	       (nr_free - nr_reserved) * HUGE_PAGE_BYTES >= bytes;
}

/* Takes reserved huge pages, else what the kernel makes of ordinary memory. */
static int memory_make_data(struct memory *s, u64 bytes, bool reserved)
{
	bool huge = !s->options->small_pages;
	int err;

	if (reserved) {
		err = memory_make_shared(s, &s->data, "lodic-data", bytes, MFD_HUGETLB,
		                         false);
		s->stat->huge_bytes = err ? 0 : bytes;
		if (!err)
			return 0;
		memory_free_shared(&s->data); /* another process was faster */
	}
	err = memory_make_shared(s, &s->data, "lodic-data", bytes, 0, huge);
	if (!err)
		s->stat->huge_bytes = pages_huge_bytes(&s->data);
	return err;
}

/* Adds some frames to those asked for, so that readers map and unmap whole huge pages. */
static bool memory_round_up(struct memory *s)
{
	u32 more = (u32)(HUGE_PAGE_BYTES >> BLOCK_SHIFT) - 1;
	u32 nr_frames = (s->shape.nr_frames + more) & ~more;

	if (s->options->small_pages || nr_frames < HUGE_MIN_FRAMES ||
	    !memory_huge_pages_are_reserved((u64)nr_frames << BLOCK_SHIFT))
		return false;
	s->shape.nr_frames = nr_frames;
	return true;
}

/* What the tables of all contexts take that may pin: place.c bounds how many there are. */
static u64 memory_tables(const struct memory *s)
{
	u64 nr = (u64)s->shape.nr_frames / 4 * 3 / s->quota;

	if (nr > ARENA_MAX_CONTEXTS)
		nr = ARENA_MAX_CONTEXTS;
	return (nr > 0 ? nr : 1) * arena_context_bytes(s->shape.nr_entries, s->quota);
}

static int memory_make_all(struct memory *s, const char **ret_why)
{
	bool reserved = memory_round_up(s);
	u64 control = arena_control_bytes(&s->shape);
	u64 data = (u64)s->shape.nr_frames << BLOCK_SHIFT;
	u64 shared = arena_shared_bytes(&s->shape);
	bool huge = !s->options->small_pages;
	int err =
		memory_check_room(control + data + shared + memory_tables(s), ret_why);

	if (err)
		return err;
	err = memory_make_shared(s, &s->control, "lodic-control", control, 0, huge);
	if (!err)
		err = memory_make_data(s, data, reserved);
	if (!err)
		err = memory_make_shared(s, &s->shared, "lodic-shared", shared, 0,
		                         huge);
	if (!err)
		err = memory_close_to_writers(&s->control, s->options->for_group);
	if (!err)
		err = memory_close_to_writers(&s->data, s->options->for_group);
	if (!err)
		err = memory_share(&s->shared);
	if (err)
		*ret_why = service_why("the kernel refused memory for the cache: %s",
		                       strerror(-err));
	else
		s->say(s->tiers);
	if (!err && huge)
		pages_say(s->base, &s->data, s->stat->huge_bytes);
	return err;
}

int memory_make(struct memory *s, const char **ret_why)
{
	struct timespec now;
	u64 generation;
	int err;

	err = memory_make_all(s, ret_why);
	if (err)
		return err;
	clock_gettime(CLOCK_REALTIME, &now);
	generation = ((u64)now.tv_sec * 1000000000u + (u64)now.tv_nsec) ^ (u64)getpid()
	                                                                          << 48;
	arena_format(s->control.at, &s->shape, generation);
	CHECK(arena_open(&s->arena, s->control.at, s->control.bytes, s->data.at,
	                 (u64)s->shape.nr_frames << BLOCK_SHIFT, s->shared.at),
	      "a new arena can be viewed");
	s->arena.contexts = calloc(ARENA_MAX_CONTEXTS, sizeof(*s->arena.contexts));
	return s->arena.contexts ? 0 : -ENOMEM;
}

u32 memory_quota(const struct memory *s)
{
	return s->quota;
}

void memory_free(struct memory *s)
{
	free(s->arena.contexts);
	memory_free_shared(&s->control);
	memory_free_shared(&s->data);
	memory_free_shared(&s->shared);
}

/* The kernel grants a write lease only while no other description is open, and a mapping
 * keeps its description open. The kernel counts what open() made. It does not count the
 * description that memfd_create() made, which is the service's. */
static enum memory_use memory_lease(int own)
{
	enum memory_use use;

	/* If a process opens the memory just now the kernel tells the lease's owner: by a
	 * signal that nobody minds. */
	fcntl(own, F_SETSIG, SIGURG);
	if (fcntl(own, F_SETLEASE, F_WRLCK) == 0)
		use = MEMORY_UNUSED;
	else
		use = errno == EAGAIN ? MEMORY_USED : MEMORY_UNKNOWN;
	return use;
}

enum memory_use memory_ask(int fd)
{
	int own = memory_open_again(fd, O_RDONLY);
	enum memory_use use;

	if (own < 0)
		return MEMORY_UNKNOWN;
	use = memory_lease(own);
	close(own); /* and the lease goes */
	return use;
}

enum memory_use memory_ask_own(int fd)
{
	enum memory_use use = memory_lease(fd);

	if (use == MEMORY_UNUSED)
		fcntl(fd, F_SETLEASE, F_UNLCK);
	return use;
}

int memory_make_context(struct memory *s, u64 bytes, void **ret_memory, int *ret_fd,
                        int *ret_reader_fd)
{
	struct shared_memory m = { .fd = -1, .reader_fd = -1 };
	/* A context is made while others wait, and few are as large as a huge page. */
	int err = memory_make_shared(s, &m, "lodic-context", bytes, 0, false);
	bool answers = false;
	int reader = -1;

	/* Before a turn walks through the table: else that turn would have a fault for each page
	 * of each context, 2 us. Without it (before Linux 5.14) the walk has them. */
	if (!err)
		madvise(m.at, bytes, MADV_POPULATE_WRITE);
	if (!err)
		err = memory_share(&m);
	/* Linux before 5.3 refuses such a lease in any case. */
	if (!err)
		answers = memory_ask(m.fd) == MEMORY_UNUSED;
	if (!err)
		reader = memory_open_again(m.fd, O_RDWR);
	if (!err && (reader == -EMFILE || reader == -ENFILE))
		err = reader;
	if (err) {
		memory_free_shared(&m);
		return err;
	}
	*ret_memory = m.at;
	if (reader < 0) { /* no /proc */
		*ret_reader_fd = m.fd;
		*ret_fd = -1;
		return 0;
	}
	*ret_reader_fd = reader;
	*ret_fd = m.fd;
	/* The reader's description is open now, so the right answers are known. */
	if (!answers || memory_ask(m.fd) != MEMORY_USED)
		service_close(ret_fd);
	return 0;
}
