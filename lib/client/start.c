/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How the service is started. The program that uses the library, the host, must not notice:
 * it gets no child, no signal, and waits for a limited time. `lodic serve --report-fd N`
 * writes one int to descriptor N: 0 once the service listens, or why it does not. It then
 * sheds what it has inherited (cli/daemon.h).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/client/start.h"
#include "lib/settings.h"

/* Of each of the two processes; each calls a handful of functions. */
#define STACK_BYTES ((size_t)64 << 10)
#define MAX_ARGUMENTS 20
/* No valid size is as long. */
#define VARIABLE_BYTES 128

/* TSan takes clone() for a fork, and from then on misses what orders threads here. It does not
 * know this other name. */
#ifdef __SANITIZE_THREAD__
extern __typeof__(clone) __clone;
#define clone __clone
#define NOT_FOR_TSAN __attribute__((no_sanitize_thread))
#else
#define NOT_FOR_TSAN
#endif

/* Where `lodic` is, seen from the folder of the library: built, or installed. So the library
 * carries no path of the machine that built it, and an installed tree may move. */
static const char *const start_places[] = { "lodic", "../bin/lodic",
	                                    "../../bin/lodic" };

/* A folder passes access(2) too, and where liblodic is installed there is one: the shim of
 * `lodic map` lies in LIBDIR/lodic. */
static bool start_is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *start_find_program(void)
{
	Dl_info info;
	char *path = NULL;
	const char *slash;

	if (dladdr((void *)start_find_program, &info) && info.dli_fname &&
	    (slash = strrchr(info.dli_fname, '/'))) {
		for (size_t i = 0; i < sizeof(start_places) / sizeof(*start_places);
		     i++) {
			if (asprintf(&path, "%.*s/%s", (int)(slash - info.dli_fname),
			             info.dli_fname, start_places[i]) < 0)
				return NULL;
			if (start_is_program(path))
				return path;
			free(path);
		}
	}
	return strdup("");
}

/* What the two processes below share with this one. */
struct start_child {
	const char *program;
	char **arguments;
	char **environment;
	char *stack; /* the program's, until it is executed */
	int report;
	int error; /* why it is not executed: a positive errno */
};

/* Becomes the program. */
static NOT_FOR_TSAN int start_execute(void *arg)
{
	struct start_child *child = arg;

	/* This process has a table of descriptors of its own. */
	if (fcntl(child->report, F_SETFD, 0) == 0)
		execve(child->program, child->arguments, child->environment);
	child->error = errno;
	return 1; /* clone() ends the process */
}

/* Starts the program and is gone, so that init inherits the program. It must not become the
 * program itself: exec() would let it send SIGCHLD again. */
static NOT_FOR_TSAN int start_between(void *arg)
{
	struct start_child *child = arg;
	pid_t pid = clone(start_execute, child->stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
	                  child);

	if (pid < 0)
		child->error = errno;
	else if (child->error)
		waitpid(pid, NULL, 0);
	return 0;
}

static int start_block_signals(int how, const sigset_t *set, sigset_t *ret_old)
{
	/* pthread_sigmask() would leave out the two that libc keeps for itself. */
	return (int)syscall(SYS_rt_sigprocmask, how, set, ret_old, NSIG / 8);
}

/* Starts the program as nobody's child here: the host program's wait() does not see it, and
 * gets no SIGCHLD. Both processes run on memory of this one, while its thread waits. */
static int start_spawn(struct start_child *child)
{
	const size_t bytes = (size_t)2 * STACK_BYTES;
	char *stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, old;
	pid_t pid;

	if (stacks == MAP_FAILED)
		return -errno;
	child->stack = stacks + bytes;
	/* A handler of the host must not run in a process that it does not know of. */
	memset(&all, 0xff, sizeof(all));
	start_block_signals(SIG_SETMASK, &all, &old);
	pid = clone(start_between, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK, child);
	if (pid < 0)
		child->error = errno;
	/* Its exit signal is none, so that only a wait for such children finds it. All signals are
	 * blocked: it ends when that process has, which does a handful of things. */
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	start_block_signals(SIG_SETMASK, &old, NULL);
	munmap(stacks, bytes);
	return -child->error;
}

/* What the program says: 0 or -errno. */
static int start_hear(int fd, u64 deadline_ns)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	u64 now;
	int answer, ready = 0;

	while (ready <= 0) {
		now = host_now_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		ready = poll(&wait, 1, (int)((deadline_ns - now) / 1000000 + 1));
		if (ready < 0 && errno != EINTR)
			return -errno;
	}
	if (read(fd, &answer, sizeof(answer)) != sizeof(answer))
		return -ECONNRESET; /* it has ended, or is not `lodic` */
	return answer >= 0 && answer < 4096 ? -answer : -EPROTO;
}

/* The one variable that the program reads. It gets no other: they are the host's. */
static int start_environment(char variable[VARIABLE_BYTES], char **ret_variable)
{
	const char *memory = getenv("LODIC_MEMORY");

	*ret_variable = NULL;
	if (!memory)
		return 0;
	if (snprintf(variable, VARIABLE_BYTES, "LODIC_MEMORY=%s", memory) >=
	    VARIABLE_BYTES)
		return -EINVAL;
	*ret_variable = variable;
	return 0;
}

static int start_run(const struct start *start, char **arguments, int report,
                     int outcome)
{
	u64 deadline_ns = host_now_ns() + (u64)start->wait_ms * 1000000;
	char variable[VARIABLE_BYTES];
	char *environment[] = { NULL, NULL };
	struct start_child child = { .program = start->program,
		                     .arguments = arguments,
		                     .environment = environment,
		                     .report = report };
	int err = start_environment(variable, &environment[0]);

	if (!err)
		err = start_spawn(&child);
	close(report);
	if (!err && start->wait_ms)
		err = start_hear(outcome, deadline_ns);
	/* Another process's service was faster. */
	return err == -EADDRINUSE ? 0 : err;
}

int start_service(const struct start *start)
{
	char memory[32], idle[32], report[16], user[16];
	char *arguments[MAX_ARGUMENTS] = { "lodic", "serve", "--report-fd", report };
	int nr = 4, ends[2], err;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	snprintf(report, sizeof(report), "%d", ends[1]);
	snprintf(memory, sizeof(memory), "%llu",
	         (unsigned long long)start->cache_bytes);
	snprintf(idle, sizeof(idle), "%u.%03u", start->idle_exit_ms / 1000,
	         start->idle_exit_ms % 1000);
	snprintf(user, sizeof(user), "%u", start->user);
	if (start->socket_path) {
		arguments[nr++] = "--socket";
		arguments[nr++] = start->socket_path;
	}
	if (start->for_user) {
		arguments[nr++] = "--user";
		arguments[nr++] = user;
		arguments[nr++] = "--keep-lease";
	}
	if (start->cache_bytes) {
		arguments[nr++] = "--memory";
		arguments[nr++] = memory;
	}
	if (start->scheme) {
		arguments[nr++] = "--scheme";
		arguments[nr++] = (char *)settings_scheme_name(start->scheme);
	}
	if (start->idle_exit_ms) {
		arguments[nr++] = "--idle-exit";
		arguments[nr++] = idle;
	}
	err = start_run(start, arguments, ends[1], ends[0]);
	close(ends[0]);
	return err;
}
