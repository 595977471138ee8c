/* SPDX-License-Identifier: GPL-2.0 */
/* Files that hold one number or one word, as those of /proc and /sys do. */
#ifndef LODIC_TESTS_TEXT_H
#define LODIC_TESTS_TEXT_H

#include "base.h"

/* All that write return 0 or -errno. */
int text_write(const char *path, const char *text);

int text_append(const char *path, const char *text);

int text_write_number(const char *path, u64 n);

/* Returns the number behind a name in /proc/vmstat, or -1. */
long long text_vmstat(const char *name);

/* Whether a line of words has that one. */
bool text_has_word(const char *path, const char *word);

/* Returns the number that the file holds, or -1. */
long long text_read_number(const char *path);

#endif
