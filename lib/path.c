/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where a user's service listens by default; both halves of the library must agree.
 *
 * A folder that is there goes before one that can be made. So a program that starts later
 * finds the same service, also when a better place has come free meanwhile. A folder in which no
 * socket can be made, because its file system is read-only now, counts only while a service
 * listens there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/service.h"

#define FOLDER_BYTES 64
#define SOCKET_NAME "cache.sock"
#define STICKY 01000u /* in a folder: others cannot replace what is in it */
#define FOR_OTHERS 077u

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
	struct port_file file;
	int err, n;

	n = snprintf(folder, FOLDER_BYTES, path_places[place].parent, uid);
	if (port_look_at(folder, true, &file) != 0)
		return -ENODEV;
	snprintf(folder + n, (size_t)(FOLDER_BYTES - n), path_places[place].name, uid);
	/* In such a parent others could put a folder of theirs in the place of ours. */
	if (file.uid != uid && !(file.rights & STICKY))
		return -EACCES;
	err = make ? port_make_folder(folder) : 0;
	if (err && err != -EEXIST)
		return err;
	err = port_look_at(folder, false, &file);
	if (err)
		return err;
	return file.kind == PORT_FILE_FOLDER && file.uid == uid &&
	                       !(file.rights & FOR_OTHERS)
	               ? 0
	               : -EACCES;
}

/* Can nobody listen there? A read-only folder may have the socket of a service from before. */
static bool path_is_stuck(const char *folder)
{
	char path[FOLDER_BYTES + sizeof("/" SOCKET_NAME)];
	int fd, err;

	if (!port_is_read_only(folder))
		return false;
	snprintf(path, sizeof(path), "%s/" SOCKET_NAME, folder);
	fd = port_socket();
	if (fd < 0)
		return false;
	err = port_connect(fd, path);
	port_close(fd);
	return err == -ENOENT || err == -ECONNREFUSED;
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
	return path_find(port_user(), path, bytes, make);
}

int path_socket_of(unsigned int uid, char *path, unsigned long bytes)
{
	return path_find(uid, path, bytes, false);
}
