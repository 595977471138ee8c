/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/limit.h. */
#define _GNU_SOURCE
#include "lib/port/limit.h"

#include <sys/prctl.h>
#include <sys/resource.h>

_Static_assert(RLIM_INFINITY == UINT64_MAX, "no limit");

uint64_t port_limit(enum port_limit which)
{
	static const __rlimit_resource_t limits[] = {
		[PORT_LIMIT_DESCRIPTORS] = RLIMIT_NOFILE,
		[PORT_LIMIT_PROCESSES] = RLIMIT_NPROC,
		[PORT_LIMIT_FILE_BYTES] = RLIMIT_FSIZE,
		[PORT_LIMIT_ADDRESS_BYTES] = RLIMIT_AS,
	};
	struct rlimit limit;

	return getrlimit(limits[which], &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

void port_limit_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

bool port_is_filtered(void)
{
	return prctl(PR_GET_SECCOMP) != 0;
}
