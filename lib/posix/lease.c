/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/lease.h. */
#define _GNU_SOURCE
#include "lib/port/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Any real-time signal will do: the thread that gets it blocks it. */
#define LEASE_SIGNAL (SIGRTMIN + 4)

int port_lease_aim(int fd, int thread)
{
	const struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = thread };

	return fcntl(fd, F_SETOWN_EX, &owner) == 0 &&
	                       fcntl(fd, F_SETSIG, LEASE_SIGNAL) == 0
	               ? 0
	               : -errno;
}

int port_lease_take(int fd)
{
	return fcntl(fd, F_SETLEASE, F_RDLCK) == 0 ? 0 : -errno;
}

void port_lease_give(int fd)
{
	fcntl(fd, F_SETLEASE, F_UNLCK);
}

/* F_GETLEASE tells what the lease will be: none, if a writer waits. */
bool port_lease_holds(int fd)
{
	return fcntl(fd, F_GETLEASE) == F_RDLCK;
}

/* SIGIO is what comes when the queue of real-time signals is full. */
int port_breaks(void)
{
	sigset_t set;
	int breaks;

	sigemptyset(&set);
	sigaddset(&set, LEASE_SIGNAL);
	sigaddset(&set, SIGIO);
	breaks = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return breaks < 0 ? -errno : breaks;
}

unsigned int port_breaks_next(int breaks, int ret_fds[PORT_BREAKS_AT_ONCE])
{
	struct signalfd_siginfo infos[PORT_BREAKS_AT_ONCE];
	ssize_t n = read(breaks, infos, sizeof(infos));
	unsigned int nr = n < 0 ? 0 : (unsigned int)((size_t)n / sizeof(*infos));

	for (unsigned int i = 0; i < nr; i++)
		ret_fds[i] =
			infos[i].ssi_signo == SIGIO ? PORT_BREAK_ANY : infos[i].ssi_fd;
	return nr;
}
