/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/signal.h. */
#define _GNU_SOURCE
#include "lib/port/signal.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

_Static_assert(sizeof(sigset_t) <= sizeof(struct port_signals_before),
               "a set of signals has room");

static void signal_three(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

void port_signals_block(struct port_signals_before *ret_before)
{
	sigset_t set;

	signal_three(&set);
	pthread_sigmask(SIG_BLOCK, &set, (sigset_t *)ret_before);
}

void port_signals_as(const struct port_signals_before *before)
{
	pthread_sigmask(SIG_SETMASK, (const sigset_t *)before, NULL);
}

int port_signals(void)
{
	sigset_t set;
	int signals;

	signal_three(&set);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return signals < 0 ? -errno : signals;
}

int port_signals_take(int signals, struct port_signal *ret)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return -errno;
	*ret = (struct port_signal){ .hang_up = info.ssi_signo == SIGHUP,
		                     .by_kernel = info.ssi_code == SI_KERNEL };
	return 0;
}
