/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contract: port.h. glibc registers its own threads for restartable sequences. A thread made by
 * clone(2) may have thread-local memory of its own, and is not registered. That memory does not
 * tell: zeros there look like CPU 0. So this asks the kernel.
 */
#define _GNU_SOURCE
#include "lib/port.h"

#include <features.h>

#include "host/host.h"

#if defined(__x86_64__) && defined(__GLIBC_PREREQ) && !defined(HOST_TSAN)
#if __GLIBC_PREREQ(2, 35)
#define SEQUENCES_CAN 1
#endif
#endif

#ifdef SEQUENCES_CAN
#include <errno.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As glibc registers it: at least the first 32 bytes, and more where the kernel has more. */
#define RSEQ_BYTES_FIRST 32u
#define RSEQ_BYTES_MOST 256u

/* A request to unregister with a wrong signature never changes anything. EPERM says that this
 * very memory is the calling thread's, and EINVAL that it is not. */
static int sequences_probe(const void *area, u32 bytes)
{
	int before = errno, err = 0;

	if (syscall(__NR_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, ~(u32)RSEQ_SIG) != 0)
		err = errno;
	errno = before;
	return err;
}

void *port_sequences(void)
{
	struct rseq *area =
		(struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	u32 bytes;

	if (__rseq_size == 0)
		return NULL;
	/* A filter that says EPERM to everything says it here, too. */
	if (sequences_probe((char *)area + RSEQ_BYTES_MOST, RSEQ_BYTES_FIRST) != EINVAL)
		return NULL;
	for (bytes = RSEQ_BYTES_FIRST; bytes <= RSEQ_BYTES_MOST;
	     bytes += RSEQ_BYTES_FIRST)
		if (sequences_probe(area, bytes) == EPERM)
			return (int)area->cpu_id >= 0 ? area : NULL;
	return NULL;
}
#else
void *port_sequences(void)
{
	return NULL;
}
#endif
