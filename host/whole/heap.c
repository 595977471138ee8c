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
	u64 align[4]; /* what follows is aligned to 64 bytes */
};
_Static_assert(sizeof(struct heap_block) == 64, "a block's memory is aligned");

static void *heap_new(u64 bytes)
{
	struct process *p = process_now();
	struct heap_block *block;

	if (posix_memalign((void **)&block, 64, sizeof(*block) + bytes) != 0)
		machine_fail("there is no memory for %llu bytes",
		             (unsigned long long)bytes);
	memset(block, 0, sizeof(*block) + bytes);
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

	if (p != process_now())
		machine_fail("a process frees what another one has allocated");
	if (block->next)
		block->next->prev = block->prev;
	if (block->prev)
		block->prev->next = block->next;
	else
		p->heap = block->next;
	p->heap_bytes -= block->bytes;
	free(block);
}

u32 heap_nr(const struct process *process)
{
	u32 nr = 0;

	for (const struct heap_block *b = process->heap; b; b = b->next)
		nr++;
	return nr;
}

void heap_end(struct process *process)
{
	while (process->heap) {
		struct heap_block *block = process->heap;

		process->heap = block->next;
		free(block);
	}
	process->heap_bytes = 0;
}

/* No fault that the call's list has: it has none but "there is none". */
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
