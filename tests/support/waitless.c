/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See waitless.h. A seccomp filter turns each other call into SIGSYS, whose handler names it. */
#define _GNU_SOURCE
#include "tests/support/waitless.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/support/cache_fixture.h"

#define NR_OFFSET offsetof(struct seccomp_data, nr)
#define ARG_OFFSET(i) offsetof(struct seccomp_data, args[i])

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
/* The call passes. */
#define PASS(call) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), RETURN(SECCOMP_RET_ALLOW)
/* The call passes if one of bits is set in its argument i. */
#define PASS_WITH(call, i, bits) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(ARG_OFFSET(i)), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), \
		RETURN(SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_TRAP)

static const void *locks;
static size_t lock_bytes;

static const struct {
	long number;
	const char *name;
} names[] = {
	{ SYS_futex, "futex: it waits for a lock" },
	{ SYS_poll, "poll" },
	{ SYS_ppoll, "ppoll" },
	{ SYS_recvmsg, "recvmsg without MSG_DONTWAIT" },
	{ SYS_sendmsg, "sendmsg without MSG_DONTWAIT" },
	{ SYS_socket, "socket without SOCK_NONBLOCK" },
	{ SYS_nanosleep, "nanosleep" },
	{ SYS_clock_nanosleep, "clock_nanosleep" },
	{ SYS_wait4, "wait4" },
	{ SYS_clone, "clone" },
	{ SYS_clone3, "clone3" },
	{ SYS_execve, "execve" },
	{ SYS_fcntl, "fcntl" },
	{ SYS_openat, "openat" },
	{ SYS_read, "read" },
};

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(1);
}

/* What the C library does without our knowledge: a lock of malloc's. It is told that the lock
 * has changed, and looks again. */
static bool trap_is_libc(const siginfo_t *info, const greg_t *registers)
{
	const char *address = (const char *)registers[REG_RDI];
	int op = (int)registers[REG_RSI] & FUTEX_CMD_MASK;

	return info->si_syscall == SYS_futex && op == FUTEX_WAIT &&
	       (address < (const char *)locks ||
	        address >= (const char *)locks + lock_bytes);
}

static void trap(int signal, siginfo_t *info, void *arg)
{
	ucontext_t *context = arg;
	greg_t *registers = context->uc_mcontext.gregs;
	char number[32];

	(void)signal;
	if (trap_is_libc(info, registers)) {
		registers[REG_RAX] = -EAGAIN;
		return;
	}
	say("FAILED: a thread that must not wait calls ");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].number == info->si_syscall)
			say(names[i].name);
	snprintf(number, sizeof(number), " (%d)\n", info->si_syscall);
	say(number);
	_exit(1);
}

void waitless_prepare(const void *at, size_t bytes)
{
	struct sigaction action = { .sa_sigaction = trap,
		                    .sa_flags = SA_SIGINFO | SA_NODEFER };

	locks = at;
	lock_bytes = bytes;
	REQUIRE(sigaction(SIGSYS, &action, NULL) == 0, "%s", strerror(errno));
}

void waitless_begin(void)
{
	static const struct sock_filter filter[] = {
		LOAD(NR_OFFSET),
		PASS(pread64),
		/* Talking to the service, without waiting for it. */
		PASS_WITH(sendmsg, 2, MSG_DONTWAIT),
		PASS_WITH(recvmsg, 2, MSG_DONTWAIT),
		PASS_WITH(socket, 1, SOCK_NONBLOCK),
		PASS(connect), /* by such a socket */
		PASS(getsockopt),
		PASS(write), /* to an eventfd that does not wait */
		PASS(geteuid),
		/* Memory. */
		PASS(mmap),
		PASS(munmap),
		PASS(mremap),
		PASS(mprotect),
		PASS(madvise),
		PASS(brk),
		/* Descriptors. */
		PASS(close),
		PASS(fstat),
		PASS(newfstatat), /* fstat() of some C libraries */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 6),
		LOAD(ARG_OFFSET(1)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GETFL, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GET_SEALS, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_TRAP),
		/* Time, the wake-up of others, the thread's own end. */
		PASS(clock_gettime),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
		LOAD(ARG_OFFSET(1)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_TRAP),
		PASS(rt_sigprocmask),
		PASS(rt_sigreturn),
		PASS(sigaltstack),
		PASS(exit),
		PASS(exit_group),
		RETURN(SECCOMP_RET_TRAP),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter),
		                            (struct sock_filter *)filter };

	if (!WAITLESS_WATCHES)
		return;
	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s",
	        strerror(errno));
}
