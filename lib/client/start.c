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
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/client/start.h"
#include "lib/port.h"
#include "lib/settings.h"

#define MAX_ARGUMENTS 20
/* No valid size is as long. */
#define VARIABLE_BYTES 128
/* Of what a program says before it ends. */
#define TEXT_BYTES 4096

/* Where `lodic` is, seen from the folder of the library: built, or installed. So the library
 * carries no path of the machine that built it, and an installed tree may move. */
static const char *const start_places[] = { "lodic", "../bin/lodic",
	                                    "../../bin/lodic" };

char *start_find_program(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info info;

	if (dladdr((void *)start_find_program, &info) && info.dli_fname &&
	    (slash = strrchr(info.dli_fname, '/'))) {
		for (size_t i = 0; i < sizeof(start_places) / sizeof(*start_places);
		     i++) {
			snprintf(path, sizeof(path), "%.*s/%s",
			         (int)(slash - info.dli_fname), info.dli_fname,
			         start_places[i]);
			/* Where liblodic is installed, a folder lies there: LIBDIR/lodic. */
			if (port_may_run(path))
				return port_text(path);
		}
	}
	return port_text("");
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
	int64_t n;

	while (bytes < TEXT_BYTES &&
	       (n = port_take(fd, text + bytes, TEXT_BYTES - bytes)) > 0)
		bytes += (size_t)n;
	return bytes;
}

/* What the program says: 0 or -errno. */
static int start_hear(int fd, int errors, u64 deadline_ns, struct start_failure *ret)
{
	char text[TEXT_BYTES];
	int answer, ready = 0;
	u64 now;

	while (ready <= 0) {
		now = host_now_ns();
		if (now >= deadline_ns) {
			ret->reason = LODIC_REASON_SLOW_START;
			return -ETIMEDOUT;
		}
		ready = port_wait(fd, PORT_INPUT,
		                  (int)((deadline_ns - now) / 1000000 + 1));
		if (ready < 0 && ready != -EINTR) {
			ret->reason = LODIC_REASON_NOT_STARTED;
			return ready;
		}
	}
	/* The int and the words come by one write(), so that they are there together. */
	if (port_take(fd, &answer, sizeof(answer)) != sizeof(answer)) {
		answer = ECONNRESET; /* it has ended, or is not `lodic` */
		fd = errors;
	}
	if (answer == 0)
		return 0;
	start_take_words(text, start_read_rest(fd, text), ret->words);
	ret->reason =
		*ret->words ? LODIC_REASON_REFUSED_START : LODIC_REASON_DIED_STARTING;
	return answer > 0 && answer <= REASON_ERRNO_MASK ? -answer : -EPROTO;
}

/* The one variable that the program reads. It gets no other: they are the host's. */
static int start_environment(char variable[VARIABLE_BYTES], char **ret_variable)
{
	const char *memory = port_variable("LODIC_MEMORY");

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
	const struct port_program program = { .path = start->program,
		                              .arguments = arguments,
		                              .environment = environment,
		                              .kept = outcome[1],
		                              .errors = errors[1] };
	int err = start_environment(variable, &environment[0]);

	if (!err)
		err = port_spawn(&program);
	port_close(outcome[1]);
	port_close(errors[1]);
	if (err)
		start_refuse(start, err, ret);
	else if (start->wait_ms)
		err = start_hear(outcome[0], errors[0], deadline_ns, ret);
	port_close(outcome[0]);
	port_close(errors[0]);
	/* Another process's service was faster. */
	return err == -EADDRINUSE ? 0 : err;
}

/* errors comes first, so that outcome[1] never has the number of stderr. */
static int start_pipes(int outcome[2], int errors[2])
{
	int err = port_pipe(errors);

	if (err)
		return err;
	err = port_pipe(outcome);
	if (err) {
		port_close(errors[0]);
		port_close(errors[1]);
	}
	return err;
}

int start_service(const struct start *start, struct start_failure *ret)
{
	char memory[32], holds[32], idle[32], report[16], user[16];
	char *arguments[MAX_ARGUMENTS] = { "lodic", "serve", "--report-fd", report };
	int err, nr = 4, outcome[2], errors[2];

	*ret = (struct start_failure){ 0 };
	err = start_pipes(outcome, errors);
	if (err)
		return start_refuse(start, err, ret);
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
