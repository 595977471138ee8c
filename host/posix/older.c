/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What glibc has since 2.30 and 2.32, for a build against an older one, such as that of
 * tools/manylinux.sh. meson.build looks whether it is missing, and compiles this file only then.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *strerrordesc_np(int error)
{
	return strerror(error); /* without a buffer for every number that glibc knows */
}

const char *strerrorname_np(int error)
{
	return strerror(error);
}

pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}
