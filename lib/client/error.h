/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What each thread knows of its last error: the reason beside the errno, and the last words of a
 * service that did not start.
 *
 * RE3 the library's own functions return errors that may have their reason in them (RE1). A public
 *     function forgets the last note when it begins, and ends with error_plain(). Those that a
 *     reader calls all the time make the note only when they fail, and then a new one.
 */
#ifndef LODIC_LIB_CLIENT_ERROR_H
#define LODIC_LIB_CLIENT_ERROR_H

#include "lib/client/client.h"
#include "lib/reason.h"

/* Of a sentence, with its end. Longer ones are cut. */
#define ERROR_WORDS_BYTES 512

/* The last note of this thread counts no more. It takes no memory. */
void error_forget(void);
/* Notes the reason that error has in it, and returns the plain -errno. An error without one leaves
 * the note of this call as it is. */
int error_plain(int error);
/* Notes the reason, and returns its -errno. */
int error_because(enum lodic_reason reason);
/* Notes the reason with more than its own text, and returns error. words may be NULL. */
int error_says(enum lodic_reason reason, int error, const char *words);

#endif
