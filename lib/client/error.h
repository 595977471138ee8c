/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What each thread knows of its last error: the reason beside the errno, and the last words of a
 * service that did not start. The function that finds the cause notes it. An errno that another
 * function returns later has another cause, and so each public function that can fail forgets the
 * last note before it begins.
 */
#ifndef LODIC_LIB_CLIENT_ERROR_H
#define LODIC_LIB_CLIENT_ERROR_H

#include "lib/client/client.h"
#include "lib/reason.h"

/* Of a sentence, with its end. Longer ones are cut. */
#define ERROR_WORDS_BYTES 512

/* The last note of this thread counts no more. It takes no memory. */
void error_forget(void);
/* Notes the reason, and returns its -errno. */
int error_because(enum lodic_reason reason);
/* The same with an error that may have its reason in it (RE1). Returns the plain -errno. */
int error_plain(int error);
/* The same with more than the reason's own text. words may be NULL. */
int error_says(enum lodic_reason reason, int error, const char *words);

#endif
