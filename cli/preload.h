/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic map`, `run` and `doctor` share: they put the shim into a program. */
#ifndef LODIC_CLI_PRELOAD_H
#define LODIC_CLI_PRELOAD_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends with an exit status, and has said why, unless it is 0. verb is "map", "run" or "doctor". */

/* Must the shim come into the program called name? 126 or 127 if it cannot. */
int preload_check(const char *verb, const char *name);
/* The same, but one that cannot have the shim is run without: a line says why. *ret_plain: neither
 * it nor its children can have it. With require such a program fails. */
int preload_judge(const char *verb, const char *name, bool require, bool *ret_plain);
/* Puts the shim into the environment, in front of what is preloaded already. */
int preload_enter(void);
/* The same. false: it cannot be, and why is a sentence about it; nothing is printed. */
bool preload_try(char *why, size_t size);
/* Makes an empty report at path. Gives its absolute path, because the program and its children
 * may change their folders. */
int preload_report(const char *path, char *ret_path, size_t size);
/* Becomes the program; returns only if that fails. */
int preload_become(char **command);

/* 0, or -1 and errno. An empty value unsets the variable: one from outside must not reach the
 * shim. */
int preload_set(const char *name, const char *value);
int preload_set_number(const char *name, uint64_t n);

/* Adds a line to globs, which has room for size bytes. If that cannot be, argp_error() says why. */
void preload_add_glob(struct argp_state *state, char *globs, size_t size,
                      const char *glob);

/* How many seccomp filters this process is under; the highest number: nobody knows. A program
 * that gets one more may be killed for a system call of the shim's. */
uint64_t preload_count_filters(void);

#endif
