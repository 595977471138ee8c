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

#include "cli/log.h"
#include "cli/stat_times.h"
#include "lib/look.h"

#define PERIOD_S 5
#define FILE_MODE 0644

static int metrics_ask(const struct metrics *m, struct lodic_stat *ret_stat,
                       struct look_times ret_times[LOOK_NR_TIMES])
{
	struct look *look;
	int pid, err;

	err = look_open(m->socket, &look, &pid);
	if (err)
		return err;
	err = look_stat(look, ret_stat);
	if (!err)
		err = stat_times_ask(look, ret_times);
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

static int metrics_print(FILE *to, const struct lodic_stat *stat,
                         const struct look_times times[LOOK_NR_TIMES])
{
	int err;

	errno = 0;
	stat_expose(to, stat);
	stat_times_expose(to, times);
	err = ferror(to) ? -(errno ? errno : EIO) : 0;
	if (fclose(to) != 0 && !err)
		err = -errno;
	return err;
}

/* A name of this process's own: a predecessor may still write. */
static int metrics_write(const struct metrics *m)
{
	struct look_times times[LOOK_NR_TIMES] = { 0 };
	struct lodic_stat stat = { 0 };
	char path[PATH_MAX];
	int err = metrics_ask(m, &stat, times);
	FILE *to;

	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s.%d.new", m->path, (int)getpid()) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	err = metrics_create(path, &to);
	if (err)
		return err;
	err = metrics_print(to, &stat, times);
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
			log_say(SERVICE_WARNING, "metrics",
			        "cannot write the metrics to %s: %s", m->path,
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
