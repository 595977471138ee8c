/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How `lodic run` speaks to the shim that it preloads: environment variables. */
#ifndef LODIC_PRELOAD_RUN_ENVIRONMENT_H
#define LODIC_PRELOAD_RUN_ENVIRONMENT_H

#define RUN_SOCKET \
	"LODIC_RUN_SOCKET" /* the service's; without it, and RUN_DOCTOR, the shim does nothing */
#define RUN_USER "LODIC_RUN_USER"       /* who has run `lodic run`: a number */
/* A number: whose service that user believes, beside the own one. Not set: nobody's. */
#define RUN_TRUST "LODIC_RUN_TRUST"
#define RUN_DEFAULT "LODIC_RUN_DEFAULT" /* set: the socket is that user's own */
/* To start a service: the path of `lodic`, and the cache's size; 0: what its settings say. */
#define RUN_PROGRAM "LODIC_RUN_PROGRAM"
#define RUN_MEMORY "LODIC_RUN_MEMORY"
#define RUN_FIRST "LODIC_RUN_FIRST"     /* the process that connects before it reads */
#define RUN_FILTERS "LODIC_RUN_FILTERS" /* seccomp filters of `lodic run` itself */
#define RUN_REPORT "LODIC_RUN_REPORT"   /* a file's path, or RUN_REPORT_STDERR */
#define RUN_JSON "LODIC_RUN_JSON"       /* set or not */
#define RUN_ALL "LODIC_RUN_ALL"         /* the same: --all */
#define RUN_TOTALS "LODIC_RUN_TOTALS"   /* the id of the segment in run_totals.h */
/* Set: mmap() is served, too. It has globs of files that the user promises not to change while they
 * are mapped, a line each; an empty line names none. */
#define RUN_MMAP "LODIC_RUN_MMAP"
#define RUN_MMAP_WAIT "LODIC_RUN_MMAP_WAIT" /* ms that an mmap() waits while the service reads */
/* A folder, in which each process leaves its counts (run_seen.h). The shim serves nothing then. */
#define RUN_DOCTOR "LODIC_RUN_DOCTOR"
#define RUN_DOCTOR_USER "u" /* such a folder in it, with a user's number: that user's processes */

#define RUN_RECORD \
	"LODIC_RUN_RECORD" /* the file that run_recorded.h describes; a path */

#define RUN_REPORT_STDERR "-"

/* The longest of these texts, with its end. */
#define RUN_TEXT_BYTES 4096u

#endif
