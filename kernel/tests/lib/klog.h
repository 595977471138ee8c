/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's log: lines in which the kernel reports that something is wrong. Which words
 * make such a line stands in tests/alarms, for every part of the tests. A program reads the
 * file from its own folder.
 */
#ifndef LODIC_TESTS_KLOG_H
#define LODIC_TESTS_KLOG_H

#include "base.h"

/* Starts looking at the log here. Returns a descriptor for klog_look(), or -1. */
int klog_open(void);

/*
 * Reads on from where the last look ended. Returns whether a line with one of the words
 * was there; ret_line gets the first such line.
 */
bool klog_look(int fd, char *ret_line, size_t bytes);

/* Passes over what is in the log so far: it is not the present subtest's. */
void klog_skip(int fd);

/* Fails the present subtest if the kernel has reported anything since the last look. */
void klog_check(int fd);

#endif
