/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* For tests of a service that one file, or one program, keeps waiting: how the others fare. */
#ifndef LODIC_TESTS_OUTSIDE_OTHERS_H
#define LODIC_TESTS_OUTSIDE_OTHERS_H

#include "tests/outside/outside.h"

/* Far more than a healthy service takes on a loaded machine. What hangs here hangs for ever; a
 * client that waits 2 s for one answer gives up, and the test fails by that. */
#define SOON_MS 5000

/* Connects to the service as liblodic does. */
int raw_connect(const struct test_service *service);
void raw_send(int socket, u32 op, int fd);
/* The error in the answer. 1: there is none within so many milliseconds. */
int raw_answer(int socket, int ms);

/* Another program that attaches, opens a file of its own and reads, when the test says so. */
struct other {
	u64 *go;
	pid_t pid;
};

/* cached: what lodic_file_cached() shall say. */
struct other other_start(const struct test_service *service, const char *path,
                         int cached);
void assert_other_is_served(const struct other *o);
/* Both, at once. */
void assert_others_are_served(const struct test_service *service, const char *path,
                              int cached);

/* Opens or reads of path, as events says, from now on wait until the descriptor that this
 * returns is closed. */
int hang_file(const char *path, u64 events);

#endif
