/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. This process, and the start of another one. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <os_impl.h>

#define PASSWORD_BYTES 16384 /* an entry of the password database */
/* Of each of the two processes; each calls a handful of functions. */
#define STACK_BYTES ((size_t)64 << 10)

uint32_t port_user(void)
{
	return geteuid();
}

int port_process(void)
{
	return getpid();
}

bool port_is_privileged(void)
{
	return getauxval(AT_SECURE) != 0;
}

const char *port_variable(const char *name)
{
	return getenv(name);
}

int port_folder(char *to, size_t bytes)
{
	return getcwd(to, bytes) ? 0 : -errno;
}

int port_user_named(const char *name, uint32_t *ret_user)
{
	char entry[PASSWORD_BYTES];
	struct passwd user, *found = NULL;

	if (getpwnam_r(name, &user, entry, sizeof(entry), &found) != 0 || !found)
		return -ENOENT;
	*ret_user = user.pw_uid;
	return 0;
}

int port_home(uint32_t user, char *to, size_t bytes)
{
	char entry[PASSWORD_BYTES];
	struct passwd entry_of, *found = NULL;

	if (getpwuid_r(user, &entry_of, entry, sizeof(entry), &found) != 0 || !found ||
	    snprintf(to, bytes, "%s", entry_of.pw_dir) >= (int)bytes)
		return -ENOENT;
	return 0;
}

/* What the two processes below share with this one. */
struct process_child {
	const struct port_program *program;
	char *stack; /* the program's, until it is executed */
	int error;   /* why it is not executed: a positive errno */
};

/* Becomes the program. */
static NOT_FOR_TSAN int process_execute(void *arg)
{
	struct process_child *child = arg;
	const struct port_program *p = child->program;

	/* This process has a table of descriptors of its own. */
	if (os_fcntl(p->kept, F_SETFD, 0) == 0 && dup2(p->errors, STDERR_FILENO) >= 0 &&
	    os_fcntl(STDERR_FILENO, F_SETFD, 0) ==
	            0) /* it may have been that already */
		os_execve(p->path, p->arguments, p->environment);
	child->error = errno;
	return 1; /* clone() ends the process */
}

/* Starts the program and is gone, so that init inherits the program. It must not become the
 * program itself: exec() would let it send SIGCHLD again. */
static NOT_FOR_TSAN int process_between(void *arg)
{
	struct process_child *child = arg;
	pid_t pid = os_clone(process_execute, child->stack,
	                     CLONE_VM | CLONE_VFORK | SIGCHLD, child);

	if (pid < 0)
		child->error = errno;
	else if (child->error)
		waitpid(pid, NULL, 0);
	return 0;
}

/* Both processes run on memory of this one, while its thread waits. */
int port_spawn(const struct port_program *program)
{
	const size_t bytes = (size_t)2 * STACK_BYTES;
	struct process_child child = { .program = program };
	char *stacks = os_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, old;
	pid_t pid;

	if (stacks == MAP_FAILED)
		return -errno;
	child.stack = stacks + bytes;
	/* A handler of the host must not run in a process that it does not know of. */
	memset(&all, 0xff, sizeof(all));
	os_block_signals(&all, &old);
	pid = os_clone(process_between, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK,
	               &child);
	if (pid < 0)
		child.error = errno;
	/* Its exit signal is none, so that only a wait for such children finds it. All signals are
	 * blocked: it ends when that process has, which does a handful of things. */
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	os_block_signals(&old, NULL);
	os_munmap(stacks, bytes);
	return -child.error;
}
