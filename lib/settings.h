/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a service runs with. One parser reads the options of `lodic serve`, the environment,
 * the configuration files, and the file that the last service left beside its socket. The
 * library asks here where the service listens. doc/settings.md is the page for users.
 */
#ifndef LODIC_LIB_SETTINGS_H
#define LODIC_LIB_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define SETTINGS_SOCKET_BYTES 108 /* a socket's address holds no more */
#define SETTINGS_MAX_GLOBS 64
#define SETTINGS_PATH_BYTES 256
#define SETTINGS_NAME_BYTES 32
#define SETTINGS_PRESSURE_FILE "/proc/pressure/memory"
#define SETTINGS_WHY_BYTES 512
#define SETTINGS_SYSTEM_FILE "/etc/lodic.conf"

/* By the rows of settings_list.h. */
enum setting {
#define SETTING(id, ...) SETTING_##id,
#include "lib/settings_list.h"
#undef SETTING
	NR_SETTINGS
};

/* Where a value comes from: an earlier source wins. For the globs of one setting this holds for all
 * of a source's globs together. */
enum settings_source {
	SETTINGS_NOBODY,
	SETTINGS_OPTION,
	SETTINGS_ENVIRONMENT,
	SETTINGS_USER,   /* ~/.config/lodic.conf */
	SETTINGS_SYSTEM, /* /etc/lodic.conf */
	SETTINGS_LEFT    /* what the last service left */
};

/* Zeroed at first. Values that nobody says are 0. */
struct settings {
	uint8_t from[NR_SETTINGS]; /* enum settings_source */
				   /* A member for each row of settings_list.h. */
#define KIND_SOCKET(field) char field[SETTINGS_SOCKET_BYTES];
#define KIND_SIZE(field, least, most) uint64_t field; /* bytes */
#define KIND_WORD(field, words) uint32_t field;       /* its place among the words */
#define KIND_YES(field) bool field;
#define KIND_SECONDS(field, least) uint64_t field; /* ms */
#define KIND_NUMBER(field, least, most) uint32_t field;
#define KIND_GLOBS(field) char *field[SETTINGS_MAX_GLOBS + 1]; /* NULL-ended */
#define KIND_POLICY(field) char field[SETTINGS_NAME_BYTES];
#define KIND_PRESSURE(field) char field[SETTINGS_PATH_BYTES]; /* "off", or a path */
#define KIND_USER(field) uint32_t field;
#define SETTING(id, name, kind, ...) kind
#include "lib/settings_list.h"
#undef SETTING
#undef KIND_SOCKET
#undef KIND_SIZE
#undef KIND_WORD
#undef KIND_YES
#undef KIND_SECONDS
#undef KIND_NUMBER
#undef KIND_GLOBS
#undef KIND_POLICY
#undef KIND_PRESSURE
#undef KIND_USER
	char why[SETTINGS_WHY_BYTES]; /* what is wrong, when a function fails */
	/* "": no file says a value twice. Else a warning: the last file that does, and its line. */
	char doubled[SETTINGS_WHY_BYTES];
};

/* Gives the globs' memory back. */
void settings_free(struct settings *s);

/* Copies all of from to the zeroed s. -ENOMEM. */
int settings_copy(struct settings *s, const struct settings *from);
/* Do both say the same about it? To say the default is the same as to
 * say nothing, where the default is a value. */
bool settings_equal(const struct settings *a, const struct settings *b,
                    enum setting setting);

/* "memory": its name in files, and as a long option. */
const char *settings_name(enum setting setting);
/* Does a service that runs take another value on SIGHUP? */
bool settings_is_live(enum setting setting);
/* Does SOCKET.conf have it for the next service? */
bool settings_is_left(enum setting setting);
/* "lodic", "atomic", "frozen", "hazard"; NULL: there is none. */
const char *settings_scheme_name(uint32_t scheme);
/* "auto", "light", "lock"; NULL: there is none. */
const char *settings_barrier_name(uint32_t barrier);

/* "error", "warning", "info", "debug"; NULL: there is none. */
const char *settings_level_name(uint32_t level);

/* Does this program run with more rights than its user has (AT_SECURE)? Then that user may
 * not choose what it trusts, and nothing but its own options counts. */
bool settings_privileged(void);

/* Takes a value as text, unless an earlier source has said one.
 * -EINVAL: it is not valid, and s->why says why. -ENAMETOOLONG: so is a socket's path. */
int settings_set(struct settings *s, enum setting setting, const char *value,
                 enum settings_source source);

/* Takes the lines of a file, if there is one.
 * -EINVAL: a line is not valid, and s->why names file and line. Or the file cannot be read,
 * is not a regular file of the user or of root, or others may write it. */
int settings_read_file(struct settings *s, const char *path,
                       enum settings_source source);

/* Takes the environment and both configuration files; nothing if privileged. The errors
 * are those of settings_set() and settings_read_file(). */
int settings_gather(struct settings *s, bool privileged);

/* The user whose service a program believes, beside its own: as the configuration files say, also
 * for a program that names its socket. SETTINGS_NO_USER: there is none, or they are not valid. */
#define SETTINGS_NO_USER UINT32_MAX
uint32_t settings_trusted(void);

/* Completes what options have set: settings_gather(), and the user's default socket if
 * nobody names one. With make, it makes that socket's folder. s->socket is set, also when
 * the folder cannot be used.
 * -EACCES: the default's folder is another user's, or others may enter it.
 * The other errors are those of settings_gather() and path_default_socket(). */
int settings_find_socket(struct settings *s, bool make);

/* For the files of settings alone: sets s->why. -EINVAL. */
__attribute__((format(printf, 2, 3))) int settings_refuse(struct settings *s,
                                                          const char *format, ...);

/* What blocks and holds may have together: as somebody says, or cgroup_default_budget(); with fast
 * memory SERVICE_DEFAULT_CACHE_BYTES, because such a cache is made as a whole. */
uint64_t settings_memory(const struct settings *s);
/* How much of the memory is for blocks, and how much for holds, where neither takes from the other.
 * Holds have a quarter if nobody says, and none of less than 8 MiB.
 * -EINVAL: with fast memory, holds leave too little for blocks, and s->why says so. */
int settings_split(struct settings *s, uint64_t *ret_cache_bytes,
                   uint64_t *ret_hold_bytes);

/* How much of the memory for blocks is fast. What does not fit is refused if one source has said
 * both, or the default is too small. -EINVAL: s->why names keys and sources. 0: s->why may be a
 * warning, that less is fast than somebody has said; else it is empty. */
int settings_check_fast(struct settings *s, uint64_t cache_bytes,
                        uint64_t *ret_fast_bytes);
/* Which policy places blocks; NULL: none. Without a fast tier that is -EINVAL, or 0 and a warning
 * where only SOCKET.conf says so. */
int settings_check_placer(struct settings *s, uint64_t fast_bytes,
                          const char **ret_policy);
/* All three. -EINVAL: no service can start with these settings, and s->why says why. */
int settings_check(struct settings *s);

/* The names of policies that a service knows, and "none". */
#define SETTINGS_NR_POLICIES 12u
extern const char *const settings_policies[SETTINGS_NR_POLICIES];

/* Writes what a successor at s->socket cannot know otherwise into SOCKET.conf: values from
 * options, from the environment, and from an earlier such file. If there are none, it
 * removes the file. -errno: s->why names the file. */
int settings_leave(struct settings *s);
/* Takes what the last service at s->socket left. The errors are those of
 * settings_read_file(). */
int settings_take_left(struct settings *s);

#endif
