/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Guards: references that end with their thread. Each thread has its guards in blocks of its own,
 * which the library owns. They cannot be in the program's frames: when the C library runs what
 * is to be done at a thread's end, those frames have gone.
 */
#include "lib/counter/domain.h"
#include "lib/port.h"

#define BLOCK_GUARDS 31u

struct lodic_guard {
	struct lodic_domain *domain; /* NULL: free */
	struct lodic_counter *counter;
	u64 token;
	struct lodic_guard *next; /* free ones */
};

struct block {
	struct block *next;
	u64 unused[3];
	struct lodic_guard guards[BLOCK_GUARDS];
};

static __thread struct block *blocks;
static __thread struct lodic_guard *unused;

static bool drop_all(void)
{
	struct block *b;
	bool found = false;
	u32 i;

	for (b = blocks; b; b = b->next)
		for (i = 0; i < BLOCK_GUARDS; i++)
			if (b->guards[i].domain) {
				lodic_guard_drop(&b->guards[i]);
				found = true;
			}
	return found;
}

/* At the end of a thread that has taken guards. If what is to be done there for others takes
 * guards again, the C library calls this once more. */
static void thread_ends(void *arg)
{
	struct block *b;

	(void)arg;
	/* release() may take guards, in any block. Bounded by what it takes. */
	while (drop_all())
		;
	unused = NULL; /* they lie in the blocks that go now */
	while ((b = blocks)) {
		blocks = b->next;
		port_free(b);
	}
}

static struct port_word thread_blocks = { .end = thread_ends };

static bool add_block(void)
{
	struct block *b;
	u32 i;

	b = port_alloc(sizeof(*b));
	if (!b)
		return false;
	if (!port_word_set(&thread_blocks, b)) {
		port_free(b);
		return false;
	}
	b->next = blocks;
	blocks = b;
	for (i = 0; i < BLOCK_GUARDS; i++) {
		b->guards[i].next = unused;
		unused = &b->guards[i];
	}
	return true;
}

EXPORT struct lodic_guard *lodic_guard_take(struct lodic_domain *domain,
                                            struct lodic_counter *counter)
{
	struct lodic_guard *guard;
	u64 token;

	if (unlikely(!unused) && !add_block())
		return NULL;
	if (!lodic_counter_try_get(domain, counter, &token))
		return NULL;
	/* Only now: a refused try may have called release(), which may take guards. */
	guard = unused;
	unused = guard->next;
	guard->counter = counter;
	guard->domain = domain;
	guard->token = token;
	return guard;
}

EXPORT void lodic_guard_drop(struct lodic_guard *guard)
{
	struct lodic_domain *domain = guard->domain;

	/* First its own again: release() may take guards. */
	guard->domain = NULL;
	guard->next = unused;
	unused = guard;
	lodic_counter_put(domain, guard->counter, guard->token);
}
