/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file that is read. Contract: bench/measure/corpus.h. */
#define _GNU_SOURCE
#include "bench/measure/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measure/workload.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "lodic/lodic.h"

#define MIB ((uint64_t)1 << 20)
#define FIND_LEAST (16 * MIB)
#define FIND_MOST (256 * MIB)
#define FIND_BEST (100 * MIB)
/* Deep enough for /usr/lib/ARCH/PACKAGE/file; the bound keeps it under a second. */
#define FIND_DEPTH 4
#define FIND_ENTRIES 60000
/* Memory holds the bytes six times at once: in four caches, in the kernel's page cache, and
 * in a private copy. As much again must stay free for other programs. */
#define MEMORY_SHARE 12
#define MADE_BYTES (64 * MIB)
#define PIECE_BYTES MIB

/* How much memory may be used without pushing others out; enough for FIND_MOST when the
 * kernel does not tell. */
static uint64_t corpus_memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	if (!f)
		return FIND_MOST * MEMORY_SHARE;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	fclose(f);
	return kib ? (uint64_t)kib << 10 : FIND_MOST * MEMORY_SHARE;
}

int corpus_take(struct corpus *c, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int error = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		error = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size < LODIC_BLOCK_BYTES)
		error = -EINVAL;
	close(fd);
	if (error)
		return error;
	*c = (struct corpus){ .bytes = (uint64_t)st.st_size };
	if (snprintf(c->path, sizeof(c->path), "%s", path) >= (int)sizeof(c->path))
		return -ENAMETOOLONG;
	strcpy(c->origin, c->path);
	return 0;
}

/* How far from the best size, as a factor: less is better. */
static double corpus_badness(uint64_t bytes)
{
	double x = (double)bytes / (double)FIND_BEST;

	return x > 1 ? x : 1 / x;
}

static void corpus_consider(struct corpus *c, const FTSENT *e, uint64_t most)
{
	uint64_t bytes = (uint64_t)e->fts_statp->st_size;

	if (bytes < FIND_LEAST || bytes > most)
		return;
	if (c->bytes && corpus_badness(bytes) >= corpus_badness(c->bytes))
		return;
	if (access(e->fts_path, R_OK) != 0 || e->fts_pathlen >= sizeof(c->path))
		return;
	c->bytes = bytes;
	strcpy(c->path, e->fts_path);
}

int corpus_find(struct corpus *c)
{
	char *const roots[] = { "/usr/lib", "/usr/bin", "/opt", "/usr/share", NULL };
	uint64_t most = corpus_memory_available() / MEMORY_SHARE;
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *e;

	*c = (struct corpus){ 0 };
	if (!tree)
		return -errno;
	if (most > FIND_MOST)
		most = FIND_MOST;
	for (int i = 0; i < FIND_ENTRIES && (e = fts_read(tree)); i++) {
		if (e->fts_info == FTS_F)
			corpus_consider(c, e, most);
		else if (e->fts_info == FTS_D && e->fts_level >= FIND_DEPTH)
			fts_set(tree, e, FTS_SKIP);
	}
	fts_close(tree);
	if (c->bytes == 0)
		return -ENOENT;
	strcpy(c->origin, c->path);
	return 0;
}

static int corpus_write_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno == EINTR && !cli_stopped)
			continue;
		if (done < 0)
			return -errno;
		bytes += done;
		n -= (size_t)done;
	}
	return 0;
}

/* Fills fd with the total bytes of from, or with so many random ones when from is -1. */
static int corpus_fill(int fd, int from, uint64_t total, uint64_t *ret_bytes)
{
	uint64_t state = WORKLOAD_SEED, written = 0;
	char *piece = malloc(PIECE_BYTES);
	int error = piece ? 0 : -ENOMEM;

	while (!error && !(from < 0 && written >= total)) {
		ssize_t n = PIECE_BYTES;

		if (from >= 0)
			n = read(from, piece, PIECE_BYTES);
		else
			for (size_t i = 0; i < PIECE_BYTES; i += sizeof(uint64_t)) {
				uint64_t v = workload_random(&state);

				memcpy(piece + i, &v, sizeof(v));
			}
		if (n < 0)
			error = -errno;
		if (n <= 0)
			break;
		error = cli_stopped ? -EINTR : corpus_write_all(fd, piece, (size_t)n);
		written += (uint64_t)n;
		cli_progress(from < 0 ? "writing a file" : "copying the file",
		             written < total ? (unsigned int)(100 * written / total)
		                             : 100);
	}
	cli_progress("", 101);
	free(piece);
	*ret_bytes = written;
	return error;
}

/* Makes and fills a new file in folder; c becomes it. */
static int corpus_create(struct corpus *c, const char *folder, int from)
{
	char path[PATH_MAX];
	uint64_t bytes;
	int fd, error;

	if (snprintf(path, sizeof(path), "%s/lodic-corpus-XXXXXX", folder) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	error = leftover_name(path);
	if (error)
		return error;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = corpus_fill(fd, from, from < 0 ? MADE_BYTES : c->bytes, &bytes);
	/* Otherwise the service's direct reads would wait until the bytes are on disk. */
	if (!error && fsync(fd) != 0)
		error = -errno;
	if (close(fd) != 0 && !error)
		error = -errno;
	if (error) {
		unlink(path);
		return error;
	}
	strcpy(c->path, path);
	c->bytes = bytes;
	c->temporary = true;
	return 0;
}

int corpus_make(struct corpus *c, const char *folder)
{
	*c = (struct corpus){ 0 };
	return corpus_create(c, folder, -1);
}

int corpus_copy(struct corpus *c, const char *folder)
{
	int from = open(c->path, O_RDONLY | O_CLOEXEC);
	int error;

	if (from < 0)
		return -errno;
	error = corpus_create(c, folder, from);
	close(from);
	return error;
}

void corpus_drop(struct corpus *c)
{
	if (c->temporary)
		unlink(c->path);
	c->temporary = false;
}
