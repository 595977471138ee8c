// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Does membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) reach every running thread of a registered
 * process? README.md has the answer and the reason.
 *
 *     gcc -O2 -pthread -o missed missed.c && sudo ./missed
 *
 * In each case a registered child runs in user space on CPU 1. The cases differ in how it came
 * there. The parent, on CPU 0, then issues CALLS barriers. Each must interrupt CPU 1; the row
 * CAL of /proc/interrupts counts that. Real-time priorities keep other programs away from
 * CPU 1, because any of them would hide the defect.
 *
 * Status 0: the calls reached the child in all cases. 1: not in all. 4: cannot run here.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 1000
#define ENOUGH (CALLS * 9 / 10) /* the child may lose the CPU just before a call */
#define NAP_US 2000

enum { STARTED, RUNS, MUST_END };
static struct shared {
	volatile int state;
	volatile unsigned int turns; /* of the child, in user space */
} *shared;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(4);
}

static void membarrier(int cmd)
{
	must(!syscall(__NR_membarrier, cmd, 0, 0), "membarrier");
}

static void on_cpu(int cpu, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "a second CPU");
	must(!sched_setscheduler(0, SCHED_FIFO, &param), "SCHED_FIFO (it needs root)");
}

/* Function calls that CPU 1 was interrupted for; flushes of the TLB are not among them. */
static long interrupts(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	long zero, nr = -1;
	char line[4096];

	must(!!f, "/proc/interrupts");
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "CAL:"))
			sscanf(line, " CAL: %ld %ld", &zero, &nr);
	fclose(f);
	must(nr >= 0, "no row CAL in /proc/interrupts");
	return nr;
}

/* In user space, without a system call or a barrier, until the parent says so. */
static void run(void)
{
	shared->state = RUNS;
	while (shared->state != MUST_END)
		shared->turns++;
}

/* The scheduler takes the CPU from real-time tasks now and then; a barrier need not wait. */
static void wait_turn(void)
{
	unsigned int seen = shared->turns;

	while (shared->turns == seen)
		;
}

static void *ends_at_once(void *arg)
{
	return arg;
}

/* Nothing happens: each kernel passes this case. */
static void child_stays(void)
{
	on_cpu(1, 10);
	membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	run();
}

/* A second thread takes CPU 1 from the first one, and ends there. */
static void child_after_exit(void)
{
	struct sched_param param = { .sched_priority = 20 };
	pthread_attr_t attr;
	pthread_t thread;

	on_cpu(1, 10);
	membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	must(!pthread_create(&thread, &attr, ends_at_once, NULL), "pthread_create");
	run();
}

/* Its only thread leaves CPU 1, registers on CPU 0, and comes back. */
static void child_registers_elsewhere(void)
{
	on_cpu(1, 10);
	on_cpu(0, 10);
	membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	on_cpu(1, 10);
	run();
}

static void *registers(void *arg)
{
	on_cpu(0, 10);
	usleep(NAP_US);
	membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	return arg;
}

/* It sleeps on CPU 1 while another of its threads registers on CPU 0. */
static void child_sleeps_meanwhile(void)
{
	pthread_t thread;

	on_cpu(1, 10);
	must(!pthread_create(&thread, NULL, registers, NULL), "pthread_create");
	pthread_join(thread, NULL);
	run();
}

/* How many of CALLS barriers reached the child. */
static long reached(void (*child)(void))
{
	long before, after;
	pid_t pid;
	int i;

	shared->state = STARTED;
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		child();
		_exit(0);
	}
	while (shared->state != RUNS) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			_exit(4); /* the child has said why */
		usleep(NAP_US);
	}
	before = interrupts();
	for (i = 0; i < CALLS; i++) {
		wait_turn();
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	}
	after = interrupts();
	shared->state = MUST_END;
	waitpid(pid, NULL, 0);
	return after - before;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*child)(void);
	} cases[] = {
		{ "stays", child_stays },
		{ "after-exit", child_after_exit },
		{ "registers-elsewhere", child_registers_elsewhere },
		{ "sleeps-meanwhile", child_sleeps_meanwhile },
	};
	unsigned int i, missed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	must(shared != MAP_FAILED, "mmap");
	on_cpu(0, 1);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		long nr = reached(cases[i].child);

		printf("%-20s %4ld of %d calls reached CPU 1%s\n", cases[i].name, nr, CALLS,
		       nr < ENOUGH ? ": missed" : "");
		missed += nr < ENOUGH;
	}
	return !!missed;
}
