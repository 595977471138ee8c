/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contract: port.h and port/pages.h. Memory files and mappings. Both are real ones, so that
 * who writes where it may only read dies of it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/whole/files.h"
#include "host/whole/group.h"
#include "host/whole/machine.h"
#include "lib/port.h"
#include "lib/port/pages.h"

#define PAGE_BYTES ((u64)4096)
#define HUGE_BYTES ((u64)2 << 20)

struct memory_file {
	u32 nr; /* descriptions and mappings that have it */
	int real;
	u64 bytes;
	unsigned int seals;
	u32 nr_again;  /* descriptions of port_memory_again(), with their mappings */
	u32 nr_writes; /* mappings that can be written */
	bool claimed;
	struct waiters waiters; /* for the end of the claim */
	/* Its pages, if a group has it: those that are there. */
	struct group *group;
	char name[16];
	u8 *pages;
	u64 nr_pages, nr_charged;
};

/* The last close of a memory file frees it: so long for each MiB. */
#define FREE_PIECE ((u64)1 << 20)
#define FREE_NS (40 * NS_PER_US)

struct fd_memory {
	struct description d;
	struct memory_file *file;
	bool again, claims;
};

struct mapping {
	struct mapping *next;
	u8 *at;
	u64 bytes;
	struct fd_memory *of; /* NULL: zeros */
	bool writes;
	u64 offset; /* of the file */
};

/* ---- pages ---- */

/* Those of that part of the file are there from now on. Somebody may be killed for it. */
static void memory_charge(struct memory_file *file, u64 offset, u64 bytes)
{
	u64 end = (offset + bytes + PAGE_BYTES - 1) / PAGE_BYTES, nr = 0;

	if (!file->group || bytes == 0)
		return;
	if (end > file->nr_pages) {
		file->pages = realloc(file->pages, end);
		memset(file->pages + file->nr_pages, 0, end - file->nr_pages);
		file->nr_pages = end;
	}
	for (u64 i = offset / PAGE_BYTES; i < end; i++) {
		nr += !file->pages[i];
		file->pages[i] = 1;
	}
	file->nr_charged += nr;
	if (nr > 0)
		group_charge(file->group, file->name, nr * PAGE_BYTES);
}

/* It has become smaller. */
static void memory_uncharge(struct memory_file *file, u64 bytes)
{
	u64 nr = 0;

	for (u64 i = (bytes + PAGE_BYTES - 1) / PAGE_BYTES; i < file->nr_pages; i++) {
		nr += file->pages[i];
		file->pages[i] = 0;
	}
	file->nr_charged -= nr;
	if (nr > 0)
		group_uncharge(file->group, nr * PAGE_BYTES);
}

void memory_touch(const void *at, u64 bytes)
{
	const u8 *from = at;

	for (struct mapping *m = process_now()->mappings; m; m = m->next)
		if (m->of && from >= m->at && from < m->at + m->bytes) {
			u64 within = (u64)(from - m->at), left = m->bytes - within;

			memory_charge(m->of->file, m->offset + within,
			              bytes < left ? bytes : left);
			return;
		}
}

static void memory_put(struct memory_file *file)
{
	if (--file->nr > 0)
		return;
	if (file->group)
		memory_uncharge(file, 0);
	close(file->real);
	free(file->pages);
	free(file);
}

static void memory_unclaim(struct fd_memory *m)
{
	if (!m->claims)
		return;
	m->claims = m->file->claimed = false;
	waiters_wake(&m->file->waiters);
}

static void fd_memory_end(struct description *d)
{
	struct fd_memory *m = (struct fd_memory *)d;

	memory_unclaim(m);
	m->file->nr_again -= m->again;
	memory_put(m->file);
}

static const struct kind memory_kind = { "memory", NULL, fd_memory_end };

void memory_frees(const struct description *d)
{
	const struct fd_memory *m = (const struct fd_memory *)d;

	if (d->kind == &memory_kind && d->nr == 1 && m->file->nr == 1 &&
	    m->file->bytes >= FREE_PIECE && machine.running->preempt_off == 0)
		task_wait(NULL, machine.now_ns + m->file->bytes / FREE_PIECE * FREE_NS);
}

static int memory_fd(struct memory_file *file, bool again, u32 mode)
{
	struct fd_memory *m = description_new(&memory_kind, sizeof(*m));
	int fd;

	m->file = file;
	m->again = again;
	m->d.mode = mode;
	file->nr++;
	file->nr_again += again;
	fd = fd_new(process_now(), &m->d);
	if (fd < 0)
		description_put(&m->d);
	return (int)machine_result(fd);
}

static int memory_new(const char *name)
{
	struct memory_file *file = calloc(1, sizeof(*file));
	int fd;

	file->real = memfd_create(name, MFD_CLOEXEC);
	if (file->real < 0)
		machine_fail("this machine has no more memory files");
	file->nr = 1;
	file->group = process_now()->group;
	snprintf(file->name, sizeof(file->name), "%s", name);
	process_now()->nr_memory_files++;
	fd = memory_fd(file, false, PORT_MAY_READ | PORT_MAY_WRITE);
	memory_put(file);
	return fd;
}

int port_memory_file(const char *name)
{
	int err = machine_call(CALL_MEMORY_FILE);

	return err ? err : memory_new(name);
}

int port_memory_file_reserved(const char *name)
{
	int err = machine_call(CALL_MEMORY_FILE_RESERVED);

	return err ? err : memory_new(name);
}

int port_set_bytes(int fd, uint64_t bytes)
{
	int err = machine_call(CALL_SET_BYTES);
	struct fd_memory *m = fd_of(fd, &memory_kind);
	unsigned int sealed;

	if (err || !m)
		return err ? err : -EBADF;
	sealed = bytes < m->file->bytes ? PORT_SEAL_SHRINK : PORT_SEAL_GROW;
	if (bytes != m->file->bytes && (m->file->seals & sealed))
		return (int)machine_result(-EPERM);
	if (ftruncate(m->file->real, (off_t)bytes) != 0)
		machine_fail("this machine has no memory file of %llu bytes",
		             (unsigned long long)bytes);
	m->file->bytes = bytes;
	memory_uncharge(m->file, bytes);
	return (int)machine_result(0);
}

int port_commit(int fd, uint64_t offset, uint64_t bytes)
{
	int err = machine_call(CALL_COMMIT);
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (!err && !m)
		err = -EBADF;
	if (!err)
		memory_charge(m->file, offset, bytes);
	return (int)machine_result(err);
}

int port_seal(int fd, unsigned int seals)
{
	int err = machine_call(CALL_SEAL);
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (err)
		return err;
	if (!m)
		return fd_get(fd) ? -EINVAL : -EBADF;
	if ((m->file->seals & PORT_SEAL_SEALS) || !(m->d.mode & PORT_MAY_WRITE))
		return (int)machine_result(-EPERM);
	if ((seals & PORT_SEAL_WRITE) && m->file->nr_writes > 0)
		return (int)machine_result(-EBUSY);
	m->file->seals |= seals;
	return (int)machine_result(0);
}

int port_memory_look(int fd, struct port_memory *ret)
{
	int err = machine_call(CALL_MEMORY_LOOK);
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (err)
		return err;
	if (!m)
		return fd_get(fd) ? -EINVAL : -EBADF;
	ret->bytes = m->file->bytes;
	ret->seals = m->file->seals;
	return (int)machine_result(0);
}

int port_memory_again(int fd, bool writes)
{
	int err = machine_call(CALL_MEMORY_AGAIN);
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (err || !m)
		return err ? err : -EBADF;
	description_hold(&m->d);
	while (m->file->claimed)
		task_wait(&m->file->waiters, NS_NEVER);
	err = memory_fd(m->file, true, PORT_MAY_READ | (writes ? PORT_MAY_WRITE : 0));
	description_release(machine.running);
	return err;
}

int port_memory_claim(int fd)
{
	int err = machine_call(CALL_MEMORY_CLAIM);
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (err || !m)
		return err ? err : -EBADF;
	if (machine.no_leases)
		return (int)machine_result(-EINVAL);
	if (m->file->claimed || m->file->nr_again > 1 || m->d.nr > 1)
		return (int)machine_result(-EAGAIN);
	m->file->claimed = m->claims = true;
	return (int)machine_result(0);
}

void port_memory_unclaim(int fd)
{
	struct fd_memory *m;

	machine_pass(CALL_MEMORY_UNCLAIM);
	m = fd_of(fd, &memory_kind);
	if (m)
		memory_unclaim(m);
}

int memory_reopen(int fd)
{
	struct fd_memory *m = fd_of(fd, &memory_kind);

	return m ? memory_fd(m->file, false, PORT_MAY_READ) : -EBADF;
}

long memory_write(int fd, const void *from, u64 bytes, u64 offset)
{
	struct fd_memory *m = fd_of(fd, &memory_kind);

	if (!m || !(m->d.mode & PORT_MAY_WRITE))
		return -EBADF;
	if ((m->file->seals & (PORT_SEAL_WRITE | PORT_SEAL_NEW_WRITERS)) ||
	    (offset + bytes > m->file->bytes && (m->file->seals & PORT_SEAL_GROW)))
		return -EPERM;
	if (pwrite(m->file->real, from, bytes, (off_t)offset) != (ssize_t)bytes)
		machine_fail("this machine has no room in a memory file");
	if (offset + bytes > m->file->bytes)
		m->file->bytes = offset + bytes;
	memory_charge(m->file, offset, bytes);
	return (long)bytes;
}

/* ---- mappings ---- */

static void mapping_end(struct mapping *m)
{
	if (m->of) {
		m->of->file->nr_writes -= m->writes;
		description_put(&m->of->d);
	}
	free(m);
}

static void mapping_new(struct process *p, u8 *at, u64 bytes, struct fd_memory *of,
                        bool writes, u64 offset)
{
	struct mapping *m = calloc(1, sizeof(*m));

	*m = (struct mapping){ p->mappings, at, bytes, of, writes, offset };
	if (of) {
		description_keep(&of->d);
		of->file->nr_writes += writes;
	}
	p->mappings = m;
}

/* What lay there is no longer mapped. Of a mapping that is cut both ends stay. */
static void mappings_forget(struct process *p, u8 *at, u64 bytes)
{
	struct mapping **link = &p->mappings, *m;
	u8 *end = at + bytes;

	while ((m = *link)) {
		if (m->at + m->bytes <= at || m->at >= end) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		if (m->at < at)
			mapping_new(p, m->at, (u64)(at - m->at), m->of, m->writes,
			            m->offset);
		if (m->at + m->bytes > end)
			mapping_new(p, end, (u64)(m->at + m->bytes - end), m->of,
			            m->writes, m->offset + (u64)(end - m->at));
		mapping_end(m);
	}
}

/* The kernel maps whole pages. */
static u64 pages_of(u64 bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* A large mapping begins one page behind the bound of a huge page. lib/huge.c makes calls as that
 * place needs, and kernels put mappings where they like. NULL: anywhere. */
static void *place_for(void *at, u64 bytes, int flags)
{
	u64 room_bytes = pages_of(bytes) + 2 * HUGE_BYTES;
	u8 *room;

	if (at || (flags & PORT_FIXED) || bytes < HUGE_BYTES)
		return at;
	room = mmap(NULL, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	            -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	munmap(room, room_bytes);
	return room + HUGE_BYTES - (uintptr_t)room % HUGE_BYTES + PAGE_BYTES;
}

int port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
             uint64_t offset, void **ret_at)
{
	int err = machine_call(CALL_MAP);
	struct fd_memory *of = fd_of(fd, &memory_kind);
	bool writes;
	void *there;

	if (err)
		return err;
	if (!(flags & PORT_ANONYMOUS) && !of)
		return fd_get(fd) ? -ENODEV : -EBADF;
	writes = of && (protection & PORT_WRITE) && (flags & PORT_SHARED);
	if (writes && !(of->d.mode & PORT_MAY_WRITE))
		return (int)machine_result(-EACCES);
	if (writes && (of->file->seals & (PORT_SEAL_WRITE | PORT_SEAL_NEW_WRITERS)))
		return (int)machine_result(-EPERM);
	at = place_for(at, bytes, flags);
	there = mmap(at, bytes, protection, flags, of ? of->file->real : -1,
	             (off_t)offset);
	if (there == MAP_FAILED)
		return -EINVAL;
	if (flags & PORT_FIXED)
		mappings_forget(process_now(), there, pages_of(bytes));
	mapping_new(process_now(), there, pages_of(bytes), of, writes, offset);
	*ret_at = there;
	return (int)machine_result(0);
}

int port_unmap(void *at, uint64_t bytes)
{
	int err = machine_call(CALL_UNMAP);

	if (err)
		return err;
	mappings_forget(process_now(), at, pages_of(bytes));
	munmap(at, bytes);
	return (int)machine_result(0);
}

u32 mappings_nr(const struct process *process)
{
	u32 nr = 0;

	for (const struct mapping *m = process->mappings; m; m = m->next)
		nr++;
	return nr;
}

bool mappings_any_file(const struct process *process)
{
	const struct mapping *m = process->mappings;

	while (m && !m->of)
		m = m->next;
	return m != NULL;
}

u64 mappings_bytes(const struct process *process)
{
	u64 bytes = 0;

	for (const struct mapping *m = process->mappings; m; m = m->next)
		bytes += m->bytes;
	return bytes;
}

void mappings_end(struct process *process)
{
	while (process->mappings) {
		struct mapping *m = process->mappings;

		process->mappings = m->next;
		munmap(m->at, m->bytes);
		mapping_end(m);
	}
}

int port_advise(void *at, uint64_t bytes, enum port_advice advice)
{
	int err = machine_call(CALL_ADVISE);

	if (err)
		return err;
	if (advice == PORT_DROP || advice == PORT_DROP_LOCKED)
		madvise(at, bytes, MADV_DONTNEED);
	return (int)machine_result(0);
}

int port_populate(void *at, uint64_t bytes)
{
	(void)at;
	(void)bytes;
	return (int)machine_result(machine_call(CALL_POPULATE));
}

int port_collapse(void *at, uint64_t bytes)
{
	int err = machine_call(CALL_COLLAPSE);

	(void)at;
	(void)bytes;
	return (int)machine_result(err ? err : -EINVAL);
}

int port_lock_pages(void *at, uint64_t bytes)
{
	(void)at;
	(void)bytes;
	return (int)machine_result(machine_call(CALL_LOCK_PAGES));
}

int port_node_prefer(void *at, uint64_t bytes, unsigned int node)
{
	(void)at;
	(void)bytes;
	(void)node;
	return (int)machine_result(machine_call(CALL_NODE_PREFER));
}

int port_node_move(void *at, uint64_t bytes, unsigned int node)
{
	(void)at;
	(void)bytes;
	(void)node;
	return (int)machine_result(machine_call(CALL_NODE_MOVE));
}

uint64_t port_page_bytes(void)
{
	return PAGE_BYTES;
}

uint64_t port_machine_bytes(void)
{
	machine_pass(CALL_MACHINE_BYTES);
	return (u64)1 << 30;
}
