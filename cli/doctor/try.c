/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the doctor tries out here, after the program has ended. A private service with a folder of
 * its own says which of the program's files it would cache, and why not the others. If promises
 * would change that, another one is started with these, and says whether they do. Then three
 * readers take turns, in short slots. One reads as the program does, by pread(2) in a file that
 * the program has read. One does the same under the shim that counts. The third reads by the
 * shim of `lodic run`, and that service serves it a file of the same size.
 *
 * The readers are processes of this program, so the times are those of the real shim and of the
 * real kernel. Each slot is CPU time of the reader alone. The service holds a lease on a file of
 * the program for some milliseconds, while it is asked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor/ask.h"
#include "cli/doctor/proc.h"
#include "cli/doctor/promise.h"
#include "cli/doctor/reader.h"
#include "cli/doctor/run.h"
#include "cli/doctor/try.h"
#include "cli/leftover.h"
#include "cli/own_cache.h"
#include "cli/preload.h"
#include "lodic/lodic.h"
#include "preload/run_environment.h"

#define SPAN_LEAST ((uint64_t)64 << 10)
#define SPAN_MOST ((uint64_t)64 << 20)
/* The cache has so much beside the span. */
#define CACHE_MORE ((uint64_t)16 << 20)
#define SLOT_NS 2000000.0
#define FIRST_READS 2000u
#define FSTATS 2000u
/* Of the reads of a slot, so many may come from the kernel. */
#define KERNEL_PART 10u
/* Two seconds: a busy machine gives the service its turn in that time. Our choice. */
#define SETTLE_READS 100u
#define SETTLE_TRIES 200u
#define SETTLE_PAUSE_NS 10000000

struct reader {
	pid_t pid;
	int channel;
	uint32_t reads[DOCTOR_SIZES]; /* of a slot */
};

struct trial {
	struct doctor *d;
	struct own_cache cache;
	char own[PATH_MAX]; /* the file that is served */
	int own_fd;
	char fresh[DOCTOR_FOLDER_BYTES + 8]; /* new files begin so */
	uint64_t span;
	struct reader readers[DOCTOR_WAYS];
};

static void fail(struct trial *t, const char *what, int error)
{
	struct doctor_price *p = &t->d->price;

	if (!p->why[0])
		snprintf(p->why, sizeof(p->why), "%s: %s", what, lodic_strerror(error));
}

#define STARTS 15u

/* ---- the readers, as their parent sees them ---- */

static _Noreturn void reader_become(const struct trial *t, enum doctor_way way,
                                    int channel)
{
	char path[PATH_MAX];
	char *arguments[] = { "lodic", "doctor", "--reader", path, NULL };

	snprintf(path, sizeof(path), "%s",
	         way == DOCTOR_SERVED ? t->own : t->d->price.path);
	if (dup2(channel, STDIN_FILENO) < 0 ||
	    (way != DOCTOR_PLAIN && preload_enter() != CLI_OK) ||
	    preload_set_number(RUN_FILTERS, preload_count_filters()) ||
	    preload_set_number(RUN_FIRST, (uint64_t)getpid()) ||
	    preload_set(DOCTOR_NEW_PLACE, t->fresh) ||
	    preload_set(RUN_SOCKET, way == DOCTOR_SERVED ? t->cache.socket : NULL) ||
	    preload_set(RUN_DOCTOR, way == DOCTOR_COUNTED ? t->d->counts_folder : NULL))
		_exit(CLI_FAILED);
	execv(cli_program(), arguments);
	_exit(CLI_FAILED);
}

static int reader_start(struct trial *t, enum doctor_way way)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		reader_become(t, way, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	t->readers[way].pid = pid;
	t->readers[way].channel = ends[0];
	return 0;
}

static void reader_stop(struct reader *r)
{
	if (r->pid <= 0)
		return;
	close(r->channel);
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
}

static int reader_ask(const struct reader *r, struct doctor_order o, double *ret_ns)
{
	double ns;

	if (cli_stopped)
		return -EINTR;
	if (send(r->channel, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o) ||
	    recv(r->channel, &ns, sizeof(ns), 0) != sizeof(ns))
		return cli_stopped ? -EINTR : -EPIPE;
	if (ns < 0)
		return -EIO;
	*ret_ns = ns;
	return 0;
}

/* Brings its file into memory, and finds out how many reads make a slot. */
static int reader_warm(struct trial *t, struct reader *r)
{
	double ns = 0;
	int error = reader_ask(
		r, (struct doctor_order){ .bytes = DOCTOR_MOST_READ, .span = t->span },
		&ns);

	for (unsigned int i = 0; !error && i < DOCTOR_SIZES; i++) {
		struct doctor_order o = { .bytes = seen_size_ends[i],
			                  .reads = FIRST_READS,
			                  .span = t->span };

		error = reader_ask(r, o, &ns);
		r->reads[i] = (uint32_t)(SLOT_NS / (ns + 1)) + 1;
	}
	return error;
}

/* All ways take turns, each in another order than in the round before. ret_served: reads of the
 * third way. */
static int measure(struct trial *t, enum doctor_state state, uint64_t *ret_served)
{
	const struct doctor_counts *c = &t->d->counts;
	struct doctor_price *p = &t->d->price;
	int error = 0;

	for (unsigned int i = 0;
	     !error && i < DOCTOR_ROUNDS * DOCTOR_SIZES * DOCTOR_WAYS; i++) {
		unsigned int round = i / (DOCTOR_SIZES * DOCTOR_WAYS);
		unsigned int size = i / DOCTOR_WAYS % DOCTOR_SIZES;
		unsigned int way = (i + round + size) % DOCTOR_WAYS;
		const struct reader *r = &t->readers[way];
		struct doctor_order o = { .bytes = seen_size_ends[size],
			                  .reads = state == DOCTOR_COLD
			                                   ? DOCTOR_COLD_READS
			                                   : r->reads[size],
			                  .span = t->span,
			                  .cold = state == DOCTOR_COLD,
			                  .askew = 2 * c->askew_reads >
			                           c->reads[RUN_COULD] };

		error = reader_ask(r, o, &p->ns[state][way][size][round]);
		if (way == DOCTOR_SERVED)
			*ret_served += o.reads;
	}
	return error;
}

/* The times that the shim has taken of the reads of the second way. */
static void take_times(struct trial *t)
{
	struct seen_process *p;
	char name[32];

	snprintf(name, sizeof(name), "%d-0", (int)t->readers[DOCTOR_COUNTED].pid);
	p = doctor_counts_map(t->d->counts_folder, name);
	if (!p)
		return;
	doctor_add_times(t->d->price.times, p);
	munmap(p, sizeof(*p));
}

/* The shim waits for nobody, so its first reads go to the kernel until the service has answered.
 * -EAGAIN: it takes too long, or the cache serves none. */
static int reader_settle(const struct reader *r, uint64_t span)
{
	const struct timespec pause = { .tv_nsec = SETTLE_PAUSE_NS };
	const struct doctor_order o = { .bytes = seen_size_ends[0],
		                        .reads = SETTLE_READS,
		                        .span = span };
	struct doctor_io before = { 0 }, after = { 0 };
	double ns;

	for (unsigned int i = 0; i < SETTLE_TRIES; i++) {
		int error;

		doctor_proc_io(r->pid, &before);
		error = reader_ask(r, o, &ns);
		if (error)
			return error;
		doctor_proc_io(r->pid, &after);
		if (!after.known ||
		    after.reads - before.reads <= SETTLE_READS / KERNEL_PART)
			return 0;
		nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}

static int measure_all(struct trial *t)
{
	struct doctor_io before = { 0 }, after = { 0 };
	uint64_t served = 0;
	int error = reader_settle(&t->readers[DOCTOR_SERVED], t->span);

	for (unsigned int w = 0; !error && w < DOCTOR_WAYS; w++)
		error = reader_warm(t, &t->readers[w]);
	doctor_proc_io(t->readers[DOCTOR_SERVED].pid, &before);
	if (!error)
		error = measure(t, DOCTOR_HOT, &served);
	if (!error)
		take_times(t);
	if (!error)
		error = measure(t, DOCTOR_COLD, &served);
	doctor_proc_io(t->readers[DOCTOR_SERVED].pid, &after);
	if (!error && after.known && after.reads - before.reads > served / KERNEL_PART)
		error = -EAGAIN; /* the cache did not serve them */
	return error;
}

static void measure_fstat(struct trial *t)
{
	struct stat st;
	uint64_t began, least = UINT64_MAX, ns;

	for (unsigned int i = 0; i < DOCTOR_SIZES; i++) {
		began = doctor_cpu_ns();
		for (unsigned int k = 0; k < FSTATS; k++)
			fstat(t->own_fd, &st);
		ns = doctor_cpu_ns() - began;
		least = ns < least ? ns : least;
	}
	t->d->price.fstat_ns = (double)least / FSTATS;
}

/* ---- files ---- */

static int own_file_fill(int fd, uint64_t bytes)
{
	static char part[DOCTOR_MOST_READ];

	if (getrandom(part, 256, 0) < 0)
		return -errno;
	for (uint64_t at = 0; at < bytes; at += sizeof(part))
		if (pwrite(fd, part, sizeof(part), (off_t)at) != sizeof(part))
			return errno ? -errno : -ENOSPC;
	return 0;
}

/* Makes the file that is served. */
static int own_file(struct trial *t, const char *folder)
{
	char path[sizeof(t->own)];
	int fd, error;

	snprintf(path, sizeof(path), "%s/lodic-doctor-XXXXXX", folder);
	error = leftover_name(path);
	if (error)
		return error;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = own_file_fill(fd, t->span);
	close(fd);
	t->own_fd = error ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (t->own_fd < 0) {
		unlink(path);
		return error ? error : -errno;
	}
	if (!realpath(path, t->own)) /* a promise is of a whole path */
		strcpy(t->own, path);
	return 0;
}

/* A private service. It has the promises that the settings have, one for the file that is served,
 * and with promised those of the advice. */
static int service_start(struct trial *t, bool promised)
{
	const struct doctor_promise *p = &t->d->promise;
	static char own[PATH_MAX];
	const char *globs[SETTINGS_MAX_GLOBS + 1] = { 0 };
	unsigned int nr = 0;

	if (doctor_promise_glob(t->own, own))
		globs[nr++] = own;
	for (unsigned int i = p->nr_old; promised && i < p->nr; i++)
		globs[nr++] = p->globs[i];
	for (char *const *old = t->d->settings.immutable;
	     *old && nr < SETTINGS_MAX_GLOBS; old++)
		globs[nr++] = *old;
	t->cache = (struct own_cache){ .immutable = globs };
	return own_cache_start(&t->cache, t->d->folder, NULL,
	                       t->span / 4 * 5 + CACHE_MORE, 1, NULL, t->own_fd);
}

/* Asks about the files, and once more with the promises that these answers suggest. */
static int ask_services(struct trial *t)
{
	int error = service_start(t, false);

	if (error)
		return error;
	doctor_ask(t->d, &t->cache, false);
	doctor_ask_service(t->d);
	doctor_promise_choose(t->d);
	if (t->d->promise.nr == 0)
		return 0;
	own_cache_stop(&t->cache);
	error = service_start(t, true);
	if (!error)
		doctor_ask(t->d, &t->cache, true);
	return error;
}

static int make_new(struct trial *t)
{
	char path[sizeof(t->fresh) + 16];
	int fd, error = 0;

	snprintf(t->fresh, sizeof(t->fresh), "%s/new", t->d->folder);
	for (unsigned int i = 0; !error && i < DOCTOR_NEW_FILES; i++) {
		snprintf(path, sizeof(path), "%s-%u", t->fresh, i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		error = fd < 0 ? -errno : own_file_fill(fd, DOCTOR_MOST_READ);
		if (fd >= 0)
			close(fd);
	}
	return error;
}

/* What a file costs until it is served, beside what its reads then save. */
static int measure_new(struct trial *t)
{
	double plain = 0, served = 0;
	int error = reader_ask(&t->readers[DOCTOR_PLAIN], (struct doctor_order){ 0 },
	                       &plain);

	if (!error)
		error = reader_ask(&t->readers[DOCTOR_SERVED],
		                   (struct doctor_order){ 0 }, &served);
	t->d->price.new_ns = served - plain;
	return error;
}

/* CPU time of a program that does nothing, in ns; or -errno. */
static double time_start(char *const *words)
{
	struct rusage used;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		execvp(words[0], words);
		_exit(CLI_FAILED);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0)
		return -1;
	return (double)(doctor_ns_of(&used.ru_utime) + doctor_ns_of(&used.ru_stime));
}

/* What `lodic run` costs before the program begins, and its first look for the service. */
static int measure_start(struct trial *t)
{
	char *words[] = { (char *)cli_program(),
		          "run",
		          "--socket",
		          t->cache.socket,
		          "--",
		          "true",
		          NULL };
	double more[STARTS], without[STARTS], with;
	struct series s = { .at = more, .nr_rounds = STARTS };
	struct series_spread alone;

	for (unsigned int i = 0; i < STARTS; i++) {
		with = time_start(words);
		without[i] = time_start(words + 5);
		if (with < 0 || without[i] < 0)
			return -ECHILD;
		more[i] = with - without[i];
	}
	t->d->price.start_ns = fmax(0, series_spread(&s).median);
	s.at = without;
	alone = series_spread(&s);
	t->d->price.noise = alone.low > 0 ? alone.high / alone.low : 1;
	return 0;
}

/* The most read files come first. */
static int compare_files(const void *a, const void *b)
{
	const struct doctor_file *x = a, *y = b;
	uint64_t x_bytes = doctor_sum(x->counts.bytes),
		 y_bytes = doctor_sum(y->counts.bytes);

	if (x->counts.bytes[RUN_COULD] != y->counts.bytes[RUN_COULD])
		return x->counts.bytes[RUN_COULD] < y->counts.bytes[RUN_COULD] ? 1 : -1;
	return (x_bytes < y_bytes) - (x_bytes > y_bytes);
}

/* The file that the plain reader reads: the program's most read one, if it is large enough. */
static void choose_file(struct trial *t)
{
	const struct doctor *d = t->d;
	const char *path = t->own;

	if (d->nr_files && !d->files[0].gone && d->files[0].size >= t->span &&
	    d->files[0].counts.reads[RUN_COULD] && access(d->files[0].path, R_OK) == 0)
		path = d->files[0].path;
	snprintf(t->d->price.path, sizeof(t->d->price.path), "%s", path);
}

static int prepare_trial(struct trial *t)
{
	int error = own_file(t, leftover_folder());

	if (error && error != -EINTR) /* no room there */
		error = own_file(t, t->d->folder);
	if (!error)
		error = ask_services(t);
	if (error) {
		fail(t, "no private service could be had", error);
		return error;
	}
	error = make_new(t);
	if (!error)
		error = lodic_prefetch(t->cache.seat.context, t->cache.seat.file, 0, 0,
		                       LODIC_WAIT);
	if (error)
		fail(t, "the private service cannot fill its cache", error);
	return error;
}

static int measure_reads(struct trial *t)
{
	int error = 0;

	choose_file(t);
	for (unsigned int w = 0; !error && w < DOCTOR_WAYS; w++)
		error = reader_start(t, (enum doctor_way)w);
	if (!error)
		error = measure_all(t);
	if (!error)
		error = measure_new(t);
	return error;
}

/* As many bytes as the program reads, and no more than memory has room for. Half of the room is
 * for the span in the cache, and the rest for the page cache and the readers. */
static uint64_t choose_span(const struct doctor *d)
{
	uint64_t span = 0, most = SPAN_MOST, room = d->memory.room_bytes / 2;

	for (size_t i = 0; i < d->nr_files; i++)
		span += d->files[i].blocks * SEEN_BLOCK_BYTES;
	if (room < CACHE_MORE + SPAN_MOST / 4 * 5)
		most = room > CACHE_MORE ? (room - CACHE_MORE) / 5 * 4 : 0;
	span = span < most ? span : most;
	return span < SPAN_LEAST ? SPAN_LEAST : span - span % DOCTOR_MOST_READ;
}

void doctor_try(struct doctor *d)
{
	struct trial t = { .d = d, .own_fd = -1 };
	int error;

	if (d->nr_files)
		qsort(d->files, d->nr_files, sizeof(*d->files), compare_files);
	d->price.span_bytes = t.span = choose_span(d);
	error = prepare_trial(&t);
	if (!error) {
		measure_fstat(&t);
		error = measure_start(&t);
	}
	if (!error && (d->pid || d->counts.reads[RUN_COULD]))
		error = measure_reads(&t);
	else if (!error)
		snprintf(d->price.why, sizeof(d->price.why),
		         "no read could be served, so no times were measured");
	if (error)
		fail(&t, "the times of reads could not be measured", error);
	d->price.known = !d->price.why[0];
	for (unsigned int w = 0; w < DOCTOR_WAYS; w++)
		reader_stop(&t.readers[w]);
	own_cache_stop(&t.cache);
	if (t.own_fd >= 0)
		close(t.own_fd);
	if (t.own[0])
		unlink(t.own);
}
