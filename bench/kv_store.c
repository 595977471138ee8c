/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file of records, and the keys. Contract: bench/kv.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bench/kv.h"
#include "bench/measure/shared.h"
#include "bench/measure/workload.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "host/random.h"

#define RECORDS_A_PIECE 4096u
#define PAGE_BYTES 4096u

u64 kv_record_sum(u64 key)
{
	return random_mix(key + RANDOM_STEP);
}

/* Pseudo-random words. The last one makes the sum right, so a wrong byte changes it. */
static void make_record(u64 *words, u64 key)
{
	u64 state = key, sum = 0;
	u32 i;

	for (i = 0; i + 1 < KV_RECORD_WORDS; i++)
		sum += words[i] = random_next(&state);
	words[i] = kv_record_sum(key) - sum;
}

static int write_all(int fd, const u8 *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && (errno != EINTR || cli_stopped))
			return -errno;
		bytes += done < 0 ? 0 : done;
		n -= done < 0 ? 0 : (size_t)done;
	}
	return 0;
}

/* Fills the file, and the rest behind the last whole record with zeros. */
static int fill(const struct kv_store *store, int fd)
{
	u64 *piece = malloc((size_t)RECORDS_A_PIECE * KV_RECORD_BYTES);
	int error = piece ? 0 : -ENOMEM;

	for (u64 key = 0; key < store->nr_records && !error;) {
		u64 nr = 0;

		for (; nr < RECORDS_A_PIECE && key < store->nr_records; nr++, key++)
			make_record(piece + nr * KV_RECORD_WORDS, key);
		error = cli_stopped ? -EINTR
		                    : write_all(fd, (u8 *)piece, nr * KV_RECORD_BYTES);
	}
	if (!error && ftruncate(fd, (off_t)store->bytes) != 0)
		error = -errno;
	/* Otherwise the service's direct reads would wait until the bytes are on disk. */
	if (!error && fsync(fd) != 0)
		error = -errno;
	free(piece);
	return error;
}

static void find_filesystem(struct kv_store *store, int fd)
{
	static const struct {
		u32 magic;
		const char *name;
	} known[] = {
		{ 0xef53, "ext4" },          { 0x58465342, "xfs" },
		{ 0x9123683e, "btrfs" },     { 0x01021994, "tmpfs" },
		{ 0x794c7630, "overlayfs" }, { 0xf2f52010, "f2fs" },
	};
	struct statfs fs = { 0 };

	strcpy(store->filesystem, "an unknown file system");
	if (fstatfs(fd, &fs) != 0)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].magic == (u32)fs.f_type)
			strcpy(store->filesystem, known[i].name);
}

static int draw_keys(struct kv_store *store, u64 seed)
{
	struct workload_zipf zipf;
	uint64_t state = seed;
	int error;

	for (u32 draw = 0; draw < KV_NR_DRAWS; draw++) {
		store->keys[draw] = shared_alloc(KV_NR_KEYS * sizeof(u32), PAGE_BYTES);
		if (!store->keys[draw])
			return -ENOMEM;
	}
	error = workload_zipf_make(&zipf, store->nr_records, KV_ZIPF_SKEW, &state);
	if (error)
		return error;
	for (u64 i = 0; i < KV_NR_KEYS; i++) {
		store->keys[KV_ZIPF][i] = workload_zipf_draw(&zipf, &state);
		store->keys[KV_RANDOM][i] =
			(u32)workload_random_below(&state, store->nr_records);
	}
	workload_zipf_drop(&zipf);
	return 0;
}

int kv_store_make(struct kv_store *store, const char *folder, u64 bytes, u64 seed)
{
	int error, fd;

	store->bytes = bytes;
	store->nr_records = bytes / KV_RECORD_BYTES;
	store->nr_blocks = (bytes + LODIC_BLOCK_BYTES - 1) / LODIC_BLOCK_BYTES;
	if (snprintf(store->path, sizeof(store->path), "%s/lodic-kv-XXXXXX", folder) >=
	    (int)sizeof(store->path))
		return -ENAMETOOLONG;
	error = leftover_name(store->path);
	if (error)
		return error;
	fd = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	find_filesystem(store, fd);
	error = fill(store, fd);
	close(fd);
	return error ? error : draw_keys(store, seed);
}

void kv_store_drop(struct kv_store *store)
{
	if (store->path[0])
		unlink(store->path);
	store->path[0] = '\0';
}

double kv_store_warmth(const struct kv_store *store)
{
	size_t nr = (store->bytes + PAGE_BYTES - 1) / PAGE_BYTES, there = 0;
	int fd = open(store->path, O_RDONLY | O_CLOEXEC);
	u8 *pages = malloc(nr);
	void *p = fd < 0 || !pages
	                  ? MAP_FAILED
	                  : mmap(NULL, store->bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (p != MAP_FAILED) {
		if (mincore(p, store->bytes, pages) != 0)
			nr = 0;
		for (size_t i = 0; i < nr; i++)
			there += pages[i] & 1;
		munmap(p, store->bytes);
	}
	if (fd >= 0)
		close(fd);
	free(pages);
	return nr ? (double)there / (double)nr : 0;
}
