/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic stop`: ends the running cache. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/where.h"
#include "lodic/lodic.h"

#define NS_PER_MS UINT64_C(1000000)
#define DEFAULT_TIMEOUT_MS 30000u
#define LOOK_MS 100
#define POLL_NS 2000000
#define SAY_NS (2000 * NS_PER_MS)

struct stop {
	struct where where;
	bool json;
	uint64_t timeout_ms;
};

static const char doc[] =
	"End the running cache, and wait until it is gone. Programs go on: their reads come from "
	"the kernel, and what they hold stays theirs."
	"\v"
	"What the cache had is lost; `lodic serve --replace' hands it to a successor instead. One "
	"that is on its way ends as well. A program under `lodic run' starts another service "
	"when it next opens a file. A service that a manager started ends, too: `systemctl stop' "
	"also keeps it from being started "
	"again.\n"
	"\n"
	"Exit status: 0 if no cache runs there any more, also if none did; 1 if it goes on.\n"
	"\n"
	"Examples:\n"
	"  lodic stop\n"
	"  lodic stop --socket /run/lodic/cache.sock --timeout 5\n";

static const struct argp_option option_list[] = {
	{ "timeout", 't', "SECONDS", 0, "Wait so long for its end (default: 30)", 0 },
	{ "json", 'j', NULL, 0, "Print JSON, one object", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stop *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &o->where; return 0;
	case 'j': o->json = true; return 0;
	case 't':
		if (cli_parse_seconds_ms(arg, &o->timeout_ms) != 0)
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and stop takes nothing else",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int report(const struct stop *o, const struct lodic_stat *s)
{
	json_t *json;

	if (o->json) {
		json = json_object();
		json_object_set_new(json, "socket", text_json(o->where.socket));
		json_object_set_new(json, "ended", json_boolean(s != NULL));
		if (s) {
			json_object_set_new(json, "pid",
			                    json_integer((json_int_t)s->service_pid));
			json_object_set_new(json, "files",
			                    json_integer((json_int_t)s->files));
			json_object_set_new(json, "clients",
			                    json_integer((json_int_t)s->clients));
		}
		json_dumpf(json, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(json);
	} else if (s) {
		fputs("ended the service at ", stdout);
		text_print(o->where.socket, 0);
		printf(": process %llu, up %s; %s in memory, files: %llu, programs: "
		       "%llu\n",
		       (unsigned long long)s->service_pid,
		       text_age(s->uptime_ns).s,
		       text_bytes(s->cached * LODIC_BLOCK_BYTES + s->hold_bytes).s,
		       (unsigned long long)s->files, (unsigned long long)s->clients);
	} else {
		fputs("no cache runs at ", stdout);
		text_print(o->where.socket, 0);
		putchar('\n');
	}
	return CLI_OK;
}

/* The lock file. A service removes it last. false: there is none. */
static bool lock_look(const struct stop *o, struct stat *ret)
{
	char path[SETTINGS_SOCKET_BYTES + sizeof(".lock")];

	snprintf(path, sizeof(path), "%s.lock", o->where.socket);
	return lstat(path, ret) == 0;
}

/* Is it still that one? The next service's file may get the same number, and that service writes
 * its own name into it. */
static bool lock_stays(const struct stop *o, const struct stat *lock)
{
	struct stat now;

	return lock->st_ino && lock_look(o, &now) && now.st_ino == lock->st_ino &&
	       now.st_ctim.tv_sec == lock->st_ctim.tv_sec &&
	       now.st_ctim.tv_nsec == lock->st_ctim.tv_nsec;
}

/* Waits until the service has hung up, and then until its lock file is gone. 0, or why not. */
static int wait_for_end(const struct stop *o, struct look *look,
                        const struct stat *lock)
{
	uint64_t begun = cli_now_ns(), said = begun, now;
	const struct timespec pause = { .tv_nsec = POLL_NS };
	bool hung_up = false;

	while (!hung_up || lock_stays(o, lock)) {
		if (hung_up)
			nanosleep(&pause, NULL);
		else
			hung_up = look_hung_up(look, LOOK_MS);
		if (cli_stopped)
			return -EINTR;
		now = cli_now_ns();
		if (now - begun >= o->timeout_ms * NS_PER_MS)
			return -ETIME;
		if (now - said >= SAY_NS) {
			cli_note("the service has %s",
			         hung_up ? "hung up, and lets its memory go"
			                 : "been told, and ends what is under way");
			said = now;
		}
	}
	return 0;
}

int command_stop(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          children,    NULL,  NULL };
	static struct stop o = { .timeout_ms = DEFAULT_TIMEOUT_MS };
	struct lodic_stat s;
	struct look *look;
	struct stat lock;
	int err, pid;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = where_try(&o.where, &look, &pid);
	if (err == -ENOENT || err == -ECONNREFUSED)
		return report(&o, NULL);
	if (err)
		return where_complain(&o.where, err, pid);
	if (!lock_look(&o, &lock))
		lock.st_ino = 0;
	err = look_stat(look, &s);
	if (!err)
		err = look_stop(look);
	if (!err)
		err = wait_for_end(&o, look, &lock);
	look_close(look);
	if (err == -EBUSY) {
		cli_error("another service has just taken the place of process %d at %s, and "
		          "goes on; say it again to end that one",
		          pid, o.where.socket);
		return CLI_FAILED;
	}
	if (err == -ETIME) {
		cli_error("the service at %s (process %llu) still ends after %llu ms; "
		          "--timeout waits longer",
		          o.where.socket, (unsigned long long)s.service_pid,
		          (unsigned long long)o.timeout_ms);
		return CLI_FAILED;
	}
	return err ? where_complain(&o.where, err, pid) : report(&o, &s);
}
