/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Choosing the file and setting up the rig. Contract: bench/measure/stand.h. */
#include "bench/measure/stand.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/leftover.h"

#define MB 1e6

enum { KEY_WORKDIR = 0x1000, KEY_SEED, KEY_HUGE_PAGES };

static const struct argp_option stand_options[] = {
	{ "file", 'f', "PATH", 0,
	  "Read this file. The default is a large file of this system", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "If the file must be copied, put the copy there. The default is the folder "
	  "build, where there is one, and else TMPDIR",
	  0 },
	{ "seed", KEY_SEED, "N", 0, "Choose the blocks that are read by this seed", 0 },
	{ "huge-pages", KEY_HUGE_PAGES, "auto|off", 0, "As `lodic serve' has it", 0 },
	{ 0 },
};

static error_t stand_parse(int key, char *arg, struct argp_state *state)
{
	struct stand *s = state->input;

	switch (key) {
	case 'f':
		/* An empty one is none: `make demo FILE=`. */
		s->file = arg[0] ? arg : NULL;
		return 0;
	case KEY_WORKDIR: s->workdir = arg; return 0;
	case KEY_HUGE_PAGES:
		s->huge_pages = arg;
		if (strcmp(arg, "auto") != 0 && strcmp(arg, "off") != 0)
			argp_error(state, "'%s' is neither auto nor off", arg);
		return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &s->seed) != 0)
			argp_error(state,
			           "'%s' is not a seed: a number from 1 to 2^32 - 1",
			           arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state,
		           "'%s' is one argument too many; name a file with --file",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

const struct argp stand_argp = { .options = stand_options, .parser = stand_parse };

__attribute__((format(printf, 2, 3))) static void stand_tell(const struct stand *s,
                                                             const char *format, ...)
{
	va_list args;

	if (s->quiet)
		return;
	va_start(args, format);
	cli_print(stdout, format, args);
	va_end(args);
	fflush(stdout); /* before anybody forks */
}

static const char *stand_folder(const struct stand *s)
{
	return s->workdir ? s->workdir : leftover_folder();
}

int stand_choose_file(struct stand *s)
{
	int error;

	if (s->file) {
		error = corpus_take(&s->corpus, s->file);
		if (error == -EINVAL)
			cli_error("%s is not a regular file of at least %d bytes; name "
			          "another file with --file",
			          s->file, LODIC_BLOCK_BYTES);
		else if (error)
			cli_error("cannot open %s: %s", s->file, strerror(-error));
	} else {
		error = corpus_find(&s->corpus);
		if (error) {
			stand_tell(
				s,
				"no file of this system suits; writing one of random "
				"bytes");
			error = corpus_make(&s->corpus, stand_folder(s));
			if (error && !cli_stopped)
				cli_error("cannot write a file into %s: %s; name a "
				          "folder with --workdir, or a file with "
				          "--file",
				          stand_folder(s), strerror(-error));
		}
	}
	if (error)
		return cli_stopped ? CLI_STOPPED : CLI_FAILED;
	stand_tell(s, "file: %s, %.1f MB", s->corpus.path,
	           (double)s->corpus.bytes / MB);
	/* Nobody would see the results. cli_check_output() says why. */
	return ferror(stdout) ? CLI_FAILED : CLI_OK;
}

/* Why the file itself cannot be cached; NULL: the error is about something else. */
static const char *stand_file_reason(int error)
{
	switch (error) {
	case -EACCES:
		return "the file is another user's, and the kernel gives a lease only to "
		       "the owner";
	case -ETXTBSY: return "a process has the file open for writing";
	case -EOPNOTSUPP: return "the file's file system gives no dependable leases";
	case -EMEDIUMTYPE: return "the file lies in tmpfs, which is memory already";
	default: return NULL;
	}
}

int stand_copy_file(struct stand *s, int error)
{
	const char *reason = stand_file_reason(error);

	if (!reason || s->corpus.temporary)
		return error;
	stand_tell(s, "%s; reading a copy in %s, which is removed at the end", reason,
	           stand_folder(s));
	error = corpus_copy(&s->corpus, stand_folder(s));
	if (error && !cli_stopped)
		snprintf(s->rig.why, sizeof(s->rig.why),
		         "cannot copy %.100s into %.60s: %s; name a folder with "
		         "--workdir",
		         s->corpus.path, stand_folder(s), strerror(-error));
	return error;
}

int stand_complain(const struct stand *s, int error)
{
	if (cli_stopped)
		return CLI_STOPPED;
	cli_error("%s%s", s->rig.why[0] ? s->rig.why : lodic_strerror(error),
	          error == -EMEDIUMTYPE ? "; name a folder on a disk with --workdir"
	                                : "");
	return CLI_FAILED;
}

int stand_open(struct stand *s, unsigned int nr_readers)
{
	int status = stand_choose_file(s), error;

	if (status != CLI_OK)
		return status;
	error = rig_open(&s->rig, &s->corpus, nr_readers, s->seed, s->huge_pages);
	if (stand_file_reason(error) && !s->corpus.temporary) {
		rig_close(&s->rig);
		error = stand_copy_file(s, error);
		if (!error)
			error = rig_open(&s->rig, &s->corpus, nr_readers, s->seed,
			                 s->huge_pages);
	}
	cli_progress("", 101);
	return error ? stand_complain(s, error) : CLI_OK;
}

void stand_close(struct stand *s)
{
	rig_close(&s->rig);
	corpus_drop(&s->corpus);
	leftover_sweep();
}
