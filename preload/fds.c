/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See fds.h. */
#define _GNU_SOURCE
#include "preload/fds.h"

#include <errno.h>

#include "lib/port/limit.h"
#include "preload/memory.h"
#include "preload/shim.h"

/* The kernel has wiped the state. A child of a bare clone() does not come here. */
static void fds_after_fork(void)
{
	if (!shim.fds.forked || shim.fds.forked())
		shim.fds.table->pid = (u64)port_process();
}

void *fds_state(size_t bytes, bool (*forked)(void))
{
	struct fds *fds = memory_zeros(bytes);

	if (!fds)
		return NULL;
	shim.fds.table = fds;
	shim.fds.forked = forked;
	if (port_advise(fds, bytes, PORT_WIPE_IN_CHILD) != 0 ||
	    port_run_in_child(fds_after_fork) != 0) {
		shim.fds.table = NULL;
		port_unmap(fds, bytes);
		return NULL;
	}
	fds->pid = (u64)port_process();
	return fds;
}

bool fds_is_ours(void)
{
	return shim.fds.table &&
	       host_load_relaxed(&shim.fds.table->pid) == (u64)port_process();
}

void fds_note_lock(void)
{
	if (shim.fds.table && !host_load_relaxed(&shim.fds.table->locked))
		host_store_relaxed(&shim.fds.table->locked, 1);
}

bool fds_may_lock(void)
{
	u64 pid;

	if (!shim.fds.table || !host_load_relaxed(&shim.fds.table->locked))
		return false;
	pid = host_load_relaxed(&shim.fds.table->pid);
	return pid == 0 || pid == (u64)port_process();
}

bool fds_lock(struct fds *fds, struct fds_hold *hold, bool wait)
{
	bool has = true;

	hold->error = errno;
	if (!fds || host_load_relaxed(&fds->pid) != (u64)port_process())
		return false;
	port_quiet_begin(&hold->quiet);
	if (wait)
		port_lock_take(&fds->lock);
	else
		has = port_lock_try(&fds->lock);
	if (has)
		return true;
	port_quiet_end(&hold->quiet);
	errno = hold->error;
	return false;
}

void fds_unlock(struct fds *fds, const struct fds_hold *hold)
{
	port_lock_give(&fds->lock);
	port_quiet_end(&hold->quiet);
	errno = hold->error;
}

void fds_saw(struct fds *fds, int fd)
{
	if ((u64)fd >= fds->top)
		host_store_relaxed(&fds->top, (u64)fd + 1);
}

bool fds_address_space_limited(void)
{
	return port_limit(PORT_LIMIT_ADDRESS_BYTES) != UINT64_MAX;
}
