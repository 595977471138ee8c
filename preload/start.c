/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the loader calls: the shim begins before main(), and ends when the program does. Of other
 * constructors, those of next.c, loader.c and hooks_exec.c run before this one. */
#define _GNU_SOURCE
#include "preload/map.h"
#include "preload/run.h"

__attribute__((constructor)) static void start(void)
{
	map_start();
	run_start();
}

__attribute__((destructor)) static void finish(void)
{
	run_end(false);
	map_end();
}
