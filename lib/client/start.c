/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How the service is started. The program that uses the library, the host, must not notice:
 * it gets no child, no signal, and waits for a limited time. `lodic serve --report-fd N`
 * writes one int to descriptor N: 0 once the service listens. Otherwise it is the errno, and the
 * last sentence of the service follows. It then sheds what it has inherited (cli/daemon.h).
 *
 * The program's stderr is another pipe. There the loader says which library it lacks. Nothing of
 * that must come to the host's stderr.
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
/* Of what a program says before it ends. */
#define TEXT_BYTES 4096

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
	int report, errors; /* where it writes: the int, and its stderr */
	int error; /* why it is not executed: a positive errno */
};

/* Becomes the program. */
static NOT_FOR_TSAN int start_execute(void *arg)
{
	struct start_child *child = arg;

	/* This process has a table of descriptors of its own. */
	if (fcntl(child->report, F_SETFD, 0) == 0 &&
	    dup2(child->errors, STDERR_FILENO) >= 0 &&
	    fcntl(STDERR_FILENO, F_SETFD, 0) == 0) /* it may have been that already */
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

/* The last line of text, which may have any byte in it. */
static void start_take_words(const char *text, size_t bytes, char *words)
{
	size_t from = 0, n = 0;

	while (bytes > 0 && text[bytes - 1] == '\n')
		bytes--;
	for (size_t i = 0; i < bytes; i++)
		if (text[i] == '\n')
			from = i + 1;
	for (; from < bytes && n < ERROR_WORDS_BYTES - 1; from++)
		words[n++] = (unsigned char)text[from] < ' ' ? '?' : text[from];
	words[n] = '\0';
}

/* What is in a pipe whose writer has ended, or has said that it will: of much the beginning. It
 * does not wait: something else may have the other end. */
static size_t start_read_rest(int fd, char text[TEXT_BYTES])
{
	size_t bytes = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (bytes < TEXT_BYTES && (n = read(fd, text + bytes, TEXT_BYTES - bytes)) > 0)
		bytes += (size_t)n;
	return bytes;
}

/* What the program says: 0 or -errno. */
static int start_hear(int fd, int errors, u64 deadline_ns, struct start_failure *ret)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char text[TEXT_BYTES];
	int answer, ready = 0;
	u64 now;

	while (ready <= 0) {
		now = host_now_ns();
		if (now >= deadline_ns) {
			ret->reason = LODIC_REASON_SLOW_START;
			return -ETIMEDOUT;
		}
		ready = poll(&wait, 1, (int)((deadline_ns - now) / 1000000 + 1));
		if (ready < 0 && errno != EINTR) {
			ret->reason = LODIC_REASON_NOT_STARTED;
			return -errno;
		}
	}
	/* The int and the words come by one write(), so that they are there together. */
	if (read(fd, &answer, sizeof(answer)) != sizeof(answer)) {
		answer = ECONNRESET; /* it has ended, or is not `lodic` */
		fd = errors;
	}
	if (answer == 0)
		return 0;
	start_take_words(text, start_read_rest(fd, text), ret->words);
	ret->reason = *ret->words ? LODIC_REASON_REFUSED_START
	                          : LODIC_REASON_DIED_STARTING;
	return answer > 0 && answer <= REASON_ERRNO_MASK ? -answer : -EPROTO;
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

/* Why the program could not be executed. */
static int start_refuse(const struct start *start, int err, struct start_failure *ret)
{
	ret->reason = err == -EMFILE ? LODIC_REASON_OWN_DESCRIPTORS
	                             : LODIC_REASON_NOT_STARTED;
	if (err == -EMFILE)
		return err;
	snprintf(ret->words, sizeof(ret->words), "%s cannot be started: %s",
	         start->program, strerrordesc_np(-err));
	return err;
}

/* outcome and errors: a pipe each, [1] for the program. */
static int start_run(const struct start *start, char **arguments, int outcome[2],
                     int errors[2], struct start_failure *ret)
{
	u64 deadline_ns = host_now_ns() + (u64)start->wait_ms * 1000000;
	char variable[VARIABLE_BYTES];
	char *environment[] = { NULL, NULL };
	struct start_child child = { .program = start->program,
		                     .arguments = arguments,
		                     .environment = environment,
		                     .report = outcome[1],
		                     .errors = errors[1] };
	int err = start_environment(variable, &environment[0]);

	if (!err)
		err = start_spawn(&child);
	close(outcome[1]);
	close(errors[1]);
	if (err)
		start_refuse(start, err, ret);
	else if (start->wait_ms)
		err = start_hear(outcome[0], errors[0], deadline_ns, ret);
	close(outcome[0]);
	close(errors[0]);
	/* Another process's service was faster. */
	return err == -EADDRINUSE ? 0 : err;
}

/* 0, or -1 and errno. errors comes first, so that outcome[1] never has the number of stderr. */
static int start_pipes(int outcome[2], int errors[2])
{
	int error;

	if (pipe2(errors, O_CLOEXEC) != 0)
		return -1;
	if (pipe2(outcome, O_CLOEXEC) == 0)
		return 0;
	error = errno;
	close(errors[0]);
	close(errors[1]);
	errno = error;
	return -1;
}

int start_service(const struct start *start, struct start_failure *ret)
{
	char memory[32], holds[32], idle[32], report[16], user[16];
	char *arguments[MAX_ARGUMENTS] = { "lodic", "serve", "--report-fd", report };
	int nr = 4, outcome[2], errors[2];

	*ret = (struct start_failure){ 0 };
	if (start_pipes(outcome, errors) != 0)
		return start_refuse(start, -errno, ret);
	snprintf(report, sizeof(report), "%d", outcome[1]);
	snprintf(memory, sizeof(memory), "%llu",
	         (unsigned long long)start->cache_bytes);
	snprintf(holds, sizeof(holds), "%llu", (unsigned long long)start->hold_bytes);
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
	if (start->hold_bytes) {
		arguments[nr++] = "--holds";
		arguments[nr++] = holds;
	}
	if (start->scheme) {
		arguments[nr++] = "--scheme";
		arguments[nr++] = (char *)settings_scheme_name(start->scheme);
	}
	if (start->idle_exit_ms) {
		arguments[nr++] = "--idle-exit";
		arguments[nr++] = idle;
	}
	return start_run(start, arguments, outcome, errors, ret);
}
