/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Memory that forked processes share. Contract: bench/measure/shared.h. */
#include "bench/measure/shared.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_BYTES 4096u /* where the two words below stand */

struct shared {
	u64 taken;
	u64 bytes; /* constant */
};

static struct shared *shared;

int shared_open(void)
{
	/* Half of the machine's memory: with more, the benchmark would measure swapping. */
	u64 bytes = (u64)sysconf(_SC_PHYS_PAGES) / 2 * (u64)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	shared = p;
	shared->bytes = bytes;
	shared->taken = FIRST_BYTES;
	return 0;
}

void *shared_alloc(size_t n, size_t align)
{
	u64 before, begin;
	u8 *p;

	if (align < sizeof(u64))
		align = sizeof(u64);
	/* It adds room for the worst alignment, so that one add decides. */
	before = host_fetch_add(&shared->taken, n + align);
	begin = (before + align - 1) & ~(u64)(align - 1);
	if (n > shared->bytes || begin > shared->bytes - n)
		return NULL;
	p = (u8 *)shared + begin;
	memset(p, 0, n);
	return p;
}

u64 shared_taken_bytes(void)
{
	return host_load_relaxed(&shared->taken) - FIRST_BYTES;
}

void *__wrap_host_alloc(size_t n, size_t align)
{
	return shared_alloc(n, align);
}

void __wrap_host_free(void *p, size_t n)
{
	(void)p;
	(void)n;
}
