/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A domain: core's tables, and whom to tell. */
#ifndef LODIC_LIB_COUNTER_DOMAIN_H
#define LODIC_LIB_COUNTER_DOMAIN_H

#include "core/counter/counter.h"
#include "lodic/counter.h"

#define EXPORT __attribute__((visibility("default")))

struct lodic_domain {
	struct counter_domain core; /* first: the inline calls look at it */
	void (*release)(struct lodic_counter *counter, void *arg);
	void *arg;
	size_t bytes; /* of all tables */
	u32 nr_entries;
	bool sequences;
	struct counter_entry
		*cpus[]; /* of each CPU, for inline calls: core's, ready made */
};

_Static_assert(offsetof(struct lodic_domain, core) == 0, "what inline calls see");
_Static_assert(offsetof(struct lodic_domain, cpus) == LODIC_COUNTER_CPUS,
               "what inline calls see");
_Static_assert(sizeof(struct counter_domain) == sizeof(struct lodic_counter_tables),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_domain, entries) ==
                       offsetof(struct lodic_counter_tables, entries),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_domain, stride) ==
                       offsetof(struct lodic_counter_tables, stride),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_domain, nr_cpus) ==
                       offsetof(struct lodic_counter_tables, nr_cpus),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_domain, mask) ==
                       offsetof(struct lodic_counter_tables, mask),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_entry, key) ==
                       offsetof(struct lodic_counter_entry, key),
               "the layout of lodic/counter.h");
_Static_assert(offsetof(struct counter_entry, local) ==
                       offsetof(struct lodic_counter_entry, local),
               "the layout of lodic/counter.h");
_Static_assert(sizeof(struct counter_entry) == sizeof(struct lodic_counter_entry),
               "the layout of lodic/counter.h");
_Static_assert(COUNTER_WAYS == 2 && COUNTER_TOKEN_LOCAL == 1 &&
                       COUNTER_TOKEN_LOCAL << COUNTER_TOKEN_CPU_BITS ==
                               LODIC_COUNTER_TOKEN_LOCAL &&
                       LODIC_COUNTER_TOKEN((size_t)0, COUNTER_TOKEN_CPU) ==
                               LODIC_COUNTER_TOKEN_LOCAL + COUNTER_TOKEN_CPU &&
                       COUNTER_HASH == LODIC_COUNTER_HASH &&
                       COUNTER_HASH_SHIFT == LODIC_COUNTER_HASH_SHIFT,
               "the tokens and the hash of lodic/counter.h");

/* lib/counter/thread.c: has the calling thread sequences of its own? The first call of a thread
 * asks the kernel. */
bool counter_thread_sequences(void);

#endif
