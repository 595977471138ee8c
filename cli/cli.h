/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How `lodic` and the programs of bench/ print messages, stop and read numbers. The library
 * itself never prints.
 */
#ifndef LODIC_CLI_CLI_H
#define LODIC_CLI_CLI_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. lodic-check, lodic-sim and the scripts return the same ones
 * (tests/cli/test_programs.py). */
#define CLI_OK 0
#define CLI_FAILED 1
#define CLI_USAGE 2
#define CLI_STOPPED 130 /* as a shell reports a program that Ctrl-C ended */

/* Print one line to stderr, behind "lodic: ". A progress line ends first. */
__attribute__((format(printf, 1, 2))) void cli_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cli_note(const char *format, ...);

/* Prints one line with names in it, as lib/escape.h says, and its end. */
__attribute__((format(printf, 2, 0))) void cli_print(FILE *to, const char *format,
                                                     va_list args);

/* From now on, a program that exits without having written all of its stdout says so, and
 * its exit status is CLI_FAILED. */
void cli_check_output(void);

/* From now on, SIGINT, SIGTERM and SIGHUP set cli_stopped. Loops must look at it between
 * steps and undo what they set up. The same signal once more ends the program at once. */
void cli_catch_signals(void);
extern volatile sig_atomic_t cli_stopped;

/* Shows progress on stderr: a line that rewrites itself on a terminal, else a line every
 * few seconds. percent > 100 ends it. */
void cli_progress(const char *phase, unsigned int percent);

/* "256M", "1G", "65536" -> bytes. -EINVAL: not a size. */
int cli_parse_bytes(const char *text, uint64_t *ret_bytes);
/* "1.5" -> 1500. -EINVAL: not a number of seconds. */
int cli_parse_seconds_ms(const char *text, uint64_t *ret_ms);
/* A whole number between least and most. -EINVAL: it is not. */
int cli_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret);

/* Of this program: "0.1.0", and the commit that it was built from. */
const char *cli_version(void);
const char *cli_commit(void);

/* From now on argp knows --version for this program. */
void cli_offer_version(const char *program);

/* The path of this program. */
const char *cli_program(void);
/* The path of a file that belongs to it. A build puts it beside this program. An install puts it
 * into folder, which is relative to this program's own. -errno: it is in neither, and ret_path is
 * the second one. */
int cli_find(const char *folder, const char *name, char *ret_path, size_t size);

/* The monotonic clock. */
uint64_t cli_now_ns(void);

#endif
