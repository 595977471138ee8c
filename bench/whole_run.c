/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_whole's file, rounds and figures. Contract: bench/whole.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/whole.h"
#include "bench/measure/shared.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "host/random.h"

#define MIB ((u64)1 << 20)
/* Holds are all that this service is for. */
#define CACHE_BYTES (16 * MIB)
#define PIECE_BYTES MIB

__attribute__((format(printf, 3, 4))) static int fail(struct whole_bench *b, int error,
                                                      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->why, sizeof(b->why), format, args);
	va_end(args);
	return error;
}

u32 whole_crowd(u32 i)
{
	return 1u << i;
}

/* ---- the file ---- */

static int file_write(int fd, u64 bytes)
{
	u64 *piece = malloc(PIECE_BYTES);
	int error = piece ? 0 : -ENOMEM;

	for (u64 at = 0; at < bytes && !error;) {
		u64 n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		ssize_t done;

		for (u64 i = 0; i < n / 8; i++)
			piece[i] = whole_word(at / 8 + i);
		done = pwrite(fd, piece, n, (off_t)at);
		if (cli_stopped || done < 0)
			error = cli_stopped ? -EINTR : -errno;
		else
			at += (u64)done / 8 * 8;
	}
	free(piece);
	return error || fsync(fd) == 0 ? error : -errno;
}

static int file_make(struct whole_bench *b, const char *folder, u64 bytes)
{
	int error, fd;

	if (snprintf(b->path, sizeof(b->path), "%s/lodic-hold-XXXXXX", folder) >=
	    (int)sizeof(b->path))
		return fail(b, -ENAMETOOLONG, "the folder's path is too long");
	error = leftover_name(b->path);
	if (error)
		return fail(b, error, "cannot use %s: %s", folder, strerror(-error));
	fd = open(b->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(b, -errno, "cannot make %s: %s", b->path, strerror(errno));
	error = file_write(fd, bytes);
	close(fd);
	return error ? fail(b, error, "cannot write %s: %s", b->path, strerror(-error))
	             : 0;
}

/* The bytes of the file that the page cache has. */
static u64 file_cached(const struct whole_bench *b, u64 bytes)
{
	u64 pages = (bytes + 4095) / 4096, nr = 0;
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	u8 *seen = malloc(pages);
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (at != MAP_FAILED && seen && mincore(at, bytes, seen) == 0)
		for (u64 i = 0; i < pages; i++)
			nr += seen[i] & 1;
	if (at != MAP_FAILED)
		munmap(at, bytes);
	free(seen);
	close(fd);
	return nr * 4096;
}

static int file_cool(const struct whole_bench *b)
{
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	int error = fd < 0 ? -errno : -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

	close(fd);
	return error;
}

static int file_warm(const struct whole_bench *b)
{
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	u8 *buffer = malloc(PIECE_BYTES);
	ssize_t n = fd < 0 || !buffer ? -1 : 1;

	while (n > 0)
		n = read(fd, buffer, PIECE_BYTES);
	free(buffer);
	close(fd);
	return n < 0 ? -EIO : 0;
}

/* ---- the processes and the service ---- */

static int order_all(struct whole_bench *b, enum whole_op op, u32 nr, u64 position)
{
	struct slots_work work = { .run = whole_process_run,
		                   .arg = b->order,
		                   .position = position };
	u64 nr_failed;
	int error;

	b->order->op = op;
	error = slots_call(&b->processes, nr, &work, &nr_failed);
	if (error)
		return fail(b, error, "a process has died, or does not answer");
	for (u32 i = 0; i < nr && nr_failed > 0; i++) {
		error = b->order->figures[i].error;
		if (error)
			return fail(b, error, "%s: %s", whole_way_name(b->order->way),
			            lodic_strerror(error));
	}
	return 0;
}

/* The service forgets the file, and its hold. */
static int service_forget(struct whole_bench *b)
{
	char *arguments[] = { "lodic",    "drop",          "--all",
		              "--socket", b->cache.socket, NULL };
	posix_spawn_file_actions_t files;
	extern char **environ;
	int error, status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	error = posix_spawn(&pid, own_cache_served_by(), &files, NULL, arguments,
	                    environ);
	posix_spawn_file_actions_destroy(&files);
	if (!error && waitpid(pid, &status, 0) == pid && status == 0)
		return 0;
	return fail(b, -EPIPE, "`lodic drop` failed");
}

/* One hold, taken and released: it stays warm. */
static int service_warm(struct whole_bench *b)
{
	enum whole_way way = b->order->way;
	int error;

	b->order->way = WHOLE_HOLD;
	error = order_all(b, WHOLE_ATTACH, 1, 0);
	if (!error)
		error = order_all(b, WHOLE_USE, 1, 0);
	order_all(b, WHOLE_LEAVE, 1, 0);
	b->order->way = way;
	return error;
}

static int prepare(struct whole_bench *b, enum whole_start start, enum whole_way way)
{
	int error;

	/* A hold that stays warm is no other way's business, but its memory is the machine's. */
	error = service_forget(b);
	if (!error && start == WHOLE_WARM && way == WHOLE_HOLD)
		error = service_warm(b);
	if (!error && start == WHOLE_WARM && way != WHOLE_HOLD)
		error = file_warm(b);
	if (!error && start == WHOLE_COLD)
		error = file_cool(b);
	return error;
}

static void keep(struct whole_bench *b, struct whole_cell *c, u32 round, u32 nr,
                 u64 service_pss)
{
	u64 now = whole_pss((long)b->cache.service_pid);
	u64 memory = now > service_pss ? now - service_pss : 0;

	for (u32 i = 0; i < nr; i++) {
		const struct whole_figures *f = &b->order->figures[i];
		double first = (double)f->first_ns / 1e3,
		       last = (double)f->last_ns / 1e3;

		if (first > c->first_us.at[round])
			c->first_us.at[round] = first;
		if (last > c->last_us.at[round])
			c->last_us.at[round] = last;
		c->random_ns.at[round] += f->random_ns / nr;
		c->again_us.at[round] = nr == 1 ? (double)f->again_ns / 1e3 : 0;
		if (f->pss_after > f->pss_before)
			memory += f->pss_after - f->pss_before;
		b->nr_wrong += f->nr_wrong;
	}
	/* 0 would say that this round has no figure. */
	c->memory.at[round] = (double)(memory + 1);
	c->page_cache.at[round] = (double)(file_cached(b, b->order->bytes) + 1);
}

static int run_way(struct whole_bench *b, struct whole_cell *c, enum whole_start start,
                   enum whole_way way, u32 round, u32 nr)
{
	u64 service_pss;
	int error;

	b->order->way = way;
	error = prepare(b, start, way);
	/* Before a hold is warm the service has its memory already. */
	service_pss = whole_pss((long)b->cache.service_pid);
	if (!error)
		error = order_all(b, WHOLE_ATTACH, nr, 0);
	if (!error)
		error = order_all(b, WHOLE_USE, nr, round * WHOLE_MAX_PROCESSES);
	if (!error)
		error = order_all(b, WHOLE_WEIGH, nr, 0);
	if (!error)
		keep(b, c, round, nr, service_pss);
	if (b->processes.nr_workers > 0 && (!error || error != -EPIPE))
		order_all(b, WHOLE_LEAVE, nr, 0);
	return cli_stopped ? fail(b, -EINTR, "stopped") : error;
}

static int run_round(struct whole_bench *b, u32 size, u32 round, u64 *random)
{
	u32 nr = WHOLE_NR_CROWDS * WHOLE_NR_STARTS * WHOLE_NR_WAYS;
	u32 order[WHOLE_NR_CROWDS * WHOLE_NR_STARTS * WHOLE_NR_WAYS];
	int error = 0;

	for (u32 i = 0; i < nr; i++) {
		u32 j = (u32)(random_next(random) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	for (u32 i = 0; i < nr && !error; i++) {
		u32 way = order[i] % WHOLE_NR_WAYS;
		u32 start = order[i] / WHOLE_NR_WAYS % WHOLE_NR_STARTS;
		u32 crowd = order[i] / WHOLE_NR_WAYS / WHOLE_NR_STARTS;

		if (start == WHOLE_WARM || round < b->plan.cold_rounds)
			error = run_way(b, &b->cells[size][crowd][start][way], start,
			                way, round, whole_crowd(crowd));
	}
	return error;
}

static int service_open(struct whole_bench *b, u64 bytes)
{
	int error, fd = open(b->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail(b, -errno, "cannot open the file");
	b->cache.hold_bytes = bytes + PIECE_BYTES;
	error = own_cache_start(&b->cache, b->folder, NULL, CACHE_BYTES,
	                        WHOLE_MAX_PROCESSES, b->plan.huge_pages, fd);
	close(fd);
	strcpy(b->order->socket, b->cache.socket);
	return error ? fail(b, error, "cannot use a cache: %s", lodic_strerror(error))
	             : 0;
}

/* What the service says of the hold that is left. */
static void ask_huge(struct whole_bench *b)
{
	struct lodic_stat stat = { 0 };

	if (lodic_stat(b->cache.seat.lodic, &stat, sizeof(stat)) != 0)
		return;
	b->holds_read += stat.holds_read;
	if (stat.hold_bytes > 0)
		b->huge_percent = 100 * stat.hold_huge_bytes / stat.hold_bytes;
}

static int run_size(struct whole_bench *b, const char *folder, u32 size, u64 *random)
{
	u64 bytes = b->plan.sizes[size];
	int error = file_make(b, folder, bytes);

	b->order->bytes = bytes;
	strcpy(b->order->path, b->path);
	if (!error)
		error = service_open(b, bytes);
	for (u32 round = 0; round < b->plan.rounds && !error; round++) {
		char what[32];

		snprintf(what, sizeof(what), "%llu KiB",
		         (unsigned long long)bytes >> 10);
		cli_progress(what, 100 * round / b->plan.rounds);
		error = run_round(b, size, round, random);
	}
	if (!error)
		error = service_warm(b);
	if (!error)
		ask_huge(b);
	own_cache_stop(&b->cache);
	unlink(b->path);
	return error;
}

static int cells_open(struct whole_bench *b)
{
	struct whole_cell *cells = &b->cells[0][0][0][0];
	u32 nr = sizeof(b->cells) / sizeof(*cells), rounds = b->plan.rounds;
	int error = 0;

	for (u32 i = 0; i < nr && !error; i++) {
		struct whole_cell *c = &cells[i];

		error = series_open(&c->first_us, rounds);
		if (!error)
			error = series_open(&c->last_us, rounds);
		if (!error)
			error = series_open(&c->random_ns, rounds);
		if (!error)
			error = series_open(&c->again_us, rounds);
		if (!error)
			error = series_open(&c->memory, rounds);
		if (!error)
			error = series_open(&c->page_cache, rounds);
	}
	return error;
}

int whole_bench_run(struct whole_bench *b, const struct whole_plan *plan,
                    const char *folder)
{
	int anywhere[WHOLE_MAX_PROCESSES];
	u64 began = host_now_ns(), random = plan->seed;
	int error;

	b->plan = *plan;
	error = shared_open();
	if (!error)
		error = cells_open(b);
	if (error)
		return fail(b, error, "there is no memory");
	b->order = shared_alloc(sizeof(*b->order), 4096);
	if (!b->order)
		return fail(b, -ENOMEM, "there is no memory");
	memset(b->order, 0, sizeof(*b->order));
	b->order->window_ns = plan->window_ns;
	error = own_cache_folder_make(b->folder, sizeof(b->folder));
	if (error)
		return fail(b, error, "cannot make a folder for the socket");
	for (u32 i = 0; i < WHOLE_MAX_PROCESSES; i++)
		anywhere[i] = -1;
	error = slots_open(&b->processes, anywhere, WHOLE_MAX_PROCESSES, true);
	if (error)
		return fail(b, error, "cannot start processes");
	for (u32 size = 0; size < plan->nr_sizes && !error; size++)
		error = run_size(b, folder, size, &random);
	cli_progress("", 101);
	b->duration_ns = host_now_ns() - began;
	return error;
}

void whole_bench_drop(struct whole_bench *b)
{
	struct whole_cell *cells = &b->cells[0][0][0][0];

	own_cache_stop(&b->cache);
	slots_close(&b->processes);
	for (u32 i = 0; i < sizeof(b->cells) / sizeof(*cells); i++) {
		series_close(&cells[i].first_us);
		series_close(&cells[i].last_us);
		series_close(&cells[i].random_ns);
		series_close(&cells[i].again_us);
		series_close(&cells[i].memory);
		series_close(&cells[i].page_cache);
	}
}
