/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Files that RocksDB reads at random, by lodic: held ones and copied ones (lodic/rocksdb.hpp). */
#ifndef LODIC_ROCKSDB_TABLE_FILE_HPP
#define LODIC_ROCKSDB_TABLE_FILE_HPP

#include "rocksdb/attachment.hpp"

namespace lodicpp::inner
{

using file_below = std::unique_ptr<rocksdb::FSRandomAccessFile>;

/* Reads give slices of the hold. below is for what a hold cannot answer. */
file_below held_file(hold hold, file_below below);

/* Reads copy from the cache. Where lodic cannot, below reads. */
file_below copied_file(std::shared_ptr<const attachment> of, file file, file_below below,
                       const std::shared_ptr<counts> &counts);

} // namespace lodicpp::inner

#endif
