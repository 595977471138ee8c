// SPDX-License-Identifier: GPL-2.0
/*
 * open(O_RDONLY | O_TRUNC) has to break leases before it truncates. fcntl(2):
 * the holder of a read lease hears when the file is opened for writing or is
 * truncated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../kselftest.h"

#define NAME "lease_trunc.tmp"
#define TEXT "held by a lease"
#define SIZE ((off_t)sizeof(TEXT))
#define PATIENCE 20 /* seconds; nothing here takes that long */

static sigset_t signals;

static void prepare(void)
{
	int fd = open(NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, TEXT, SIZE) != SIZE || close(fd))
		ksft_exit_fail_perror("cannot make the file");
}

/* Opens the file for reading and takes a lease on it. */
static int take(int type)
{
	int fd = open(NAME, O_RDONLY);

	if (fd < 0)
		ksft_exit_fail_perror("cannot open the file");
	if (fcntl(fd, F_SETLEASE, type))
		ksft_exit_skip("no leases here: %s\n", strerror(errno));
	return fd;
}

static off_t size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : st.st_size;
}

/* The next of SIGIO (a lease breaks) and SIGCHLD; 0 if none comes. */
static int next_signal(time_t seconds)
{
	struct timespec limit = { .tv_sec = seconds };
	int sig = sigtimedwait(&signals, NULL, &limit);

	return sig < 0 ? 0 : sig;
}

/* A process that opens the file and ends with errno as its status. */
static pid_t opener(int flags)
{
	pid_t pid = fork();

	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid)
		_exit(open(NAME, flags) < 0 ? errno : 0);
	return pid;
}

static int status_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/*
 * Another process opens the file: does the holder hear, and is the file as it
 * was until the holder gives the lease back?
 */
static void blocking(const char *name, int lease, int flags, bool breaks)
{
	off_t expect = flags & O_TRUNC ? 0 : SIZE;
	int fd, sig, status;
	bool ok = true;
	pid_t pid;

	prepare();
	fd = take(lease);
	pid = opener(flags);
	sig = next_signal(PATIENCE);
	if (sig != (breaks ? SIGIO : SIGCHLD)) {
		ksft_print_msg("got signal %d\n", sig);
		ok = false;
	}
	if (breaks && size_of(fd) != SIZE) {
		ksft_print_msg("truncated while the lease was held\n");
		ok = false;
	}
	while (sig == SIGIO) {
		fcntl(fd, F_SETLEASE, F_UNLCK);
		sig = next_signal(PATIENCE);
	}
	if (!sig)
		kill(pid, SIGKILL);
	status = status_of(pid);
	if (status) {
		ksft_print_msg("open: %s\n", strerror(status));
		ok = false;
	}
	if (size_of(fd) != expect) {
		ksft_print_msg("size %lld\n", (long long)size_of(fd));
		ok = false;
	}
	close(fd);
	while (next_signal(0))
		;
	ksft_test_result(ok, "%s\n", name);
}

/* With O_NONBLOCK the open fails, starts the break, and truncates nothing. */
static void nonblocking(const char *name, int flags)
{
	int fd, other, err;
	bool ok = true;

	prepare();
	fd = take(F_RDLCK);
	other = open(NAME, flags | O_NONBLOCK);
	err = other < 0 ? errno : 0;
	if (err != EWOULDBLOCK) {
		ksft_print_msg("open: %s\n", strerror(err));
		ok = false;
	}
	if (size_of(fd) != SIZE) {
		ksft_print_msg("truncated while the lease was held\n");
		ok = false;
	}
	if (fcntl(fd, F_GETLEASE) != F_UNLCK) {
		ksft_print_msg("the lease is not being broken\n");
		ok = false;
	}
	if (other >= 0)
		close(other);
	close(fd);

	/* Nobody holds a lease any more. */
	other = open(NAME, flags | O_NONBLOCK);
	if (other < 0 || size_of(other)) {
		ksft_print_msg("not truncated without a lease\n");
		ok = false;
	}
	if (other >= 0)
		close(other);
	while (next_signal(0))
		;
	ksft_test_result(ok, "%s\n", name);
}

int main(void)
{
	ksft_print_header();
	ksft_set_plan(7);
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);

	blocking("O_RDONLY breaks no read lease", F_RDLCK, O_RDONLY, false);
	blocking("O_RDONLY breaks a write lease", F_WRLCK, O_RDONLY, true);
	blocking("O_WRONLY | O_TRUNC breaks a read lease", F_RDLCK,
		 O_WRONLY | O_TRUNC, true);
	blocking("O_RDONLY | O_TRUNC breaks a read lease", F_RDLCK,
		 O_RDONLY | O_TRUNC, true);
	blocking("O_RDONLY | O_TRUNC breaks a write lease", F_WRLCK,
		 O_RDONLY | O_TRUNC, true);
	nonblocking("O_WRONLY | O_TRUNC | O_NONBLOCK", O_WRONLY | O_TRUNC);
	nonblocking("O_RDONLY | O_TRUNC | O_NONBLOCK", O_RDONLY | O_TRUNC);
	unlink(NAME);
	ksft_finished();
}
