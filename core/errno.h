/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Why a function of core/ failed: it returns one of Linux's numbers, negated. Each header says
 * which ones, and when. A file that also includes the system's <errno.h> includes that first.
 * The compiler then complains below if the system has another number.
 */
#ifndef LODIC_CORE_ERRNO_H
#define LODIC_CORE_ERRNO_H

#define EAGAIN 11
#define ENOMEM 12
#define EEXIST 17
#define EINVAL 22
#define ENOSPC 28
#define EOVERFLOW 75
#define ENOBUFS 105
#define EDQUOT 122

#endif
