/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where a user's service listens by default; both halves of the library must agree.
 *
 * A folder that is there goes before one that can be made. So a program that starts later
 * finds the same service, also when a better place has come free meanwhile. A folder in which no
 * socket can be made, because its file system is read-only now, counts only while a service
 * listens there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/service/service.h"

#define FOLDER_BYTES 64
#define SOCKET_NAME "cache.sock"

static const struct {
	const char *parent, *name;
} path_places[] = {
	{ "/run/user/%u", "/lodic" },
	{ "/tmp", "/lodic-%u" },
	{ "/dev/shm", "/lodic-%u" },
};
#define NR_PLACES (sizeof(path_places) / sizeof(*path_places))

/* Writes the folder's path. 0: it is the user's, and only that user may enter it. Otherwise
 * another user could put a socket there. -EACCES: it is not so. -ENOENT: there is no such
 * folder. -ENODEV: there is no place for one. */
static int path_look(unsigned int uid, unsigned int place, char folder[FOLDER_BYTES],
                     bool make)
{
	struct stat st;
	int n;

	n = snprintf(folder, FOLDER_BYTES, path_places[place].parent, uid);
	if (stat(folder, &st) != 0)
		return -ENODEV;
	snprintf(folder + n, (size_t)(FOLDER_BYTES - n), path_places[place].name, uid);
	/* In such a parent others could put a folder of theirs in the place of ours. */
	if (st.st_uid != uid && !(st.st_mode & S_ISVTX))
		return -EACCES;
	if (make && mkdir(folder, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (lstat(folder, &st) != 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == uid && !(st.st_mode & 077) ? 0
	                                                                      : -EACCES;
}

/* Can nobody listen there? A read-only folder may have the socket of a service from before. */
static bool path_is_stuck(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct statvfs system;
	bool answers;
	int fd;

	if (statvfs(folder, &system) != 0 || !(system.f_flag & ST_RDONLY))
		return false;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SOCKET_NAME, folder);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	answers = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	          (errno != ENOENT && errno != ECONNREFUSED);
	close(fd);
	return !answers;
}

/* Chooses the folder, or the one to blame. */
static int path_choose(unsigned int uid, char folder[FOLDER_BYTES], bool make)
{
	char blamed[FOLDER_BYTES] = "";
	unsigned int place;
	int err, first = -EACCES;

	for (place = 0; place < NR_PLACES; place++)
		if (path_look(uid, place, folder, false) == 0 && !path_is_stuck(folder))
			return 0;
	for (place = 0; place < NR_PLACES; place++) {
		err = path_look(uid, place, folder, make);
		if (err == 0 && path_is_stuck(folder))
			err = -EROFS;
		/* Without make: nothing listens yet, and it would listen here. */
		if (err == 0 || (!make && err == -ENOENT))
			return 0;
		if (err != -ENODEV && !*blamed) {
			strcpy(blamed, folder);
			first = err;
		}
	}
	if (*blamed)
		strcpy(folder, blamed);
	return first;
}

static int path_find(unsigned int uid, char *path, unsigned long bytes, bool make)
{
	char folder[FOLDER_BYTES];
	int err = path_choose(uid, folder, make);

	if ((unsigned long)snprintf(path, bytes, "%s/" SOCKET_NAME, folder) >= bytes)
		return -ENAMETOOLONG;
	return err;
}

int path_default_socket(char *path, unsigned long bytes, bool make)
{
	return path_find(geteuid(), path, bytes, make);
}

int path_socket_of(unsigned int uid, char *path, unsigned long bytes)
{
	return path_find(uid, path, bytes, false);
}
