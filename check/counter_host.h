/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What lodic/counter.h needs of a host, by the checker: each access is a step. */
#ifndef LODIC_CHECK_COUNTER_HOST_H
#define LODIC_CHECK_COUNTER_HOST_H

#include "host/host.h"

#define LODIC_COUNTER_SELF ((void)0)
#define LODIC_COUNTER_HAS_SELF true
#define LODIC_COUNTER_CPU host_cpu()
#define LODIC_COUNTER_TABLE(t, cpu) ((char *)(t)->entries + (cpu) * (t)->stride)
#define LODIC_COUNTER_GET(entry, key_, cpu) \
	check_counter_add(&(entry)->key, key_, &(entry)->local, (u32)(cpu))
/* As the assembler's it looks at the key's gate alone: an entry with a token keeps its key. The
 * second compare is of local itself. If the key were another object's, that object's count would
 * go wrong. */
#define LODIC_COUNTER_PUT(entry, token) \
	check_counter_sub(&(entry)->key, &(entry)->local, (u32)(token)&0xffff)

/* One commit, as the assembler's: a sequence that meets another value was disturbed. */
static inline bool check_counter_add(const u64 *key_at, u64 key, u64 *local_at, u32 cpu)
{
	u64 local = host_load_relaxed(local_at);

	return host_percpu_step(key_at, key_at, key, local_at, cpu, local, local + 1) ==
	       HOST_STEP_DONE;
}

static inline bool check_counter_sub(const u64 *key_at, u64 *local_at, u32 cpu)
{
	u64 local = host_load_relaxed(local_at);

	return host_percpu_step(key_at, local_at, local, local_at, cpu, local,
	                        local - 1) == HOST_STEP_DONE;
}

#endif
