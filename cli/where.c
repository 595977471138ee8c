/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/where.h. */
#include "cli/where.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "lib/service/service.h"

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "The service's socket (default: the user's own)",
	  0 },
	{ "user", 'u', "NAME", 0, "Look at this user's default service; for root", 0 },
	{ 0 },
};

static void parse_user(struct where *w, const char *name, struct argp_state *state)
{
	const struct passwd *user = getpwnam(name);
	int err;

	if (!user) {
		argp_error(state, "there is no user '%s'", name);
		return;
	}
	err = path_socket_of(user->pw_uid, w->of_user, sizeof(w->of_user));
	if (err)
		argp_error(state, "%s: %s", w->of_user, strerror(-err));
	w->socket = w->of_user;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct where *w = state->input;

	switch (key) {
	case 's': w->socket = arg; return 0;
	case 'u': parse_user(w, arg, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

const struct argp where_argp = { option_list, parse, NULL, NULL, NULL, NULL, NULL };

int where_try(struct where *w, struct look **ret_look, int *ret_pid)
{
	static int said; /* --watch comes here again and again */
	int err = 0;

	*ret_pid = 0;
	if (!w->socket) {
		settings_free(&w->settings);
		err = settings_find_socket(&w->settings, false);
		if (!err)
			w->socket = w->settings.socket;
		if (*w->settings.doubled && !said++)
			cli_note("warning: %s", w->settings.doubled);
	}
	return err ? err : look_open(w->socket, ret_look, ret_pid);
}

/* Is the process stopped, by a signal or a debugger? */
static bool where_is_stopped(int pid)
{
	char path[32], state = '\0';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = '\0';
	fclose(f);
	return state == 'T' || state == 't';
}

static void where_complain_silent(const char *socket, int pid)
{
	if (pid == 0)
		cli_error("the service at %s does not answer; is it stopped?", socket);
	else if (where_is_stopped(pid))
		cli_error(
			"the service at %s does not answer: it is stopped (`kill -CONT "
			"%d' lets it go on)",
			socket, pid);
	else
		cli_error(
			"the service at %s does not answer; is it stopped? (pid %d: see "
			"/proc/%d/status)",
			socket, pid, pid);
}

/* Nothing runs at the socket. Can anything? */
static void where_complain_none(const struct where *w, const char *before,
                                const char *after)
{
	struct settings s = { 0 };
	int err;

	if (w->socket == w->of_user) {
		cli_error("%s %s%s; start one with `lodic serve'", before, w->socket,
		          after);
		return;
	}
	err = settings_set(&s, SETTING_SOCKET, w->socket, SETTINGS_OPTION);
	if (!err)
		err = settings_gather(&s, settings_privileged());
	if (!err) {
		settings_take_left(&s); /* a service starts without it, too */
		err = settings_check(&s);
	}
	if (err)
		cli_error("%s %s%s, and none can start: %s", before, w->socket, after,
		          s.why);
	else
		cli_error("%s %s%s; start one with `lodic serve'", before, w->socket,
		          after);
	settings_free(&s);
}

int where_complain(const struct where *w, int error, int pid)
{
	const char *socket = w->socket;

	if (!socket) {
		cli_error("%s", w->settings.why);
		return CLI_FAILED;
	}
	switch (error) {
	case -ENOENT: where_complain_none(w, "no cache runs at", ""); break;
	case -ECONNREFUSED: where_complain_none(w, "the service at", " is dead"); break;
	case -ECONNRESET: cli_error("the service at %s has gone", socket); break;
	case -EACCES:
	case -EPERM:
		cli_error(
			"the service at %s belongs to another user; only that user and "
			"root may look at it",
			socket);
		break;
	case -EPROTO:
		cli_error(
			"the service at %s speaks another version; stop it and start it again",
			socket);
		break;
	case -ETIMEDOUT: where_complain_silent(socket, pid); break;
	case -EINTR: return CLI_STOPPED;
	default:
		cli_error("cannot ask the service at %s: %s", socket,
		          lodic_strerror(error));
	}
	return CLI_FAILED;
}
