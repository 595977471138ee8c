/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A restartable sequence. Contract: bench/rseq.h. */
#include "bench/rseq.h"

#include <features.h>

/* glibc has it from 2.35 on; the sequence below is x86-64's. */
#if defined(__x86_64__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define HAVE_RSEQ 1
#endif
#endif

#ifdef HAVE_RSEQ
#include <sys/rseq.h>

static struct rseq *rseq_self(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

bool rseq_usable(void)
{
	return __rseq_size > 0 && (int)rseq_self()->cpu_id >= 0;
}

bool rseq_increment(u64 *p, u32 stride_words)
{
	struct rseq *self = rseq_self();
	u32 cpu = self->cpu_id_start; /* may be old at once: the sequence looks again */
	u64 *word = p + (u64)cpu * stride_words;
	u64 next = host_load_relaxed(word) + 1;

	/* The sequence reaches from 1 to 2. It looks again at the CPU and the value that were
	 * read before it, and its store commits. When the kernel aborts it, the thread goes on
	 * at 4. The kernel wants the signature in front of that. */
	__asm__ goto(".pushsection __rseq_cs, \"aw\"\n\t"
	             ".balign 32\n"
	             "3:\n\t"
	             ".long 0, 0\n\t"
	             ".quad 1f, 2f - 1f, 4f\n\t"
	             ".popsection\n\t"
	             "leaq 3b(%%rip), %%rax\n\t"
	             "movq %%rax, %[descriptor]\n"
	             "1:\n\t"
	             "cmpl %[cpu], %[cpu_id]\n\t"
	             "jne %l[disturbed]\n\t"
	             "leaq -1(%[next]), %%rax\n\t"
	             "cmpq %%rax, %[word]\n\t"
	             "jne %l[disturbed]\n\t"
	             "movq %[next], %[word]\n"
	             "2:\n\t"
	             ".pushsection __rseq_failure, \"ax\"\n\t"
	             ".byte 0x0f, 0xb9, 0x3d\n\t"
	             ".long %c[signature]\n"
	             "4:\n\t"
	             "jmp %l[disturbed]\n\t"
	             ".popsection"
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [next] "r"(next), [word] "m"(*word),
	               [signature] "i"(RSEQ_SIG)
	             : "memory", "cc", "rax"
	             : disturbed);
	return true;
disturbed:
	return false;
}

#else

bool rseq_usable(void)
{
	return false;
}

bool rseq_increment(u64 *p, u32 stride_words)
{
	(void)p;
	(void)stride_words;
	return false;
}

#endif
