/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * host.h: the only door between core/ and the machine.
 *
 * core/ is one C source for several hosts. host/posix runs it as threads and processes on
 * this machine, host/check searches its schedules, and host/sim charges it for a simulated
 * machine. A host is a folder with a file host_impl.h, which the build puts first on the
 * include path. It supplies the types and the functions below, inline where speed needs it.
 *
 * Words. Everything that CPUs or processes share is an aligned u64, or a lone byte where a
 * u64 would cost too much memory. Core must touch it through these functions only. So a
 * checker can make each call a scheduling point, and a timing model can charge it. Memory
 * that processes share holds numbers and offsets, never pointers, because every process
 * maps it at an address of its own.
 *
 * Order. The name says it: relaxed, acquire, release, full. The read-modify-write
 * operations (cas, fetch_add, xchg) are full fences on both sides, as Linux's are. A failed
 * cas orders nothing. Code in core/ argues each order where it stands.
 */
#ifndef LODIC_HOST_HOST_H
#define LODIC_HOST_HOST_H

#include <host_impl.h>

/* Types: u8 u16 u32 u64 bool, and NULL, come from host_impl.h. */

/* Loads and stores of one shared word; p is aligned to 8 bytes and not null. */
static inline u64 host_load_relaxed(const u64 *p);
/* A load whose address depends on an earlier load (a pointer chase). It is relaxed. It has
 * a name of its own because a timing model must charge its latency. */
static inline u64 host_load_dep(const u64 *p);
static inline u64 host_load_acquire(const u64 *p);
static inline void host_store_relaxed(u64 *p, u64 v);
static inline void host_store_release(u64 *p, u64 v);

/* One byte, relaxed. Core may use it for hints that may be lost, never for protocols. */
static inline u8 host_load_byte(const u8 *p);
static inline void host_store_byte(u8 *p, u8 v);

/* Read-modify-write, each a full fence when it writes. */
static inline bool host_cas(u64 *p, u64 old, u64 new_value);
static inline u64 host_fetch_add(u64 *p, u64 delta); /* returns the value before */
static inline u64 host_xchg(u64 *p, u64 v);

/* Fences. host_fence_light() pairs with host_fence_heavy() in the same process. The heavy
 * one makes each light fence of another thread count as a full one. */
static inline void host_fence_acquire(void);
static inline void host_fence_release(void);
static inline void host_fence_full(void);
static inline void host_fence_light(void);
void host_fence_heavy(void);
/* host_fence_heavy() for the threads of all processes. It may take milliseconds. false: this
 * machine does not have it, and nothing is ordered. */
bool host_fence_global(void);

/* The CPU that the caller runs on: 0 <= host_cpu() < host_nr_cpus(). The answer may be old
 * at once. */
u32 host_cpu(void);
u32 host_nr_cpus(void);

/* Adds delta to a word of this CPU's, in one commit. p points to CPU 0's word; the words of
 * the CPUs lie stride_words apart. Returns the CPU whose word it changed. */
u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta);

/* The same for a compare-and-swap on p, the word of CPU cpu. true: the caller ran on cpu,
 * the word held old, and now it holds new_value. false: one of these was not so, and the
 * caller must look again. Only that CPU may change the word, and only by these two
 * functions; others may load it. It orders nothing, and is cheaper than host_cas(). Between
 * two tasks of a CPU lies a switch, which is a full fence. */
bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value);

/* A restartable sequence: host_percpu_cas() with two more compares, and one commit. gate is any
 * word, which other CPUs may change. Its top bit closes it. guard is another word of that CPU.
 *
 *    HOST_STEP_DONE    the caller ran on cpu, the gate was open, guard held is, p held old, and
 *                      now p holds new_value
 *    HOST_STEP_SHUT    the gate was closed
 *    HOST_STEP_OTHER   another CPU, another value, or the caller was disturbed: look again
 *
 * On that CPU only this function may change p and guard. Other CPUs may close the gate, or change
 * p or guard, between its looks and its commit. Then the commit still comes, unless
 * host_fence_abort() does before it. It is a plain store with release order. The look
 * at the gate is an acquire load, and the others are relaxed. */
enum host_step { HOST_STEP_DONE, HOST_STEP_SHUT, HOST_STEP_OTHER };
#define HOST_STEP_CLOSED ((u64)1 << 63)
enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value);

/* host_fence_heavy() that also aborts the sequences of other threads that are under way. Each
 * of them has committed before, or begins again and sees what the caller wrote before. false:
 * this machine, kernel or C library has no such sequences or no such fence, or host_nr_cpus()
 * had to guess. */
bool host_fence_abort(void);

/* host_preempt_off() switches preemption off and returns the CPU that the caller is on. Until
 * host_preempt_on() the caller stays there, and no other task runs there. So tasks of a CPU
 * may share words of it by plain loads and stores. Other CPUs go on. The section must
 * be short, must not nest, and must wait for nobody. Each of the two is a light fence, and no
 * more. Between two sections of a CPU lies the program order of one task, or a switch, which is a
 * full fence. */
u32 host_preempt_off(void);
void host_preempt_on(void);

/* A lock in one word, 0 when free. A caller may hold it for bounded work only. */
void host_lock(u64 *lock);
void host_unlock(u64 *lock);

/* Every loop that waits for another task must call it. */
static inline void host_relax(void);

/* Copies n bytes. It may be interrupted at any byte, and the source may change under it.
 * The caller must find that out afterwards and throw the copy away. */
static inline void host_copy(void *to, const void *from, size_t n);

/* Zeroed memory; align is a power of two. NULL: there is none. Not for fast paths. */
void *host_alloc(size_t n, size_t align);
void host_free(void *p, size_t n);

/* A monotonic clock. */
u64 host_now_ns(void);

/* A pseudo-random number below n (n > 0) from the host's seed. */
u32 host_choose(u32 n);

/* It never returns. what names the broken rule. */
_Noreturn void host_fail(const char *what, const char *file, u32 line);

#endif
