/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic serve`: the cache's service. It runs in the foreground, in the background
 * (--daemon), or for a program that uses the library (--report-fd, see lib/client/start.c).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/metrics.h"
#include "cli/notify.h"
#include "lib/service/service.h"
#include "lib/settings.h"
#include "lodic/lodic.h"
#include "measure/cli.h"

#define MIB_SHIFT 20 /* sizes are printed in MiB */
/* How long a service that a program has started stays without a client. */
#define STARTED_IDLE_EXIT_MS 10000u
/* How long --replace waits for the other service's end, and how often it looks. */
#define REPLACE_WAIT_NS UINT64_C(10000000000)
#define REPLACE_POLL_NS 10000000
/* From one line of a start to the next, or to its end. The service has one every 2 s while it asks
 * for huge pages; what it does between two others takes less. */
#define START_LINE_US 30000000u

enum { KEY_DAEMON = 0x1000, KEY_REPORT_FD, KEY_REPLACE, KEY_METRICS, KEY_SETTING };

struct serve {
	struct settings settings;
	struct settings said; /* by options alone */
	struct settings
		told; /* by these and all other sources, when they were last read */
	struct service_options options;
	bool quiet;
	bool daemon;
	bool replace;
	bool started; /* a program has started this service */
	bool ready;   /* programs can connect */
	struct notify_passed passed;
	struct metrics metrics;
	int report; /* to tell how the start went; -1: nobody asks */
};

static const char doc[] =
	"Run the service that fills and owns a cache. A program that uses liblodic starts "
	"it by itself. Run it by hand to choose its size, or to keep the cache when no "
	"program uses it."
	"\v"
	"Examples:\n"
	"  lodic serve --memory 4G\n"
	"  lodic serve --immutable '/srv/models/*' --immutable '/srv/index/*.sst'\n"
	"\n"
	"A file is cached while the service holds a read lease on it (ext4, xfs, btrfs, "
	"f2fs, tmpfs), if it has fs-verity, or if its file system's format cannot be "
	"written (squashfs, erofs, iso9660, cramfs). It is also cached if its path "
	"matches a glob given with --immutable: you then promise that nobody writes to "
	"it. The service ends on Ctrl-C or SIGTERM.\n"
	"\n"
	"What no option says comes from LODIC_SOCKET, LODIC_MEMORY, "
	"~/.config/lodic.conf and /etc/lodic.conf. There `memory = 4G' in a line of its "
	"own is --memory 4G. doc/settings.md tells all of it.";

#define SETTING(setting) (KEY_SETTING + SETTING_##setting)

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "Listen here (default: the user's own place)", 0 },
	{ "memory", 'm', "SIZE", 0,
	  "Memory for cached blocks and holds, as 256M or 4G; 32K at least, and less than 8T",
	  0 },
	{ "holds", SETTING(HOLDS), "SIZE", 0,
	  "How much of the memory is for holds (lodic_hold); 0: none (default: a quarter)",
	  0 },
	{ "scheme", SETTING(SCHEME), "NAME", 0,
	  "How pins are counted: lodic (default), atomic, frozen, hazard", 0 },
	{ "barrier", SETTING(BARRIER), "KIND", 0,
	  "What a pin costs: light (plain stores, and a slow fence in the service), lock (an "
	  "atomic exchange), auto (default)",
	  0 },
	{ "idle-exit", SETTING(IDLE_EXIT), "SECONDS", 0,
	  "End when no program has been connected for so long; 0: never (default)", 0 },
	{ "immutable", 'i', "GLOB", 0,
	  "Files that you promise never change, as /srv/models/*; may be given again",
	  0 },
	{ "buffered", SETTING(BUFFERED), NULL, 0,
	  "Read files through the kernel's page cache, not by O_DIRECT", 0 },
	{ "quota", SETTING(QUOTA), "N", 0,
	  "How many blocks one context may pin at a time", 0 },
	{ "files", SETTING(FILES), "N", 0, "How many files the cache may hold at once",
	  0 },
	{ "entries", SETTING(ENTRIES), "N", 0,
	  "How many entries a context's table has: a power of two", 0 },
	{ "keep", SETTING(KEEP), "SECONDS", 0,
	  "How long a file stays cached that no program has open (default: 600)", 0 },
	{ "huge-pages", SETTING(HUGE_PAGES), "auto|off", 0,
	  "Keep blocks in huge pages, as far as the kernel gives them (auto), or in "
	  "small ones (default: auto)",
	  0 },
	{ "pressure", SETTING(PRESSURE), "FILE|off", 0,
	  "Give memory back when this file says that it is short (default: "
	  "/proc/pressure/memory)",
	  0 },
	{ "replace", KEY_REPLACE, NULL, 0,
	  "Take the place of the service that listens there, with what it has cached; "
	  "that one ends",
	  0 },
	{ "metrics", KEY_METRICS, "FILE", 0,
	  "Write the numbers of `lodic stat' and histograms there, every five seconds, in "
	  "the text format of Prometheus",
	  0 },
	{ "daemon", KEY_DAEMON, NULL, 0,
	  "Go to the background once programs can connect", 0 },
	{ "report-fd", KEY_REPORT_FD, "FD", OPTION_HIDDEN, NULL, 0 },
	{ "quiet", 'q', NULL, 0, "Print nothing but errors", 0 },
	{ 0 },
};

static void want_setting(struct argp_state *state, enum setting setting,
                         const char *value)
{
	struct serve *s = state->input;

	if (settings_set(&s->settings, setting, value, SETTINGS_OPTION) != 0)
		argp_error(state, "--%s: %s", settings_name(setting), s->settings.why);
}

static void want_report(struct argp_state *state, const char *arg)
{
	struct serve *s = state->input;
	uint64_t fd;

	if (cli_parse_number(arg, 0, INT_MAX, &fd) != 0 || fcntl((int)fd, F_GETFD) < 0)
		argp_error(state, "'%s' is not a descriptor", arg);
	s->report = (int)fd;
	s->started = true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve *s = state->input;

	switch (key) {
	case 's': want_setting(state, SETTING_SOCKET, arg); return 0;
	case 'm': want_setting(state, SETTING_MEMORY, arg); return 0;
	case 'i': want_setting(state, SETTING_IMMUTABLE, arg); return 0;
	case SETTING(BUFFERED): want_setting(state, SETTING_BUFFERED, "yes"); return 0;
	case SETTING(SCHEME):
	case SETTING(BARRIER):
	case SETTING(IDLE_EXIT):
	case SETTING(QUOTA):
	case SETTING(FILES):
	case SETTING(ENTRIES):
	case SETTING(KEEP):
	case SETTING(HUGE_PAGES):
	case SETTING(HOLDS):
	case SETTING(PRESSURE):
		want_setting(state, (enum setting)(key - KEY_SETTING), arg);
		return 0;
	case KEY_REPLACE: s->replace = true; return 0;
	case KEY_METRICS: s->metrics.path = arg; return 0;
	case KEY_DAEMON: s->daemon = true; return 0;
	case KEY_REPORT_FD: want_report(state, arg); return 0;
	case 'q': s->quiet = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and serve takes nothing else",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void on_say(void *arg, const char *line)
{
	const struct serve *s = arg;

	/* A large cache takes its time. The manager then waits for the next line. */
	if (!s->ready)
		notify_send("EXTEND_TIMEOUT_USEC=%u", START_LINE_US);
	if (!s->quiet)
		cli_note("%s", line);
}

/* Tells the program that waits for it how the start went. */
static void report(struct serve *s, int error)
{
	int answer = -error;

	if (s->report < 0)
		return;
	/* If that program has gone, programs can connect all the same. */
	if (write(s->report, &answer, sizeof(answer)) == sizeof(answer) && !error)
		daemon_silence(!s->started);
	close(s->report);
	s->report = -1;
}

static unsigned long long serve_mib(const struct serve *s)
{
	return (s->options.cache_bytes + s->options.hold_bytes) >> MIB_SHIFT;
}

static void tell_status(const struct serve *s)
{
	notify_send("STATUS=serving %llu MiB at %s", serve_mib(s), s->settings.socket);
}

/* Somebody has resized the cache, but for its holds: the next service shall have that size. */
static void on_resized(void *arg, uint64_t cache_bytes)
{
	struct serve *s = arg;

	s->options.cache_bytes = cache_bytes;
	s->settings.memory_bytes = cache_bytes + s->options.hold_bytes;
	/* A size that stands in a configuration file is found there. Otherwise the next service
	 * must split it in the same way. */
	if (s->settings.memory_bytes != s->told.memory_bytes ||
	    s->settings.from[SETTING_MEMORY] == SETTINGS_NOBODY) {
		s->settings.from[SETTING_MEMORY] = SETTINGS_OPTION;
		s->settings.from[SETTING_HOLDS] = SETTINGS_OPTION;
		s->settings.hold_bytes = s->options.hold_bytes;
	}
	if (settings_leave(&s->settings) != 0)
		on_say(s, s->settings.why);
	tell_status(s);
}

/* The configuration files may say something else now. Returns a new size, or 0. */
static uint64_t reread(struct serve *s)
{
	struct settings now = { 0 };
	uint64_t bytes = 0;
	int nr = 0;

	if (settings_copy(&now, &s->said) != 0 ||
	    settings_gather(&now, settings_privileged()) != 0) {
		on_say(s, now.why);
		settings_free(&now);
		return 0;
	}
	for (enum setting i = 0; i < NR_SETTINGS; i++) {
		char line[SETTINGS_WHY_BYTES];

		if (settings_equal(&now, &s->told, i))
			continue;
		nr++;
		if (i == SETTING_MEMORY) {
			s->settings.from[i] = now.from[i];
			bytes = now.memory_bytes ? now.memory_bytes
			                         : SERVICE_DEFAULT_CACHE_BYTES;
			continue;
		}
		snprintf(line, sizeof(line),
		         "`%s' has changed: the service must be started anew for that",
		         settings_name(i));
		on_say(s, line);
	}
	if (nr == 0)
		on_say(s, "the configuration says what it said before");
	settings_free(&s->told);
	s->told = now;
	/* Holds keep their part. */
	if (bytes > 0 && bytes < s->options.hold_bytes + SERVICE_MIN_CACHE_BYTES) {
		on_say(s, "the holds leave no room for a cache of that size");
		return 0;
	}
	return bytes > 0 ? bytes - s->options.hold_bytes : 0;
}

/* SIGHUP. A resize that begins with it does not keep the manager waiting. */
static uint64_t on_reread(void *arg)
{
	uint64_t bytes;

	notify_send("RELOADING=1\nMONOTONIC_USEC=%llu",
	            (unsigned long long)(cli_now_ns() / 1000));
	bytes = reread(arg);
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

static void on_stopping(void *arg)
{
	(void)arg;
	notify_send("STOPPING=1\nSTATUS=ending");
}

static void on_ready(void *arg)
{
	struct serve *s = arg;

	if (settings_leave(&s->settings) != 0)
		on_say(s, s->settings.why);
	if (!s->quiet) {
		printf("lodic: serving %llu MiB at %s, counting by %s\n", serve_mib(s),
		       s->settings.socket, settings_scheme_name(s->options.scheme));
		fflush(stdout);
	}
	s->metrics.socket = s->settings.socket;
	if (metrics_start(&s->metrics) != 0)
		on_say(s, s->metrics.why);
	s->ready = true;
	notify_send("READY=1");
	tell_status(s);
	report(s, 0);
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
	if (!s->options.takeover || (error != -EPROTO && error != -ETIMEDOUT))
		return false;
	cli_note("the cache starts empty: %s", why ? why : strerror(-error));
	s->options.takeover = false;
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
		s->options.takeover = false;
		pid = holder(s->settings.socket);
		if (pid > 0 && pid != told)
			kill(pid, SIGTERM);
		told = pid > 0 ? pid : told;
		nanosleep(&pause, NULL);
	}
}

/* 0 or -errno, after a message. */
static int run(struct serve *s)
{
	const char *why = NULL;
	int error;

	signal(SIGXFSZ, SIG_IGN); /* a file size limit gives an error instead */
	signal(SIGPIPE, SIG_IGN);
	error = run_or_replace(s, &why);
	if (!error)
		return 0;
	cli_error("cannot serve at %s: %s%s%s%s", s->settings.socket, strerror(-error),
	          why ? "; " : "", why ? why : "",
	          error == -EADDRINUSE && !s->replace
	                  ? "; add --replace to take its place"
	          : s->options.takeover ? "; the other service goes on, if there is one"
	                                : "");
	notify_send("ERRNO=%d\nSTATUS=cannot serve: %s", -error,
	            why ? why : strerror(-error));
	report(s, error);
	return error;
}

/* Runs the service in a child. The parent returns when programs can connect. */
static int run_in_background(struct serve *s)
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
		_exit(run(s) ? CLI_FAILED : CLI_OK);
	}
	close(ends[1]);
	do
		n = read(ends[0], &answer, sizeof(answer));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (n != sizeof(answer))
		cli_error("the service has died");
	return answer == 0 ? CLI_OK : CLI_FAILED;
}

/* NULL: none. A kernel without PSI has no such file, which is no mistake of the user's. */
static const char *pressure_file(const struct settings *settings)
{
	const char *path = settings->pressure;

	if (!*path)
		path = access(SETTINGS_PRESSURE_FILE, R_OK) == 0
		               ? SETTINGS_PRESSURE_FILE
		               : "off";
	return strcmp(path, "off") == 0 ? NULL : path;
}

/* A socket that the service manager has passed in says where it listens. */
static int take_passed(struct serve *s)
{
	struct settings *settings = &s->settings;

	if (!s->passed.socket)
		return 0;
	if (s->daemon || s->replace) {
		snprintf(
			settings->why, sizeof(settings->why),
			"with the service manager's socket neither --daemon nor --replace "
			"is possible");
		return -EINVAL;
	}
	if (settings->from[SETTING_SOCKET] &&
	    strcmp(settings->socket, s->passed.path) != 0) {
		snprintf(settings->why, sizeof(settings->why),
		         "the service manager has passed in %s; remove --socket",
		         s->passed.path);
		return -EINVAL;
	}
	return settings_set(settings, SETTING_SOCKET, s->passed.path, SETTINGS_OPTION);
}

static void complete_limits(struct serve *s)
{
	const struct settings *settings = &s->settings;

	/* The service believes entries first. An earlier source's quota wins all the same. */
	if (settings->from[SETTING_QUOTA] &&
	    settings->from[SETTING_QUOTA] < settings->from[SETTING_ENTRIES])
		s->options.nr_entries = 0;
	/* 0 stands for the service's default there. */
	if (settings->from[SETTING_KEEP] && settings->keep_ms == 0)
		s->options.keep_ms = 1;
	if (s->started && !settings->from[SETTING_IDLE_EXIT])
		s->options.idle_exit_ms = STARTED_IDLE_EXIT_MS;
}

/* Adds what the options do not say. 0 or -errno, after a message. */
static int complete(struct serve *s)
{
	struct settings *settings = &s->settings;
	int error = take_passed(s);
	uint64_t cache_bytes, hold_bytes;

	if (!error)
		error = settings_copy(&s->said, settings);
	if (!error)
		error = settings_find_socket(settings, true);
	if (!error)
		error = settings_copy(&s->told, settings);
	if (error) {
		cli_error("%s", settings->why);
		return error;
	}
	/* A service that somebody runs by hand is told by hand. It must not make a promise
	 * that nobody remembers. */
	if (s->started && !settings_privileged() && settings_take_left(settings) != 0)
		on_say(s, settings->why);
	error = settings_split(settings, &cache_bytes, &hold_bytes);
	if (error) {
		cli_error("%s", settings->why);
		return error;
	}
	s->options = (struct service_options){
		.socket = settings->socket,
		.cache_bytes = cache_bytes,
		.hold_bytes = hold_bytes,
		.scheme = settings->scheme,
		.barrier = settings->barrier,
		.nr_files = settings->files,
		.nr_entries = settings->entries,
		.quota = settings->quota,
		.idle_exit_ms = settings->idle_exit_ms,
		.keep_ms = settings->keep_ms,
		.immutable = (const char *const *)settings->globs,
		.buffered = settings->buffered,
		.small_pages = settings->small_pages,
		.say = on_say,
		.say_arg = s,
		.pressure = pressure_file(settings),
		.resized = on_resized,
		.reread = on_reread,
		.listening = s->passed.socket,
		.alive = notify_is_watched() ? on_alive : NULL,
		.stopping = on_stopping,
		.fills = &s->metrics.fills,
		.misses = &s->metrics.misses,
		.takeover = s->replace,
		.taking = on_taking,
	};
	complete_limits(s);
	return 0;
}

int command_serve(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct serve s = { .report = -1 };
	int error;

	if (argp_parse(&argp, argc, argv, 0, NULL, &s) != 0)
		return CLI_USAGE;
	if (notify_begin(&s.passed) != 0) {
		cli_error("%s", s.passed.why);
		return CLI_FAILED;
	}
	if (s.started) {
		s.report = daemon_leave(s.report);
		daemon_silence(false);
		daemon_forget_choices();
	}
	error = complete(&s);
	if (!error && s.metrics.path && *s.metrics.path != '/') {
		cli_error("--metrics: '%s' does not begin with /", s.metrics.path);
		error = -EINVAL;
	}
	if (error) {
		report(&s, error);
		return CLI_FAILED;
	}
	if (s.daemon)
		return run_in_background(&s);
	if (s.started)
		clearenv();
	return run(&s) ? CLI_FAILED : CLI_OK;
}
