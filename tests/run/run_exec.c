/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a program gets from its parent: the ways of run_reader.c that run another one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/run/run_reader.h"

#define ANSWER_BYTES 1024
#define NR_CALLS 14

/* PROGRAM is run by each of them, with the environment that this one has. */
static char *words[5], *program, *name;
static int program_fd;

static int run_by(int call)
{
	pid_t child;

	switch (call) {
	case 0: return execve(program, words, environ);
	case 1: return execv(program, words);
	case 2: return execvp(program, words);
	case 3: return execvp(name, words);
	case 4: return execvpe(name, words, environ);
	case 5:
		return execl(program, words[0], words[1], words[2], words[3],
		             (char *)NULL);
	case 6:
		return execlp(name, words[0], words[1], words[2], words[3],
		              (char *)NULL);
	case 7:
		return execle(program, words[0], words[1], words[2], words[3],
		              (char *)NULL, environ);
	case 8: return fexecve(program_fd, words, environ);
	case 9: return execveat(program_fd, "", words, environ, AT_EMPTY_PATH);
	case 10: return (int)syscall(SYS_execve, program, words, environ);
	case 11:
		return (int)syscall(SYS_execveat, AT_FDCWD, program, words, environ, 0);
	case 12:
		errno = posix_spawn(&child, program, NULL, NULL, words, environ);
		break;
	case 13:
		errno = posix_spawnp(&child, name, NULL, NULL, words, environ);
		break;
	default: return -1;
	}
	if (errno)
		return -1;
	wait_for(child);
	_exit(0);
}

static void setup(void)
{
	program = getenv("PROGRAM");
	name = strrchr(program, '/') + 1;
	words[0] = program;
	words[1] = (char *)"preloaded";
	words[2] = (char *)folder;
	words[3] = (char *)"plain";
	program_fd = open(program, O_RDONLY);
	NEED(program_fd >= 0, "%s", strerror(errno));
}

static pid_t begin(int call, bool by_vfork, int out)
{
	pid_t child = by_vfork ? vfork() : fork();

	if (child == 0) {
		dup2(out, STDOUT_FILENO);
		run_by(call);
		_exit(9);
	}
	return child;
}

/* Runs it in a child that vfork() makes, or fork(), and reads what it prints. */
static void ask(int call, bool by_vfork, char answer[ANSWER_BYTES])
{
	ssize_t n = 0, more;
	int ends[2];
	pid_t child;

	NEED(pipe2(ends, O_CLOEXEC) == 0, "%s", strerror(errno));
	child = begin(call, by_vfork, ends[1]);
	close(ends[1]);
	while ((more = read(ends[0], answer + n, (size_t)(ANSWER_BYTES - 1 - n))) > 0)
		n += more;
	answer[n] = '\0';
	close(ends[0]);
	wait_for(child);
}

/* Each function that runs a program gives it the LD_PRELOAD in EXPECTED. */
static void way_exec(void)
{
	const char *expected = getenv("EXPECTED");
	char answer[ANSWER_BYTES], *volatile nowhere = (char *)16;
	char **volatile no_words = (char **)16;
	int fd = warm_open(1);

	setup();
	for (int call = 0; call < 2 * NR_CALLS; call++) {
		ask(call % NR_CALLS, call >= NR_CALLS && call % NR_CALLS < 12, answer);
		NEED(strcmp(answer, expected) == 0, "call %d: '%s', not '%s'", call,
		     answer, expected);
	}
	NEED(is_served(fd, 1) == cached, "afterwards");
	NEED(execve("/no/such/program", words, environ) == -1 && errno == ENOENT,
	     "errno %d", errno);
	NEED(execve(nowhere, words, environ) == -1 && errno == EFAULT, "errno %d",
	     errno);
	NEED(execve(folder, words, no_words) == -1 && errno == EACCES, "errno %d",
	     errno);
	NEED(execvp("no-such-program", words) == -1 && errno == ENOENT, "errno %d",
	     errno);
}

/* The program that is run. */
static void way_preloaded(void)
{
	const char *libraries = getenv("LD_PRELOAD");

	printf("%s", libraries ? libraries : "none");
	fflush(stdout);
}

/* A look at the program must not drop a lock that this process has on it. */
static void way_exec_locked(void)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	pid_t child;

	setup();
	NEED(fcntl(program_fd, F_SETLK, &lock) == 0, "%s", strerror(errno));
	NEED(posix_spawn(&child, program, NULL, NULL, words, environ) == 0, "spawn");
	NEED(waitpid(child, NULL, 0) == child, "%s", strerror(errno));
	child = fork();
	if (child == 0) {
		lock.l_type = F_WRLCK;
		NEED(fcntl(program_fd, F_GETLK, &lock) == 0, "%s", strerror(errno));
		NEED(lock.l_type == F_RDLCK && lock.l_pid == getppid(), "lock %d of %d",
		     lock.l_type, lock.l_pid);
		_exit(0);
	}
	wait_for(child);
}

/* A filter that allows nothing else must not meet a look at a program, or at clone3()'s words. */
static void way_exec_confined(void)
{
	static const unsigned int allowed[] = { SYS_execve, SYS_execveat, SYS_clone3,
		                                SYS_write, SYS_exit_group };

	warm_open(1);
	setup();
	confine(allowed, LENGTH(allowed), 0);
	NEED(execve(program, words, (char *const *)-1) == -1 && errno == EFAULT,
	     "errno %d", errno);
	NEED(execve(folder, words, environ) == -1 && errno == EACCES, "errno %d",
	     errno);
	NEED(execvp("no-such-program", words) == -1 && errno == ENOENT, "errno %d",
	     errno);
	NEED(execveat(AT_FDCWD, folder, words, environ, 0) == -1 && errno == EACCES,
	     "errno %d", errno);
	NEED(syscall(SYS_clone3, words, 88) == -1, "cloned");
	_exit(0);
}

/* Reads again and again, and the cache must not serve it. */
static void way_left_alone(void)
{
	int fd = file_open(1);

	for (int i = 0; i < 300; i++) {
		look(fd, 1);
		NEED(!is_served(fd, 1), "read %d", i);
		usleep(300);
	}
}

const struct way exec_ways[] = {
	{ "exec", way_exec },
	{ "exec_locked", way_exec_locked },
	{ "exec_confined", way_exec_confined },
	{ "preloaded", way_preloaded },
	{ "left_alone", way_left_alone },
	{ NULL, NULL },
};
