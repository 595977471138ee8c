/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Values, and the order of those who say them. Contract: settings.h. */
#define _GNU_SOURCE
#include "lib/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/settings_value.h"

void settings_free(struct settings *s)
{
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		if (settings_value_is_globs(i))
			settings_value_free_globs(s, i);
}

int settings_copy(struct settings *s, const struct settings *from)
{
	int err = 0;

	*s = *from;
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		if (settings_value_is_globs(i) && settings_value_own_globs(s, i) != 0)
			err = -ENOMEM;
	return err;
}

static bool settings_equal_globs(char *const *a, char *const *b)
{
	while (*a && *b && strcmp(*a, *b) == 0)
		a++, b++;
	return !*a && !*b;
}

bool settings_equal(const struct settings *a, const struct settings *b,
                    enum setting setting)
{
	char of_a[SETTINGS_PATH_BYTES], of_b[SETTINGS_PATH_BYTES];

	if (settings_value_is_globs(setting))
		return settings_equal_globs(settings_value_globs(a, setting),
		                            settings_value_globs(b, setting));
	return strcmp(settings_value_text(a, setting, of_a),
	              settings_value_text(b, setting, of_b)) == 0;
}

bool settings_privileged(void)
{
	return port_is_privileged();
}

int settings_set(struct settings *s, enum setting setting, const char *value,
                 enum settings_source source)
{
	struct settings_value taken = { 0 };
	int err =
		settings_value_take(s, setting, value, source >= SETTINGS_USER, &taken);

	/* A later source's value must be valid all the same. Otherwise a mistake would
	 * show only on the day when nobody overrules it. */
	if (err || (s->from[setting] && s->from[setting] < source))
		return err;
	if (settings_value_is_globs(setting) && s->from[setting] != source)
		settings_value_free_globs(s, setting); /* the later source's */
	s->from[setting] = (uint8_t)source;
	return settings_value_store(s, setting, &taken, value);
}

static int settings_take_variable(struct settings *s, enum setting setting,
                                  const char *name)
{
	const char *value = port_variable(name);
	char why[SETTINGS_WHY_BYTES];
	int err;

	if (!value || !*value)
		return 0;
	err = settings_set(s, setting, value, SETTINGS_ENVIRONMENT);
	if (err) {
		strcpy(why, s->why);
		snprintf(s->why, sizeof(s->why), "%s: %.400s", name, why);
	}
	return err;
}

/* HOME would be one more variable that the library reads, and one that is often wrong. */
static int settings_read_user_file(struct settings *s)
{
	char home[PATH_MAX], path[PATH_MAX];

	if (port_home(port_user(), home, sizeof(home)) != 0 || *home != '/' ||
	    snprintf(path, sizeof(path), "%s/.config/lodic.conf", home) >=
	            (int)sizeof(path))
		return 0;
	return settings_read_file(s, path, SETTINGS_USER);
}

int settings_gather(struct settings *s, bool privileged)
{
	int err;

	if (privileged)
		return 0;
	err = settings_take_variable(s, SETTING_SOCKET, "LODIC_SOCKET");
	if (!err)
		err = settings_take_variable(s, SETTING_MEMORY, "LODIC_MEMORY");
	if (!err)
		err = settings_read_user_file(s);
	if (!err)
		err = settings_read_file(s, SETTINGS_SYSTEM_FILE, SETTINGS_SYSTEM);
	return err;
}

static int settings_default_socket(struct settings *s, bool make)
{
	char folder[SETTINGS_SOCKET_BYTES];
	struct port_file file;
	int err = path_default_socket(s->socket, sizeof(s->socket), make);

	if (!err)
		return 0;
	strcpy(folder, s->socket);
	*strrchr(folder, '/') = '\0';
	if (err != -EACCES || port_look_at(folder, false, &file) != 0)
		settings_refuse(s, "%s cannot be made: %s", folder, strerror(-err));
	else if (file.uid != port_user())
		settings_refuse(s, "%s belongs to user %u", folder, file.uid);
	else if (file.kind != PORT_FILE_FOLDER)
		settings_refuse(s, "%s is no folder", folder);
	else
		settings_refuse(s, "%s is open to other users", folder);
	strncat(s->why, "; name a socket with --socket or LODIC_SOCKET",
	        sizeof(s->why) - strlen(s->why) - 1);
	return err;
}

uint32_t settings_trusted(void)
{
	struct settings s = { 0 };
	uint32_t user = SETTINGS_NO_USER;

	if (settings_gather(&s, settings_privileged()) == 0 && s.from[SETTING_TRUST])
		user = s.trust;
	settings_free(&s);
	return user;
}

int settings_find_socket(struct settings *s, bool make)
{
	int err = settings_gather(s, settings_privileged());

	if (err || s->from[SETTING_SOCKET])
		return err;
	return settings_default_socket(s, make);
}
