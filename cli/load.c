/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic load`: brings files into the cache before programs ask for them. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/load_run.h"
#include "cli/text.h"
#include "cli/where.h"

/* How often --wait tries again what somebody writes. */
#define AGAIN_NS 500000000
/* Of the cache, what blocks may have: the service keeps some frames free (evict.c). */
#define ROOM_PARTS 16u
/* How often it looks whether a larger memory is there. A service that does something else makes
 * none; it waits so long for that. */
#define ROOM_LOOK_NS 10000000
#define ROOM_WAIT_NS UINT64_C(10000000000)
#define NS_PER_S 1000000000.0
/* Below this nothing was read: it was there already, or none of it could come. */
#define RATE_LEAST_S 0.05

struct load {
	const char *socket;
	uint64_t memory_bytes;
	bool hold, wait, json;
	bool asked;   /* the service was */
	char **words; /* NULL: none was named */
	struct settings settings;
	struct load_list list;
	struct lodic_stat stat;
	uint64_t there;
	uint64_t took_ns;
};

static const char doc[] =
	"Load files into the cache, so that the first reader is served as the second is. "
	"A folder stands for all files below it. A pattern in quotes is matched by this command."
	"\v"
	"The command starts the cache's service if none runs. A service that has loaded files ends "
	"after an hour without a program at the earliest. The command returns when the files are "
	"loaded. What cannot be cached is named with the reason, the others are loaded, and the "
	"exit status is 1.\n"
	"\n"
	"The blocks stay as long as the cache has room and nobody writes to the files, also if no "
	"program has them open. Until `lodic drop' their file systems cannot be unmounted. Blocks "
	"that programs use push out those that nobody uses; `lodic files' shows what is there. "
	"Files "
	"that together are larger than the cache are loaded as far as they fit, in the order "
	"in which they are named.\n"
	"\n"
	"With --hold each file of 1 MiB and more is loaded as one contiguous range in memory of "
	"its own. This is what `lodic run --mmap', lodic_hold() and lodic.safetensors give to "
	"programs. "
	"When the command ends nobody has the hold, and the service keeps it warm: until another "
	"hold needs the room, memory is short, somebody writes to the file, or the service ends. "
	"A program that asks for the file in that time gets the hold at once. Smaller files are "
	"loaded as blocks.\n"
	"\n"
	"--wait also waits for files that cannot be cached now: somebody has them open for "
	"writing, or has written lately.\n"
	"\n"
	"Ctrl-C stops, and says what has been loaded. Exit status: 0 for all files, 1 if some are "
	"not loaded, 2 for wrong usage, 130 after Ctrl-C.\n"
	"\n"
	"Examples:\n"
	"  lodic load data.db\n"
	"  lodic load --hold '/srv/models/*.safetensors'\n"
	"  lodic load --json /srv/www | jq .not_loaded\n";

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "The service's socket (default: the user's own)",
	  0 },
	{ "memory", 'm', "SIZE", 0,
	  "The cache's size, if this command starts the service, as 512M or 4G (default: "
	  "what the settings say)",
	  0 },
	{ "hold", 'H', NULL, 0, "Load each file as a hold, for programs that map files",
	  0 },
	{ "wait", 'w', NULL, 0, "Wait for files that somebody writes", 0 },
	{ "json", 'j', NULL, 0, "Print JSON, one object", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct load *l = state->input;

	switch (key) {
	case 's': l->socket = arg; return 0;
	case 'm':
		if (cli_parse_bytes(arg, &l->memory_bytes) != 0 || l->memory_bytes == 0)
			argp_error(state, "'%s' is not a size; write it as 512M or 4G",
			           arg);
		return 0;
	case 'H': l->hold = true; return 0;
	case 'w': l->wait = true; return 0;
	case 'j': l->json = true; return 0;
	case ARGP_KEY_ARGS: l->words = state->argv + state->next; return 0;
	case ARGP_KEY_NO_ARGS: argp_error(state, "name a file or a folder"); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- what became of the files ---- */

static bool is_passing(const struct load_file *f)
{
	return f->state == LOAD_REFUSED &&
	       (f->error == ETXTBSY || f->error == EALREADY || f->error == EBUSY ||
	        f->error == ESTALE);
}

static const char *why(const struct load *l, const struct load_file *f)
{
	static char room[160];

	if (f->state == LOAD_PART) {
		snprintf(room, sizeof(room),
		         "the cache of %s has room for %s of its %s; `lodic resize' "
		         "makes it larger",
		         text_bytes(l->stat.frames * LODIC_BLOCK_BYTES).s,
		         text_bytes(f->loaded).s, text_bytes(f->size).s);
		return room;
	}
	if (f->told)
		return f->told;
	if (f->why)
		return f->why;
	return f->state == LOAD_FAILED ? strerror(f->error) : lodic_strerror(f->error);
}

/* What the service says of a file. */
static int look_at(void *ctx, const void *record)
{
	const struct look_file *r = record;
	struct load *l = ctx;
	struct load_file *f = load_list_find(&l->list, r->dev, r->ino);
	uint64_t bytes = r->cached * LODIC_BLOCK_BYTES;

	if (!f)
		return 0;
	if (r->state == LOOK_HELD) {
		bytes = l->hold && r->held > bytes ? r->held : bytes;
		f->loaded = bytes < f->size ? bytes : f->size;
	} else if (f->state != LOAD_FAILED && look_file_errno(r) != ENODATA) {
		f->state = LOAD_REFUSED;
		f->error = look_file_errno(r);
		free(f->told);
		f->told = strdup(look_file_why(r));
	}
	return 0;
}

/* Asks the service what it has now of all that it was to load. */
static int look_at_all(struct load *l, struct look *look)
{
	int err = look_stat(look, &l->stat);

	if (!err)
		err = look_list(look, LOOK_FILES, look_at, l);
	for (size_t i = 0; i < l->list.nr; i++) {
		struct load_file *f = &l->list.files[i];

		if (f->state != LOAD_DONE || f->loaded == f->size)
			continue;
		f->state = LOAD_REFUSED;
		f->error = EAGAIN;
		f->why =
			f->loaded
				? "the cache has let some of it go for what programs use"
				: "the cache has let it go again: it holds as many "
				  "files or blocks as it can";
	}
	return err;
}

/* ---- the report ---- */

static json_t *json_of(const struct load *l, const struct load_file *f)
{
	json_t *o = json_object();

	json_object_set_new(o, "path", text_json(f->path));
	json_object_set_new(o, "size", json_integer((json_int_t)f->size));
	json_object_set_new(o, "loaded_bytes", json_integer((json_int_t)f->loaded));
	json_object_set_new(o, "errno", json_integer(f->error));
	json_object_set_new(o, "why",
	                    f->state == LOAD_NEW ? json_null() : text_json(why(l, f)));
	return o;
}

static void print_json(const struct load *l, size_t nr, uint64_t bytes, bool stopped)
{
	json_t *o = json_object(), *rest = json_array();

	for (size_t i = 0; i < l->list.nr; i++)
		if (l->list.files[i].state != LOAD_DONE)
			json_array_append_new(rest, json_of(l, &l->list.files[i]));
	json_object_set_new(o, "socket", text_json(l->socket));
	json_object_set_new(o, "files", json_integer((json_int_t)l->list.nr));
	json_object_set_new(o, "bytes", json_integer((json_int_t)l->list.bytes));
	json_object_set_new(o, "loaded_files", json_integer((json_int_t)nr));
	json_object_set_new(o, "loaded_bytes", json_integer((json_int_t)bytes));
	json_object_set_new(o, "ns", json_integer((json_int_t)l->took_ns));
	json_object_set_new(o, "stopped", json_boolean(stopped));
	json_object_set_new(o, "not_loaded", rest);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void print_text(const struct load *l, size_t nr, uint64_t bytes)
{
	double s = (double)l->took_ns / NS_PER_S;

	printf("%zu of %zu %s, %s of %s, in the cache at ", nr, l->list.nr,
	       l->list.nr == 1 ? "file" : "files", text_bytes(bytes).s,
	       text_bytes(l->list.bytes).s);
	text_print(l->socket, 0);
	if (s < RATE_LEAST_S)
		printf(" (%.1f s)\n", s);
	else
		printf(" (%.1f s, %s/s)\n", s,
		       text_bytes((uint64_t)((double)bytes / s)).s);
}

/* The exit status. */
static int report(struct load *l)
{
	bool stopped = cli_stopped;
	uint64_t bytes = 0;
	size_t nr = 0;

	for (size_t i = 0; i < l->list.nr; i++) {
		const struct load_file *f = &l->list.files[i];

		bytes += f->loaded;
		nr += f->state == LOAD_DONE;
		if (f->state == LOAD_DONE || f->state == LOAD_NEW)
			continue;
		cli_error("%s: %s", f->path, why(l, f));
	}
	if (l->json)
		print_json(l, nr, bytes, stopped);
	else if (l->asked)
		print_text(l, nr, bytes);
	if (stopped)
		cli_note("stopped before the end");
	return stopped ? CLI_STOPPED : nr == l->list.nr ? CLI_OK : CLI_FAILED;
}

/* ---- the work ---- */

/* --wait: the files that cannot be cached now are to be tried again. How many. */
static size_t try_again(struct load *l)
{
	const struct timespec pause = { .tv_nsec = AGAIN_NS };
	size_t nr = 0;

	for (size_t i = 0; i < l->list.nr; i++) {
		struct load_file *f = &l->list.files[i];

		if (!is_passing(f))
			continue;
		if (nr++ == 0)
			cli_progress("waiting for files that somebody writes", 0);
		f->state = LOAD_NEW;
	}
	if (nr > 0)
		nanosleep(&pause, NULL);
	return nr;
}

/* Blocks of these files that are there already. */
static int count_there(void *ctx, const void *record)
{
	const struct look_file *r = record;
	struct load *l = ctx;

	if (r->state == LOOK_HELD && load_list_find(&l->list, r->dev, r->ino))
		l->there += r->cached;
	return 0;
}

/* What all the files need as blocks, with what is there, and with the frames that stay free. */
static uint64_t bytes_of_blocks(const struct load *l)
{
	uint64_t blocks = l->stat.cached > l->there ? l->stat.cached - l->there : 0;

	for (size_t i = 0; i < l->list.nr; i++)
		if (!l->hold || l->list.files[i].size < LOAD_HOLD_LEAST)
			blocks += (l->list.files[i].size + LODIC_BLOCK_BYTES - 1) /
			          LODIC_BLOCK_BYTES;
	return (blocks + blocks / (ROOM_PARTS - 2)) * LODIC_BLOCK_BYTES;
}

/* A cache begins small, and takes memory as it is used. It shall have room before the first block
 * comes. Another resize may be under way, and ends first. */
static int make_room(struct load *l, struct look *look)
{
	const struct timespec pause = { .tv_nsec = ROOM_LOOK_NS };
	uint64_t end = cli_now_ns() + ROOM_WAIT_NS;
	struct look_resize now = { 0 };
	int err = look_stat(look, &l->stat), busy;

	if (!err)
		err = look_list(look, LOOK_FILES, count_there, l);
	while (!err) {
		busy = look_room(look, bytes_of_blocks(l), &now);
		if (busy && busy != -EBUSY)
			return busy;
		while (!err && !cli_stopped && now.state == LOOK_RESIZE_RUNS) {
			nanosleep(&pause, NULL);
			err = look_resize(look, 0, &now);
		}
		if (!busy || cli_stopped || cli_now_ns() > end)
			break;
		nanosleep(&pause, NULL);
	}
	return err;
}

/* Starts the service if none runs. */
static int attach(const struct load *l, struct lodic **ret)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = l->socket,
		                         .service = cli_program(),
		                         .cache_bytes = l->memory_bytes };

	return lodic_attach(&options, ret);
}

static int load_all(struct load *l)
{
	struct load_run run = { .list = &l->list, .hold = l->hold };
	uint64_t begun;
	int pid, err = attach(l, &run.lodic);

	if (err)
		return err;
	err = look_open(l->socket, &run.look, &pid);
	if (err)
		goto out_detach;
	err = make_room(l, run.look);
	lodic_detach(run.lodic); /* what it has may be the old memory */
	if (!err)
		err = attach(l, &run.lodic);
	if (err) {
		look_close(run.look);
		return err;
	}
	begun = cli_now_ns(); /* a start is no part of the rate */
	err = lodic_context_open(run.lodic, &run.context);
	if (err)
		goto out_look;
	err = lodic_stat(run.lodic, &l->stat, sizeof(l->stat));
	run.room = l->stat.frames * LODIC_BLOCK_BYTES / ROOM_PARTS * (ROOM_PARTS - 1);
	if (!err)
		err = load_run(&run);
	while (!err && l->wait && try_again(l) > 0)
		err = load_run(&run);
	l->took_ns = cli_now_ns() - begun;
	if (!err || err == -EINTR)
		err = look_at_all(l, run.look);
	lodic_context_close(run.context);
out_look:
	look_close(run.look);
out_detach:
	lodic_detach(run.lodic);
	return err;
}

static void complain(const struct load *l, int error)
{
	if (error == -EPERM)
		cli_error(
			"the service at %s belongs to another user; only that user and "
			"root may load files into it",
			l->socket);
	else
		cli_error("no cache at %s: %s", l->socket, lodic_strerror(error));
}

/* Is there a file to load? Else no service is started. */
static bool is_any(const struct load *l)
{
	for (size_t i = 0; i < l->list.nr; i++)
		if (l->list.files[i].state == LOAD_NEW)
			return true;
	return false;
}

static int list_all(struct load *l)
{
	int err = 0;

	for (char **word = l->words; !err && *word; word++)
		err = load_list_add(&l->list, *word);
	cli_progress("", 101);
	if (err == -ENOMEM)
		cli_error("there is no memory for the list of files");
	return err == -EINTR ? CLI_STOPPED : err ? CLI_FAILED : CLI_OK;
}

int command_load(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, "FILE|FOLDER|PATTERN...",
		                          doc,         NULL,  NULL,
		                          NULL };
	static struct load l;
	int err, status;

	if (argp_parse(&argp, argc, argv, 0, NULL, &l) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	if (!l.socket && settings_find_socket(&l.settings, true) != 0) {
		cli_error("%s", l.settings.why);
		return CLI_FAILED;
	}
	l.socket = l.socket ? l.socket : l.settings.socket;
	status = list_all(&l);
	if (status == CLI_OK) {
		l.asked = is_any(&l);
		err = l.asked ? load_all(&l) : 0;
		if (err)
			complain(&l, err);
		status = err ? CLI_FAILED : report(&l);
	}
	load_list_free(&l.list);
	settings_free(&l.settings);
	return status;
}
