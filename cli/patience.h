/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Says that the program still waits in a call that cannot say so, as lodic_attach(). */
#ifndef LODIC_CLI_PATIENCE_H
#define LODIC_CLI_PATIENCE_H

/* From 2 s after patience_begin() on, stderr gets a line every few seconds: "what: 2 s so far". It
 * takes a thread, which patience_end() ends. Without one there is no line. */
void patience_begin(const char *what);
void patience_end(void);

#endif
