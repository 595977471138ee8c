/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See own.h. */
#define _GNU_SOURCE
#include "preload/own.h"

#include "lib/port/guest.h"
#include "lib/port/limit.h"
#include "preload/shim.h"

#define OWN_BELOW 8u
/* The shim's descriptors lie just below this number, or below the program's limit. Higher ones
 * would make the kernel's table larger, which a fork() copies. */
#define OWN_TOP 1024u
#define OWN_STANDARD \
	2 /* numbers up to this one are the program's for its standard files */
#define OWN_LOST (~(u64)0) /* in place of the device */

static void own_add(int fd, bool kept)
{
	struct port_file is;

	if (port_look(fd, &is) != 0)
		return;
	for (u32 i = 0; i < OWN_NR; i++) {
		if (host_load_relaxed(&shim.own.list[i].fd))
			continue;
		shim.own.list[i].dev = is.dev;
		shim.own.list[i].ino = is.ino;
		shim.own.list[i].kept = kept;
		host_store_relaxed(&shim.own.list[i].fd, (u64)fd + 1);
		if (i >= host_load_relaxed(&shim.own.nr))
			host_store_release(&shim.own.nr, i + 1);
		return;
	}
}

static bool own_is_lost(u32 i)
{
	return host_load_relaxed(&shim.own.list[i].dev) == OWN_LOST;
}

/* Its place in the list, among those that are lost or those that are not. OWN_NR: it is not
 * there. */
static u32 own_find(int fd, bool lost)
{
	u32 i = 0, nr = (u32)host_load_acquire(&shim.own.nr);

	while (i < nr && (host_load_relaxed(&shim.own.list[i].fd) != (u64)fd + 1 ||
	                  own_is_lost(i) != lost))
		i++;
	return i < nr ? i : OWN_NR;
}

/* The kernel has just given this number, and the shim believes to have something there: the program
 * has closed that. What has used it may do so until it ends it. */
static bool own_is_stale(int fd)
{
	own_lost(fd);
	return own_find(fd, true) < OWN_NR;
}

/* A duplicate of fd, as high as it should lie; fd itself stays. Or as port_dup_above(). */
static int own_high(int fd)
{
	u64 limit = port_limit(PORT_LIMIT_DESCRIPTORS);
	u64 top = limit < OWN_TOP ? limit : OWN_TOP;
	int high = port_dup_above(fd, top > 2 * OWN_BELOW ? (int)(top - OWN_BELOW) : 0);
	bool from_0 = high < 0;
	int next;

	if (from_0)
		high = port_dup_above(fd, 0);
	while (high >= 0 && own_is_stale(high)) { /* at most 2 * OWN_NR times */
		next = port_dup_above(fd, high + 1);
		if (next < 0 && !from_0) {
			from_0 = true;
			next = port_dup_above(fd, 0);
		}
		port_shut(high);
		high = next;
	}
	return high;
}

int own_copy(int fd)
{
	int high = own_high(fd);

	if (high >= 0)
		own_add(high, false);
	return high;
}

int own_keep(int fd)
{
	int high = own_high(fd);

	port_shut(fd);
	if (high >= 0)
		own_add(high, true);
	return high < 0 ? -1 : high;
}

int own_rise(int fd)
{
	int high = fd > OWN_STANDARD && !own_is_stale(fd) ? -1 : own_high(fd);

	if (high < 0)
		return fd;
	port_shut(fd);
	return high;
}

/* Does fd still lead to what the shim has opened? */
static bool own_same(u32 i)
{
	u64 fd = host_load_relaxed(&shim.own.list[i].fd);
	struct port_file is;

	return fd && port_look((int)fd - 1, &is) == 0 &&
	       is.dev == shim.own.list[i].dev && is.ino == shim.own.list[i].ino;
}

bool own_usable(int fd)
{
	u32 i = own_find(fd, false);

	return i < OWN_NR && own_same(i);
}

bool own_ends(int fd)
{
	u32 i = own_find(fd, true);
	bool ours;

	if (i == OWN_NR)
		i = own_find(fd, false);
	ours = i == OWN_NR || own_same(i);
	if (i < OWN_NR)
		host_store_relaxed(&shim.own.list[i].fd, 0);
	/* If it is another file by now, it is the program's. */
	return ours;
}

bool own_is(int fd)
{
	return fd >= 0 && own_find(fd, false) < OWN_NR;
}

u64 own_next(u64 first, u64 last)
{
	u64 least = last + 1;

	for (u32 i = 0; i < OWN_NR; i++) {
		u64 fd = host_load_relaxed(&shim.own.list[i].fd);

		if (fd > first && fd - 1 < least && !own_is_lost(i))
			least = fd - 1;
	}
	return least;
}

void own_lost(int fd)
{
	u32 i = own_find(fd, false);

	if (i < OWN_NR)
		host_store_relaxed(&shim.own.list[i].dev, OWN_LOST);
}

void own_forked(void)
{
	for (u32 i = 0; i < OWN_NR; i++) {
		bool ours = own_same(i);
		u64 fd;

		if (ours && shim.own.list[i].kept)
			continue;
		fd = host_xchg(&shim.own.list[i].fd, 0);
		if (ours)
			port_shut((int)fd - 1);
	}
}

void own_hang_up(void)
{
	for (u32 i = 0; i < OWN_NR; i++)
		if (!shim.own.list[i].kept && own_same(i))
			port_hang_up((int)host_load_relaxed(&shim.own.list[i].fd) - 1);
}
