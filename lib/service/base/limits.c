/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which limit is to blame for a service that cannot start: setrlimit(2), pids.max, seccomp(2). The
 * errno does not tell. What was short may have been met inside some library, which says ENOMEM. So
 * each limit is tried once more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/service/base/limits.h"
#include "lib/service/base/base.h"

#define MIB_SHIFT 20
/* Our choice. A service that has no more left could hold no files. */
#define FEW_DESCRIPTORS 8

/* RLIM_INFINITY: there is none. */
static rlim_t limits_get(__rlimit_resource_t which)
{
	struct rlimit limit;

	return getrlimit(which, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* What failed for want of a descriptor may have given back some since. */
static bool limits_has_descriptors(void)
{
	int fds[FEW_DESCRIPTORS], nr = 0;
	bool has;

	while (nr < FEW_DESCRIPTORS && (fds[nr] = eventfd(0, EFD_CLOEXEC)) >= 0)
		nr++;
	has = nr == FEW_DESCRIPTORS || errno != EMFILE;
	while (nr > 0)
		close(fds[--nr]);
	return has;
}

/* Has the address space room for so much more? */
static bool limits_has_room(u64 bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return errno != ENOMEM;
	munmap(at, bytes);
	return true;
}

/* The kernel does not apply the user's limit to root. */
static const char *limits_blame_processes(void)
{
	if (limits_get(RLIMIT_NPROC) != RLIM_INFINITY && geteuid() != 0)
		return service_why(
			"this user may have %llu processes and threads (ulimit -u), and "
			"they are used up: raise that",
			(unsigned long long)limits_get(RLIMIT_NPROC));
	return "the control group lets it start no further thread: raise its pids.max";
}

static const char *limits_blame_filter(int error)
{
	if ((error == -EPERM || error == -ENOSYS) && prctl(PR_GET_SECCOMP) != 0)
		return "a seccomp filter forbids a system call that the service needs: start "
		       "`lodic serve` where there is none";
	return NULL;
}

const char *limits_blame(int error, u64 bytes)
{
	if (!limits_has_descriptors())
		return service_why(
			"a service needs more than the %llu descriptors that it may have "
			"(ulimit -n): raise that",
			(unsigned long long)limits_get(RLIMIT_NOFILE));
	if (error == -EFBIG && limits_get(RLIMIT_FSIZE) < bytes)
		return service_why(
			"the cache has %llu MiB, and a file may have %llu KiB here (ulimit "
			"-f): raise that",
			(unsigned long long)(bytes >> MIB_SHIFT),
			(unsigned long long)(limits_get(RLIMIT_FSIZE) >> 10));
	/* A thread without room for its stack is EAGAIN. */
	if ((error == -ENOMEM || error == -EAGAIN) &&
	    limits_get(RLIMIT_AS) != RLIM_INFINITY && !limits_has_room(bytes))
		return service_why(
			"the cache has %llu MiB, and a process may have %llu MiB here "
			"(ulimit -v): raise that",
			(unsigned long long)(bytes >> MIB_SHIFT),
			(unsigned long long)(limits_get(RLIMIT_AS) >> MIB_SHIFT));
	return error == -EAGAIN ? limits_blame_processes() : limits_blame_filter(error);
}
