/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See fds.h. */
#define _GNU_SOURCE
#include "preload/fds.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "preload/own.h"
#include "preload/shim.h"

/* The kernel has wiped the state. A child of a bare clone() does not come here. */
static void fds_after_fork(void)
{
	if (!shim.fds.forked || shim.fds.forked())
		shim.fds.table->pid = (u64)getpid();
}

void *fds_state(size_t bytes, bool (*forked)(void))
{
	struct fds *fds = own_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fds == MAP_FAILED)
		return NULL;
	shim.fds.table = fds;
	shim.fds.forked = forked;
	if (own_madvise(fds, bytes, MADV_WIPEONFORK) != 0 ||
	    pthread_atfork(NULL, NULL, fds_after_fork) != 0) {
		shim.fds.table = NULL;
		own_munmap(fds, bytes);
		return NULL;
	}
	fds->pid = (u64)getpid();
	return fds;
}

bool fds_is_ours(void)
{
	return shim.fds.table &&
	       host_load_relaxed(&shim.fds.table->pid) == (u64)getpid();
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
	return pid == 0 || pid == (u64)getpid();
}

bool fds_lock(struct fds *fds, struct fds_hold *hold, bool wait)
{
	sigset_t all;

	hold->error = errno;
	if (!fds || host_load_relaxed(&fds->pid) != (u64)getpid())
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &hold->cancel);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &hold->signals);
	if ((wait ? pthread_mutex_lock(&fds->lock)
	          : pthread_mutex_trylock(&fds->lock)) == 0)
		return true;
	pthread_sigmask(SIG_SETMASK, &hold->signals, NULL);
	pthread_setcancelstate(hold->cancel, NULL);
	errno = hold->error;
	return false;
}

void fds_unlock(struct fds *fds, const struct fds_hold *hold)
{
	pthread_mutex_unlock(&fds->lock);
	pthread_sigmask(SIG_SETMASK, &hold->signals, NULL);
	pthread_setcancelstate(hold->cancel, NULL);
	errno = hold->error;
}

void fds_saw(struct fds *fds, int fd)
{
	if ((u64)fd >= fds->top)
		host_store_relaxed(&fds->top, (u64)fd + 1);
}

bool fds_path(int fd, char *path, size_t size)
{
	char name[32];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, size - 1);
	if (n >= 0)
		path[n] = '\0';
	return n >= 0;
}

bool fds_address_space_limited(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}
