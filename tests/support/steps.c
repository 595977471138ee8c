/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: steps.h. */
#define _GNU_SOURCE
#include "tests/support/steps.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/check.h"
#include "host/host.h"

#define BREAKPOINT 0xccu
#define ENDED_BY_SIGNAL 256
#define AT_RIP offsetof(struct user, regs.rip)

bool steps_follow_me(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

void steps_stop(void)
{
	kill(getpid(), SIGSTOP);
}

/* Waits until the child stops, and returns by which signal. 0: it ended, *ret_end says how. */
static int steps_wait_any(pid_t pid, int *ret_end)
{
	int status;

	CHECK(waitpid(pid, &status, __WALL) == pid, "a child can be waited for");
	if (WIFSTOPPED(status))
		return WSTOPSIG(status);
	*ret_end = WIFEXITED(status) ? WEXITSTATUS(status) : ENDED_BY_SIGNAL;
	return 0;
}

int steps_wait(pid_t pid)
{
	int end = -1;
	int signal = steps_wait_any(pid, &end);

	while (signal && signal != SIGSTOP) { /* a fault, or an alarm: that ends it */
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)signal);
		signal = steps_wait_any(pid, &end);
	}
	return end;
}

int steps_go_on(pid_t pid)
{
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	return steps_wait(pid);
}

static u64 steps_at(pid_t pid)
{
	return (u64)ptrace(PTRACE_PEEKUSER, pid, (void *)AT_RIP, NULL);
}

/* One instruction more. */
static void steps_step(pid_t pid)
{
	int end;

	ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
	CHECK(steps_wait_any(pid, &end) == SIGTRAP, "a child can be stepped");
}

void steps_record(pid_t pid, const u64 *stage, u64 value, struct steps *ret_steps)
{
	u64 nr = 0;

	while (host_load_acquire(stage) != value)
		steps_step(pid);
	while (host_load_acquire(stage) == value) {
		CHECK(nr < STEPS_MOST, "there is room for the steps");
		ret_steps->at[nr++] = steps_at(pid);
		steps_step(pid);
	}
	ret_steps->nr = nr;
}

bool steps_reach(pid_t pid, const struct steps *steps, u64 k)
{
	void *at = (void *)steps->at[k];
	/* Text is private: what is written here is the child's alone. */
	u64 text = (u64)ptrace(PTRACE_PEEKTEXT, pid, at, NULL);
	u64 left = 0;
	int end = 0;

	for (u64 i = 0; i <= k; i++)
		left += steps->at[i] == steps->at[k];
	while (left > 0) {
		ptrace(PTRACE_POKETEXT, pid, at,
		       (void *)((text & ~(u64)0xff) | BREAKPOINT));
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		if (steps_wait_any(pid, &end) != SIGTRAP)
			return false;
		ptrace(PTRACE_POKETEXT, pid, at, (void *)text);
		ptrace(PTRACE_POKEUSER, pid, (void *)AT_RIP, at);
		left--;
		if (left > 0)
			steps_step(pid);
	}
	return true;
}
