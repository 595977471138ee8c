/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_peers: a hot entry of a cache, as other libraries give it to a program: find it, copy
 * 64 bytes, release it. RocksDB's LRUCache and HyperClockCache stand beside liblodic's pins and
 * lodic_read(), on 1 and 2 threads. Ways alternate in one run; results are medians over rounds.
 *
 * Each is as fast as it can be made. RocksDB's caches have one shard, room to spare and no
 * strict limit. Another handle on the entry stays, so LRUCache never moves it in its list. Each
 * thread has handles, a buffer and a context of its own, and no loop allocates.
 *
 * Every byte that was copied is added up. The sums must come out right at the end.
 */
#ifndef LODIC_BENCH_PEERS_H
#define LODIC_BENCH_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PEERS_WORDS 8
#define PEERS_BYTES (PEERS_WORDS * sizeof(uint64_t))

/* Copies the entry's bytes, as a program takes them, and adds them up. */
static inline uint64_t peers_take(const void *from)
{
	uint64_t words[PEERS_WORDS] __attribute__((aligned(64)));
	uint64_t sum = 0;

	memcpy(words, from, PEERS_BYTES);
	__asm__ volatile("" : : "r"(words) : "memory"); /* the copy is made */
	for (int i = 0; i < PEERS_WORDS; i++)
		sum += words[i];
	return sum;
}

#ifdef __cplusplus
extern "C" {
#endif

struct peers_rocksdb; /* a cache with one entry */

/* NULL: RocksDB refuses. words: the entry's value. */
struct peers_rocksdb *peers_rocksdb_open(bool clock, const uint64_t *words);
void peers_rocksdb_close(struct peers_rocksdb *c);
/* Finds, copies and releases the entry nr times. Returns how many of these failed; what the
 * others copied is added to *sum. */
uint64_t peers_rocksdb_run(struct peers_rocksdb *c, uint64_t nr, uint64_t *sum);
/* "7.8.3" */
const char *peers_rocksdb_version(void);

#ifdef __cplusplus
}
#endif

#endif
