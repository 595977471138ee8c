/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What all sub-commands of `lodic` share: how they speak, how they are stopped, and how
 * they read numbers. The library never prints; this program does.
 */
#ifndef LODIC_MEASURE_CLI_H
#define LODIC_MEASURE_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses. */
#define CLI_OK 0
#define CLI_FAILED 1
#define CLI_USAGE 2
#define CLI_STOPPED 130 /* as a shell reports a program that Ctrl-C ended */

/* Each gets argv[0] = "lodic NAME" and returns an exit status. */
int command_serve(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_map(int argc, char **argv);

/* One line to stderr, with the program's name in front; ends a progress line first. */
__attribute__((format(printf, 1, 2))) void cli_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cli_note(const char *format, ...);

/* Set by SIGINT, SIGTERM and SIGHUP once cli_catch_signals() was called. Loops look
 * at it between steps and undo what they set up. A second signal ends the program at
 * once. */
extern volatile sig_atomic_t cli_stopped;
void cli_catch_signals(void);

/* Progress on stderr: a line that rewrites itself on a terminal, else one every few
 * seconds. percent > 100 ends the line. */
void cli_progress(const char *phase, unsigned int percent);

/* "256M", "1G", "65536" -> bytes. -EINVAL: not a size. */
int cli_parse_bytes(const char *text, uint64_t *ret_bytes);
/* "1.5" -> 1500. -EINVAL: not a number of seconds. */
int cli_parse_seconds_ms(const char *text, uint64_t *ret_ms);
/* A whole number between least and most. -EINVAL: it is not. */
int cli_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret);

/* "lodic", "atomic", "frozen", "hazard" -> enum lodic_scheme. -EINVAL: none of them. */
int cli_parse_scheme(const char *text, uint32_t *ret_scheme);

/* Where this very program is, so that a service can be started from it. */
const char *cli_program(void);

/* The monotonic clock. */
uint64_t cli_now_ns(void);

#endif
