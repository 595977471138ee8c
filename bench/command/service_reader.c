/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The reader of `lodic bench service`. Contract: bench/command/service.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/command/service.h"
#include "cli/cli.h"
#include "host/random.h"
#include "lodic/lodic.h"

#define MAX_CONTEXTS 1024u
#define MAX_PINS (MAX_CONTEXTS * 64u)
/* More blocks than eviction comes to in an hour; a hole takes no room on disk. */
#define HOLE_BYTES ((off_t)1 << 40)
#define PIECE_BYTES ((size_t)1 << 20)
static const char mark[] = "not cached, and read all the same";

struct reader {
	const struct service_reader_setup *setup;
	/* Each context is of an attachment of its own, as if each were a program's. */
	struct lodic *lodics[MAX_CONTEXTS];
	struct lodic_context *contexts[MAX_CONTEXTS];
	struct lodic_file *holes[MAX_CONTEXTS]; /* of those that pin, and the first */
	struct lodic_file *filled;
	struct lodic_pin pins[MAX_PINS];
	unsigned int pinned_by[MAX_PINS]; /* the context */
	uint64_t nr_pins;
	uint64_t filled_bytes;
	uint64_t random;
	char piece[PIECE_BYTES];
};

void bench_service_reader_path(char path[SERVICE_READER_PATH_BYTES], const char *folder,
                               uint64_t i)
{
	snprintf(path, SERVICE_READER_PATH_BYTES, "%s/%08llu", folder,
	         (unsigned long long)i);
}

/* Opens a file for the cache, and gives its descriptor up. 0 or -errno. */
static int reader_open(struct lodic *lodic, const char *path, struct lodic_file **ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	error = lodic_open(lodic, fd, ret);
	close(fd);
	return error;
}

/* Makes a file with a hole of so many bytes. */
static int reader_make_hole(const char *path, off_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int error;

	if (fd < 0)
		return -errno;
	error = ftruncate(fd, bytes) == 0 ? 0 : -errno;
	close(fd);
	return error;
}

static int reader_attach(struct reader *r, uint64_t nr_contexts,
                         struct service_reader_answer *ret)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = r->setup->socket,
		                         .service = "" };
	char path[SERVICE_READER_PATH_BYTES];
	struct stat st;
	int error;

	snprintf(path, sizeof(path), "%s/hole", r->setup->folder);
	error = reader_make_hole(path, HOLE_BYTES);
	for (uint64_t i = 0; i < nr_contexts && !error; i++) {
		error = lodic_attach(&options, &r->lodics[i]);
		if (!error)
			error = lodic_context_open(r->lodics[i], &r->contexts[i]);
		r->setup->shared->done = i + 1;
	}
	if (!error)
		error = reader_open(r->lodics[0], path, &r->holes[0]);
	if (!error)
		error = lodic_file_cached(r->holes[0]);
	if (!error && stat(path, &st) != 0)
		error = -errno;
	ret->n = error ? 0 : st.st_ino;
	return error;
}

static int reader_pin(struct reader *r, const struct service_reader_order *o,
                      struct service_reader_answer *ret)
{
	char path[SERVICE_READER_PATH_BYTES];
	int error = 0;

	snprintf(path, sizeof(path), "%s/hole", r->setup->folder);
	for (unsigned int i = 0; i < o->a && !error; i++) {
		if (!r->holes[i])
			error = reader_open(r->lodics[i], path, &r->holes[i]);
		for (uint64_t k = 0; k < o->b && !error; k++) {
			uint64_t block = o->c + random_next(&r->random) % (o->d - o->c);

			/* A few are gone already. */
			if (lodic_pin(r->contexts[i], r->holes[i],
			              (off_t)(block * LODIC_BLOCK_BYTES),
			              &r->pins[r->nr_pins]) == 0)
				r->pinned_by[r->nr_pins++] = i;
		}
	}
	ret->n = r->nr_pins;
	return error;
}

static int reader_unpin(struct reader *r)
{
	while (r->nr_pins > 0) {
		r->nr_pins--;
		lodic_unpin(r->contexts[r->pinned_by[r->nr_pins]],
		            &r->pins[r->nr_pins]);
	}
	return 0;
}

/* Writes bytes that are in the kernel's page cache afterwards. */
static int reader_write(struct reader *r, const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < PIECE_BYTES; i++)
		r->piece[i] = (char)random_next(&r->random);
	for (uint64_t at = 0; at < bytes && n > 0; at += (uint64_t)n) {
		uint64_t left = bytes - at;

		n = write(fd, r->piece, left < PIECE_BYTES ? left : PIECE_BYTES);
	}
	close(fd);
	return n > 0 ? 0 : -EIO;
}

/* The file before goes from the cache with its last name. */
static int reader_make(struct reader *r, uint64_t bytes)
{
	char path[SERVICE_READER_PATH_BYTES];
	int error;

	snprintf(path, sizeof(path), "%s/filled", r->setup->folder);
	unlink(path);
	lodic_close(r->filled);
	r->filled = NULL;
	r->filled_bytes = bytes;
	error = reader_write(r, path, bytes);
	return error ? error : reader_open(r->lodics[0], path, &r->filled);
}

static int reader_fill(struct reader *r, struct service_reader_answer *ret)
{
	uint64_t began = cli_now_ns();
	int error = lodic_prefetch(r->contexts[0], r->filled, 0, 0, LODIC_WAIT);

	ret->ns = cli_now_ns() - began;
	ret->n = r->filled_bytes / LODIC_BLOCK_BYTES;
	return error;
}

static int reader_make_files(struct reader *r, uint64_t nr)
{
	char path[SERVICE_READER_PATH_BYTES];
	int error = 0;

	for (uint64_t i = 0; i < nr && !error; i++) {
		bench_service_reader_path(path, r->setup->folder, i);
		error = reader_make_hole(path, LODIC_BLOCK_BYTES);
		r->setup->shared->done = i + 1;
	}
	return error;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* One file: open(2), the cache's lease, and both closed again. */
static int reader_open_one(struct reader *r, uint64_t i)
{
	char path[SERVICE_READER_PATH_BYTES];
	struct lodic_file *file;
	int fd, error;

	bench_service_reader_path(path, r->setup->folder, i);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = lodic_open(r->lodics[0], fd, &file);
	if (!error) {
		error = lodic_file_cached(file);
		lodic_close(file);
	}
	close(fd);
	return error;
}

static int reader_open_files(struct reader *r, uint64_t nr)
{
	struct service_reader_shared *shared = r->setup->shared;
	clockid_t service;
	int error = -clock_getcpuclockid(getppid(), &service);

	for (uint64_t i = 0; i < nr && !error; i++) {
		uint64_t wall = cli_now_ns(), cpu = clock_ns(service);

		error = reader_open_one(r, i);
		times_add(&shared->open_wall, cli_now_ns() - wall);
		times_add(&shared->open_cpu, clock_ns(service) - cpu);
		shared->done = i + 1;
	}
	return error;
}

/* The file is not cached: may it be written to, and does the library read what was written? */
static int reader_check_refused(struct reader *r, struct lodic_file *file, uint64_t i)
{
	char path[SERVICE_READER_PATH_BYTES], got[sizeof(mark)];
	int fd;
	ssize_t n;

	bench_service_reader_path(path, r->setup->folder, i);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : pwrite(fd, mark, sizeof(mark), 0);
	close(fd);
	if (n != sizeof(mark) ||
	    lodic_read(r->contexts[0], file, got, sizeof(got), 0) != sizeof(got) ||
	    memcmp(got, mark, sizeof(got)) != 0)
		return -EIO;
	return 0;
}

static int reader_hold(struct reader *r, uint64_t nr, struct service_reader_answer *ret)
{
	struct lodic_file **files = calloc(nr, sizeof(*files));
	char path[SERVICE_READER_PATH_BYTES];
	uint64_t i = 0;
	int error = files ? 0 : -ENOMEM;

	while (i < nr && !error && !ret->refused) {
		bench_service_reader_path(path, r->setup->folder, i);
		error = reader_open(r->lodics[0], path, &files[i]);
		if (error)
			break;
		ret->refused = lodic_file_cached(files[i]);
		if (ret->refused)
			error = reader_check_refused(r, files[i], i);
		ret->n += !ret->refused;
		r->setup->shared->done = ++i;
	}
	while (i > 0)
		lodic_close(files[--i]);
	free(files);
	return error;
}

static int reader_carry_out(struct reader *r, const struct service_reader_order *o,
                            struct service_reader_answer *ret)
{
	r->setup->shared->done = 0;
	switch ((enum service_reader_ask)o->kind) {
	case ASK_ATTACH: return reader_attach(r, o->a, ret);
	case ASK_PIN: return reader_pin(r, o, ret);
	case ASK_UNPIN: return reader_unpin(r);
	case ASK_MAKE: return reader_make(r, o->a);
	case ASK_FILL: return reader_fill(r, ret);
	case ASK_FILES: return reader_make_files(r, o->a);
	case ASK_OPEN: return reader_open_files(r, o->a);
	case ASK_HOLD: return reader_hold(r, o->a, ret);
	}
	return -EINVAL;
}

/* Each held file takes a descriptor here, too. */
static void reader_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

_Noreturn void bench_service_reader_run(const struct service_reader_setup *setup)
{
	static struct reader r;
	struct service_reader_order order;

	/* The parent ends this process. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	reader_raise_limit();
	r.setup = setup;
	r.random = 1;
	while (recv(setup->channel, &order, sizeof(order), 0) == sizeof(order)) {
		struct service_reader_answer answer = { 0 };

		answer.error = reader_carry_out(&r, &order, &answer);
		if (send(setup->channel, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}
