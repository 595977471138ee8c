/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See error.h. Also: which version the library is. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>

#include "lib/client/error.h"
#include "lib/port.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

struct note {
	int error; /* positive; 0: it counts no more */
	enum lodic_reason reason;
	char words[ERROR_WORDS_BYTES]; /* "": the reason's own */
};

static struct port_word thread_note = { .end = port_free };

/* Of an errno that has several reasons, none of which is known. */
static const struct {
	int error;
	const char *text;
} error_texts[] = {
	{ EAGAIN, "it is not ready: ask again later" },
	{ ESTALE, "the file is not cached: lodic_file_cached() says why" },
	{ EDQUOT, "there is no room left in this program's share of the cache" },
	{ ENODATA, "there are no bytes there: the file ends before" },
	{ EOPNOTSUPP, "the cache cannot do that for this file here" },
	{ EFBIG, "it is larger than the cache takes" },
	{ ENFILE, "the service can have no more files" },
	{ EACCES, "the cache is not allowed to do that" },
	{ EINVAL, "the cache was asked for something that is not valid" },
	{ EPERM, "the cache is not for this program, as it runs now" },
	{ ENOENT, "no service listens at the socket" },
	{ ETIMEDOUT, "the service does not answer in time" },
	{ ECONNRESET, "the service has died: try again" },
};

void error_forget(void)
{
	struct note *note = port_word_get(&thread_note);

	if (note)
		note->error = 0;
}

int error_says(enum lodic_reason reason, int error, const char *words)
{
	struct note *note = port_word_get(&thread_note);

	if (!note) {
		note = port_alloc(sizeof(*note));
		if (note && !port_word_set(&thread_note, note)) {
			port_free(note);
			note = NULL;
		}
	}
	if (!note) /* then lodic_strerror() knows the errno alone */
		return error;
	note->error = -error;
	note->reason = reason;
	strncpy(note->words, words ? words : "", sizeof(note->words) - 1);
	note->words[sizeof(note->words) - 1] = '\0';
	return error;
}

int error_plain(int error)
{
	enum lodic_reason reason = reason_of(error);

	error = reason_error(error);
	return reason == LODIC_REASON_NONE ? error : error_says(reason, error, NULL);
}

int error_because(enum lodic_reason reason)
{
	return error_plain(reason_encode(reason));
}

/* The note, if it is of this error. */
static const struct note *note_of(int error)
{
	const struct note *note = port_word_get(&thread_note);

	return note && note->error > 0 && note->error == error ? note : NULL;
}

static int error_positive(int error)
{
	return error < 0 && error != INT_MIN ? -error : error;
}

EXPORT enum lodic_reason lodic_reason(int error)
{
	const struct note *note = note_of(error_positive(error));

	return note ? note->reason : reason_usual(error_positive(error));
}

EXPORT const char *lodic_reason_text(enum lodic_reason reason)
{
	return reason_text(reason);
}

EXPORT const char *lodic_reason_name(enum lodic_reason reason)
{
	return reason_name(reason);
}

EXPORT const char *lodic_strerror(int error)
{
	enum lodic_reason reason = lodic_reason(error);
	const struct note *note;
	const char *text;

	error = error_positive(error);
	note = note_of(error);
	if (note && *note->words)
		return note->words;
	if (reason != LODIC_REASON_NONE)
		return reason_text(reason);
	for (size_t i = 0; i < sizeof(error_texts) / sizeof(*error_texts); i++)
		if (error_texts[i].error == error)
			return error_texts[i].text;
	text = strerrordesc_np(error);
	return text ? text : "unknown error";
}

EXPORT const char *lodic_version(void)
{
	/* tools/tidy.py compares these with the build's version. */
	return TEXT(LODIC_VERSION_MAJOR) "." TEXT(LODIC_VERSION_MINOR) "." TEXT(
		LODIC_VERSION_PATCH);
}
