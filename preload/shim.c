/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See shim.h. */
#include "preload/shim.h"

struct shim shim;
__thread struct shim_thread shim_thread;
