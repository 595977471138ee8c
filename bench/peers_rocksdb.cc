/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* RocksDB's caches, in C's words. Contract: bench/peers.h. */
#include "bench/peers.h"

#include <rocksdb/cache.h>
#include <rocksdb/version.h>

#include <memory>
#include <new>

namespace
{

constexpr size_t CAPACITY = size_t{ 64 } << 20;
constexpr size_t CHARGE = 4096;
/* HyperClockCache wants keys of 16 bytes. */
constexpr char KEY[] = "a key of 16 byte";
static_assert(sizeof(KEY) - 1 == 16, "as many");

void keep(const rocksdb::Slice &, void *)
{
}

std::shared_ptr<rocksdb::Cache> make_cache(bool clock)
{
	if (clock)
		return rocksdb::HyperClockCacheOptions(CAPACITY, CHARGE, 0)
		        .MakeSharedCache();
	return rocksdb::NewLRUCache(rocksdb::LRUCacheOptions(CAPACITY, 0, false, 0.0));
}

} // namespace

struct peers_rocksdb {
	std::shared_ptr<rocksdb::Cache> cache;
	rocksdb::Cache::Handle *kept;
	alignas(64) uint64_t words[PEERS_WORDS];
};

struct peers_rocksdb *peers_rocksdb_open(bool clock, const uint64_t *words)
{
	auto *c = new (std::nothrow) peers_rocksdb{};

	if (!c)
		return nullptr;
	memcpy(c->words, words, PEERS_BYTES);
	c->cache = make_cache(clock);
	if (!c->cache ||
	    !c->cache->Insert(rocksdb::Slice(KEY, 16), c->words, CHARGE, keep, &c->kept)
	             .ok()) {
		delete c;
		return nullptr;
	}
	return c;
}

void peers_rocksdb_close(struct peers_rocksdb *c)
{
	if (!c)
		return;
	c->cache->Release(c->kept);
	delete c;
}

uint64_t peers_rocksdb_run(struct peers_rocksdb *c, uint64_t nr, uint64_t *sum)
{
	rocksdb::Cache *cache = c->cache.get();
	const rocksdb::Slice key(KEY, 16);
	uint64_t got = 0, nr_failed = 0;

	for (uint64_t i = 0; i < nr; i++) {
		rocksdb::Cache::Handle *handle = cache->Lookup(key);

		if (!handle) {
			nr_failed++;
			continue;
		}
		got += peers_take(cache->Value(handle));
		cache->Release(handle);
	}
	*sum += got;
	return nr_failed;
}

const char *peers_rocksdb_version(void)
{
	static const std::string version = rocksdb::GetRocksVersionAsString();

	return version.c_str();
}
