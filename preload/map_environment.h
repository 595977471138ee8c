/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How `lodic map` speaks to the shim that it preloads: environment variables. */
#ifndef LODIC_PRELOAD_MAP_ENVIRONMENT_H
#define LODIC_PRELOAD_MAP_ENVIRONMENT_H

#define MAP_BUDGET "LODIC_MAP_BUDGET" /* bytes; without it the shim does nothing */
#define MAP_MIN_READS "LODIC_MAP_MIN_READS" /* above 0 */
#define MAP_INCLUDE "LODIC_MAP_INCLUDE"     /* globs, a line each */
#define MAP_EXCLUDE "LODIC_MAP_EXCLUDE"
#define MAP_REPORT "LODIC_MAP_REPORT" /* a file's path; not set: stderr */
#define MAP_JSON "LODIC_MAP_JSON"     /* set or not */
#define MAP_VERBOSE "LODIC_MAP_VERBOSE"
#define MAP_KERNEL "LODIC_MAP_KERNEL" /* set: the kernel has LODIC */

/* The longest of these texts, with its end. */
#define MAP_TEXT_BYTES 4096u

/* The shim's file, which `lodic run` preloads too. It lies beside the program `lodic` in the
 * build folder, else in LIBDIR/lodic. */
#define MAP_LIBRARY "liblodic-preload.so"

#endif
