/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reference counts that many threads can change at once without sharing a cache line, and that
 * still say exactly when the last reference has gone. They are for objects of one program that
 * all threads take and give back all the time. Such are the root of a tree, the current version
 * of a table, a hot entry of a cache. Each thread counts on the CPU that it runs on, as in
 * PAYGO (PAYGO s.3 and s.5).
 *
 *	struct page {
 *		struct lodic_counter counter;         // zeroed memory is a live counter
 *		...
 *	};
 *	static void page_release(struct lodic_counter *counter, void *arg);
 *
 *	struct lodic_domain_options options = { .release = page_release };
 *	struct lodic_domain *domain;
 *	uint64_t token;
 *
 *	err = lodic_domain_create(&options, &domain);
 *	...
 *	if (lodic_counter_try_get(domain, &page->counter, &token)) {
 *		use(page);
 *		lodic_counter_put(domain, &page->counter, token);
 *	}
 *	...
 *	lodic_counter_kill(domain, &page->counter);     // page_release() comes once, exactly at 0
 *
 * The life of an object
 *   live      try_get and get take references, put gives them back. Nobody is told of a count of
 *             0, because a live object belongs to the program.
 *   killed    The program takes it out of its tables and kills it. From then on try_get fails.
 *   released  The last reference has gone. release() is called once, by the thread that put it, or
 *             by the killer. After that the library never looks at the object. release() may
 *             free it, or make it live again with lodic_counter_init().
 *
 * What the program must see to
 * - A counter that is given to try_get must be readable memory all through the call. A lock
 *   around the look-up and the get does that, and so does a grace period, or memory that is
 *   used again for counters only.
 * - A token goes back with its own counter and domain, once. Any thread may put it.
 * - A domain belongs to its process. A child of fork() has a copy of all counts. What its one
 *   thread holds it may put. What other threads held stays counted there for ever.
 * - Objects are killed and released before lodic_domain_destroy().
 * - The program must not unload code with inline calls by dlclose() while threads that ran it
 *   live. Linux may still look at the descriptor of a thread's last sequence.
 *
 * A signal handler may call try_get, get, put, query and sum; a put only if release() may be called
 * there. Some threads have no restartable sequences: those that the C library did not make, and
 * all where it does not have them. For them the same calls use atomics, still on a cache line
 * of the CPU's own. doc/counter.md has figures, and when to use what.
 */
#ifndef LODIC_COUNTER_H
#define LODIC_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the object, at 8 bytes. Only the library may look at its word. */
struct lodic_counter {
	uint64_t word;
};

#ifdef __cplusplus
#define LODIC_COUNTER_INIT \
	{ \
	}
#else
#define LODIC_COUNTER_INIT \
	{ \
		0 \
	}
#endif

struct lodic_domain;

#define LODIC_COUNTER_FORCED static inline __attribute__((__always_inline__))

/* The ways to count, for comparison. All have the same calls and the same promises. */
enum lodic_counter_scheme {
	LODIC_COUNTER_PAYGO, /* a table on each CPU: sequences, or atomics where there are none */
	LODIC_COUNTER_PERCPU, /* the same tables, by atomics only */
	LODIC_COUNTER_ATOMIC, /* the counter's own word, by compare-and-swap */
};

struct lodic_domain_options {
	enum lodic_counter_scheme scheme;
	/* How many objects can be referenced on one CPU at a time, at best. What finds no room
	 * counts in the object's word: right, and slow where it is shared. 0: 4096. It is rounded
	 * up to a power of two; at most 1048576. */
	uint32_t entries;
	/* Called once for each killed object, when nobody holds it. It may call this library. */
	void (*release)(struct lodic_counter *counter, void *arg);
	void *arg;
};

/* Makes a domain: the tables in which its objects count.
 *
 * The tables are 32 bytes an entry and CPU, of each CPU that the machine may ever have. Memory
 * of a CPU on which no thread of the program has counted is not touched. Tables of 2 MiB in all, or
 * more, may get huge pages. Such a page is touched as a whole. With 16 CPUs and the default it has
 * all tables. One domain serves any number of objects, so a program seldom needs many. An object
 * costs nothing but its word. Threads cost nothing until they count.
 *
 * -EINVAL: no release(), an unknown scheme, or too many entries. -ENOMEM: no memory.
 * Cost: a few system calls; with PAYGO also one that interrupts each CPU of this process. The first
 * domain of a process with several threads may take milliseconds, because Linux then waits for a
 * grace period. */
int lodic_domain_create(const struct lodic_domain_options *options,
                        struct lodic_domain **ret_domain);

/* Frees the tables. No call may be under way, and no token or guard out. A thread that ended later
 * would put its guard in memory that has gone. NULL is allowed. */
void lodic_domain_destroy(struct lodic_domain *domain);

struct lodic_domain_stat {
	enum lodic_counter_scheme scheme;
	/* Can this process use restartable sequences? And does the calling thread? If not, the
	 * calls use atomics. */
	bool sequences, thread_sequences;
	uint32_t nr_cpus;      /* that have tables */
	uint32_t entries;      /* on each */
	uint64_t cpu_bytes;    /* of each table */
	uint64_t object_bytes; /* of each counter */
};

void lodic_domain_stat(const struct lodic_domain *domain,
                       struct lodic_domain_stat *ret_stat);

/* Makes a live counter, which nobody holds, of any memory or of a released one. */
static inline void lodic_counter_init(struct lodic_counter *counter)
{
	__atomic_store_n(&counter->word, 0, __ATOMIC_RELEASE);
}

/* Takes a reference, if the object was not killed. The caller must give ret_token back to
 * lodic_counter_put().
 *
 * true: until then the object is not released, and what was done to it before it became live is
 * visible. false: it was killed, and there is no reference.
 * Cost at home, where the object has an entry: no atomic, one cache line of this CPU's own, no
 * system call. Otherwise a call of the library. The first call of each thread makes
 * two system calls. */
LODIC_COUNTER_FORCED bool lodic_counter_try_get(struct lodic_domain *domain,
                                                struct lodic_counter *counter,
                                                uint64_t *ret_token);

/* Takes one more reference for a caller that holds one. It cannot fail, not even after a kill.
 * Returns its token. Cost: as lodic_counter_try_get(). */
LODIC_COUNTER_FORCED uint64_t lodic_counter_get(struct lodic_domain *domain,
                                                struct lodic_counter *counter);

/* Gives a reference back, on any thread. It may call release(): the last one of a killed object.
 * Cost: as lodic_counter_try_get() on the CPU of the get. On another one an atomic, on a line of
 * the other CPU's. After a kill two atomics. */
LODIC_COUNTER_FORCED void lodic_counter_put(struct lodic_domain *domain,
                                            struct lodic_counter *counter,
                                            uint64_t token);

/* Kills the object: try_get fails from now on, and its references count exactly, in one word.
 * release() is called when they are 0, perhaps by this call.
 *
 * 0: this call has killed it. -EALREADY: another call has killed it, or is about to. Then try_get
 * may still succeed until that call returns. -ENOSYS: membarrier(2) worked when the domain was
 * made, and now it does not, as under a new seccomp filter. Then the object lives on. While that
 * call runs, a try_get may fail, and another kill may return -EALREADY.
 * Cost: a cache line per CPU, and one membarrier(2), which interrupts the CPUs that run this
 * process. It calls two, where a thread used the object on a new CPU meanwhile. So kill what is
 * seldom killed. An object that lives for a microsecond is better off with an atomic. */
int lodic_counter_kill(struct lodic_domain *domain, struct lodic_counter *counter);

/* Does anybody hold a reference? true may be out of date or, rarely, wrong. false: there was no
 * reference that was held all through the call. What was done with those that the caller knew of
 * is seen. Cost: a cache line per CPU, unless it finds
 * one early. */
bool lodic_counter_query(struct lodic_domain *domain, struct lodic_counter *counter);

/* The number of references, exact when nothing moves: for tests and statistics. */
uint64_t lodic_counter_sum(struct lodic_domain *domain, struct lodic_counter *counter);

/*
 * Guards. A guard is a reference of one thread, and ends with it: by return, pthread_exit() or
 * pthread_cancel(). A token belongs to the program and outlives threads. Guards are not for
 * signal handlers.
 */
struct lodic_guard;

/* Takes a guard. NULL: the object was killed, or there is no memory for one more guard. It takes 32
 * bytes, which the thread keeps until it ends. Cost: a call, and a get. */
struct lodic_guard *lodic_guard_take(struct lodic_domain *domain,
                                     struct lodic_counter *counter);

/* Ends a guard; by the thread that took it. */
void lodic_guard_drop(struct lodic_guard *guard);

/* ---- The rest of this file is how the short ways work. No program may use it. ---- */

/* The library's own forms of the calls above. */
bool lodic_counter_try_get_call(struct lodic_domain *domain,
                                struct lodic_counter *counter, uint64_t *ret_token);
uint64_t lodic_counter_get_call(struct lodic_domain *domain,
                                struct lodic_counter *counter);
void lodic_counter_put_call(struct lodic_domain *domain, struct lodic_counter *counter,
                            uint64_t token);

/* As core/counter/counter.h has them; lib/counter/domain.h compares. A library with another
 * layout leaves lodic_counter_self_1 alone, and then these functions only call it. */
struct lodic_counter_entry {
	uint64_t key, local, away, packed;
} __attribute__((__may_alias__));

struct lodic_counter_tables {
	struct lodic_counter_entry *entries;
	uint64_t stride;
	uint32_t nr_cpus, mask, scheme;
} __attribute__((__may_alias__));

/* Where in a domain the addresses of its CPUs' tables begin: one load, and no multiplication. */
#define LODIC_COUNTER_CPUS 64

#define LODIC_COUNTER_HASH 0x9e3779b97f4a7c15ull
#define LODIC_COUNTER_HASH_SHIFT 39

/* A token: the home CPU in 16 bits, so that a put can compare it as it stands. Above it the
 * address of the entry, plus 1 for a sequence's reference. */
#define LODIC_COUNTER_TOKEN(entry, cpu) \
	(((uint64_t)(uintptr_t)(entry) << 16) + (cpu) + LODIC_COUNTER_TOKEN_LOCAL)
#define LODIC_COUNTER_TOKEN_LOCAL ((uint64_t)1 << 16)

/* The model checker searches these same functions, with its own steps. A thread sanitizer would
 * not see through the assembler. */
#if defined(LODIC_COUNTER_HOST)
#include LODIC_COUNTER_HOST
#define LODIC_COUNTER_INLINE 1
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#define LODIC_COUNTER_INLINE 1
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef LODIC_COUNTER_INLINE
#endif
#endif
#endif

#if defined(LODIC_COUNTER_INLINE) && !defined(LODIC_COUNTER_HOST)
/* struct rseq of Linux, as far as we look. */
struct lodic_counter_rseq {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
} __attribute__((__may_alias__));

/* This thread's. 0: it has not counted yet. 1: it has no sequences. A thread that the C library
 * did not make has 0 or 1 here, because its thread-local memory begins as zeros. */
extern __thread struct lodic_counter_rseq *lodic_counter_self_1
	__attribute__((__tls_model__("initial-exec")));

#define LODIC_COUNTER_SELF struct lodic_counter_rseq *self = lodic_counter_self_1
#define LODIC_COUNTER_HAS_SELF ((uintptr_t)self > 1)
#define LODIC_COUNTER_CPU __atomic_load_n(&self->cpu_id_start, __ATOMIC_RELAXED)
#define LODIC_COUNTER_TABLE(t, cpu) \
	(*(char *const *)((const char *)(t) + LODIC_COUNTER_CPUS + (cpu)*8))
#define LODIC_COUNTER_GET(entry, key, cpu) \
	lodic_counter_get_inline(self, entry, key, cpu)
#define LODIC_COUNTER_PUT(entry, token) lodic_counter_put_inline(self, entry, token)

/* Restartable sequences (rseq(2)). If the thread is on cpu, and no kill has gated the entry's key,
 * which for a get is the object's, they change local. The last instruction commits. When Linux
 * switches the thread out, moves it or sends it a signal before that, the thread goes on at 4:,
 * and nothing has happened. By the ? the linker throws a descriptor away with the function that it
 * is of: C++ puts inline functions into each file. */
#define LODIC_COUNTER_BEGIN(compare_cpu) \
	".pushsection __rseq_cs, \"aw?\"\n\t" \
	".balign 32\n" \
	"3:\n\t" \
	".long 0, 0\n\t" \
	".quad 1f, 2f - 1f, 4f\n\t" \
	".popsection\n\t" \
	"leaq 3b(%%rip), %%rax\n\t" \
	"movq %%rax, %[descriptor]\n" \
	"1:\n\t" compare_cpu ", %[cpu_id]\n\t" \
	"jne %l[other]\n\t"
#define LODIC_COUNTER_END \
	"2:\n\t" \
	".pushsection __rseq_failure, \"ax?\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t" \
	".long 0x53053053\n" \
	"4:\n\t" \
	"jmp %l[other]\n\t" \
	".popsection"

LODIC_COUNTER_FORCED bool lodic_counter_get_inline(struct lodic_counter_rseq *self,
                                                   struct lodic_counter_entry *entry,
                                                   uint64_t key, uint64_t cpu)
{
	__asm__ goto(LODIC_COUNTER_BEGIN(
			     "cmpl %k[cpu]") "cmpq %[key], %[entry_key]\n\t"
	                                     "jne %l[other]\n\t"
	                                     "addq $1, %[local]\n" LODIC_COUNTER_END
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [entry_key] "m"(entry->key), [key] "r"(key),
	               [local] "m"(entry->local)
	             : "memory", "cc", "rax"
	             : other);
	return true;
other:
	return false;
}

LODIC_COUNTER_FORCED bool lodic_counter_put_inline(struct lodic_counter_rseq *self,
                                                   struct lodic_counter_entry *entry,
                                                   uint64_t token)
{
	__asm__ goto(LODIC_COUNTER_BEGIN(
			     "cmpw %w[cpu]") "cmpq $0, %[entry_key]\n\t"
	                                     "jl %l[other]\n\t"
	                                     "subq $1, %[local]\n" LODIC_COUNTER_END
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(token), [entry_key] "m"(entry->key),
	               [local] "m"(entry->local)
	             : "memory", "cc", "rax"
	             : other);
	return true;
other:
	return false;
}
#endif

LODIC_COUNTER_FORCED bool lodic_counter_try_get(struct lodic_domain *domain,
                                                struct lodic_counter *counter,
                                                uint64_t *ret_token)
{
#ifdef LODIC_COUNTER_INLINE
	const struct lodic_counter_tables *t =
		(const struct lodic_counter_tables *)domain;
	LODIC_COUNTER_SELF;

	if (__builtin_expect(LODIC_COUNTER_HAS_SELF, 1)) {
		uint64_t key = (uint64_t)(uintptr_t)counter;
		uint64_t cpu = LODIC_COUNTER_CPU;
		uint32_t hash = (uint32_t)(key * LODIC_COUNTER_HASH >>
		                           LODIC_COUNTER_HASH_SHIFT);
		struct lodic_counter_entry *e =
			(struct lodic_counter_entry *)(LODIC_COUNTER_TABLE(t, cpu) +
		                                       (hash & t->mask));

		if (__builtin_expect(LODIC_COUNTER_GET(e, key, cpu), 1)) {
			*ret_token = LODIC_COUNTER_TOKEN(e, cpu);
			return true;
		}
		/* The second entry of the bucket. */
		if (LODIC_COUNTER_GET(e + 1, key, cpu)) {
			*ret_token = LODIC_COUNTER_TOKEN(e + 1, cpu);
			return true;
		}
	}
#endif
	/* By a variable of its own. So the caller's can stay in a register. */
	uint64_t token = 0;
	bool taken = lodic_counter_try_get_call(domain, counter, &token);

	*ret_token = token;
	return taken;
}

LODIC_COUNTER_FORCED uint64_t lodic_counter_get(struct lodic_domain *domain,
                                                struct lodic_counter *counter)
{
	uint64_t token;

	/* Only a killed object refuses, and then its word counts. */
	if (__builtin_expect(lodic_counter_try_get(domain, counter, &token), 1))
		return token;
	return lodic_counter_get_call(domain, counter);
}

LODIC_COUNTER_FORCED void lodic_counter_put(struct lodic_domain *domain,
                                            struct lodic_counter *counter,
                                            uint64_t token)
{
#ifdef LODIC_COUNTER_INLINE
	LODIC_COUNTER_SELF;

	if (__builtin_expect(
		    LODIC_COUNTER_HAS_SELF && (token & LODIC_COUNTER_TOKEN_LOCAL), 1)) {
		struct lodic_counter_entry *e =
			(struct lodic_counter_entry *)(uintptr_t)((token >> 16) - 1);

		/* An entry with a token keeps its key. A kill only gates it. */
		if (__builtin_expect(LODIC_COUNTER_PUT(e, token), 1))
			return;
	}
#endif
	lodic_counter_put_call(domain, counter, token);
}

#ifdef __cplusplus
}
#endif
#endif
