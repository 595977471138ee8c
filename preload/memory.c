/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See memory.h. */
#define _GNU_SOURCE
#include "preload/memory.h"

#include <errno.h>

#include "lib/port/guest.h"

void *memory_zeros(u64 bytes)
{
	void *p;

	return port_map(NULL, bytes, PORT_READ | PORT_WRITE,
	                PORT_PRIVATE | PORT_ANONYMOUS | PORT_UNRESERVED, -1, 0, &p) == 0
	               ? p
	               : NULL;
}

bool memory_is_there(void *at, u64 bytes)
{
	u64 page = port_page_bytes();
	u64 from = (u64)at / page * page, to = (u64)at + bytes;
	int err = port_fault_in((void *)from, to - from, true);

	return err == 0 || err == -EINVAL;
}
