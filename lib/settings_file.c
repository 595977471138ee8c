/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Settings in files: lines "key = value", and comments behind #. The configuration files and
 * the settings that a service leaves have the same form. Contract: settings.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lines.h"
#include "lib/settings_value.h"

#define LINE_BYTES 5000 /* a path, and a key */
#define OTHERS_WRITE 022u
#define LEFT_BYTES (SETTINGS_SOCKET_BYTES + 16)

/* Without the blanks on both sides. */
static char *settings_file_trim(char *text)
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	n = strlen(text);
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = '\0';
	return text;
}

/* *ret_setting: what the line sets; NR_SETTINGS: nothing. */
static int settings_file_take_line(struct settings *s, char *line,
                                   enum settings_source source,
                                   enum setting *ret_setting)
{
	char *value, *key = settings_file_trim(line);

	*ret_setting = NR_SETTINGS;
	if (!*key || *key == '#')
		return 0;
	value = strchr(key, '=');
	if (!value) {
		snprintf(s->why, sizeof(s->why), "this is not 'key = value'");
		return -EINVAL;
	}
	*value++ = '\0';
	key = settings_file_trim(key);
	for (enum setting i = 0; i < NR_SETTINGS; i++) {
		if (strcmp(settings_name(i), key) != 0)
			continue;
		*ret_setting = i;
		return settings_set(s, i, settings_file_trim(value), source);
	}
	snprintf(s->why, sizeof(s->why), "there is no setting '%.100s'", key);
	return -EINVAL;
}

static int settings_file_take_lines(struct settings *s, int fd, const char *path,
                                    enum settings_source source)
{
	struct lines file = { .fd = fd, .read = port_read };
	char line[LINE_BYTES], why[SETTINGS_WHY_BYTES];
	unsigned int number, before[NR_SETTINGS + 1] = { 0 };
	enum setting setting = NR_SETTINGS;
	int err = 0;

	for (number = 1; !err && lines_next(&file, line, sizeof(line)); number++) {
		if (!strchr(line, '\n') && !file.ended) {
			snprintf(s->why, sizeof(s->why), "the line is too long");
			err = -EINVAL;
		} else {
			err = settings_file_take_line(s, line, source, &setting);
		}
		if (!err && before[setting] && !settings_value_is_globs(setting))
			snprintf(s->doubled, sizeof(s->doubled),
			         "%.200s:%u: '%s' stands in line %u already; the last "
			         "one counts, so remove the others",
			         path, number, settings_name(setting), before[setting]);
		before[setting] = setting < NR_SETTINGS ? number : 0;
		if (err) {
			strcpy(why, s->why);
			snprintf(s->why, sizeof(s->why), "%.200s:%u: %.280s", path,
			         number, why);
		}
	}
	if (!err && file.error) /* half of them would be another configuration */
		err = settings_refuse(s, "%.300s cannot be read: %s", path,
		                      strerror(-file.error));
	return err;
}

/* Others must not be able to say what this user's programs do. */
static int settings_file_check(struct settings *s, int fd, const char *path)
{
	struct port_file file;

	if (port_look(fd, &file) == 0 && file.kind == PORT_FILE_REGULAR &&
	    (file.uid == port_user() || file.uid == 0) && !(file.rights & OTHERS_WRITE))
		return 0;
	snprintf(s->why, sizeof(s->why),
	         "%.300s does not count: it must be a file of yours or of root, which "
	         "nobody else may write",
	         path);
	return -EINVAL;
}

/* Why the file cannot be opened: is there none? In a user namespace the home folder is often
 * closed. Then nobody can have meant a file in it. */
static bool settings_file_is_none(const char *path, int err)
{
	struct port_file file;

	return err == -ENOENT || err == -ENOTDIR ||
	       (err == -EACCES && port_look_at(path, true, &file) == -EACCES);
}

int settings_read_file(struct settings *s, const char *path,
                       enum settings_source source)
{
	int err, fd = port_open(path);

	if (fd < 0 && settings_file_is_none(path, fd))
		return 0;
	if (fd < 0) {
		snprintf(s->why, sizeof(s->why), "%.300s cannot be read: %s", path,
		         strerror(-fd));
		return -EINVAL;
	}
	err = settings_file_check(s, fd, path);
	if (!err)
		err = settings_file_take_lines(s, fd, path, source);
	port_shut(fd);
	return err;
}

static void settings_file_left_path(const struct settings *s, char path[LEFT_BYTES])
{
	snprintf(path, LEFT_BYTES, "%s.conf", s->socket);
}

static bool settings_file_is_left(const struct settings *s, enum setting i)
{
	/* A successor reads the configuration files itself. */
	return settings_is_left(i) &&
	       (s->from[i] == SETTINGS_OPTION || s->from[i] == SETTINGS_ENVIRONMENT ||
	        s->from[i] == SETTINGS_LEFT);
}

static void settings_file_print(const struct settings *s, enum setting i, FILE *file)
{
	char text[SETTINGS_PATH_BYTES];

	for (char *const *glob = settings_value_globs(s, i); *glob; glob++)
		fprintf(file, "%s = %s\n", settings_name(i), *glob);
	if (!settings_value_is_globs(i))
		fprintf(file, "%s = %s\n", settings_name(i),
		        settings_value_text(s, i, text));
}

/* What is left, as a string for free(). NULL: there is no memory. */
static char *settings_file_text(const struct settings *s, size_t *ret_bytes)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, ret_bytes);

	if (!file)
		return NULL;
	fprintf(file,
	        "# What the service at %s was told (process %d wrote this).\n"
	        "# The next service that a program starts there is told the same. One "
	        "that you run\n# by hand is not, and writes this anew.\n",
	        s->socket, port_process());
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		if (settings_file_is_left(s, i))
			settings_file_print(s, i, file);
	if (fclose(file) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int settings_file_write(const struct settings *s, const char *path)
{
	size_t bytes, done = 0;
	char *text = settings_file_text(s, &bytes);
	int64_t n = 0;
	int fd;

	if (!text)
		return -ENOMEM;
	fd = port_create(path);
	while (fd >= 0 && done < bytes &&
	       (n = port_write(fd, text + done, bytes - done, done)) > 0)
		done += (size_t)n;
	free(text);
	if (fd < 0)
		return fd;
	port_shut(fd);
	return done == bytes ? 0 : n < 0 ? (int)n : -EIO;
}

int settings_leave(struct settings *s)
{
	char path[LEFT_BYTES], fresh[LEFT_BYTES + 4];
	bool any = false;
	int err = 0;

	settings_file_left_path(s, path);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		any |= settings_file_is_left(s, i);
	/* One service at a time holds the socket's lock, so nobody else writes this. */
	port_remove(fresh);
	if (any)
		err = settings_file_write(s, fresh);
	if (!any)
		err = port_remove(path);
	else if (!err)
		err = port_rename(fresh, path);
	if (!err || (!any && err == -ENOENT))
		return 0;
	port_remove(fresh);
	snprintf(s->why, sizeof(s->why), "%s cannot be written: %s", path,
	         strerror(-err));
	return err;
}

int settings_take_left(struct settings *s)
{
	char path[LEFT_BYTES];

	settings_file_left_path(s, path);
	return settings_read_file(s, path, SETTINGS_LEFT);
}
