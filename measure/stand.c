/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Choosing the file and setting up the rig. Contract: measure/stand.h. */
#include "measure/stand.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "measure/cli.h"

#define MB 1e6

__attribute__((format(printf, 2, 3))) static void tell(const struct stand *s,
                                                       const char *format, ...)
{
	va_list args;

	if (s->quiet)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout); /* before anybody forks */
}

static const char *stand_folder(const struct stand *s)
{
	return s->workdir ? s->workdir : corpus_folder();
}

int stand_choose_file(struct stand *s)
{
	int error;

	if (s->file) {
		error = corpus_take(&s->corpus, s->file);
		if (error == -EINVAL)
			cli_error("%s is not a regular file of at least %d bytes; name "
			          "another with --file",
			          s->file, LODIC_BLOCK_BYTES);
		else if (error)
			cli_error("cannot open %s: %s", s->file, strerror(-error));
	} else {
		error = corpus_find(&s->corpus);
		if (error) {
			tell(s, "no large file here that suits; making one up\n");
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
	tell(s, "file: %s, %.1f MB\n", s->corpus.path, (double)s->corpus.bytes / MB);
	return CLI_OK;
}

/* Why the file itself cannot be cached; NULL: it is no matter of the file. */
static const char *file_reason(int error)
{
	switch (error) {
	case -EACCES:
		return "the kernel tells only its owner of writers, and it is another user's";
	case -ETXTBSY: return "somebody has it open for writing";
	case -EOPNOTSUPP: return "its file system gives no dependable leases";
	default: return NULL;
	}
}

int stand_copy_file(struct stand *s, int error)
{
	const char *reason = file_reason(error);

	if (!reason || s->corpus.temporary)
		return error;
	tell(s, "%s: reading a copy in %s, removed afterwards\n", reason,
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
	cli_error("%s", s->rig.why[0] ? s->rig.why : strerror(-error));
	return CLI_FAILED;
}

int stand_open(struct stand *s, unsigned int nr_readers)
{
	int status = stand_choose_file(s), error;

	if (status != CLI_OK)
		return status;
	error = rig_open(&s->rig, &s->corpus, nr_readers, s->seed);
	if (file_reason(error) && !s->corpus.temporary) {
		rig_close(&s->rig);
		error = stand_copy_file(s, error);
		if (!error)
			error = rig_open(&s->rig, &s->corpus, nr_readers, s->seed);
	}
	cli_progress("", 101);
	return error ? stand_complain(s, error) : CLI_OK;
}

void stand_close(struct stand *s)
{
	rig_close(&s->rig);
	corpus_drop(&s->corpus);
}
