/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h and host.h. Memory that a process allocates: it ends with the process. */
#include <stdlib.h>
#include <string.h>

#include "host/whole/machine.h"
#include "lib/port.h"

struct heap_block {
	struct heap_block *next, *prev;
	struct process *process;
	u64 bytes;
	u64 what;     /* HEAP_USED or HEAP_FREED */
	bool reached; /* heap_nr_lost() */
	u64 align[2]; /* what follows is aligned to 64 bytes */
};
_Static_assert(sizeof(struct heap_block) == 64, "a block's memory is aligned");

#define HEAP_USED 0x5ed1b10cu
#define HEAP_FREED 0xf4eeb10cu

/* Freed memory is full of this, and so is what follows a block. */
#define POISON 0xa5
#define FENCE_BYTES ((u64)64)
/* A process keeps so much that is freed until its end. Then nobody has written there. */
#define MOST_FREED ((u64)256 << 10)

static void heap_look(const struct heap_block *block)
{
	const u8 *at = (const u8 *)(block + 1);

	for (u64 i = block->what == HEAP_FREED ? 0 : block->bytes;
	     i < block->bytes + FENCE_BYTES; i++)
		if (at[i] != POISON)
			machine_fail("byte %llu of a block of %llu has been written%s",
			             (unsigned long long)i,
			             (unsigned long long)block->bytes,
			             block->what == HEAP_FREED ? ", which is free" : "");
}

/* A process has ended. Once the machine has failed, nobody does any more. */
static void heap_drop(struct heap_block **at)
{
	struct heap_block *block = *at;

	*at = block->next;
	if (machine.running && !machine.failed)
		heap_look(block);
	free(block);
}

static void *heap_new(u64 bytes)
{
	struct process *p = process_now();
	struct heap_block *block;

	if (posix_memalign((void **)&block, 64, sizeof(*block) + bytes + FENCE_BYTES) != 0)
		machine_fail("there is no memory for %llu bytes",
		             (unsigned long long)bytes);
	memset(block, 0, sizeof(*block) + bytes);
	memset((u8 *)(block + 1) + bytes, POISON, FENCE_BYTES);
	block->what = HEAP_USED;
	block->process = p;
	block->bytes = bytes;
	block->next = p->heap;
	if (p->heap)
		p->heap->prev = block;
	p->heap = block;
	p->heap_bytes += bytes;
	return block + 1;
}

static void heap_free(void *at)
{
	struct heap_block *block = (struct heap_block *)at - 1;
	struct process *p = block->process;

	if (block->what != HEAP_USED)
		machine_fail(block->what == HEAP_FREED ? "memory is freed twice"
		                                       : "what is freed is no memory's beginning");
	if (p != process_now())
		machine_fail("a process frees what another one has allocated");
	if (block->next)
		block->next->prev = block->prev;
	if (block->prev)
		block->prev->next = block->next;
	else
		p->heap = block->next;
	p->heap_bytes -= block->bytes;
	heap_look(block);
	memset(block + 1, POISON, block->bytes);
	block->what = HEAP_FREED;
	if (p->freed_bytes + block->bytes > MOST_FREED) {
		free(block);
		return;
	}
	p->freed_bytes += block->bytes + sizeof(*block);
	block->next = p->freed;
	p->freed = block;
}

u32 heap_nr(const struct process *process)
{
	u32 nr = 0;

	for (const struct heap_block *b = process->heap; b; b = b->next)
		nr++;
	return nr;
}

static void heap_reach(const struct process *p, const u64 *words, u64 nr)
{
	for (u64 i = 0; i < nr; i++)
		for (struct heap_block *b = p->heap; b; b = b->next) {
			u64 at = (u64)(uintptr_t)(b + 1);

			if (b->reached || words[i] < at || words[i] >= at + b->bytes)
				continue;
			b->reached = true;
			heap_reach(p, (const u64 *)(const void *)(b + 1), b->bytes / sizeof(u64));
		}
}

u32 heap_nr_lost(const struct process *process)
{
	const u64 *words;
	size_t nr_words;
	u32 nr = 0;

	for (struct heap_block *b = process->heap; b; b = b->next)
		b->reached = false;
	words = image_words(process, &nr_words);
	heap_reach(process, words, nr_words);
	for (const struct task *t = process->tasks; t; t = t->next)
		heap_reach(process, (const u64 *)(const void *)t->words, MACHINE_MOST_WORDS);
	for (const struct heap_block *b = process->heap; b; b = b->next)
		nr += !b->reached;
	return nr;
}

void heap_end(struct process *process)
{
	while (process->heap)
		heap_drop(&process->heap);
	while (process->freed)
		heap_drop(&process->freed);
	process->heap_bytes = process->freed_bytes = 0;
}

/* Not drawn from the call's list of errors: all that may come is that there is no memory. */
static bool heap_refuses(enum call call)
{
	machine_pass(call);
	if (!machine_fails(call))
		return false;
	machine.nr_failed[call]++;
	machine_note("%s: fault", call_names[call]);
	return true;
}

void *port_alloc(size_t bytes)
{
	return heap_refuses(CALL_ALLOC) ? NULL : heap_new(bytes);
}

void port_free(void *p)
{
	if (p)
		heap_free(p);
}

char *port_text(const char *text)
{
	size_t bytes = strlen(text) + 1;

	return heap_refuses(CALL_TEXT) ? NULL : memcpy(heap_new(bytes), text, bytes);
}

void *host_alloc(size_t n, size_t align)
{
	if (align > 64)
		machine_fail("memory that is aligned to %zu bytes", align);
	return heap_refuses(CALL_ALLOC) ? NULL : heap_new(n);
}

void host_free(void *p, size_t n)
{
	(void)n;
	port_free(p);
}
