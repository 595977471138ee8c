/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Huge pages for ordinary shared memory. Administrators seldom let memfds have them, so a
 * fault brings none on most machines. MADV_COLLAPSE (Linux 6.1) makes one all the same, for
 * any user.
 *
 * The service asks before readers can connect, and not in a thread afterwards. An empty
 * piece of a file costs the kernel one allocation and the zeroes, as small pages do. A piece
 * in use costs a copy as well. Meanwhile readers wait for its page lock, and reads under way
 * into it make the kernel refuse.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/huge.h"
#include "lib/lines.h"
#include "lib/port/pages.h"
#include "core/block.h"
#include "lib/service/memory/pages.h"

#define MIB_SHIFT 20
#define LINE_BYTES 4096
#define PROGRESS_NS ((u64)2000000000)
/* The kernel waits for all CPUs once a call, so a call is for several pages. */
#define STEP_BYTES (8 * HUGE_PAGE_BYTES)
/* A huge page takes 0.3 ms. Where memory lies in small pieces, the kernel moves other pages out
 * of the way. A virtual machine's host may have to find the memory. That took up to 18 ms a
 * page on a busy machine. Our choice: 4 s, and twice the usual time. A program that starts
 * a service waits 10 s for it. */
#define PATIENCE_NS ((u64)4000000000)
#define PATIENCE_PAGE_NS ((u64)600000)
/* How often a user may stop the service during one step, which takes some ms. Our choice. */
#define COMMITS_MOST 100u

/* The kernel takes a piece without a page for one that was truncated, so each gets its first
 * page. Where faults do bring huge pages (PORT_HUGE_PAGES), that is all that is needed. */
int pages_ask(u8 *at, u64 bytes)
{
	u64 whole = bytes - bytes % HUGE_PAGE_BYTES;

	for (u64 i = 0; i < whole; i += HUGE_PAGE_BYTES)
		port_populate(at + i, BLOCK_BYTES);
	return whole == 0 ? 0 : -port_collapse(at, whole);
}

/* A process that is stopped meanwhile, and goes on, hears -EINTR. The kernel has undone that. */
static int pages_commit(int fd, u64 at, u64 bytes)
{
	int err = -EINTR;

	for (u32 i = 0; i < COMMITS_MOST && err == -EINTR; i++)
		err = port_commit(fd, at, bytes);
	return err;
}

/* From now on the kernel counts them. */
static void pages_came(struct shared_memory *m, u64 bytes)
{
	m->there += bytes;
	if (m->to_come)
		host_fetch_add(m->to_come, -bytes);
}

int pages_fill(const struct base *s, struct shared_memory *m, bool huge)
{
	u64 now = host_now_ns(), said = now, n;
	u64 deadline =
		now + PATIENCE_NS + m->bytes / HUGE_PAGE_BYTES * PATIENCE_PAGE_NS;
	int refused = 0, err;

	if (huge)
		port_advise(m->at, m->bytes, PORT_HUGE_PAGES);
	for (u64 at = 0; at < m->bytes; at += n) {
		n = m->bytes - at < STEP_BYTES ? m->bytes - at : STEP_BYTES;
		if (huge && now > deadline) {
			refused = ETIME;
			huge = false;
		}
		if (huge)
			refused = pages_ask((u8 *)m->at + at, n);
		m->refused = refused ? refused : m->refused;
		err = pages_commit(m->fd, at, n);
		if (err)
			return err == -ENOSPC ? -ENOMEM : err;
		pages_came(m, n);
		now = host_now_ns();
		if (now - said < PROGRESS_NS)
			continue;
		said = now;
		service_say(s, SERVICE_INFO, "filling",
		            "the kernel has given %llu of %llu MiB so far",
		            (unsigned long long)((at + n) >> MIB_SHIFT),
		            (unsigned long long)(m->bytes >> MIB_SHIFT));
	}
	return 0;
}

u64 pages_huge_bytes(const struct shared_memory *m)
{
	struct lines file = { .fd = port_system_open("/proc/self/smaps"),
		              .read = port_system_read };
	unsigned long from, to, kib, found = 0;
	bool inside = false;
	char line[LINE_BYTES];

	if (file.fd < 0)
		return 0;
	while (lines_next(&file, line, sizeof(line))) {
		/* Tiers on two nodes are two mappings (tier_bind()). */
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from - (unsigned long)m->at < m->bytes;
		else if (inside && sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1)
			found += kib;
	}
	port_close(file.fd);
	return (u64)found << 10;
}

const char *pages_why(int refused)
{
	switch (refused) {
	case ENOMEM: return "no memory in one piece is left";
	case EBUSY: return "the control group's limit is reached";
	case ETIME: return "it took the kernel too long to make room";
	case EINVAL: return "the kernel refuses them, or is older than 6.1";
	default: return strerror(refused);
	}
}

void pages_say(const struct base *s, const struct shared_memory *m, u64 huge_bytes)
{
	static const char cost[] = "a random read of 64 bytes outside of them takes "
				   "longer, see doc/measured.md";
	u32 percent = (u32)((100 * huge_bytes + m->bytes / 2) / m->bytes);

	if (m->bytes < HUGE_PAGE_BYTES)
		service_say(s, SERVICE_INFO, "huge_pages",
		            "no huge pages: the cache is smaller than one");
	else if (huge_bytes == 0)
		service_say(s, SERVICE_INFO, "huge_pages", "no huge pages: %s; %s",
		            pages_why(m->refused), cost);
	else if (m->refused)
		service_say(s, SERVICE_INFO, "huge_pages",
		            "huge pages: %u %% of the cache, %s; %s", percent,
		            pages_why(m->refused), cost);
	else
		service_say(s, SERVICE_INFO, "huge_pages",
		            "huge pages: %u %% of the cache", percent);
}
