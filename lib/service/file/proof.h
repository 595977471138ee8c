/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Why a file may be believed not to change, and where a lease means what it says. */
#ifndef LODIC_LIB_SERVICE_FILE_PROOF_H
#define LODIC_LIB_SERVICE_FILE_PROOF_H

#include "lib/port.h"
#include "lib/service/base/base.h"

/* Why a file is believed not to change. */
enum proof {
	PROOF_LEASE,   /* the kernel asks us before a writer gets through */
	PROOF_VERITY,  /* fs-verity: it cannot be written */
	PROOF_FORMAT,  /* its file system's format cannot be written */
	PROOF_PROMISE, /* the user said so (options.keeping.immutable) */
	PROOF_NONE
};

/* "lease", "verity", ... */
const char *proof_name(u32 proof);
/* The path of fd, as the kernel names it; no file system is asked. 0 or -errno. */
#define PROOF_PATH_BYTES 4096
int proof_path(int fd, char path[PROOF_PATH_BYTES]);

/* What a look at a descriptor that a client has passed has found out. It is enough to admit the
 * file without asking its file system again. */
struct passed_file {
	int error;    /* -errno: the file cannot be cached */
	int fd;       /* our own description; -1: none */
	u64 dev, ino; /* 0, 0: not known */
	u64 size;     /* for PROOF_LEASE the size under the lease counts instead */
	bool local;   /* closing it, or asking it, waits for nobody */
	bool direct;  /* it can be read with O_DIRECT */
	bool away;    /* on a mount that may go while the service lives */
	bool may_lease;
	u32 other;           /* the proof that it has without a lease */
	const char *promise; /* the glob of it */
	char path[PROOF_PATH_BYTES];
};

/* Looks at *fd, and closes it (-1) if it is of a local file. Otherwise that may wait, and is for
 * worker_close(). This may wait for ever, too: only a worker may call it. p->fd is then the
 * caller's to close. */
PORT_HANGS void proof_look(const struct service_options *o, int *fd,
                           struct passed_file *p);
/* The same for a descriptor that no worker can look at. It waits for nobody. */
void proof_refuse(struct passed_file *p, int fd, int error);
/* Another description of our own fd, of a local file, for reads with O_DIRECT. -errno. It may wait
 * for a program that looks at what is opened: only a worker may call it. */
PORT_HANGS int proof_open_direct(int fd);
/* 0, -ENODATA or -EFBIG. */
int proof_check_size(u64 size);

#endif
