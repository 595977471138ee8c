/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A child removes what the program leaves. The child is in a session of its own, so that no
 * Ctrl-C reaches it. It waits until the program's end of a socket closes, which the kernel
 * does for a killed program, too. Readers have that end as well, so the child begins when
 * they have ended. Contract: cli/leftover.h.
 */
#define _GNU_SOURCE
#include "cli/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PATHS 16
#define NAME_LETTERS 6 /* as mkstemp(3) */
/* A service that was starting may still put files into its folder, and ends then. */
#define TRIES 400
#define PAUSE_NS 5000000

static struct {
	int channel; /* to the child */
	pid_t child; /* 0: there is none */
} sweeper;

static void leftover_end_service(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(struct ucred);
	struct ucred peer = { 0 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (strlen(path) < sizeof(name.sun_path)) {
		strcpy(name.sun_path, path);
		if (connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
		    peer.pid > 0)
			kill(peer.pid, SIGTERM);
	}
	close(fd);
}

/* within: also the files of folders in it. Another user may write these, so no socket there is a
 * service's, and no path leads deeper. */
static void leftover_empty(const char *folder, int within)
{
	char path[PATH_MAX];
	const struct dirent *e;
	DIR *d = opendir(folder);

	while (d && (e = readdir(d))) {
		if (snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >=
		    (int)sizeof(path))
			continue;
		if (within && e->d_type == DT_SOCK)
			leftover_end_service(path);
		if (unlink(path) == 0 || errno != EISDIR || !within ||
		    e->d_name[0] == '.') /* . and .., too */
			continue;
		leftover_empty(path, 0);
		rmdir(path);
	}
	if (d)
		closedir(d);
}

static void leftover_remove(const char *path)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (unlink(path) == 0 || errno != EISDIR)
		return;
	for (int i = 0; i < TRIES && rmdir(path) != 0 && errno != ENOENT; i++) {
		leftover_empty(path, 1);
		nanosleep(&pause, NULL);
	}
}

static _Noreturn void leftover_run(int channel)
{
	static char paths[MAX_PATHS][PATH_MAX];
	unsigned int nr = 0;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	send(channel, "", 1, MSG_NOSIGNAL);
	/* A program that reads our output must not wait for the child. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	while (nr < MAX_PATHS && recv(channel, paths[nr], PATH_MAX, 0) > 0)
		nr++;
	while (nr > 0)
		leftover_remove(paths[--nr]);
	_exit(0);
}

static int leftover_start(void)
{
	ssize_t got = -1;
	int ends[2];
	pid_t pid;
	char ready;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		leftover_run(ends[1]);
	}
	close(ends[1]);
	/* A Ctrl-C before its setsid() reaches the child, too. So nothing is named until then. */
	while (pid > 0 && (got = recv(ends[0], &ready, 1, 0)) < 0 && errno == EINTR)
		;
	if (got != 1) {
		close(ends[0]);
		return -EAGAIN;
	}
	sweeper.channel = ends[0];
	sweeper.child = pid;
	return 0;
}

const char *leftover_folder(void)
{
	const char *temporary = getenv("TMPDIR");
	struct stat st;

	if (stat("build", &st) == 0 && S_ISDIR(st.st_mode) &&
	    access("build", W_OK) == 0)
		return "build";
	return temporary && temporary[0] ? temporary : "/tmp";
}

int leftover_name(char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t bytes = strlen(path) + 1;
	unsigned char random[NAME_LETTERS];
	int error = sweeper.child ? 0 : leftover_start();

	if (!error && getrandom(random, sizeof(random), 0) != sizeof(random))
		error = -EIO;
	for (size_t i = 0; !error && i < sizeof(random); i++)
		path[bytes - 2 - i] = letters[random[i] % (sizeof(letters) - 1)];

	if (!error && bytes > PATH_MAX)
		error = -ENAMETOOLONG;
	if (!error && send(sweeper.channel, path, bytes, MSG_NOSIGNAL) < 0)
		error = -errno;
	return error;
}

void leftover_sweep(void)
{
	if (!sweeper.child)
		return;
	close(sweeper.channel);
	while (waitpid(sweeper.child, NULL, 0) < 0 && errno == EINTR)
		;
	sweeper.child = 0;
}
