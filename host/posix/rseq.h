/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Restartable sequences (rseq(2)) for words of one CPU, on x86-64. From 2.35 on, glibc
 * registers them for every thread. Without them (RSEQ_HAVE 0, or !rseq_usable()) the posix
 * host uses atomics. The whole process uses one or the other: a plain store here and an
 * atomic of another CPU do not go together.
 *
 * When the kernel switches a thread out, moves it or sends it a signal, it looks whether
 * the thread is inside a sequence. If so, the thread goes on at the sequence's abort
 * address. So inside, the thread stays on the CPU that it asked for. No other task of that
 * CPU comes between the compare and the store, whose last instruction commits. The store
 * is a plain one: it waits in the store buffer like any other, and orders nothing.
 */
#ifndef LODIC_HOST_POSIX_RSEQ_H
#define LODIC_HOST_POSIX_RSEQ_H

#include "host/host.h"

/* A thread sanitizer must see the updates, and it does not see through assembler. */
#if defined(__x86_64__) && defined(__GLIBC_PREREQ) && !defined(HOST_TSAN)
#if __GLIBC_PREREQ(2, 35)
#define RSEQ_HAVE 1
#endif
#endif
#ifndef RSEQ_HAVE
#define RSEQ_HAVE 0
#endif

#if RSEQ_HAVE
#include <sys/rseq.h>

enum rseq_end {
	RSEQ_DONE,
	RSEQ_OTHER, /* another CPU, or another value */
	RSEQ_AGAIN, /* aborted: nothing has happened */
	RSEQ_SHUT,  /* the gate is closed */
};

static inline bool rseq_usable(void)
{
	return __rseq_size > 0;
}

static inline struct rseq *rseq_self(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* 0 as long as the thread is not registered, so always a number of a CPU. */
static inline u32 rseq_cpu(void)
{
	return __atomic_load_n(&rseq_self()->cpu_id_start, __ATOMIC_RELAXED);
}

/* Opens a sequence. It tells the kernel the sequence's descriptor (begin, length, abort);
 * the first step asks for the CPU. The guard reaches from 1: to 2:. An abort goes on at 4:.
 * The signature that the kernel wants stands in front of 4:, as an operand of an
 * instruction that nobody runs. */
#define RSEQ_BEGIN \
	".pushsection __rseq_cs, \"aw\"\n\t" \
	".balign 32\n" \
	"3:\n\t" \
	".long 0, 0\n\t" \
	".quad 1f, 2f - 1f, 4f\n\t" \
	".popsection\n\t" \
	"leaq 3b(%%rip), %%rax\n\t" \
	"movq %%rax, %[descriptor]\n" \
	"1:\n\t" \
	"cmpl %[cpu], %[cpu_id]\n\t" \
	"jne %l[other]\n\t"
#define RSEQ_END \
	"2:\n\t" \
	".pushsection __rseq_failure, \"ax\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t" \
	".long %c[signature]\n" \
	"4:\n\t" \
	"jmp %l[again]\n\t" \
	".popsection"

static inline enum rseq_end rseq_compare_store(u64 *word, u32 cpu, u64 old,
                                               u64 new_value)
{
	struct rseq *self = rseq_self();

	__asm__ goto(RSEQ_BEGIN "cmpq %[old], %[word]\n\t"
	                        "jne %l[other]\n\t"
	                        "movq %[new_value], %[word]\n" RSEQ_END
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [word] "m"(*word), [old] "r"(old),
	               [new_value] "r"(new_value), [signature] "i"(RSEQ_SIG)
	             : "memory", "cc", "rax"
	             : other, again);
	return RSEQ_DONE;
other:
	return RSEQ_OTHER;
again:
	return RSEQ_AGAIN;
}

/* shut: the top bit of *gate is set. */
static inline enum rseq_end rseq_step(const u64 *gate, const u64 *guard, u64 is,
                                      u64 *word, u32 cpu, u64 old, u64 new_value)
{
	struct rseq *self = rseq_self();

	__asm__ goto(RSEQ_BEGIN "cmpq $0, %[gate]\n\t"
	                        "jl %l[shut]\n\t"
	                        "cmpq %[is], %[guard]\n\t"
	                        "jne %l[other]\n\t"
	                        "cmpq %[old], %[word]\n\t"
	                        "jne %l[other]\n\t"
	                        "movq %[new_value], %[word]\n" RSEQ_END
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [gate] "m"(*gate), [guard] "m"(*guard),
	               [is] "r"(is), [word] "m"(*word), [old] "r"(old),
	               [new_value] "r"(new_value), [signature] "i"(RSEQ_SIG)
	             : "memory", "cc", "rax"
	             : shut, other, again);
	return RSEQ_DONE;
shut:
	return RSEQ_SHUT;
other:
	return RSEQ_OTHER;
again:
	return RSEQ_AGAIN;
}

static inline enum rseq_end rseq_add(u64 *word, u32 cpu, u64 delta)
{
	struct rseq *self = rseq_self();

	__asm__ goto(RSEQ_BEGIN "addq %[delta], %[word]\n" RSEQ_END
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [word] "m"(*word), [delta] "r"(delta),
	               [signature] "i"(RSEQ_SIG)
	             : "memory", "cc", "rax"
	             : other, again);
	return RSEQ_DONE;
other:
	return RSEQ_OTHER;
again:
	return RSEQ_AGAIN;
}

#endif
#endif
