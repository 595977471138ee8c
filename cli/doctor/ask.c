/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Asks services about the program's files, in the words of `lodic files': a private one, and the
 * one that runs already. Each is asked as a program asks it, by a descriptor. So the answer is
 * of that service's own settings and rights. A service that is asked holds the file
 * for a while, as it does for any program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor/ask.h"
#include "cli/doctor/run.h"
#include "cli/own_cache.h"
#include "lib/look.h"
#include "lodic/lodic.h"

/* What the program has read. -1: its path leads to something else by now, and f->gone says so. */
static int open_file(struct doctor_file *f)
{
	struct stat st;
	int fd = -1;

	/* Somebody else may have put a device there, which an open() would wake. */
	if (lstat(f->path, &st) == 0 && S_ISREG(st.st_mode))
		fd = open(f->path,
		          O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	f->gone = fd < 0 || fstat(fd, &st) != 0 || st.st_dev != f->dev ||
	          st.st_ino != f->ino;
	if (!f->gone) {
		f->written = f->mtime_ns != doctor_mtime_ns(&st);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* 0: the service would cache it; -errno. */
static int ask(struct lodic *lodic, int fd)
{
	struct lodic_file *file;
	int error = lodic_open(lodic, fd, &file);

	if (error)
		return error;
	error = lodic_file_cached(file);
	lodic_close(file);
	return error;
}

/* A file system that may not answer is not asked for a file's number: a service that refuses such a
 * file knows its path alone. */
static bool is_of(const struct look_file *r, const struct doctor_file *f)
{
	return r->ino ? f->dev == r->dev && f->ino == r->ino
	              : strcmp(r->path, f->path) == 0;
}

/* ---- a private service ---- */

static int take_why(void *arg, const void *record)
{
	const struct look_file *r = record;
	struct doctor *d = arg;

	for (size_t i = 0; i < d->nr_files && i < DOCTOR_ASKED; i++) {
		struct doctor_file *f = &d->files[i];

		if (f->refused && is_of(r, f))
			snprintf(f->refused_why, sizeof(f->refused_why), "%s",
			         look_file_why(r));
	}
	return 0;
}

static void ask_whether(struct lodic *lodic, struct doctor_file *f, bool promised)
{
	int fd = open_file(f);

	if (fd < 0)
		return;
	if (promised) {
		f->promised = ask(lodic, fd) == 0;
	} else {
		f->refused = ask(lodic, fd);
		f->asked = true;
	}
	close(fd);
}

void doctor_ask(struct doctor *d, struct own_cache *cache, bool promised)
{
	struct look *look;
	int pid;

	for (size_t i = 0; i < d->nr_files && i < DOCTOR_ASKED && !cli_stopped; i++)
		if (!promised || (d->files[i].asked && d->files[i].refused))
			ask_whether(cache->seat.lodic, &d->files[i], promised);
	if (promised || look_open(cache->socket, &look, &pid) != 0)
		return;
	look_list(look, LOOK_FILES, take_why, d);
	look_close(look);
}

/* ---- the service that runs already ---- */

static int take_held(void *arg, const void *record)
{
	const struct look_file *r = record;
	struct doctor *d = arg;

	for (size_t i = 0; i < d->nr_files && i < DOCTOR_ASKED; i++) {
		struct doctor_file *f = &d->files[i];

		if (!f->service_asked || !is_of(r, f))
			continue;
		if (f->service_refused)
			snprintf(f->service_why, sizeof(f->service_why), "%s",
			         look_file_why(r));
		f->service_bytes = r->cached * LODIC_BLOCK_BYTES;
		f->service_promised =
			strncmp(r->proof, "promise", sizeof(r->proof)) == 0;
	}
	return 0;
}

/* Its own options win over what stands in files. */
static bool has_promise_option(int pid)
{
	static const char option[] = "--immutable";
	char path[32], word[4096];
	bool found = false;
	size_t n = 0;
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	while (f && !found && (c = fgetc(f)) != EOF) {
		if (c != '\0' && n < sizeof(word) - 1)
			word[n++] = (char)c;
		if (c != '\0')
			continue;
		word[n] = '\0';
		n = 0;
		found = strncmp(word, option, strlen(option)) == 0 ||
		        strncmp(word, "-i", 2) == 0;
	}
	if (f)
		fclose(f);
	return found;
}

/* By its control group. */
static void find_unit(struct doctor_service *s)
{
	char path[32], line[4096], *slash;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", s->pid);
	f = s->pid > 0 ? fopen(path, "re") : NULL;
	while (f && !*s->unit && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		slash = strrchr(line, '/');
		if (!slash || strncmp(slash, "/lodic", 6) != 0 ||
		    !strstr(slash, ".service"))
			continue;
		snprintf(s->unit, sizeof(s->unit), "%.*s", (int)sizeof(s->unit) - 1,
		         slash + 1);
		s->unit_of_user = strstr(line, "user@");
	}
	if (f)
		fclose(f);
}

static int ask_running(struct doctor *d, struct look *look)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = d->service.socket,
		                         .service = "" };
	struct lodic_stat stat;
	struct lodic *lodic;
	int fd, error = look_stat(look, &stat);

	if (error)
		return error;
	d->service.cache_bytes = stat.frames * LODIC_BLOCK_BYTES;
	/* With fast memory there is no such sum. */
	d->service.memory_limit = stat.memory_limit
	                                  ? stat.memory_limit
	                                  : d->service.cache_bytes + stat.hold_limit;
	/* Blocks begin with less than they may have, and get more when they need it. */
	d->cache_setting =
		stat.memory_limit ? stat.memory_limit : d->service.cache_bytes;
	d->service.cached_bytes = stat.cached * LODIC_BLOCK_BYTES;
	d->service.hold_limit = stat.hold_limit;
	d->service.by_option = has_promise_option(d->service.pid);
	find_unit(&d->service);
	error = lodic_attach(&options, &lodic);
	if (error)
		return error;
	for (size_t i = 0; i < d->nr_files && i < DOCTOR_ASKED && !cli_stopped; i++) {
		struct doctor_file *f = &d->files[i];

		/* A --pid says nothing of single files. */
		fd = d->pid || f->counts.reads[RUN_COULD] ? open_file(f) : -1;
		if (fd < 0)
			continue;
		f->service_refused = ask(lodic, fd);
		f->service_asked = true;
		close(fd);
	}
	lodic_detach(lodic);
	return look_list(look, LOOK_FILES, take_held, d);
}

void doctor_ask_service(struct doctor *d)
{
	struct doctor_service *s = &d->service;
	struct settings settings = { 0 };
	struct look *look;
	int error = settings_find_socket(&settings, false);

	if (!error) {
		snprintf(s->socket, sizeof(s->socket), "%s", settings.socket);
		error = look_open(s->socket, &look, &s->pid);
	}
	settings_free(&settings);
	/* Nobody listens, or nobody could. */
	if (error && s->pid == 0 && error != -ETIMEDOUT)
		return;
	s->found = true;
	if (!error) {
		s->error = ask_running(d, look);
		look_close(look);
	} else {
		s->error = error;
	}
}
