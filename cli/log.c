/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contract: cli/log.h. The lock guards everything in the_log. Nobody holds it for longer than a
 * copy of one line, and never while it writes.
 */
#define _GNU_SOURCE
#include "cli/log.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "lib/settings.h"

#define TEXT_BYTES 768
/* A byte of a text may become four, and five in JSON (lib/escape.h). A line shorter than PIPE_BUF
 * stays in one piece. */
#define LINE_BYTES 4096
#define NR_EVENTS 64u /* the program has fewer; what comes on top is not limited */
#define LOOK_NS 500000000
#define FLUSH_NS 200000000
#define NS_PER_S 1000000000
#define NS_PER_MS 1000000

struct entry {
	struct timespec when;
	enum service_level level;
	const char *event;
	bool to_stdout;
	char text[TEXT_BYTES];
};

/* How often one event came in the period that began then. */
struct limit {
	const char *event;
	uint64_t since_ns;
	uint32_t nr;
	uint64_t left_out;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wanted, written;
	bool journal, json, runs, writing;
	enum service_level most;
	uint32_t head, nr; /* of queue */
	uint64_t lost;     /* lines for which there was no room */
	struct limit limits[NR_EVENTS];
	struct entry queue[LOG_QUEUE];
	char last_error[TEXT_BYTES];
} the_log = { .lock = PTHREAD_MUTEX_INITIALIZER, .most = SERVICE_INFO };

bool log_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	the_log.journal = text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 &&
	                  fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
	                  st.st_ino == ino;
	return the_log.journal;
}

void log_configure(bool json, enum service_level level)
{
	pthread_mutex_lock(&the_log.lock);
	the_log.json = json;
	the_log.most = level;
	pthread_mutex_unlock(&the_log.lock);
}

/* ---- who says something; the lock is held ---- */

static void log_queue(const struct entry *e)
{
	if (the_log.nr == LOG_QUEUE) {
		the_log.lost++;
		return;
	}
	the_log.queue[(the_log.head + the_log.nr++) % LOG_QUEUE] = *e;
	if (the_log.runs)
		pthread_cond_signal(&the_log.wanted);
}

static void log_make(struct entry *e, enum service_level level, const char *event)
{
	*e = (struct entry){ .level = level, .event = event };
	clock_gettime(CLOCK_REALTIME, &e->when);
}

/* The period is over. */
static void log_renew(struct limit *l, uint64_t now)
{
	struct entry e;

	if (l->left_out > 0) {
		log_make(&e, SERVICE_WARNING, "left_out");
		snprintf(e.text, sizeof(e.text),
		         "%llu more lines like \"%s\" are left out",
		         (unsigned long long)l->left_out, l->event);
		log_queue(&e);
	}
	l->since_ns = now;
	l->nr = 0;
	l->left_out = 0;
}

static bool log_is_too_often(const char *event)
{
	uint64_t now = cli_now_ns();
	struct limit *l = the_log.limits;

	while (l < the_log.limits + NR_EVENTS && l->event &&
	       strcmp(l->event, event) != 0)
		l++;
	if (l == the_log.limits + NR_EVENTS)
		return false;
	l->event = event;
	if (now - l->since_ns >= LOG_PERIOD_NS)
		log_renew(l, now);
	if (l->nr < LOG_BURST) {
		l->nr++;
		return false;
	}
	l->left_out++;
	return true;
}

void log_say(enum service_level level, const char *event, const char *format, ...)
{
	struct entry e;
	va_list args;

	log_make(&e, level, event);
	va_start(args, format);
	vsnprintf(e.text, sizeof(e.text), format, args);
	va_end(args);
	pthread_mutex_lock(&the_log.lock);
	if (level <= the_log.most && !log_is_too_often(event))
		log_queue(&e);
	if (level == SERVICE_ERROR)
		strcpy(the_log.last_error, e.text);
	pthread_mutex_unlock(&the_log.lock);
}

const char *log_last_error(void)
{
	return the_log.last_error;
}

void log_ready(const char *format, ...)
{
	struct entry e;
	va_list args;

	log_make(&e, SERVICE_INFO, "serving");
	va_start(args, format);
	vsnprintf(e.text, sizeof(e.text), format, args);
	va_end(args);
	pthread_mutex_lock(&the_log.lock);
	e.to_stdout = !the_log.json;
	if (the_log.most >= (e.to_stdout ? SERVICE_WARNING : SERVICE_INFO))
		log_queue(&e);
	pthread_mutex_unlock(&the_log.lock);
}

/* ---- who writes ---- */

/* All of it, or what the other end takes before it goes. */
static void log_write(int fd, const char *line, size_t bytes)
{
	struct pollfd wait = { .fd = fd, .events = POLLOUT };

	while (bytes > 0) {
		ssize_t n = write(fd, line, bytes);

		if (n < 0 && errno == EAGAIN) /* another program's choice */
			poll(&wait, 1, -1);
		else if (n < 0 && errno != EINTR)
			return;
		line += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
}

/* What is behind "<": the levels of syslog(3). */
static unsigned int log_priority(enum service_level level)
{
	static const unsigned char priorities[] = { 3, 4, 6, 7 };

	return priorities[level];
}

static size_t log_print_json(const struct entry *e, char line[LINE_BYTES])
{
	char time[48];
	struct tm tm;
	json_t *o = json_object();
	size_t n;

	gmtime_r(&e->when.tv_sec, &tm);
	n = strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(time + n, sizeof(time) - n, ".%03ldZ", e->when.tv_nsec / NS_PER_MS);
	json_object_set_new(o, "time", json_string(time));
	json_object_set_new(o, "level", json_string(settings_level_name(e->level)));
	json_object_set_new(o, "event", json_string(e->event));
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "message", text_json(e->text));
	n = json_dumpb(o, line, LINE_BYTES, JSON_COMPACT);
	json_decref(o);
	return n;
}

/* As in other commands an error is not called one. */
static size_t log_print_text(const struct entry *e, char line[LINE_BYTES])
{
	const char *level = e->level == SERVICE_WARNING ? "warning: "
	                    : e->level == SERVICE_DEBUG ? "debug: "
	                                                : "";
	/* A path may have any byte in it; an event has one line. */
	char *text = text_escape(e->text);
	size_t n = 0;

	if (text && the_log.journal && !e->to_stdout)
		n = (size_t)snprintf(line, LINE_BYTES, "%s", text);
	else if (text)
		n = (size_t)snprintf(line, LINE_BYTES, "lodic: %s%s", level, text);
	free(text);
	return n;
}

static void log_print(const struct entry *e, bool json)
{
	char line[LINE_BYTES + 8], body[LINE_BYTES];
	size_t n = json ? log_print_json(e, body) : log_print_text(e, body);
	int prefix = 0;

	if (n == 0 || n > sizeof(body))
		return; /* no memory */
	if (the_log.journal && !e->to_stdout)
		prefix = snprintf(line, sizeof(line), "<%u>", log_priority(e->level));
	memcpy(line + prefix, body, n);
	line[(size_t)prefix + n] = '\n';
	log_write(e->to_stdout ? STDOUT_FILENO : STDERR_FILENO, line,
	          (size_t)prefix + n + 1);
}

/* The oldest line, or how many are missing. false: there is none. The lock is held. */
static bool log_take(struct entry *ret)
{
	if (the_log.nr == 0 && the_log.lost > 0) {
		log_make(ret, SERVICE_WARNING, "lost");
		snprintf(ret->text, sizeof(ret->text),
		         "%llu lines are lost: nobody read the log in time",
		         (unsigned long long)the_log.lost);
		the_log.lost = 0;
		return true;
	}
	if (the_log.nr == 0)
		return false;
	*ret = the_log.queue[the_log.head];
	the_log.head = (the_log.head + 1) % LOG_QUEUE;
	the_log.nr--;
	return true;
}

/* Tells what was left out, when its period is over. true: some period is not. */
static bool log_renew_all(void)
{
	uint64_t now = cli_now_ns();
	bool more = false;

	for (unsigned int i = 0; i < NR_EVENTS && the_log.limits[i].event; i++) {
		struct limit *l = &the_log.limits[i];

		if (l->left_out > 0 && now - l->since_ns >= LOG_PERIOD_NS)
			log_renew(l, now);
		more |= l->left_out > 0;
	}
	return more;
}

/* The lock is held. */
static void log_wait(void)
{
	bool more = log_renew_all();
	struct timespec until;

	if (the_log.nr > 0 || the_log.lost > 0)
		return;
	if (!more) {
		pthread_cond_wait(&the_log.wanted, &the_log.lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOOK_NS;
	until.tv_sec += until.tv_nsec / NS_PER_S;
	until.tv_nsec %= NS_PER_S;
	pthread_cond_timedwait(&the_log.wanted, &the_log.lock, &until);
}

/* Writes all that there is. The lock is held, but not while it writes. */
static void log_drain(void)
{
	struct entry e;
	bool json;

	while (log_take(&e)) {
		json = the_log.json;
		the_log.writing = true;
		pthread_mutex_unlock(&the_log.lock);
		log_print(&e, json);
		pthread_mutex_lock(&the_log.lock);
		the_log.writing = false;
	}
	pthread_cond_broadcast(&the_log.written);
}

static void *log_run(void *arg)
{
	pthread_mutex_lock(&the_log.lock);
	for (;;) {
		log_drain();
		log_wait();
	}
	return arg;
}

int log_start(void)
{
	pthread_condattr_t attributes;
	pthread_t thread;
	sigset_t all, old;
	int err;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&the_log.wanted, &attributes);
	pthread_cond_init(&the_log.written, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	the_log.runs = true;
	err = pthread_create(&thread, NULL, log_run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		the_log.runs = false;
	else
		pthread_detach(thread);
	return -err;
}

void log_flush(void)
{
	struct timespec until;
	int err = 0;

	pthread_mutex_lock(&the_log.lock);
	if (!the_log.runs)
		log_drain();
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += FLUSH_NS;
	until.tv_sec += until.tv_nsec / NS_PER_S;
	until.tv_nsec %= NS_PER_S;
	while ((the_log.nr > 0 || the_log.writing) && err == 0)
		err = pthread_cond_timedwait(&the_log.written, &the_log.lock, &until);
	pthread_mutex_unlock(&the_log.lock);
}
