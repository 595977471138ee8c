/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which promises would have the service cache more of the program's files. A promise is a line
 * `immutable = GLOB' in a configuration file. It says that nobody changes a file while it is
 * cached. A file that was opened for writing or has changed meanwhile is never promised.
 *
 * A glob is as narrow as can be: a file's own path. Several files of a folder get one glob, unless
 * the program also has another file there, which the glob would promise as well.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/promise.h"

/* What brings less than this part of the bytes is not worth a promise. Our choice. */
#define LEAST_PART 100u

bool doctor_promise_helps(int refused)
{
	return refused == -EOPNOTSUPP || refused == -EMEDIUMTYPE || refused == -EACCES;
}

static bool may_promise(const struct doctor_file *f)
{
	return f->asked && !f->gone && !f->written &&
	       doctor_promise_helps(f->refused) && !f->counts.reads[RUN_WRITABLE];
}

/* Of a --pid nobody knows what is read of which file. */
static uint64_t weight(const struct doctor *d, const struct doctor_file *f)
{
	return d->pid ? f->size : f->counts.bytes[RUN_COULD];
}

static size_t folder_bytes(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static bool same_folder(const struct doctor_file *a, const struct doctor_file *b)
{
	size_t n = folder_bytes(a->path);

	return folder_bytes(b->path) == n && strncmp(a->path, b->path, n) == 0;
}

/* Copies text so that it stands for itself alone in a line. */
static bool glob_add(char glob[PATH_MAX], size_t *at, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool last = i + 1 == n, blank = text[i] == ' ' || text[i] == '\t';

		if (*at + 3 > PATH_MAX)
			return false;
		if (text[i] == '\n' || (last && blank)) {
			glob[(*at)++] = '?';
			continue;
		}
		if (strchr("*?[\\", text[i]))
			glob[(*at)++] = '\\';
		glob[(*at)++] = text[i];
	}
	glob[*at] = '\0';
	return true;
}

bool doctor_promise_glob(const char *path, char glob[PATH_MAX])
{
	size_t at = 0;

	return path[0] == '/' && glob_add(glob, &at, path, strlen(path));
}

/* A glob of the whole folder. */
static bool folder_glob(const char *path, char glob[PATH_MAX])
{
	size_t at = 0;

	return path[0] == '/' && glob_add(glob, &at, path, folder_bytes(path)) &&
	       glob_add(glob, &at, "/", 1) && at + 2 <= PATH_MAX &&
	       strcpy(glob + at, "*");
}

/* Is it worth a promise? all: of all files that may be promised. */
static bool is_worth(const struct doctor *d, const struct doctor_file *f, uint64_t all)
{
	return weight(d, f) > 0 && weight(d, f) >= all / LEAST_PART;
}

/* Does the program have several such files there, and all of its files there may be promised? */
static bool takes_folder(const struct doctor *d, const struct doctor_file *f,
                         uint64_t all)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < d->nr_files; i++) {
		const struct doctor_file *other = &d->files[i];

		if (!same_folder(f, other))
			continue;
		if (!may_promise(other))
			return false;
		nr += is_worth(d, other, all);
	}
	return nr > 1;
}

static bool has_glob(const struct doctor_promise *p, const char *glob)
{
	for (unsigned int i = 0; i < p->nr; i++)
		if (strcmp(p->globs[i], glob) == 0)
			return true;
	return false;
}

static void take_file(struct doctor *d, const struct doctor_file *f, uint64_t all)
{
	struct doctor_promise *p = &d->promise;
	char glob[PATH_MAX];

	if (takes_folder(d, f, all) ? !folder_glob(f->path, glob)
	                            : !doctor_promise_glob(f->path, glob))
		return;
	if (f->refused == -EMEDIUMTYPE)
		p->of_memory = true;
	if (p->nr < DOCTOR_GLOBS && !has_glob(p, glob))
		strcpy(p->globs[p->nr++], glob);
}

/* The globs of a user's file hide those of the system's. So a first line there needs these, too. */
static void choose_place(struct doctor *d)
{
	struct doctor_promise *p = &d->promise;
	char *const *old = d->settings.immutable;
	enum settings_source from = d->settings.from[SETTING_IMMUTABLE];

	p->file = d->user != 0 || from == SETTINGS_USER ? "~/.config/lodic.conf"
	                                                : SETTINGS_SYSTEM_FILE;
	if (d->user == 0 || from != SETTINGS_SYSTEM)
		return;
	for (; *old && p->nr < DOCTOR_GLOBS && strlen(*old) < PATH_MAX;
	     old++, p->nr_old++)
		strcpy(p->globs[p->nr++], *old);
}

void doctor_promise_choose(struct doctor *d)
{
	uint64_t all = 0;

	d->promise = (struct doctor_promise){ 0 };
	for (size_t i = 0; i < d->nr_files; i++)
		if (may_promise(&d->files[i]))
			all += weight(d, &d->files[i]);
	choose_place(d);
	for (size_t i = 0; all && i < d->nr_files; i++) {
		const struct doctor_file *f = &d->files[i];

		if (may_promise(f) && is_worth(d, f, all))
			take_file(d, f, all);
	}
	if (d->promise.nr == d->promise.nr_old)
		d->promise.nr = d->promise.nr_old = 0;
}
