/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Watched files in a cache of their own, and the processes that watch them: what the tests
 * with an outsider share. The test itself is the outsider.
 */
#ifndef LODIC_TESTS_SUPPORT_WATCHERS_H
#define LODIC_TESTS_SUPPORT_WATCHERS_H

#include "tests/support/watched_file.h"

struct watchers {
	/* The test sets these. */
	u32 nr_files; /* at most WATCHED_MAX_FILES */
	u32 nr;       /* processes, at most WATCHED_MAX_WATCHERS */
	bool meddles; /* the first one does: struct watcher */
	u32 quota;    /* blocks that a context may pin; 0: the service chooses */

	struct test_service service;
	struct watched_file *files;    /* in shared memory */
	struct watcher_tally *tallies; /* one for each process, in shared memory */
	pid_t pids[WATCHED_MAX_WATCHERS];
};

/* Makes the files, starts the service and then the processes. Skips the test where the
 * kernel gives no leases. */
void watchers_start(struct watchers *w, u64 cache_bytes, const char *scheme,
                    u64 *random);
/* Ends the processes in order. The service stays. */
void watchers_stop(struct watchers *w);

/* Waits until every process has had hits that it did not have before. The test fails when one has
 * none by the deadline. */
void watchers_wait_for_hits(const struct watchers *w);
/* No process has seen a wrong byte yet; the test fails otherwise. */
void watchers_check(const struct watchers *w);
/* Has a pin outlived a change by now, and was a view valid? */
bool watchers_seen_all(const struct watchers *w);
/* Prints what the processes have seen, and returns the sums. The test fails when a byte was
 * wrong, or when no pin outlived a change. */
struct watcher_tally watchers_report(const struct watchers *w);

#endif
