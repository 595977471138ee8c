/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which threads have restartable sequences. The inline calls write into a thread's struct rseq.
 * They must never do so in a thread for which Linux does not look at it. Such a sequence is not
 * aborted, and counts would be lost. glibc registers its own threads. A thread made by clone(2)
 * may have thread-local memory of its own, and is not registered. That memory does not tell:
 * zeros there look like CPU 0. So the library asks the kernel once per thread.
 */
#define _GNU_SOURCE
#include <features.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/counter/domain.h"

#define THREAD_WITHOUT 1 /* in lodic_counter_self_1 */

#if defined(__x86_64__) && defined(__GLIBC_PREREQ) && !defined(HOST_TSAN)
#if __GLIBC_PREREQ(2, 35)
#define THREAD_CAN 1
#endif
#endif

EXPORT __attribute__((tls_model(
	"initial-exec"))) __thread struct lodic_counter_rseq *lodic_counter_self_1;

#ifdef THREAD_CAN
#include <errno.h>
#include <sys/rseq.h>

/* As glibc registers it: at least the first 32 bytes, and more where the kernel has more. */
#define RSEQ_BYTES_FIRST 32u
#define RSEQ_BYTES_MOST 256u

/* A request to unregister with a wrong signature never changes anything. EPERM says that this
 * very memory is the calling thread's, and EINVAL that it is not. */
static int probe(const void *area, u32 bytes)
{
	int before = errno, err = 0;

	if (syscall(__NR_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, ~(u32)RSEQ_SIG) != 0)
		err = errno;
	errno = before;
	return err;
}

static struct rseq *find(void)
{
	struct rseq *area =
		(struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	u32 bytes;

	if (__rseq_size == 0)
		return NULL;
	/* A filter that says EPERM to everything says it here, too. */
	if (probe((char *)area + RSEQ_BYTES_MOST, RSEQ_BYTES_FIRST) != EINVAL)
		return NULL;
	for (bytes = RSEQ_BYTES_FIRST; bytes <= RSEQ_BYTES_MOST;
	     bytes += RSEQ_BYTES_FIRST)
		if (probe(area, bytes) == EPERM)
			return (int)area->cpu_id >= 0 ? area : NULL;
	return NULL;
}
#else
static void *find(void)
{
	return NULL;
}
#endif

bool counter_thread_sequences(void)
{
	if (unlikely(!lodic_counter_self_1)) {
		void *area = find();

		lodic_counter_self_1 =
			area ? area : (struct lodic_counter_rseq *)THREAD_WITHOUT;
	}
	return (size_t)lodic_counter_self_1 > THREAD_WITHOUT;
}
