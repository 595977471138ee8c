/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The heavy fence. It is a file of its own because it registers when its program starts. A program
 * that has no call of it must not do that: a filter may kill for the system call.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/host.h"

/* Is the private barrier registered? While a process has one thread, registering is one
 * short system call. A child of fork inherits it. */
static bool expedited;

__attribute__((constructor)) static void host_register(void)
{
	expedited = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
	                    0, 0) == 0;
}

/* The private barrier reaches each CPU that runs this address space. The global expedited
 * one would not do, even within a process: it goes by a flag of the CPU. Linux clears that
 * flag when a thread ends there (exit_mm()). It does not set the flag again when another
 * thread of the same process runs there next (membarrier_switch_mm()). The test is
 * tests/unit/test_fence.c. */
void host_fence_heavy(void)
{
	int command =
		expedited ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL;

	/* Without it the light side would be no fence at all, and counts would be wrong. */
	if (syscall(__NR_membarrier, command, 0, 0) != 0)
		host_fail("this kernel has no membarrier(2)", __FILE__, __LINE__);
	host_fence_full();
}
