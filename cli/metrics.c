/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/metrics.h. */
#define _GNU_SOURCE
#include "cli/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/look.h"
#include "measure/cli.h"

#define PERIOD_S 5
#define FILE_MODE 0644
#define NS_PER_S 1e9

/* The buckets of a histogram count what is in those below them, too. */
static void metrics_expose(FILE *to, const char *name, const char *help,
                           const struct service_times *times)
{
	struct service_times now;
	uint64_t nr = 0;

	service_times_copy(times, &now);
	fprintf(to, "# HELP lodic_%s_seconds %s\n# TYPE lodic_%s_seconds histogram\n",
	        name, help, name);
	for (unsigned int i = 0; i < SERVICE_TIME_BUCKETS; i++) {
		nr += now.nr[i];
		if (i < SERVICE_TIME_BUCKETS - 1)
			fprintf(to, "lodic_%s_seconds_bucket{le=\"%.6f\"} %llu\n", name,
			        (double)(1u << i) / 1e6, (unsigned long long)nr);
	}
	fprintf(to, "lodic_%s_seconds_bucket{le=\"+Inf\"} %llu\n", name,
	        (unsigned long long)nr);
	fprintf(to, "lodic_%s_seconds_sum %.9f\nlodic_%s_seconds_count %llu\n", name,
	        (double)now.sum_ns / NS_PER_S, name, (unsigned long long)nr);
}

static int metrics_ask(const struct metrics *m, struct lodic_stat *ret_stat)
{
	struct look *look;
	int pid, err;

	err = look_open(m->socket, &look, &pid);
	if (err)
		return err;
	err = look_stat(look, ret_stat);
	look_close(look);
	/* A successor writes its own. */
	return !err && ret_stat->service_pid != (uint64_t)getpid() ? -ECONNRESET : err;
}

/* Makes a file that was not there before, whatever another user has put at its path. Readers of
 * metrics are other users, so umask does not count. */
static int metrics_create(const char *path, FILE **ret_to)
{
	int fd, err;

	if (unlink(path) != 0 && errno != ENOENT)
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	          FILE_MODE);
	if (fd < 0)
		return -errno;
	*ret_to = fchmod(fd, FILE_MODE) == 0 ? fdopen(fd, "w") : NULL;
	if (*ret_to)
		return 0;
	err = -errno;
	close(fd);
	unlink(path);
	return err;
}

static int metrics_print(const struct metrics *m, FILE *to,
                         const struct lodic_stat *stat)
{
	int err;

	errno = 0;
	stat_expose(to, stat);
	metrics_expose(to, "fill", "reads of files into the cache", &m->fills);
	metrics_expose(to, "miss",
	               "from the hint of a reader to its blocks in the cache",
	               &m->misses);
	err = ferror(to) ? -(errno ? errno : EIO) : 0;
	if (fclose(to) != 0 && !err)
		err = -errno;
	return err;
}

/* A name of this process's own: a predecessor may still write. */
static int metrics_write(const struct metrics *m)
{
	struct lodic_stat stat = { 0 };
	char path[PATH_MAX];
	int err = metrics_ask(m, &stat);
	FILE *to;

	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s.%d.new", m->path, (int)getpid()) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	err = metrics_create(path, &to);
	if (err)
		return err;
	err = metrics_print(m, to, &stat);
	if (!err && rename(path, m->path) != 0)
		err = -errno;
	if (err)
		unlink(path);
	return err;
}

static void *metrics_run(void *arg)
{
	const struct timespec period = { .tv_sec = PERIOD_S };
	struct metrics *m = arg;
	int err, said = 0;

	for (;;) {
		err = metrics_write(m);
		if (err && err != said && err != -ECONNRESET)
			cli_note("cannot write the metrics to %s: %s", m->path,
			         strerror(-err));
		said = err;
		nanosleep(&period, NULL);
	}
	return NULL;
}

int metrics_start(struct metrics *m)
{
	pthread_t thread;
	sigset_t all, old;
	int err;

	if (!m->path)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, metrics_run, m);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		pthread_detach(thread);
	else
		snprintf(m->why, sizeof(m->why), "no thread for the metrics: %s",
		         strerror(err));
	return -err;
}
