/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What `lodic serve` and a service manager say to each other: the protocols of sd_notify(3),
 * sd_listen_fds(3) and sd_watchdog_enabled(3). There is no systemd in it, so other managers
 * that speak them do as well.
 */
#ifndef LODIC_CLI_NOTIFY_H
#define LODIC_CLI_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#define NOTIFY_WHY_BYTES 160

struct notify_passed {
	int socket;                 /* 0: none has been passed in */
	char path[108];             /* of the socket */
	char why[NOTIFY_WHY_BYTES]; /* after an error */
};

/* Reads the manager's variables, and removes them: no child shall believe that they are for it.
 * It must be called before clearenv(). -EINVAL: what was passed in is no socket of a service;
 * passed->why says so. */
int notify_begin(struct notify_passed *passed);

/* Sends lines like "READY=1" to the manager, if there is one. It never waits: a manager that takes
 * no message loses it. */
__attribute__((format(printf, 1, 2))) void notify_send(const char *format, ...);

/* Is the manager to be told that this process is alive? */
bool notify_is_watched(void);
/* Tells it so, when half of its patience is over. */
void notify_alive(void);

#endif
