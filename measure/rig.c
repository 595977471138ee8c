/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Caches, readers and memory of a measurement. Contract: measure/rig.h. */
#define _GNU_SOURCE
#include "measure/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure/cli.h"

/* The file must fit with room to spare: the translation refuses a block whose places
 * are taken, and the small queue of S3-FIFO is a tenth of the frames. */
#define CACHE_SLACK_PERCENT 25
#define CACHE_LEAST_BYTES ((uint64_t)16 << 20)
#define IDLE_EXIT_MS 5000 /* should this program be killed */
#define STOP_WAIT_MS 3000
#define STOP_STEP_MS 5
/* Verifying a file of 256 MiB by four readers on a slow machine. */
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

/* Shares a core with a CPU of a smaller number? */
static bool is_sibling(int cpu)
{
	char path[96];
	int first = cpu;
	FILE *f;

	snprintf(path, sizeof(path),
	         "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%d", &first) != 1)
		first = cpu;
	fclose(f);
	return first < cpu;
}

unsigned int rig_cpus(int *ret_cpus, unsigned int most)
{
	unsigned int nr = 0, taken = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (int sibling = 0; sibling < 2; sibling++) {
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &set) || is_sibling(cpu) != sibling)
				continue;
			nr++;
			if (taken < most)
				ret_cpus[taken++] = cpu;
		}
	}
	return nr;
}

int rig_folder_make(char *path, unsigned int bytes)
{
	const char *root = getenv("TMPDIR");

	/* A socket's path is short; a long TMPDIR would not fit. */
	if (!root || !root[0] || strlen(root) > bytes - sizeof("/lodic-bench-XXXXXX"))
		root = "/tmp";
	snprintf(path, bytes, "%s/lodic-bench-XXXXXX", root);
	if (!mkdtemp(path)) {
		path[0] = '\0';
		return -errno;
	}
	return 0;
}

int rig_cache_start(struct rig_cache *cache, const char *folder,
                    enum lodic_scheme scheme, uint64_t cache_bytes, int fd)
{
	struct lodic_options options = {
		.bytes = sizeof(options),
		.socket = cache->socket,
		.service = cli_program(),
		.cache_bytes = cache_bytes,
		.scheme = scheme,
		.idle_exit_ms = IDLE_EXIT_MS,
	};
	struct lodic_stat stat;
	struct lodic *lodic;
	int error;

	if (snprintf(cache->socket, sizeof(cache->socket), "%s/%s", folder,
	             lodic_scheme_name(scheme)) >= (int)sizeof(cache->socket))
		return -ENAMETOOLONG;
	/* The service goes to the background: let it become our child, so that we learn
	 * of its end and leave no zombie where nobody collects them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	error = lodic_attach(&options, &lodic);
	if (error)
		return error;
	if (lodic_stat(lodic, &stat) == 0)
		cache->service_pid = stat.service_pid;
	error = reader_take_seat(&cache->seat, cache->socket, fd);
	lodic_detach(lodic);
	return error ? error : lodic_file_cached(cache->seat.file);
}

static void pause_ms(unsigned int ms)
{
	struct timespec t = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&t, NULL);
}

void rig_cache_stop(struct rig_cache *cache)
{
	pid_t pid = (pid_t)cache->service_pid;

	reader_leave_seat(&cache->seat);
	if (pid > 0)
		kill(pid, SIGTERM);
	/* Our child by adoption (rig_cache_start), else somebody else waits for it. */
	for (unsigned int ms = 0; pid > 0 && ms < STOP_WAIT_MS; ms += STOP_STEP_MS) {
		if (waitpid(pid, NULL, WNOHANG) == pid || kill(pid, 0) != 0)
			break;
		pause_ms(STOP_STEP_MS);
	}
	if (cache->socket[0])
		unlink(cache->socket);
	*cache = (struct rig_cache){ 0 };
}

static int load_private(struct rig *rig, int fd)
{
	uint64_t bytes = rig->corpus->bytes, at = 0;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	               -1, 0);

	if (p == MAP_FAILED)
		return rig_fail(rig, -errno,
		                "no memory for a private copy of the file");
	rig->private_bytes = p;
	rig->private_map_bytes = bytes;
	madvise(p, bytes, MADV_HUGEPAGE); /* it is the physical limit: let it be that */
	while (at < bytes) {
		ssize_t n = pread(fd, rig->private_bytes + at, bytes - at, (off_t)at);

		if (n <= 0)
			return rig_fail(rig, n < 0 ? -errno : -EIO, "cannot read %s",
			                rig->corpus->path);
		at += (uint64_t)n;
	}
	return 0;
}

static int start_reader(struct rig *rig, const struct reader_setup *setup)
{
	struct rig_reader *reader = &rig->readers[rig->nr_readers];
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return rig_fail(rig, -errno, "no socket for a reader");
	pid = fork();
	if (pid == 0) {
		/* The elder readers' channels are theirs: held here, too, they would
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

static void stop_reader(struct rig_reader *reader)
{
	unsigned int ms;

	close(reader->channel);
	for (ms = 0; ms < STOP_WAIT_MS; ms += STOP_STEP_MS) {
		if (waitpid(reader->pid, NULL, WNOHANG) != 0)
			return;
		pause_ms(STOP_STEP_MS);
	}
	kill(reader->pid, SIGKILL);
	waitpid(reader->pid, NULL, 0);
}

/* Brings the whole file into all caches; they work at the same time. */
static int fill_caches(struct rig *rig)
{
	for (unsigned int wait = 0; wait < 2; wait++) {
		for (int i = 0; i < NR_SCHEMES; i++) {
			struct method_seat *seat = &rig->caches[i].seat;
			struct lodic_stat stat;
			int error = lodic_prefetch(seat->context, seat->file, 0, 0,
			                           wait ? LODIC_WAIT : 0);

			if (cli_stopped)
				return rig_fail(rig, -EINTR, "stopped");
			if (error)
				return rig_fail(rig, error,
				                "cannot fill the %s cache: %s",
				                lodic_scheme_name((enum lodic_scheme)i),
				                strerror(-error));
			if (lodic_stat(seat->lodic, &stat) == 0)
				rig->caches[i].cached_blocks = stat.cached;
			cli_progress("filling the caches",
			             50 * wait + 50 * (unsigned int)i / NR_SCHEMES);
		}
	}
	return 0;
}

static int start_caches(struct rig *rig, int fd)
{
	uint64_t bytes = rig->corpus->bytes;

	bytes += bytes / 100 * CACHE_SLACK_PERCENT;
	if (bytes < CACHE_LEAST_BYTES)
		bytes = CACHE_LEAST_BYTES;
	for (int i = 0; i < NR_SCHEMES; i++) {
		int error = rig_cache_start(&rig->caches[i], rig->folder,
		                            (enum lodic_scheme)i, bytes, fd);

		if (cli_stopped)
			return rig_fail(rig, -EINTR, "stopped");
		if (error)
			return rig_fail(rig, error, "the %s cache cannot hold %s: %s",
			                lodic_scheme_name((enum lodic_scheme)i),
			                rig->corpus->path, strerror(-error));
	}
	return fill_caches(rig);
}

static int start_readers(struct rig *rig, unsigned int nr)
{
	static struct reader_setup setup; /* the readers' copy is made by fork */
	int error = 0;

	setup = (struct reader_setup){
		.path = rig->corpus->path,
		.file_bytes = rig->corpus->bytes,
		.private_bytes = rig->private_bytes,
		.workload = &rig->workload,
	};
	for (int i = 0; i < NR_SCHEMES; i++) {
		char *socket = rig->caches[i].socket;

		snprintf(socket, RIG_SOCKET_BYTES, "%s/%s", rig->folder,
		         lodic_scheme_name((enum lodic_scheme)i));
		setup.sockets[i] = socket;
	}
	while (!error && rig->nr_readers < nr)
		error = start_reader(rig, &setup);
	return error;
}

static int attach_readers(struct rig *rig)
{
	struct reader_order orders[RIG_MAX_READERS] = { 0 };
	struct reader_report reports[RIG_MAX_READERS];

	for (unsigned int i = 0; i < rig->nr_readers; i++)
		orders[i].op = READER_ATTACH;
	return rig_ask(rig, orders, rig->nr_readers, reports);
}

int rig_open(struct rig *rig, const struct corpus *corpus, unsigned int nr_readers,
             uint64_t seed)
{
	int fd, error;

	*rig = (struct rig){ .corpus = corpus };
	rig->nr_cpus = rig_cpus(rig->cpus, RIG_MAX_READERS);
	if (nr_readers == 0 || nr_readers > RIG_MAX_READERS)
		return rig_fail(rig, -EINVAL, "1 to %d processes", RIG_MAX_READERS);
	fd = open(corpus->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rig_fail(rig, -errno, "cannot open %s: %s", corpus->path,
		                strerror(errno));
	error = load_private(rig, fd);
	if (!error && workload_make(&rig->workload, corpus->bytes, seed) != 0)
		error = rig_fail(rig, -ENOMEM, "no memory for the access sequences");
	if (!error && rig_folder_make(rig->folder, sizeof(rig->folder)) != 0)
		error = rig_fail(rig, -EACCES, "cannot make a folder in /tmp");
	/* Fork first: a child must not find the parent's attachments. */
	if (!error)
		error = start_readers(rig, nr_readers);
	if (!error)
		error = start_caches(rig, fd);
	close(fd);
	return error ? error : attach_readers(rig);
}

void rig_close(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->nr_readers; i++)
		stop_reader(&rig->readers[i]);
	rig->nr_readers = 0;
	for (int i = 0; i < NR_SCHEMES; i++)
		rig_cache_stop(&rig->caches[i]);
	if (rig->folder[0])
		rmdir(rig->folder);
	rig->folder[0] = '\0';
	workload_drop(&rig->workload);
	if (rig->private_bytes)
		munmap(rig->private_bytes, rig->private_map_bytes);
	rig->private_bytes = NULL;
}

static int receive_report(struct rig *rig, unsigned int i, struct reader_report *report)
{
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
		                strerror(-report->error));
	return 0;
}

int rig_ask(struct rig *rig, const struct reader_order *orders, unsigned int nr,
            struct reader_report *ret_reports)
{
	int error = 0;

	for (unsigned int i = 0; i < nr; i++)
		if (send(rig->readers[i].channel, &orders[i], sizeof(orders[i]),
		         MSG_NOSIGNAL) < 0)
			return rig_fail(rig, -EPIPE, "reader %u has died", i);
	for (unsigned int i = 0; i < nr && !error; i++)
		error = receive_report(rig, i, &ret_reports[i]);
	return error;
}
