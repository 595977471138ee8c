/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service from its start to its end. This is what it tells its log, its manager and the program
 * that started it. It may take another one's place, and may go to the background.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/log.h"
#include "cli/serve.h"

#define MIB_SHIFT 20 /* sizes are printed in MiB */
/* How long --replace waits for the other service's end, and how often it looks. */
#define REPLACE_WAIT_NS UINT64_C(10000000000)
#define REPLACE_POLL_NS 10000000
/* From one line of a start to the next, or to its end. The service has one every 2 s while it asks
 * for huge pages; what it does between two others takes less. */
#define START_LINE_US 30000000u

void serve_configure_log(const struct serve *s, const struct settings *settings)
{
	enum service_level level = settings->from[SETTING_LOG_LEVEL]
	                                   ? (enum service_level)settings->log_level
	                                   : SERVICE_INFO;

	log_configure(settings->log_json, s->quiet ? SERVICE_ERROR : level);
}

static void on_say(void *arg, enum service_level level, const char *event,
                   const char *line)
{
	const struct serve *s = arg;

	/* A large cache takes its time. The manager then waits for the next line. */
	if (!s->ready)
		notify_send("EXTEND_TIMEOUT_USEC=%u", START_LINE_US);
	log_say(level, event, "%s", line);
}

void serve_report(struct serve *s, int error)
{
	int answer = -error;
	struct iovec said[] = { { &answer, sizeof(answer) },
		                { (void *)log_last_error(), 0 } };

	if (s->report < 0)
		return;
	if (error)
		said[1].iov_len = strlen(log_last_error());
	/* If that program has gone, programs can connect all the same. */
	if (writev(s->report, said, 2) >= (ssize_t)sizeof(answer) && !error)
		daemon_silence(!s->started, s->journal);
	close(s->report);
	s->report = -1;
}

static unsigned long long serve_mib(const struct serve *s)
{
	const struct service_sizes *sizes = &s->options.sizes;

	return (sizes->budget_bytes ? sizes->budget_bytes
	                            : sizes->cache_bytes + sizes->hold_bytes) >>
	       MIB_SHIFT;
}

static void tell_status(const struct serve *s)
{
	notify_send("STATUS=serving %llu MiB at %s", serve_mib(s), s->settings.socket);
}

/* Somebody has resized the cache: the next service shall have that size. Without a budget holds
 * keep their part. */
static void on_resized(void *arg, uint64_t bytes)
{
	struct serve *s = arg;
	bool parts = s->options.sizes.budget_bytes == 0;

	*(parts ? &s->options.sizes.cache_bytes : &s->options.sizes.budget_bytes) = bytes;
	s->settings.memory_bytes = bytes + (parts ? s->options.sizes.hold_bytes : 0);
	/* A size that stands in a configuration file is found there. Otherwise the next service
	 * must split it in the same way. */
	if (s->settings.memory_bytes != s->told.memory_bytes ||
	    s->settings.from[SETTING_MEMORY] == SETTINGS_NOBODY) {
		s->settings.from[SETTING_MEMORY] = SETTINGS_OPTION;
		if (parts) {
			s->settings.from[SETTING_HOLDS] = SETTINGS_OPTION;
			s->settings.hold_bytes = s->options.sizes.hold_bytes;
		}
	}
	if (settings_leave(&s->settings) != 0)
		log_say(SERVICE_WARNING, "settings", "%s", s->settings.why);
	tell_status(s);
}

/* The next service that starts would refuse it. */
static bool tiers_fit(struct settings *now)
{
	uint64_t cache_bytes = 0, hold_bytes, fast_bytes;

	return settings_split(now, &cache_bytes, &hold_bytes) != 0 ||
	       settings_check_fast(now, cache_bytes, &fast_bytes) == 0;
}

/* SIGHUP. A worker calls it: a user's home may be on a server that does not answer. The manager
 * hears of the end by on_reread_done(). */
static void on_reread(void *arg)
{
	struct serve *s = arg;

	notify_send("RELOADING=1\nMONOTONIC_USEC=%llu",
	            (unsigned long long)(cli_now_ns() / 1000));
	s->now = (struct settings){ 0 };
	s->now_is_wrong = settings_copy(&s->now, &s->said) != 0 ||
	                  settings_gather(&s->now, settings_privileged()) != 0 ||
	                  !tiers_fit(&s->now);
}

/* The configuration files may say something else now. Returns a new size, or 0. */
static uint64_t compare(struct serve *s)
{
	struct settings now = s->now;
	uint64_t bytes = 0;
	int nr = 0;

	if (s->now_is_wrong) {
		log_say(SERVICE_WARNING, "settings", "%s", now.why);
		settings_free(&now);
		return 0;
	}
	if (*now.doubled)
		log_say(SERVICE_WARNING, "settings", "%s", now.doubled);
	for (enum setting i = 0; i < NR_SETTINGS; i++) {
		if (settings_equal(&now, &s->told, i))
			continue;
		nr++;
		if (i == SETTING_MEMORY) {
			s->settings.from[i] = now.from[i];
			bytes = settings_memory(&now);
			continue;
		}
		if (!settings_is_live(i))
			log_say(SERVICE_WARNING, "settings",
			        "`%s' has changed: the service must be started anew for "
			        "that",
			        settings_name(i));
	}
	serve_configure_log(s, &now);
	if (nr == 0)
		log_say(SERVICE_INFO, "settings",
		        "the configuration says what it said before");
	settings_free(&s->told);
	s->told = now;
	if (s->options.sizes.budget_bytes)
		return bytes;
	/* Holds keep their part. */
	if (bytes > 0 && bytes < s->options.sizes.hold_bytes + SERVICE_MIN_CACHE_BYTES) {
		log_say(SERVICE_WARNING, "settings",
		        "the holds leave no room for a cache of that size");
		return 0;
	}
	return bytes > 0 ? bytes - s->options.sizes.hold_bytes : 0;
}

/* A resize that begins with it does not keep the manager waiting. */
static uint64_t on_reread_done(void *arg)
{
	uint64_t bytes = compare(arg);

	notify_send("READY=1");
	return bytes;
}

static void on_alive(void *arg)
{
	(void)arg;
	notify_alive();
}

/* The other service was the manager's main process. It ends next. */
static void on_taking(void *arg)
{
	(void)arg;
	notify_send("MAINPID=%d", (int)getpid());
}

static void on_taken_back(void *arg, int pid)
{
	(void)arg;
	notify_send("MAINPID=%d", pid);
}

static void on_stopping(void *arg)
{
	(void)arg;
	notify_send("STOPPING=1\nSTATUS=ending");
}

/* A service that does not run for so long learns too late of a writer. 0: the kernel waits for
 * ever, which is safe. */
static void warn_of_short_leases(void)
{
	FILE *file = fopen("/proc/sys/fs/lease-break-time", "re");
	int seconds = 0;

	if (file && fscanf(file, "%d", &seconds) == 1 && seconds > 0 &&
	    seconds < SERVICE_LEASE_SECONDS)
		log_say(SERVICE_WARNING, "lease_time",
		        "fs.lease-break-time is %d s: if the service is stopped for longer "
		        "while a program writes, readers see old bytes; set it to 45",
		        seconds);
	if (file)
		fclose(file);
}

static void on_ready(void *arg)
{
	struct serve *s = arg;

	warn_of_short_leases();
	if (settings_leave(&s->settings) != 0)
		log_say(SERVICE_WARNING, "settings", "%s", s->settings.why);
	log_ready("serving %llu MiB at %s, counting by %s", serve_mib(s),
	          s->settings.socket, settings_scheme_name(s->options.tables.scheme));
	s->metrics.socket = s->settings.socket;
	if (metrics_start(&s->metrics) != 0)
		log_say(SERVICE_WARNING, "metrics", "%s", s->metrics.why);
	s->ready = true;
	notify_send("READY=1");
	tell_status(s);
	if (s->report >= 0)
		log_flush(); /* stdout and stderr may go now */
	serve_report(s, 0);
}

/* The process that listens at the path, if it is this user's; 0: there is none. Its lock
 * file would name a dead one between two services. */
static pid_t holder(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);
	bool found;

	strcpy(address.sun_path, path);
	found = fd >= 0 &&
	        connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	        peer.uid == geteuid();
	if (fd >= 0)
		close(fd);
	return found ? peer.pid : 0;
}

/* Another start may do what this one could not: without the other service's cache. */
static bool starts_empty(struct serve *s, int error, const char *why)
{
	if (!s->options.place.takeover || (error != -EPROTO && error != -ETIMEDOUT))
		return false;
	log_say(SERVICE_WARNING, "starts_empty", "the cache starts empty: %s",
	        why ? why : strerror(-error));
	s->options.place.takeover = false;
	return true;
}

/* Runs the service; with --replace, in the other one's place and with its cache. If that cannot be,
 * it runs as soon as the other one has ended. Readers may start another one in between: that one
 * ends, too. */
static int run_or_replace(struct serve *s, const char **ret_why)
{
	const struct timespec pause = { .tv_nsec = REPLACE_POLL_NS };
	uint64_t deadline = 0;
	pid_t pid, told = 0;
	int error;

	for (;;) {
		error = service_run(&s->options, on_ready, s, ret_why);
		if (error && starts_empty(s, error, *ret_why))
			continue;
		deadline = deadline ? deadline : cli_now_ns() + REPLACE_WAIT_NS;
		if (error != -EADDRINUSE || !s->replace || cli_now_ns() > deadline)
			return error;
		s->options.place.takeover = false;
		pid = holder(s->settings.socket);
		if (pid > 0 && pid != told)
			kill(pid, SIGTERM);
		told = pid > 0 ? pid : told;
		nanosleep(&pause, NULL);
	}
}

static void complain(const struct serve *s, int error, const char *why)
{
	const char *hint = "";

	if (error == -EADDRINUSE && !s->replace)
		hint = "; add --replace to take its place";
	else if (s->options.place.takeover && error != -ESHUTDOWN)
		hint = "; the other service goes on, if there is one";
	log_say(SERVICE_ERROR, "cannot_serve", "cannot serve at %s: %s%s",
	        s->settings.socket, why ? why : strerror(-error), hint);
	notify_send("ERRNO=%d\nSTATUS=cannot serve: %s", -error,
	            why ? why : strerror(-error));
}

int serve_run(struct serve *s)
{
	const char *why = NULL;
	int error;

	signal(SIGXFSZ, SIG_IGN); /* a file size limit gives an error instead */
	signal(SIGPIPE, SIG_IGN);
	error = log_start();
	if (error)
		why = "no thread for the log";
	else
		error = run_or_replace(s, &why);
	if (error) {
		complain(s, error, why);
		serve_report(s, error);
	}
	log_flush();
	return error;
}

void serve_connect(struct serve *s)
{
	struct service_options *o = &s->options;

	o->events.say = on_say;
	o->events.say_arg = s;
	o->events.resized = on_resized;
	o->events.reread = on_reread;
	o->events.reread_done = on_reread_done;
	o->events.alive = notify_is_watched() ? on_alive : NULL;
	o->events.stopping = on_stopping;
	o->events.taking = on_taking;
	o->events.taken_back = on_taken_back;
}

/* It has ended without a word. */
static void complain_of_death(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		cli_error("the service has died before it served: %s",
		          strsignal(WTERMSIG(status)));
	else
		cli_error("the service has ended before it served, with status %d",
		          WEXITSTATUS(status));
}

int serve_in_background(struct serve *s)
{
	int ends[2], answer = -1;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
		cli_error("cannot go to the background: %s", strerror(errno));
		return CLI_FAILED;
	}
	if (pid == 0) {
		s->report = daemon_leave(ends[1]);
		clearenv();
		_exit(serve_run(s) ? CLI_FAILED : CLI_OK);
	}
	close(ends[1]);
	do
		n = read(ends[0], &answer, sizeof(answer));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (n != sizeof(answer))
		complain_of_death(pid);
	return n == sizeof(answer) && answer == 0 ? CLI_OK : CLI_FAILED;
}
