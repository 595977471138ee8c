/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Filters for system calls: the ways of run_reader.c where the shim may make none of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "host/host.h"
#include "tests/run/run_reader.h"

#define MAX_ALLOWED 48

/* With some clock sources the vDSO cannot read the clock, and then it is a system call. Here it
 * always is: the shim, like all others in this process, takes this function in place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	return (int)syscall(SYS_clock_gettime, clock, ret_time);
}

static uint64_t nr_refused; /* atomic */

/* The shim, like all others in this process, takes this function in place of libc's. */
int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = (int)syscall(SYS_connect, fd, address, bytes);

	if (result != 0 && errno == ECONNREFUSED)
		host_fetch_add(&nr_refused, 1);
	return result;
}

void confine(const unsigned int *allowed, unsigned short nr, unsigned int flags)
{
	struct sock_filter code[2 * MAX_ALLOWED + 2];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                                         offsetof(struct seccomp_data, nr));
	for (unsigned short i = 0; i < nr; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
		                                         allowed[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
		                                         SECCOMP_RET_ALLOW);
	}
	code[n++] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = n;
	NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	NEED((flags ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags,
	                           &program)
	            : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) == 0,
	     "%s", strerror(errno));
}

/* What a confined reader needs. The last seven are for a thread's end and a fork. */
static const unsigned int reads_only[] = {
	SYS_setuid,     SYS_setfsuid,       SYS_unshare,
	SYS_read,       SYS_pread64,        SYS_write,          SYS_close, SYS_openat,
	SYS_exit_group, SYS_rt_sigprocmask, SYS_madvise,        SYS_futex, SYS_exit,
	SYS_clone,      SYS_wait4,          SYS_set_robust_list
};

static void *confined_body(void *arg)
{
	int fd = warm_open(1);

	(void)arg;
	confine(reads_only, LENGTH(reads_only), 0);
	for (int i = 0; i < 100; i++)
		look(fd, 1);
	return NULL;
}

static void way_seccomp(void)
{
	int fd = warm_open(1), other = file_open(2), last = warm_open(4),
	    written = open(file_make(3), O_RDWR);
	pthread_t thread;
	uid_t user = geteuid();
	pid_t child;

	for (int i = 0; i < 10; i++)
		look(written, 3); /* it is never served */
	pthread_create(&thread, NULL, confined_body, NULL);
	pthread_join(thread, NULL);
	confine(reads_only, LENGTH(reads_only), 0);
	for (int i = 0; i < 100; i++) {
		look(fd, 1);
		look(other, 2);
		look(written, 3);
	}
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 100; i++)
			look(fd, 1);
		_exit(0);
	}
	wait_for(child);
	setuid(user);
	syscall(SYS_setfsuid, user);
	unshare(CLONE_FS);
	close(other);
	close(last); /* the only descriptor of a file that was served */
	_exit(0);
}

/* Nobody listens at the socket any more, which a program's open() sees to, as a rule. */
static void way_seccomp_alone(void)
{
	const char *path = file_make(1);
	int fd = warm_open(1);

	wait_until_told();
	while (cached && !host_load_relaxed(&nr_refused))
		look(fd, 1);
	confine(reads_only, LENGTH(reads_only), 0);
	for (int i = 0; i < 10; i++)
		look(open(path, O_RDONLY), 1);
	_exit(0);
}

#define TSYNC_ROUNDS 40
#define TSYNC_THREADS 4

/* What these threads do themselves. */
static const unsigned int opens_and_reads[] = {
	SYS_pread64,
	SYS_write,
	SYS_close,
	SYS_openat,
	SYS_futex,
	SYS_faccessat,
	SYS_exit_group,
	SYS_madvise,
	/* at a thread's start */
	SYS_rt_sigprocmask,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_mprotect,
#ifdef __x86_64__
	SYS_access,
#endif
};

/* Keeps the shim busy: new descriptors, new files, misses. */
static void *tsync_body(void *arg)
{
	unsigned int n = (unsigned int)(size_t)arg;

	for (;;) {
		int fd = file_open(1 + n++ % 8);

		for (int i = 0; i < 6; i++)
			look(fd, 1 + (n - 1) % 8);
		close(fd);
	}
	return NULL;
}

/* A thread confines all others, wherever they are. */
static void way_seccomp_all_threads(void)
{
	pthread_t thread;

	for (unsigned int n = 1; n <= 8; n++)
		file_make(n);
	for (unsigned int round = 0; round < TSYNC_ROUNDS; round++) {
		pid_t child = fork();

		if (child == 0) {
			for (size_t i = 0; i < TSYNC_THREADS; i++)
				pthread_create(&thread, NULL, tsync_body, (void *)i);
			usleep(200 + round * 997 % 20000);
			confine(opens_and_reads, LENGTH(opens_and_reads),
			        SECCOMP_FILTER_FLAG_TSYNC);
			for (int i = 0; i < 50; i++)
				look(file_open(9), 9);
			_exit(0);
		}
		wait_for(child);
	}
}

/* After the filter and exec(): what the loader, libc's start and the reader itself need. */
static const unsigned int starts_and_reads[] = {
	SYS_execve,
	SYS_brk,
	SYS_mmap,
	SYS_munmap,
	SYS_mprotect,
	SYS_openat,
	SYS_newfstatat,
	SYS_fstat,
	SYS_faccessat,
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_close,
	SYS_prlimit64,
	SYS_getrandom,
	SYS_rseq,
	SYS_set_tid_address,
	SYS_set_robust_list,
	SYS_futex,
	SYS_exit_group,
#ifdef __x86_64__
	SYS_arch_prctl,
	SYS_access,
	SYS_readlink,
#endif
};

/* A parent has set the filter, and then it starts this. */
static void way_seccomp_started(void)
{
	int fd = file_open(1), other = file_open(2);

	for (int i = 0; i < 100; i++) {
		look(fd, 1);
		look(other, 2);
	}
	close(other);
}

static void way_seccomp_exec(void)
{
	char *const command[] = { "run_reader", "seccomp_started", (char *)folder,
		                  "plain", NULL };

	warm_open(1);
	file_make(2);
	confine(starts_and_reads, LENGTH(starts_and_reads), 0);
	execv("/proc/self/exe", command);
	NEED(false, "%s", strerror(errno));
}

const struct way confined_ways[] = {
	{ "seccomp", way_seccomp },
	{ "seccomp_alone", way_seccomp_alone },
	{ "seccomp_all_threads", way_seccomp_all_threads },
	{ "seccomp_exec", way_seccomp_exec },
	{ "seccomp_started", way_seccomp_started },
	{ NULL, NULL },
};
