/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Why a file may be believed not to change, and where a lease means what it says. */
#ifndef LODIC_LIB_SERVICE_PROOF_H
#define LODIC_LIB_SERVICE_PROOF_H

#include "lib/service/state.h"

/* Why a file is believed not to change. */
enum proof {
	PROOF_LEASE,  /* the kernel asks us before a writer gets through */
	PROOF_VERITY, /* fs-verity: it cannot be written */
	PROOF_FORMAT, /* its file system's format cannot be written */
	PROOF_PROMISE /* the user said so (options.immutable) */
};

/* "lease", "verity", ... */
const char *proof_name(u32 proof);
/* The path of fd, as the kernel names it; no file system is asked. 0 or -errno. */
#define PROOF_PATH_BYTES 4096
int proof_path(int fd, char path[PROOF_PATH_BYTES]);
/* Does the file system of fd keep leases dependably? */
bool proof_by_lease_possible(int fd);
/* Has the file fs-verity? */
bool proof_by_verity(int fd);
/* Finds a proof that needs no lease; -EACCES: there is none. */
int proof_without_lease(const struct service *s, int fd, u32 *ret_proof);

#endif
