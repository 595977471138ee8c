/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Caches, readers and memory of a measurement. Contract: bench/measure/rig.h. */
#define _GNU_SOURCE
#include "bench/measure/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure/machine.h"
#include "cli/cli.h"
#include "cli/leftover.h"

/* The file must fit with room to spare. The translation refuses a block whose places are
 * taken, and the small queue of S3-FIFO is a tenth of the frames. */
#define CACHE_SLACK_PERCENT 25
#define CACHE_LEAST_BYTES ((uint64_t)16 << 20)
/* In the program itself, and in a service with all its readers; generous. */
#define OTHER_DESCRIPTORS 128
#define READER_DESCRIPTORS 4
#define LOAD_BYTES ((uint64_t)4 << 20)
#define STOP_WAIT_MS 3000
#define STOP_STEP_MS 5
#define STOP_STEP_US (1000 * STOP_STEP_MS)
/* Enough for four readers of a slow machine to verify a part of the file. */
#define ANSWER_WAIT_MS 60000

__attribute__((format(printf, 3, 4))) static int rig_fail(struct rig *rig, int error,
                                                          const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(rig->why, sizeof(rig->why), format, args);
	va_end(args);
	return error;
}

static int rig_load_private(struct rig *rig, int fd)
{
	uint64_t bytes = rig->corpus->bytes, at = 0;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	               -1, 0);

	if (p == MAP_FAILED)
		return rig_fail(rig, -errno,
		                "there is no memory for a private copy of the file");
	rig->private_bytes = p;
	rig->private_map_bytes = bytes;
	madvise(p, bytes, MADV_HUGEPAGE); /* it stands for the physical limit */
	while (at < bytes) {
		uint64_t left = bytes - at;
		ssize_t n = pread(fd, rig->private_bytes + at,
		                  left < LOAD_BYTES ? left : LOAD_BYTES, (off_t)at);

		if (cli_stopped)
			return rig_fail(rig, -EINTR, "stopped");
		if (n <= 0)
			return rig_fail(rig, n < 0 ? -errno : -EIO, "cannot read %s",
			                rig->corpus->path);
		at += (uint64_t)n;
		cli_progress("reading the file", (unsigned int)(100 * at / bytes));
	}
	return 0;
}

static int rig_start_reader(struct rig *rig, const struct reader_setup *setup)
{
	struct rig_reader *reader = &rig->readers[rig->nr_readers];
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return rig_fail(rig, -errno, "cannot make a socket for a reader");
	pid = fork();
	if (pid == 0) {
		/* If this reader held the channels of the readers before it, they would
		 * not close when the parent is killed. */
		for (unsigned int i = 0; i < rig->nr_readers; i++)
			close(rig->readers[i].channel);
		close(ends[0]);
		reader_run(setup, ends[1]);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return rig_fail(rig, -errno, "cannot start a reader");
	}
	*reader = (struct rig_reader){ .pid = pid, .channel = ends[0] };
	rig->nr_readers++;
	return 0;
}

static void rig_stop_reader(struct rig_reader *reader)
{
	unsigned int ms;

	close(reader->channel);
	for (ms = 0; ms < STOP_WAIT_MS; ms += STOP_STEP_MS) {
		if (waitpid(reader->pid, NULL, WNOHANG) != 0)
			return;
		usleep(STOP_STEP_US);
	}
	kill(reader->pid, SIGKILL);
	waitpid(reader->pid, NULL, 0);
}

/* Brings the whole file into all caches, which work at the same time. */
static int rig_fill_caches(struct rig *rig)
{
	for (unsigned int wait = 0; wait < 2; wait++) {
		for (int i = 0; i < NR_CACHES; i++) {
			struct own_cache_seat *seat = &rig->caches[i].seat;
			int error = lodic_prefetch(seat->context, seat->file, 0, 0,
			                           wait ? LODIC_WAIT : 0);

			if (cli_stopped)
				return rig_fail(rig, -EINTR, "stopped");
			if (error)
				return rig_fail(rig, error,
				                "cannot fill the %s cache: %s",
				                method_cache_name((enum method_cache)i),
				                lodic_strerror(error));
			cli_progress("filling the caches",
			             50 * wait + 50 * (unsigned int)i / NR_CACHES);
		}
	}
	return 0;
}

static int rig_start_caches(struct rig *rig, int fd)
{
	uint64_t bytes = rig->corpus->bytes;

	bytes += bytes / 100 * CACHE_SLACK_PERCENT;
	if (bytes < CACHE_LEAST_BYTES)
		bytes = CACHE_LEAST_BYTES;
	for (int i = 0; i < NR_CACHES; i++) {
		int error =
			own_cache_start(&rig->caches[i], rig->folder,
		                        method_cache_kind((enum method_cache)i), bytes,
		                        rig->nr_readers + 1, rig->huge_pages, fd);

		if (cli_stopped)
			return rig_fail(rig, -EINTR, "stopped");
		if (error)
			return rig_fail(rig, error, "the %s cache cannot hold %s: %s",
			                method_cache_name((enum method_cache)i),
			                rig->corpus->path, lodic_strerror(error));
	}
	return rig_fill_caches(rig);
}

static int rig_start_readers(struct rig *rig, unsigned int nr)
{
	static struct reader_setup setup; /* fork gives each reader a copy */
	int error = 0;

	setup = (struct reader_setup){
		.path = rig->corpus->path,
		.file_bytes = rig->corpus->bytes,
		.private_bytes = rig->private_bytes,
		.workload = &rig->workload,
	};
	for (int i = 0; i < NR_CACHES; i++) {
		char *socket = rig->caches[i].socket;

		snprintf(socket, OWN_CACHE_SOCKET_BYTES, "%s/%s", rig->folder,
		         method_cache_name((enum method_cache)i));
		setup.sockets[i] = socket;
	}
	while (!error && rig->nr_readers < nr)
		error = rig_start_reader(rig, &setup);
	return error;
}

static int rig_attach_readers(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->nr_readers; i++)
		rig->orders[i] = (struct reader_order){ .op = READER_ATTACH };
	return rig_ask(rig, rig->nr_readers);
}

/* Each reader takes descriptors here and in the services, which inherit the limit. */
static int rig_raise_limit(struct rig *rig, unsigned int nr_readers)
{
	const rlim_t need = OTHER_DESCRIPTORS + READER_DESCRIPTORS * (rlim_t)nr_readers;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
		return 0;
	if (limit.rlim_max < need)
		return rig_fail(rig, -EMFILE,
		                "%u processes need %llu open files, and this user may "
		                "have %llu (ulimit -Hn)",
		                nr_readers, (unsigned long long)need,
		                (unsigned long long)limit.rlim_max);
	limit.rlim_cur = need;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : -errno;
}

void rig_serve_by(const char *path, const char *folder)
{
	static char beside[PATH_MAX];

	if (!path) /* if there is none, caches will not start */
		cli_find(folder, "lodic", beside, sizeof(beside));
	own_cache_serve_by(path ? path : beside);
}

int rig_open(struct rig *rig, const struct corpus *corpus, unsigned int nr_readers,
             uint64_t seed, const char *huge_pages)
{
	int fd, error;

	memset(rig, 0, sizeof(*rig)); /* too large for the stack */
	rig->corpus = corpus;
	rig->huge_pages = huge_pages;
	rig->nr_cpus = machine_cpus(rig->cpus, RIG_MAX_READERS);
	if (nr_readers == 0 || nr_readers > RIG_MAX_READERS)
		return rig_fail(rig, -EINVAL, "there must be 1 to %d processes",
		                RIG_MAX_READERS);
	error = rig_raise_limit(rig, nr_readers);
	if (error)
		return error;
	fd = open(corpus->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rig_fail(rig, -errno, "cannot open %s: %s", corpus->path,
		                strerror(errno));
	error = rig_load_private(rig, fd);
	if (!error && workload_make(&rig->workload, corpus->bytes, seed) != 0)
		error = rig_fail(rig, -ENOMEM,
		                 "there is no memory for the access sequences");
	if (!error && own_cache_folder_make(rig->folder, sizeof(rig->folder)) != 0)
		error = rig_fail(rig, -EACCES,
		                 "cannot make a folder for sockets in TMPDIR or /tmp");
	/* Fork first, because a child must not inherit the parent's attachments. */
	if (!error)
		error = rig_start_readers(rig, nr_readers);
	if (!error)
		error = rig_start_caches(rig, fd);
	close(fd);
	return error ? error : rig_attach_readers(rig);
}

void rig_close(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->nr_readers; i++)
		rig_stop_reader(&rig->readers[i]);
	rig->nr_readers = 0;
	for (int i = 0; i < NR_CACHES; i++)
		own_cache_stop(&rig->caches[i]);
	workload_drop(&rig->workload);
	if (rig->private_bytes)
		munmap(rig->private_bytes, rig->private_map_bytes);
	rig->private_bytes = NULL;
}

static int rig_receive_report(struct rig *rig, unsigned int i)
{
	struct reader_report *report = &rig->reports[i];
	struct pollfd wait = { .fd = rig->readers[i].channel, .events = POLLIN };
	int ready = poll(&wait, 1, ANSWER_WAIT_MS);

	if (ready < 0)
		return rig_fail(rig, -EINTR, "stopped");
	if (ready == 0)
		return rig_fail(rig, -ETIMEDOUT, "reader %u does not answer", i);
	if (recv(wait.fd, report, sizeof(*report), 0) != (ssize_t)sizeof(*report))
		return rig_fail(rig, -EPIPE, "reader %u has died", i);
	if (report->error)
		return rig_fail(rig, report->error, "reader %u: %s: %s", i, report->why,
		                lodic_strerror(report->error));
	return 0;
}

int rig_ask(struct rig *rig, unsigned int nr)
{
	int error = 0;

	for (unsigned int i = 0; i < nr; i++)
		if (send(rig->readers[i].channel, &rig->orders[i],
		         sizeof(rig->orders[i]), MSG_NOSIGNAL) < 0)
			return rig_fail(rig, -EPIPE, "reader %u has died", i);
	for (unsigned int i = 0; i < nr && !error; i++)
		error = rig_receive_report(rig, i);
	return error;
}
