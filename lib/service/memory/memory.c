/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The memory that readers map. All of it is there when the service starts, so that no
 * process meets a SIGBUS later. Its size cannot change. Readers get descriptors through
 * which control and data cannot be written, whatever a reader does with them.
 */
#include <errno.h>
#include <string.h>

#include "lib/huge.h"
#include "lib/cgroup.h"
#include "lib/port/pages.h"
#include "lib/service/memory/memory.h"
#include "lib/service/memory/pages.h"
#include "lib/service/memory/state.h"
#include "lib/service/base/base.h"

/* Our choice: then what is added to make huge pages whole is an eighth at most. */
#define HUGE_MIN_FRAMES 4096u
#define MIB_SHIFT 20
#define SEALS (PORT_SEAL_SHRINK | PORT_SEAL_GROW)

/* Bytes that an arena is about to take, and those for holds. Either is noted before it looks
 * whether there is room, and counts for the other's look. So of two that come at once one sees the
 * other. What has come goes off, or a look would count it twice.
 * A resize has two services in one process. */
static u64 memory_arena_to_come, memory_holds_to_come;

void memory_hold_comes(u64 bytes)
{
	host_fetch_add(&memory_holds_to_come, bytes);
}

void memory_hold_came(u64 bytes)
{
	host_fetch_add(&memory_holds_to_come, -bytes);
}

static int memory_check_arena(u64 bytes, const char **ret_why)
{
	return memory_check_room(bytes + host_load_acquire(&memory_holds_to_come), ret_why);
}

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

	bytes += host_load_acquire(&memory_arena_to_come);
	cgroup_look(CGROUP_LIST, CGROUP_MOUNT, &group);
	if (group.limit == UINT64_MAX)
		return memory_check_room(bytes, ret_why);
	/* One look decides: in another one there may be room that makes the group tight. */
	group.left -= group.left < bytes ? group.left : bytes;
	if (!memory_is_tight(&group))
		return memory_check_room(bytes, ret_why);
	*ret_why = "the control group would have little left for its programs";
	return -ENOMEM;
}

/* What the pages of shared memory are. */
enum memory_pages {
	MEMORY_SMALL,
	MEMORY_HUGE, /* as far as the kernel makes such */
	MEMORY_RESERVED,
};

static int memory_make_shared(struct memory *s, struct shared_memory *m,
                              const char *name, u64 bytes, enum memory_pages pages)
{
	int err;

	m->bytes = bytes;
	m->fd = pages == MEMORY_RESERVED ? port_memory_file_reserved(name)
	                                 : port_memory_file(name);
	if (m->fd < 0)
		return m->fd;
	err = port_set_bytes(m->fd, bytes);
	if (!err)
		err = huge_map(m->fd, bytes, PORT_READ | PORT_WRITE, &m->at);
	if (err)
		return err;
	/* A core dump of gigabytes would keep dead leases alive while it is written. */
	port_advise(m->at, bytes, PORT_NOT_IN_DUMP);
	if (m == &s->data)
		s->bind(s->tiers, m->at);
	return pages_fill(s->base, m, pages == MEMORY_HUGE);
}

/* The same for a segment of an arena, which is noted as to come. */
static int memory_make_segment(struct memory *s, struct shared_memory *m,
                               const char *name, u64 bytes, enum memory_pages pages)
{
	m->to_come = &memory_arena_to_come;
	return memory_make_shared(s, m, name, bytes, pages);
}

static void memory_free_shared(struct shared_memory *m)
{
	if (m->at)
		port_unmap(m->at, m->bytes);
	if (m->reader_fd >= 0 && m->reader_fd != m->fd)
		port_close(m->reader_fd);
	if (m->fd >= 0)
		port_close(m->fd);
	*m = (struct shared_memory){ .fd = -1, .reader_fd = -1 };
}

/* From now on there is no new way to write to it; the service's own mapping stands. The
 * descriptor for readers is opened read-only as well, which is a second wall. Without
 * /proc the seal must do. */
static int memory_close_to_writers(struct shared_memory *m, bool for_group)
{
	int err = port_seal(m->fd, SEALS | PORT_SEAL_NEW_WRITERS | PORT_SEAL_SEALS);

	/* Linux before 5.1 lacks the seal against new writers. There the read-only description is
	 * the only wall, and another user could open the memory again, for writing. */
	if (err && for_group)
		return -ENOTSUP;
	if (err)
		err = port_seal(m->fd, SEALS | PORT_SEAL_SEALS);
	if (err)
		return err;
	m->reader_fd = port_memory_again(m->fd, false);
	if (m->reader_fd < 0)
		m->reader_fd = m->fd;
	return 0;
}

static int memory_share(struct shared_memory *m)
{
	m->reader_fd = m->fd;
	return port_seal(m->fd, SEALS | PORT_SEAL_SEALS);
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

static enum memory_pages memory_pages(const struct memory *s)
{
	return s->tables->small_pages ? MEMORY_SMALL : MEMORY_HUGE;
}

/* Takes reserved huge pages, else what the kernel makes of ordinary memory. */
static int memory_make_data(struct memory *s, u64 bytes, bool reserved)
{
	int err;

	if (reserved) {
		err = memory_make_segment(s, &s->data, "lodic-data", bytes,
		                          MEMORY_RESERVED);
		s->stat->huge_bytes = err ? 0 : bytes;
		if (!err)
			return 0;
		host_fetch_add(&memory_arena_to_come, s->data.there);
		memory_free_shared(&s->data); /* another process was faster */
	}
	err = memory_make_segment(s, &s->data, "lodic-data", bytes, memory_pages(s));
	if (!err)
		s->stat->huge_bytes = pages_huge_bytes(&s->data);
	return err;
}

/* Adds some frames to those asked for, so that readers map and unmap whole huge pages. */
static bool memory_round_up(struct memory *s)
{
	u32 more = (u32)(HUGE_PAGE_BYTES >> BLOCK_SHIFT) - 1;
	u32 nr_frames = (s->shape.nr_frames + more) & ~more;

	if (s->tables->small_pages || nr_frames < HUGE_MIN_FRAMES ||
	    !memory_huge_pages_are_reserved((u64)nr_frames << BLOCK_SHIFT))
		return false;
	s->shape.nr_frames = nr_frames;
	return true;
}

u32 memory_quota(const struct memory *s)
{
	return s->quota;
}

u32 memory_charge(const struct memory *s)
{
	return s->sharing->for_group ? s->shape.nr_entries : s->quota;
}

/* What the tables of all contexts take that may pin: place.c bounds how many there are. */
static u64 memory_tables(const struct memory *s)
{
	u64 nr = (u64)s->shape.nr_frames / 4 * 3 / memory_charge(s);

	if (nr > ARENA_MAX_CONTEXTS)
		nr = ARENA_MAX_CONTEXTS;
	return (nr > 0 ? nr : 1) * arena_context_bytes(s->shape.nr_entries, s->quota);
}

static int memory_make_segments(struct memory *s, bool reserved, const char **ret_why)
{
	u64 control = arena_control_bytes(&s->shape);
	u64 data = (u64)s->shape.nr_frames << BLOCK_SHIFT;
	u64 shared = arena_shared_bytes(&s->shape);
	enum memory_pages pages = memory_pages(s);
	int err =
		memory_check_arena(control + data + shared + memory_tables(s), ret_why);

	if (err)
		return err;
	err = memory_make_segment(s, &s->control, "lodic-control", control, pages);
	if (!err)
		err = memory_make_data(s, data, reserved);
	if (!err)
		err = memory_make_segment(s, &s->shared, "lodic-shared", shared, pages);
	if (!err)
		err = memory_close_to_writers(&s->control, s->sharing->for_group);
	if (!err)
		err = memory_close_to_writers(&s->data, s->sharing->for_group);
	if (!err)
		err = memory_share(&s->shared);
	if (err)
		*ret_why = service_why("the kernel refused memory for the cache: %s",
		                       strerror(-err));
	else
		s->say(s->tiers);
	if (!err && pages == MEMORY_HUGE)
		pages_say(s->base, &s->data, s->stat->huge_bytes);
	return err;
}

static int memory_make_all(struct memory *s, const char **ret_why)
{
	bool reserved = memory_round_up(s);
	u64 bytes = arena_control_bytes(&s->shape) + arena_shared_bytes(&s->shape) +
	            ((u64)s->shape.nr_frames << BLOCK_SHIFT);
	int err;

	host_fetch_add(&memory_arena_to_come, bytes);
	err = memory_make_segments(s, reserved, ret_why);
	bytes -= s->control.there + s->data.there + s->shared.there;
	host_fetch_add(&memory_arena_to_come, -bytes); /* what has not come */
	return err;
}

int memory_make(struct memory *s, const char **ret_why)
{
	int err = memory_make_all(s, ret_why);

	if (err)
		return err;
	arena_format(s->control.at, &s->shape,
	             host_now_ns() ^ (u64)port_process() << 48);
	CHECK(arena_open(&s->arena, s->control.at, s->control.bytes, s->data.at,
	                 (u64)s->shape.nr_frames << BLOCK_SHIFT, s->shared.at),
	      "a new arena can be viewed");
	s->arena.contexts = port_alloc(ARENA_MAX_CONTEXTS * sizeof(*s->arena.contexts));
	return s->arena.contexts ? 0 : -ENOMEM;
}

void memory_free(struct memory *s, bool in_use)
{
	port_free(s->arena.contexts);
	if (in_use)
		return;
	memory_free_shared(&s->control);
	memory_free_shared(&s->data);
	memory_free_shared(&s->shared);
}

static enum memory_use memory_claim(int own)
{
	switch (port_memory_claim(own)) {
	case 0: return MEMORY_UNUSED;
	case -EAGAIN: return MEMORY_USED;
	default: return MEMORY_UNKNOWN;
	}
}

enum memory_use memory_ask(int fd)
{
	int own = port_memory_again(fd, false);
	enum memory_use use;

	if (own < 0)
		return MEMORY_UNKNOWN;
	use = memory_claim(own);
	port_close(own); /* and the claim ends */
	return use;
}

enum memory_use memory_ask_own(int fd)
{
	enum memory_use use = memory_claim(fd);

	if (use == MEMORY_UNUSED)
		port_memory_unclaim(fd);
	return use;
}

int memory_make_context(struct memory *s, u64 bytes, void **ret_memory, int *ret_fd,
                        int *ret_reader_fd)
{
	struct shared_memory m = { .fd = -1, .reader_fd = -1 };
	/* A context is made while others wait, and few are as large as a huge page. */
	int err = memory_make_shared(s, &m, "lodic-context", bytes, MEMORY_SMALL);
	bool answers = false;
	int reader = -1;

	/* Before a turn walks through the table: else that turn would have a fault for each page
	 * of each context, 2 us. Without it (before Linux 5.14) the walk has them. */
	if (!err)
		port_populate(m.at, bytes);
	if (!err)
		err = memory_share(&m);
	/* Linux before 5.3 refuses in any case. */
	if (!err)
		answers = memory_ask(m.fd) == MEMORY_UNUSED;
	if (!err)
		reader = port_memory_again(m.fd, true);
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
