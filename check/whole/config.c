/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See config.h. It does what cli/serve.c and cli/serve_run.c do with settings, and no more. */
#include "check/whole/config.h"

#include <string.h>

#include "check/whole/waits.h"
#include "lib/service/service.h"
#include "lib/settings.h"

struct config {
	struct service_options *options;
	struct settings settings; /* what it runs with, and leaves */
	struct settings told;     /* what the files have said last */
	struct settings now;      /* what they say to a worker */
	bool now_is_wrong;
};
static struct config configs[MACHINE_MOST_PROCESSES + 1];
static void (*config_wanted)(u64 bytes);
/* What the last service has left for the next one: `memory', or 0. leaving: that, or what it was
 * about to leave when it died. */
static u64 left, leaving;
static bool left_unknown; /* two have died so */
static u64 idle_ms;

static void config_says(u64 bytes)
{
	if (bytes > 0 && config_wanted)
		config_wanted(bytes);
}

/* ---- SIGHUP ---- */

static void config_reread(void *arg)
{
	struct config *c = arg;

	c->now = (struct settings){ 0 };
	c->now_is_wrong = settings_gather(&c->now, settings_privileged()) != 0;
}

static uint64_t config_reread_done(void *arg)
{
	struct config *c = arg;
	u64 bytes = 0;

	if (c->now_is_wrong) {
		machine_note("the configuration is wrong: %s", c->now.why);
		settings_free(&c->now);
		return 0;
	}
	if (!settings_equal(&c->now, &c->told, SETTING_MEMORY)) {
		c->settings.from[SETTING_MEMORY] = c->now.from[SETTING_MEMORY];
		bytes = settings_memory(&c->now);
	}
	settings_free(&c->told);
	c->told = c->now;
	machine_note("the configuration wants %llu bytes", (unsigned long long)bytes);
	config_says(bytes);
	return bytes;
}

/* It writes to the folder of its own socket, which answers. */
static void config_leave(struct config *c)
{
	u32 from = c->settings.from[SETTING_MEMORY];

	left_unknown |= leaving != left;
	leaving = from == SETTINGS_OPTION || from == SETTINGS_LEFT ? c->settings.memory_bytes : 0;
	if (settings_leave(&c->settings) != 0)
		machine_note("settings cannot be left: %s", c->settings.why);
	else
		left = leaving, left_unknown = false;
}

/* The service that a program has started finds what was left. */
static void config_check_left(const struct config *c)
{
	struct settings found = { 0 };
	int err;

	memcpy(found.socket, c->settings.socket, sizeof(found.socket));
	err = settings_take_left(&found);
	if (machine.nr_faults[FAULT_ERRNO] == 0 && !left_unknown &&
	    (err || (found.memory_bytes != left && found.memory_bytes != leaving)))
		machine_fail("%llu bytes were left for the next service, which finds %llu: %s",
		             (unsigned long long)left,
		             (unsigned long long)found.memory_bytes, found.why);
	settings_free(&found);
}

static void config_resized(void *arg, uint64_t bytes)
{
	struct config *c = arg;

	c->options->sizes.budget_bytes = bytes;
	c->settings.memory_bytes = bytes;
	if (bytes != c->told.memory_bytes ||
	    c->settings.from[SETTING_MEMORY] == SETTINGS_NOBODY)
		c->settings.from[SETTING_MEMORY] = SETTINGS_OPTION;
	waits_turns_end();
	config_leave(c);
	waits_turns_begin();
}

/* ---- the start and the end ---- */

static int config_parts(struct config *c)
{
	struct service_options *o = c->options;
	uint64_t cache_bytes = 0, hold_bytes = 0;
	int err = settings_split(&c->settings, &cache_bytes, &hold_bytes);

	if (err)
		return err;
	o->sizes.cache_bytes = cache_bytes;
	o->sizes.hold_bytes = hold_bytes;
	o->sizes.fast_bytes = 0;
	o->placing.policy = NULL;
	o->sizes.budget_bytes = cache_bytes + hold_bytes;
	if (hold_bytes > 0 || !c->settings.from[SETTING_MEMORY])
		o->sizes.cache_bytes = 0;
	if (hold_bytes > 0 && !c->settings.from[SETTING_HOLDS])
		o->sizes.hold_bytes = SERVICE_HOLDS_ANY;
	return 0;
}

static int config_configure(struct service_options *options, bool started,
                            const char **ret_why)
{
	struct config *c = &configs[process_now()->number];
	int err;

	memset(c, 0, sizeof(*c));
	c->options = options;
	err = settings_set(&c->settings, SETTING_SOCKET, options->place.socket, SETTINGS_OPTION);
	if (!err)
		err = settings_gather(&c->settings, settings_privileged());
	if (!err)
		err = settings_copy(&c->told, &c->settings);
	if (!err && started && settings_take_left(&c->settings) != 0)
		machine_note("what was left does not count: %s", c->settings.why);
	if (!err && started)
		config_check_left(c);
	if (!err)
		err = config_parts(c);
	if (err) {
		*ret_why = c->settings.why;
		return err;
	}
	config_says(options->sizes.budget_bytes);
	if (!started)
		options->place.idle_exit_ms = idle_ms;
	options->events.say_arg = c;
	options->events.reread = config_reread;
	options->events.reread_done = config_reread_done;
	options->events.resized = config_resized;
	return 0;
}

static void config_serves(void)
{
	config_leave(&configs[process_now()->number]);
}

static void config_ends(void)
{
	struct config *c = &configs[process_now()->number];

	settings_free(&c->settings);
	settings_free(&c->told);
}

void config_begin(void (*wanted)(u64 bytes), u64 idle_exit_ms)
{
	config_wanted = wanted;
	idle_ms = idle_exit_ms;
	left = leaving = 0;
	left_unknown = false;
	world.configure = config_configure;
	world.serves = config_serves;
	world.ends = config_ends;
}
