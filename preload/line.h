/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The lines that the shim writes, without malloc and stdio. Each line is one write(), so that
 * lines of many processes do not mix. The caller has the lock of its state.
 *
 * stderr belongs to the program. If descriptor 2 is not what it was at the start, the shim
 * writes nothing: it may be closed by now, or a data file. If a program closes stderr
 * at exit, as the usual tools do, the line is written just before.
 */
#ifndef LODIC_PRELOAD_LINE_H
#define LODIC_PRELOAD_LINE_H

#include <stdbool.h>

#include "host/host.h"

#define LINE_STDERR 2

/* Notes what stderr is, and what the program is called. */
void line_start(void);
/* Is descriptor 2 what it was? */
bool line_stderr_is_ours(void);

/* Begins a line: as JSON {"program":..,"pid":.., or as text, behind the command's name. */
void line_begin(const char *command, bool json);
void line_put(const char *text);
void line_put_number(u64 n);
void line_put_bytes(u64 bytes); /* "12.3 MiB" */
/* A name, as lib/escape.h says; as JSON, for the inside of a string. */
void line_put_name(const char *name, bool json);
void line_put_member(const char *name, u64 n); /* ,"name":n */
/* Ends the line and writes it: to the file at path, else ("") to stderr, if that is ours. If kept
 * is one of the shim's descriptors, it leads to that file. false: nobody reads there (a pipe that
 * is full). A program must not hang at its end for that, so the line is lost. */
bool line_end(const char *path, int kept);

/* A number of /proc/self/status; name is as "\nVmPTE:". LINE_UNKNOWN: it is not there. */
#define LINE_UNKNOWN (~(u64)0)
u64 line_of_status(const char *name);

#endif
