/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The workloads, one line each, in the order of tables: WORK_KIND(redis) is the struct work_kind
 * work_redis of sim/tier/work_redis.c, or of work_controls.c. sim/tier/work_kinds.c includes this
 * list, and sim/tier/meson.build reads it and builds the file. So a new workload needs only its
 * line here. There is no guard, because the includer says what a line means.
 */
WORK_KIND(rocksdb)
WORK_KIND(redis)
WORK_KIND(filebench)
WORK_KIND(cassandra)
WORK_KIND(spark)
WORK_KIND(phases)
WORK_KIND(open_files)
WORK_KIND(hot_set)
WORK_KIND(giant)
WORK_KIND(tiny)
WORK_KIND(streams)
