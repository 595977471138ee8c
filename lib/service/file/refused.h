/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which files are not cached, and why: the last REFUSED_MOST of them. A line in the log tells
 * the user of each, once for each file and reason. A file that is cached later leaves the
 * list.
 */
#ifndef LODIC_LIB_SERVICE_FILE_REFUSED_H
#define LODIC_LIB_SERVICE_FILE_REFUSED_H

#include "lib/service/base/base.h"

struct files;

/* Ours: enough for a listing that a person reads. The oldest goes when another one comes. */
#define REFUSED_MOST 1024u

struct refused {
	u64 dev, ino; /* 0, 0: not known, because its file system does not answer */
	char *path;   /* as the kernel names it; "?": not known */
	int error;    /* -errno with its reason (RE1), as lodic_file_cached() says */
	bool revoked; /* it was cached until when_ns; false: it was refused then */
	u64 when_ns;  /* host_now_ns(), the last time */
	u32 said;     /* reasons that the log has told, a bit each */
};

int refused_init(struct files *s);
void refused_fini(struct files *s);
/* Notes that a file was refused, or (revoked) given up, because of error (-errno). path may
 * be NULL. */
void refused_note(struct files *s, const char *path, u64 dev, u64 ino, int error,
                  bool revoked);
/* The file is cached now. The log does not tell its old reasons again. */
void refused_forget(struct files *s, u64 dev, u64 ino);
/* How many entries there are, and entry i of them, in no order. An entry whose error is 0 is
 * of a file that is cached again; a listing leaves it out. */
u32 refused_nr(const struct files *s);
const struct refused *refused_at(const struct files *s, u32 i);
/* Says in words why a file is not cached: "its owner is another user". */
const char *refused_reason(int error, bool revoked);

#endif
