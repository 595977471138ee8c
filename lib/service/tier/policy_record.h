/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The file of a policy's calls and decisions (policy.c has its lines). A thread writes it, because
 * a file system may never answer. The main thread puts lines into a buffer, and waits for nobody.
 * A record that lacks a line is worth nothing behind that, so it ends there.
 *
 * The file has another name until the service serves. So a start that fails leaves an older record
 * alone, and a successor leaves that of the service whose place it takes.
 */
#ifndef LODIC_LIB_SERVICE_TIER_POLICY_RECORD_H
#define LODIC_LIB_SERVICE_TIER_POLICY_RECORD_H

#include "lib/service/base/base.h"

struct policy_record;

/* -errno, and *ret_why says which file cannot be written. */
int policy_record_begin(const char *path, struct policy_record **ret_record,
                        const char **ret_why);
void policy_record_put(struct policy_record *r, const char *text, u32 bytes);
/* From now on the file has its name. */
void policy_record_serve(struct policy_record *r);
/* Has the thread look at what there is. Why the record has ended; NULL: it goes on. */
const char *policy_record_tick(struct policy_record *r);
/* waits: for a moment, until all is written. Why it is not; NULL: it is. r is gone. */
const char *policy_record_end(struct policy_record *r, bool waits);

#endif
