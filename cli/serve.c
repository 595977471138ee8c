/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic serve`: the cache's service, and what options and other sources tell it. It runs in the
 * foreground, in the background (--daemon), or for a program that uses the library (--report-fd,
 * see lib/client/start.c).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/log.h"
#include "cli/serve.h"
#include "cli/serve_escape.h"
#include "lodic/lodic.h"

/* How long a service that a program has started stays without a client. */
#define STARTED_IDLE_EXIT_MS 10000u

#define MMAP_FROM_BYTES (128 << 10) /* glibc's own, when a program begins */

enum {
	KEY_DAEMON = 0x1000,
	KEY_REPORT_FD,
	KEY_REPLACE,
	KEY_METRICS,
	KEY_GROUP,
	KEY_USER,
	KEY_KEEP_LEASE,
	KEY_RECORD,
	KEY_SETTING
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
	"f2fs), if it has fs-verity, or if its file system's format cannot be "
	"written (squashfs, erofs, iso9660, cramfs). It is also cached if its path "
	"matches a glob given with --immutable: you then promise that nobody writes to "
	"it. The service ends on Ctrl-C or SIGTERM.\n"
	"\n"
	"What no option says comes from LODIC_SOCKET, LODIC_MEMORY, "
	"~/.config/lodic.conf and /etc/lodic.conf. There `memory = 4G' in a line of its "
	"own is --memory 4G. doc/settings.md tells all of it.";

/* Of the rows of lib/settings_list.h: the options, and what the service gets as it is. */
#define KEY_OF(id, key) ((key) ? (key) : KEY_SETTING + SETTING_##id)
#define OPTION_COMMAND(id, name, key, value, help) \
	{ name, KEY_OF(id, key), value, 0, help, 0 },
#define OPTION_PLACE OPTION_COMMAND
#define OPTION_TABLES OPTION_COMMAND
#define OPTION_KEEPING OPTION_COMMAND
#define OPTION_PLACING OPTION_COMMAND
#define OPTION_PROGRAM(id, name, key, value, help)

static const struct argp_option option_list[] = {
#define SETTING(id, name, kind, taker, sighup, successor, text, key, value, help) \
	OPTION_##taker(id, name, key, value, help)
#include "lib/settings_list.h"
#undef SETTING
	{ "policy-record", KEY_RECORD, "FILE", 0,
	  "Write the policy's calls and decisions there; from / on", 0 },
	{ "replace", KEY_REPLACE, NULL, 0,
	  "Take the place of the service that listens there, with what it has cached; "
	  "that one ends",
	  0 },
	{ "metrics", KEY_METRICS, "FILE", 0,
	  "Write the numbers of `lodic stat' and histograms there, every five seconds, in "
	  "the text format of Prometheus",
	  0 },
	{ "group", KEY_GROUP, "NAME", 0,
	  "Serve all members of this group. Only files that each of them may open are "
	  "cached, and there are no holds",
	  0 },
	{ "user", KEY_USER, "NAME", 0,
	  "Become this user first, with that user's groups, settings and default socket. Only "
	  "root may say so",
	  0 },
	{ "keep-lease", KEY_KEEP_LEASE, NULL, 0,
	  "With --user: keep the right to hold leases on files of other owners (CAP_LEASE), and "
	  "no other right of root's",
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

	if (settings_set(&s->settings, setting, value ? value : "yes",
	                 SETTINGS_OPTION) != 0)
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

static void want_group(struct argp_state *state, const char *arg)
{
	struct serve *s = state->input;
	const struct group *found = getgrnam(arg);
	uint64_t number = found ? found->gr_gid : 0;

	if (!found && cli_parse_number(arg, 0, UINT32_MAX - 1, &number) != 0)
		argp_error(state, "there is no group '%s'", arg);
	s->for_group = true;
	s->group = (uint32_t)number;
}

static void want_user(struct argp_state *state, const char *arg)
{
	struct serve *s = state->input;

	if (serve_user_find(arg, &s->user) != 0)
		argp_error(state, "there is no user '%s'", arg);
	else if (geteuid() != 0)
		argp_error(state, "only root can say --user");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve *s = state->input;

	switch (key) {
#define SETTING(id, name, kind, taker, sighup, successor, text, key, value, help) \
	case KEY_OF(id, key): \
		want_setting(state, SETTING_##id, arg); \
		return 0;
#include "lib/settings_list.h"
#undef SETTING
	case KEY_REPLACE: s->replace = true; return 0;
	case KEY_METRICS: s->metrics.path = arg; return 0;
	case KEY_GROUP: want_group(state, arg); return 0;
	case KEY_USER: want_user(state, arg); return 0;
	case KEY_KEEP_LEASE: s->keep_lease = true; return 0;
	case KEY_RECORD: s->record = arg; return 0;
	case KEY_DAEMON: s->daemon = true; return 0;
	case KEY_REPORT_FD: want_report(state, arg); return 0;
	case 'q': s->quiet = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and serve takes nothing else",
		           arg);
		return 0;
	case ARGP_KEY_END:
		if (s->keep_lease && !s->user.wanted)
			argp_error(state, "--keep-lease is of a service that becomes "
			                  "another user: say --user NAME");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
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
		s->options.tables.nr_entries = 0;
	/* 0 stands for the service's default there. */
	if (settings->from[SETTING_KEEP] && settings->keep_ms == 0)
		s->options.keeping.keep_ms = 1;
	if (!settings->from[SETTING_LEASE_PAUSE])
		s->options.keeping.lease_pause_ms = SERVICE_DEFAULT_LEASE_PAUSE_MS;
	if (s->started && !settings->from[SETTING_IDLE_EXIT])
		s->options.place.idle_exit_ms = STARTED_IDLE_EXIT_MS;
}

/* A record is of a policy, and the service's folder is not the user's when it is a daemon. */
static const char *wrong_file(const struct serve *s)
{
	if (s->metrics.path && *s->metrics.path != '/')
		return "--metrics must be a path that begins with /";
	if (s->record && *s->record != '/')
		return "--policy-record must be a path that begins with /";
	if (s->record && !s->options.placing.policy)
		return "--policy-record is of a policy: say --policy NAME";
	return NULL;
}

static int refuse(const char *why, int error)
{
	log_say(SERVICE_ERROR, "cannot_serve", "%s", why);
	log_flush();
	return error;
}

static void warn(const struct settings *settings)
{
	if (*settings->why)
		log_say(SERVICE_WARNING, "settings", "%s", settings->why);
}

static void warn_doubled(const struct settings *settings)
{
	if (*settings->doubled)
		log_say(SERVICE_WARNING, "settings", "%s", settings->doubled);
}

/* The parts of the memory. 0 or -EINVAL. */
static int complete_parts(struct serve *s)
{
	struct service_options *o = &s->options;
	struct settings *settings = &s->settings;
	int error = settings_split(settings, &o->sizes.cache_bytes, &o->sizes.hold_bytes);

	if (error)
		return error;
	error = settings_check_fast(settings, o->sizes.cache_bytes, &o->sizes.fast_bytes);
	if (error)
		return error;
	warn(settings);
	if (o->sizes.fast_bytes == 0) { /* else the parts stay what they are */
		o->sizes.budget_bytes = o->sizes.cache_bytes + o->sizes.hold_bytes;
		/* Without holds blocks have all that somebody says, and from the beginning. */
		if (o->sizes.hold_bytes > 0 || !settings->from[SETTING_MEMORY])
			o->sizes.cache_bytes = 0;
		if (o->sizes.hold_bytes > 0 && !settings->from[SETTING_HOLDS])
			o->sizes.hold_bytes = SERVICE_HOLDS_ANY;
	}
	error = settings_check_placer(settings, o->sizes.fast_bytes, &o->placing.policy);
	if (!error)
		warn(settings);
	return error;
}

/* Before anybody asks how much memory the group leaves. */
static void escape(void)
{
	char group[PATH_MAX];
	int error = serve_escape(group, sizeof(group));

	if (error)
		log_say(SERVICE_WARNING, "no_escape",
		        "this control group cannot be left, so its limit holds: %s",
		        strerror(-error));
	else if (*group)
		log_say(SERVICE_INFO, "escaped", "the control group is %s now", group);
}

/* The same before a change of user, who may not leave root's group. So only root's own words count
 * here: an option, and the system's file. What is wrong with that file is said later. */
static void escape_as_root(struct serve *s)
{
	struct settings roots = { 0 };

	if (!s->user.wanted)
		return;
	if (settings_copy(&roots, &s->settings) == 0 && !settings_privileged())
		settings_read_file(&roots, SETTINGS_SYSTEM_FILE, SETTINGS_SYSTEM);
	s->escaped = roots.escape;
	settings_free(&roots);
	if (s->escaped)
		escape();
}

/* All that the service takes as it stands. */
static void pass_on(struct service_options *o, const struct settings *settings)
{
#define PASS(field, ...) part->field = settings->field;
#define PASS_GLOBS(field) part->field = (const char *const *)settings->field;
#define KIND_SOCKET PASS
#define KIND_WORD PASS
#define KIND_YES PASS
#define KIND_SECONDS PASS
#define KIND_NUMBER PASS
#define KIND_GLOBS PASS_GLOBS
#define PART(name, assignment) \
	{ \
		struct service_##name *part = &o->name; \
\
		assignment \
	}
#define TAKER_PLACE(assignment) PART(place, assignment)
#define TAKER_TABLES(assignment) PART(tables, assignment)
#define TAKER_KEEPING(assignment) PART(keeping, assignment)
#define TAKER_PLACING(assignment) PART(placing, assignment)
#define TAKER_COMMAND(assignment)
#define TAKER_PROGRAM(assignment)
#define SETTING(id, name, kind, taker, ...) TAKER_##taker(kind)
#include "lib/settings_list.h"
#undef SETTING
}

/* Adds what the options do not say. 0 or -errno, after a message. */
static int complete(struct serve *s)
{
	struct settings *settings = &s->settings;
	int error = take_passed(s);

	if (!error)
		error = settings_copy(&s->said, settings);
	if (!error)
		error = settings_find_socket(settings, true);
	if (!error)
		error = settings_copy(&s->told, settings);
	if (error)
		return refuse(settings->why, error);
	serve_configure_log(s, settings);
	/* A service that somebody runs by hand is told by hand. It must not make a promise
	 * that nobody remembers. */
	if (s->started && !settings_privileged() && settings_take_left(settings) != 0)
		log_say(SERVICE_WARNING, "settings", "%s", settings->why);
	warn_doubled(settings);
	if (settings->escape && !s->escaped)
		escape();
	/* A program that has a hold keeps its memory: no share of that can be taken back. */
	if (s->for_group && !settings->from[SETTING_HOLDS])
		settings_set(settings, SETTING_HOLDS, "0", SETTINGS_OPTION);
	s->options = (struct service_options){
		.placing.policy_record = s->record,
		.sharing.for_group = s->for_group,
		.sharing.group = s->group,
		.sizes.pressure = pressure_file(settings),
		.sizes.watch_groups = strcmp(settings->pressure, "off") != 0,
		.place.listening = s->passed.socket,
		.place.takeover = s->replace,
	};
	pass_on(&s->options, settings);
	error = complete_parts(s);
	if (error)
		return refuse(settings->why, error);
	serve_connect(s);
	complete_limits(s);
	return wrong_file(s) ? refuse(wrong_file(s), -EINVAL) : 0;
}

/* Each worker would get a heap of its own. A resize frees in one what it has made in another, so
 * that all of them stay in use. The bound below which memory comes from a heap would grow as well,
 * up to 32 MiB. */
static void bound_heaps(void)
{
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES);
	mallopt(M_TRIM_THRESHOLD, MMAP_FROM_BYTES);
#endif
}

/* Before anything is looked at that belongs to that user. */
static int become_user(const struct serve *s)
{
	int error = s->user.wanted ? serve_user_become(&s->user, s->keep_lease) : 0;

	if (!error)
		return 0;
	log_say(SERVICE_ERROR, "cannot_serve", "cannot become %s: %s", s->user.name,
	        strerror(-error));
	log_flush();
	return error;
}

int command_serve(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct serve s = { .report = -1 };
	int error;

	bound_heaps();
	if (argp_parse(&argp, argc, argv, 0, NULL, &s) != 0)
		return CLI_USAGE;
	s.journal = log_is_journal();
	serve_configure_log(&s, &s.settings);
	if (notify_begin(&s.passed) != 0) {
		refuse(s.passed.why, -EINVAL);
		return CLI_FAILED;
	}
	if (s.started) {
		s.report = daemon_leave(s.report);
		daemon_silence(false, false);
		daemon_forget_choices();
	}
	escape_as_root(&s);
	error = become_user(&s);
	if (!error)
		error = complete(&s);
	if (error) {
		serve_report(&s, error);
		return CLI_FAILED;
	}
	if (s.daemon)
		return serve_in_background(&s);
	if (s.started)
		clearenv();
	return serve_run(&s) ? CLI_FAILED : CLI_OK;
}
