/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KTAP: what a test program prints, and the status that it ends with. A program prints one
 * line for each of its subtests.
 */
#ifndef LODIC_TESTS_KTAP_H
#define LODIC_TESTS_KTAP_H

#include "base.h"

/*
 * The status of a program that skips all of its subtests: KSFT_SKIP of Linux's kselftest.
 * Tests outside kernel/ use 77, as Meson does.
 */
#define KTAP_SKIPPED 4

/* Whether the present subtest has failed so far. */
bool ktap_failing(void);

/* The first lines: how many subtests there are, and the seed. */
void ktap_plan(u32 nr);

/* A comment. */
void ktap_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Notes that the present subtest has failed, and why. The first reason is kept. */
void ktap_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The line of the present subtest. What comes after belongs to the next one. */
void ktap_result(const char *name);

void ktap_skip(const char *name, const char *reason);

/* The last line. Returns the status for exit(). */
int ktap_end(void);

/* Ends the program with errno's text, because setting up failed. */
void ktap_bail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
