/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/daemon.h. */
#define _GNU_SOURCE
#include "cli/daemon.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_FD 3
#define CPU_BYTES 1024 /* 8192 CPUs: Linux knows no more */
#define PRIVATE_UMASK 077

#pragma weak closefrom /* in glibc since 2.34 */

/* Linux has SYS_close_range since 5.9. */
static void daemon_close_from(unsigned int first)
{
	if (closefrom)
		closefrom((int)first);
	else if (syscall(SYS_close_range, first, ~0u, 0) != 0)
		for (unsigned int fd = first; fd < (unsigned int)getdtablesize(); fd++)
			close((int)fd);
}

/* A signal that is pending has met the other program, not this one: to ignore it drops it. */
static void daemon_reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++) {
		signal(i, SIG_IGN);
		signal(i, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int daemon_leave(int fd)
{
	if (fd != FIRST_FD && dup2(fd, FIRST_FD) < 0)
		_exit(EXIT_FAILURE);
	daemon_close_from(FIRST_FD + 1);
	fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
	daemon_reset_signals();
	setsid(); /* fails in a session's leader, which needs none */
	umask(PRIVATE_UMASK);
	if (chdir("/") != 0)
		_exit(EXIT_FAILURE);
	return FIRST_FD;
}

static bool daemon_is_log(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Where there is no /dev/null: one end of a pipe whose other end is closed. What is read ends at
 * once, and what is written fails. -1: no descriptor is left. */
static int daemon_open_nothing(bool to_read)
{
	int ends[2], fd = open("/dev/null", to_read ? O_RDONLY : O_WRONLY);

	if (fd >= 0 || pipe(ends) != 0)
		return fd;
	signal(SIGPIPE, SIG_IGN);
	close(ends[to_read]);
	return ends[!to_read];
}

static void daemon_replace(int fd, bool to_read)
{
	int nothing = daemon_open_nothing(to_read);

	if (nothing < 0) {
		close(fd);
		return;
	}
	if (nothing != fd) {
		dup2(nothing, fd);
		close(nothing);
	}
}

void daemon_silence(bool keep_log, bool journal)
{
	for (int i = 0; i < FIRST_FD; i++)
		if (!(i == STDERR_FILENO && journal) &&
		    (i == 0 || !keep_log || !daemon_is_log(i)))
			daemon_replace(i, i == 0);
}

static void daemon_raise_limits(void)
{
	struct rlimit limit;

	for (int i = 0; i < RLIM_NLIMITS; i++) {
		if (getrlimit((__rlimit_resource_t)i, &limit) != 0)
			continue;
		/* A core file would hold everything that is cached. */
		limit.rlim_cur = i == RLIMIT_CORE ? 0 : limit.rlim_max;
		setrlimit((__rlimit_resource_t)i, &limit);
	}
}

/* A host that the kernel spares when memory is short must not have the cache spared. */
static void daemon_reset_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "0", 1) != 1) {
		close(fd); /* it was above 0, and may not fall */
		return;
	}
	close(fd);
}

void daemon_forget_choices(void)
{
	const struct sched_param plain = { 0 };
	unsigned char cpus[CPU_BYTES];

	memset(cpus, 0xff, sizeof(cpus));
	syscall(SYS_sched_setaffinity, 0, sizeof(cpus), cpus);
	sched_setscheduler(0, SCHED_OTHER, &plain);
	setpriority(PRIO_PROCESS, 0, 0);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	daemon_raise_limits();
	daemon_reset_oom();
}
