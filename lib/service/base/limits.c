/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which limit is to blame for a service that cannot start: setrlimit(2), pids.max, seccomp(2). The
 * errno does not tell. What was short may have been met inside some library, which says ENOMEM. So
 * each limit is tried once more.
 */
#include <errno.h>

#include "lib/port/limit.h"
#include "lib/service/base/limits.h"
#include "lib/service/base/base.h"

#define MIB_SHIFT 20
/* Our choice. A service that has no more left could hold no files. */
#define FEW_DESCRIPTORS 8

/* What failed for want of a descriptor may have given back some since. */
static bool limits_has_descriptors(void)
{
	int fds[FEW_DESCRIPTORS], nr = 0, last = 0;

	while (nr < FEW_DESCRIPTORS && (last = port_event()) >= 0)
		fds[nr++] = last;
	while (nr > 0)
		port_close(fds[--nr]);
	return last != -EMFILE;
}

/* Has the address space room for so much more? */
static bool limits_has_room(u64 bytes)
{
	void *at;
	int err = port_map(NULL, bytes, PORT_NONE, PORT_PRIVATE | PORT_ANONYMOUS, -1, 0,
	                   &at);

	if (!err)
		port_unmap(at, bytes);
	return err != -ENOMEM;
}

/* The kernel does not apply the user's limit to root. */
static const char *limits_blame_processes(void)
{
	if (port_limit(PORT_LIMIT_PROCESSES) != UINT64_MAX && port_user() != 0)
		return service_why(
			"this user may have %llu processes and threads (ulimit -u), and "
			"they are used up: raise that",
			(unsigned long long)port_limit(PORT_LIMIT_PROCESSES));
	return "the control group lets it start no further thread: raise its pids.max";
}

static const char *limits_blame_filter(int error)
{
	if ((error == -EPERM || error == -ENOSYS) && port_is_filtered())
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
			(unsigned long long)port_limit(PORT_LIMIT_DESCRIPTORS));
	if (error == -EFBIG && port_limit(PORT_LIMIT_FILE_BYTES) < bytes)
		return service_why(
			"the cache has %llu MiB, and a file may have %llu KiB here (ulimit "
			"-f): raise that",
			(unsigned long long)(bytes >> MIB_SHIFT),
			(unsigned long long)(port_limit(PORT_LIMIT_FILE_BYTES) >> 10));
	/* A thread without room for its stack is EAGAIN. */
	if ((error == -ENOMEM || error == -EAGAIN) &&
	    port_limit(PORT_LIMIT_ADDRESS_BYTES) != UINT64_MAX &&
	    !limits_has_room(bytes))
		return service_why(
			"the cache has %llu MiB, and a process may have %llu MiB here "
			"(ulimit -v): raise that",
			(unsigned long long)(bytes >> MIB_SHIFT),
			(unsigned long long)(port_limit(PORT_LIMIT_ADDRESS_BYTES) >>
		                             MIB_SHIFT));
	return error == -EAGAIN ? limits_blame_processes() : limits_blame_filter(error);
}
