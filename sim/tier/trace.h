/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Traces as sources of events, and the recorder: doc/tier-trace.md has the formats. Own traces
 * carry all events. Public ones have only files, and what was read or written of them. So the
 * reader opens a file when it is used. It closes one of TRACE_OPEN_FILES that was not used for
 * long.
 */
#ifndef LODIC_SIM_TIER_TRACE_H
#define LODIC_SIM_TIER_TRACE_H

#include "sim/tier/event.h"

#define TRACE_MAGIC "LODICTR1"
#define TRACE_OPEN_FILES 256u
#define TRACE_MAX_FILES (1u << 26)
#define TRACE_CPUS \
	16u /* a public trace has none: a file's requests are all on one of these */

/* The first bytes of an own trace; struct tier_event follows, again and again. */
struct trace_head {
	char magic[8];
	u32 nr_cpus, nr_cpus_busy;
	u32 os_percent;
	u32 record_bytes;
};

/* "own", "oracle" (libCacheSim's oracleGeneral), "thesios" (CSV), "service" (record.h), "run";
 * NULL: by what is in it. Prints what is wrong. 0, -ENOENT, -EINVAL or -ENOMEM. */
int trace_open(const char *path, const char *format, struct tier_source **ret_source);

/* For trace_open(): what `lodic run --record` wrote (trace_run.c). As trace_open(). */
int trace_run_open(const char *path, struct tier_source **ret_source);

/* A source that writes down what it passes on. Takes source: it is closed with the new one. The
 * file is complete when that has been closed without complaint. 0 or -errno, and has said why. */
int trace_record(struct tier_source *source, const char *path,
                 struct tier_source **ret_source);

/* For trace.c: a reader of public requests. */
struct trace_request {
	u64 file; /* any number that names it */
	u64 offset, bytes;
	bool write;
};
/* 1 and a request. 0: no more. -EINVAL and a reason. */
typedef int (*trace_parse)(void *file, u64 *line, struct trace_request *ret_request,
                           const char **ret_why);
int trace_parse_oracle(void *file, u64 *line, struct trace_request *ret_request,
                       const char **ret_why);
int trace_parse_thesios(void *file, u64 *line, struct trace_request *ret_request,
                        const char **ret_why);

#endif
