/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which threads have restartable sequences. The inline calls write into a thread's struct rseq.
 * They must never do so in a thread for which Linux does not look at it. Such a sequence is not
 * aborted, and counts would be lost. So the library asks the kernel once per thread.
 */
#include "lib/counter/domain.h"
#include "lib/port.h"

#define THREAD_WITHOUT 1 /* in lodic_counter_self_1 */

EXPORT __attribute__((tls_model(
	"initial-exec"))) __thread struct lodic_counter_rseq *lodic_counter_self_1;

bool counter_thread_sequences(void)
{
	if (unlikely(!lodic_counter_self_1)) {
		void *area = port_sequences();

		lodic_counter_self_1 =
			area ? area : (struct lodic_counter_rseq *)THREAD_WITHOUT;
	}
	return (size_t)lodic_counter_self_1 > THREAD_WITHOUT;
}
