/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Fibers by hand on x86-64 and by ucontext elsewhere. swapcontext() makes a system call
 * for the signal mask each time, which costs fifty times the switch itself.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include "host/fiber/fiber.h"

struct fiber {
#if defined(__x86_64__)
	void *sp;
#else
	ucontext_t context;
#endif
	char *map; /* guard page first; NULL: the thread's own stack */
	size_t map_bytes;
	void (*body)(void *);
	void *arg;
	void *asan_stack; /* what the sanitizer keeps for a fiber that waits */
};

static struct fiber thread_fiber;
static struct fiber *arriving; /* where the running switch goes to */
#ifdef FIBER_ASAN
static const void *thread_bottom;
static size_t thread_bytes;
#endif

static size_t fiber_guard_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct fiber *fiber_main(void)
{
	return &thread_fiber;
}

struct fiber *fiber_new(size_t stack_bytes)
{
	size_t guard = fiber_guard_bytes();
	struct fiber *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->map_bytes = guard + (stack_bytes + guard - 1) / guard * guard;
	f->map = mmap(NULL, f->map_bytes, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (f->map == MAP_FAILED) {
		free(f);
		return NULL;
	}
	mprotect(f->map, guard, PROT_NONE);
	return f;
}

/* After each switch, on the new stack. */
static void fiber_arrived(struct fiber *self)
{
#ifdef FIBER_ASAN
	const void *bottom;
	size_t bytes;

	__sanitizer_finish_switch_fiber(self->asan_stack, &bottom, &bytes);
	if (!thread_bottom) {
		/* The first switch of all came from the thread's own stack. */
		thread_bottom = bottom;
		thread_bytes = bytes;
	}
#else
	(void)self;
#endif
}

static void fiber_leaves(struct fiber *from, struct fiber *to)
{
#ifdef FIBER_ASAN
	size_t guard = fiber_guard_bytes();

	__sanitizer_start_switch_fiber(&from->asan_stack,
	                               to->map ? to->map + guard : thread_bottom,
	                               to->map ? to->map_bytes - guard : thread_bytes);
#else
	(void)from;
	(void)to;
#endif
}

static _Noreturn void fiber_begin(void)
{
	struct fiber *self = arriving;

	fiber_arrived(self);
	self->body(self->arg);
	abort(); /* a body must not return */
}

#if defined(__x86_64__)

/* Saves what a call must preserve, leaves the old stack in *from_sp, goes to to_sp. */
void fiber_swap(void **from_sp, void *to_sp);
__asm__(".text\n"
        ".balign 16\n"
        ".globl fiber_swap\n"
        ".hidden fiber_swap\n"
        ".type fiber_swap, @function\n"
        "fiber_swap:\n"
        "\tpushq %rbp\n"
        "\tpushq %rbx\n"
        "\tpushq %r12\n"
        "\tpushq %r13\n"
        "\tpushq %r14\n"
        "\tpushq %r15\n"
        "\tmovq %rsp, (%rdi)\n"
        "\tmovq %rsi, %rsp\n"
        "\tpopq %r15\n"
        "\tpopq %r14\n"
        "\tpopq %r13\n"
        "\tpopq %r12\n"
        "\tpopq %rbx\n"
        "\tpopq %rbp\n"
        "\tret\n"
        ".size fiber_swap, .-fiber_swap\n");

#define FIBER_SAVED_WORDS 6

static void fiber_prepare(struct fiber *f)
{
	uint64_t *sp = (uint64_t *)(f->map + f->map_bytes);

	*--sp = 0; /* the stack is aligned as after a call, whose return address this is */
	*--sp = (uint64_t)(uintptr_t)fiber_begin;
	for (int i = 0; i < FIBER_SAVED_WORDS; i++)
		*--sp = 0;
	f->sp = sp;
}

static void fiber_jump(struct fiber *from, struct fiber *to)
{
	fiber_swap(&from->sp, to->sp);
}

#else

static void fiber_prepare(struct fiber *f)
{
	size_t guard = fiber_guard_bytes();

	if (getcontext(&f->context) != 0)
		abort();
	f->context.uc_stack.ss_sp = f->map + guard;
	f->context.uc_stack.ss_size = f->map_bytes - guard;
	f->context.uc_link = NULL;
	makecontext(&f->context, fiber_begin, 0);
}

static void fiber_jump(struct fiber *from, struct fiber *to)
{
	if (swapcontext(&from->context, &to->context) != 0)
		abort();
}

#endif

void fiber_reset(struct fiber *f, void (*body)(void *), void *arg)
{
	f->body = body;
	f->arg = arg;
	f->asan_stack = NULL;
#ifdef FIBER_ASAN
	/* What an abandoned body left poisoned. */
	__asan_unpoison_memory_region(f->map + fiber_guard_bytes(),
	                              f->map_bytes - fiber_guard_bytes());
#endif
	fiber_prepare(f);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
	arriving = to;
	fiber_leaves(from, to);
	fiber_jump(from, to);
	fiber_arrived(from);
}
