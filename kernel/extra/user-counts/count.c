// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * How many instructions a reference takes, by lodic/counter.h and by system calls. The program is
 * for QEMU with `-icount shift=0 -smp 1`, where the time stamp counter counts instructions. It
 * prints CSV "case,held,instructions": the median of 1001, where the thread holds that many other
 * objects.
 */
#include "calls.h"

#include <lodic/counter.h>

#define ROUNDS 1001
#define WARM 64

static u64 samples[ROUNDS], empty;
u8 objects[OBJECT_BYTES];
static struct lodic_domain *domain;
static struct lodic_counter counter;

static inline u64 ticks(void)
{
	u32 low, high;

	/* The fences keep the processor from reading the counter too early. */
	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void nothing(void)
{
}

static void empty_call(void)
{
	syscall(SYS_getppid);
}

static void ref_and_unref(void)
{
	if (user_ref(objects) || user_unref(objects))
		exit(2);
}

static void readall(void)
{
	if (user_readall(objects))
		exit(2);
}

static void get_and_put(void)
{
	u64 token;

	if (!lodic_counter_try_get(domain, &counter, &token))
		exit(2);
	lodic_counter_put(domain, &counter, token);
}

static void sum(void)
{
	if (lodic_counter_sum(domain, &counter))
		exit(2);
}

static u64 measure(void (*run)(void))
{
	u32 i;

	for (i = 0; i < WARM + ROUNDS; i++) {
		u64 began = ticks(), ended;

		run();
		ended = ticks();
		if (i >= WARM)
			samples[i - WARM] = ended - began;
	}
	qsort(samples, ROUNDS, sizeof(samples[0]), compare);
	return samples[ROUNDS / 2];
}

static void say(const char *name, u32 held, void (*run)(void))
{
	printf("%s,%u,%llu\n", name, held, (unsigned long long)(measure(run) - empty));
}

static void release(struct lodic_counter *unused, void *arg)
{
	(void)unused;
	(void)arg;
}

int main(void)
{
	struct lodic_domain_options options = { .release = release };
	struct lodic_domain_stat stat;
	u32 held;

	if (lodic_domain_create(&options, &domain))
		return 2;
	empty = measure(nothing); /* two readings of the counter, and the call */
	say("getppid", 0, empty_call);
	say("inline", 0, get_and_put);
	say("inline-sum", 0, sum);
	lodic_domain_stat(domain, &stat);
	if (!stat.thread_sequences)
		printf("# without restartable sequences\n");
	if (user_readall(objects) == -ENOSYS)
		return 4;
	for (held = 0; held < MOST_OBJECTS; held = held ? 2 * held : 1) {
		u32 i;

		for (i = 1; i <= held && i < MOST_OBJECTS; i++)
			if (user_ref(objects + i))
				return 2;
		say("call", held, ref_and_unref);
		for (i = 1; i <= held && i < MOST_OBJECTS; i++)
			user_unref(objects + i);
	}
	say("call-sum", 0, readall);
	return 0;
}
