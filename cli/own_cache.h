/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A cache of the program's own, for a measurement. Its service has a socket in a private folder,
 * and ends when the program ends.
 */
#ifndef LODIC_CLI_OWN_CACHE_H
#define LODIC_CLI_OWN_CACHE_H

#include <stdint.h>

#include "lodic/lodic.h"

#define OWN_CACHE_SOCKET_BYTES 108 /* sockaddr_un has no more */
#define OWN_CACHE_FOLDER_BYTES 64
#define OWN_CACHE_GLOBS 64

struct own_cache_kind {
	const char *name; /* of its socket */
	enum lodic_scheme scheme;
	const char *barrier; /* as `lodic serve` takes it */
};

/* The place of a process in a cache. */
struct own_cache_seat {
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *file;
};

struct own_cache {
	char socket[OWN_CACHE_SOCKET_BYTES];
	struct own_cache_seat seat; /* this process's; it keeps the file in the cache */
	/* Beside the cache's bytes, for holds; set it before the start. */
	uint64_t hold_bytes;
	/* Globs; set them before the start. NULL: what files of settings say. */
	const char *const *immutable;
	uint64_t service_pid;
};

/* Makes a private folder for sockets, which goes with this program. -errno. */
int own_cache_folder_make(char *path, unsigned int bytes);

/* Starts a cache with room for cache_bytes, and takes a seat in it for the file of fd. The cache is
 * larger if nr_contexts could not all pin otherwise. kind NULL: as users have it. -errno as
 * lodic_attach(), lodic_open() and lodic_file_cached(). */
int own_cache_start(struct own_cache *cache, const char *folder,
                    const struct own_cache_kind *kind, uint64_t cache_bytes,
                    unsigned int nr_contexts, const char *huge_pages, int fd);
/* Ends its service and waits until it is gone. */
void own_cache_stop(struct own_cache *cache);

/* Attaches to the cache at socket and opens the file fd in it. -errno as lodic_attach(),
 * lodic_context_open() and lodic_open(). */
int own_cache_take_seat(struct own_cache_seat *seat, const char *socket, int fd);
void own_cache_leave_seat(struct own_cache_seat *seat);

/* From now on the program at path serves caches: it is `lodic`, and this program is not. path
 * must stay. */
void own_cache_serve_by(const char *path);
/* The path of that program, or of this one. */
const char *own_cache_served_by(void);

#endif
