/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* All workloads, in the order of tables. */
#include "sim/tier/work.h"

extern const struct work_kind work_rocksdb, work_redis, work_filebench, work_cassandra,
	work_spark, work_phases, work_open_files, work_hot_set, work_giant, work_tiny,
	work_streams;

const struct work_kind *const work_kinds[] = {
	&work_rocksdb, &work_redis,  &work_filebench,  &work_cassandra,
	&work_spark,   &work_phases, &work_open_files, &work_hot_set,
	&work_giant,   &work_tiny,   &work_streams,
};
const u32 work_nr_kinds = sizeof(work_kinds) / sizeof(*work_kinds);
