/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What runs another program. One with another loader than this process's gets an environment in
 * whose LD_PRELOAD the shim is not (U32 in run.h). One that is linked statically keeps it there,
 * because its children may want it. See hooks.h.
 *
 * system() and popen() do not come by here, nor what posix_spawn() does in the child. The shell
 * that the first two start has the shim's loader.
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/loader.h"
#include "preload/map.h"
#include "preload/own_calls.h"
#include "preload/run_calls.h"
#include "preload/shim.h"

#define PRELOAD "LD_PRELOAD="
#define BETWEEN " :" /* what separates libraries there */
/* More than this stays as it is: the copy lies on a stack that may be small. */
#define ENTRIES_MOST 2048u

typedef int (*exec_fn)(const char *path, char *const argv[]);
typedef int (*exec_env_fn)(const char *path, char *const argv[], char *const envp[]);
typedef int (*fexecve_fn)(int fd, char *const argv[], char *const envp[]);
typedef int (*execveat_fn)(int at, const char *path, char *const argv[],
                           char *const envp[], int flags);
typedef int (*spawn_fn)(pid_t *ret, const char *path,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[]);

__attribute__((constructor)) static void exec_start(void)
{
	const char *all = getenv("LD_PRELOAD");
	Dl_info own;

	if (all && strlen(all) < EXEC_PATH_BYTES && dladdr(shim.exec.own_path, &own) &&
	    strlen(own.dli_fname) < EXEC_PATH_BYTES && strstr(all, own.dli_fname))
		strcpy(shim.exec.own_path, own.dli_fname);
}

/* ---- the environment ---- */

/* Where the shim stands in this value of LD_PRELOAD, as one of its libraries. NULL: it does not. */
static const char *own_place(const char *libraries)
{
	const size_t n = strlen(shim.exec.own_path);
	const char *at = libraries;

	while (n && (at = strstr(at, shim.exec.own_path))) {
		if ((at == libraries || strchr(BETWEEN, at[-1])) &&
		    strchr(BETWEEN, at[n]))
			return at;
		at += n;
	}
	return NULL;
}

struct entries {
	u64 nr;      /* all of them */
	u64 preload; /* which one is LD_PRELOAD */
};

/* Does this environment preload the shim, and is it one to copy? */
static bool env_has_own(char *const envp[], struct entries *ret)
{
	bool found = false;

	ret->preload = 0;
	if (!shim.exec.own_path[0] || !hooks_can_be(envp))
		return false;
	for (ret->nr = 0; envp[ret->nr]; ret->nr++) {
		const char *entry = envp[ret->nr];

		if (ret->nr == ENTRIES_MOST || !hooks_can_be(entry))
			return false;
		if (found || strncmp(entry, PRELOAD, strlen(PRELOAD)) != 0)
			continue;
		found = own_place(entry + strlen(PRELOAD)) &&
		        strlen(entry) < EXEC_PATH_BYTES;
		ret->preload = ret->nr;
	}
	return found;
}

/* The same environment without the shim, in list and value. */
static void env_copy(char *const envp[], const struct entries *of, char **list,
                     char value[EXEC_PATH_BYTES])
{
	const char *entry = envp[of->preload], *place;
	u64 n = 0;

	place = own_place(entry + strlen(PRELOAD));
	memcpy(value, entry, (size_t)(place - entry));
	place += strlen(shim.exec.own_path);
	/* What is in front of it ends with what separates two. */
	strcpy(value + (place - strlen(shim.exec.own_path) - entry),
	       *place ? place + 1 : place);
	for (u64 i = 0; i < of->nr; i++)
		if (i != of->preload)
			list[n++] = envp[i];
		else if (value[strlen(PRELOAD)])
			list[n++] = value;
	list[n] = NULL;
}

/* ---- the program ---- */

static bool foreign_at(const char *path)
{
	return loader_is_foreign((struct loader_file){ AT_FDCWD, path });
}

/* Where execvp() finds the program. It goes on from what it may not run, and so does this. */
static bool foreign_in_path(const char *name)
{
	const char *places = getenv("PATH"), *end;
	char path[PATH_MAX];
	size_t n, name_n;

	if (!hooks_can_be(name) || strchr(name, '/'))
		return foreign_at(name);
	name_n = strlen(name);
	for (bool last = !places || !name_n; !last; places = end + 1) {
		end = strchrnul(places, ':');
		last = *end == '\0';
		n = (size_t)(end - places);
		if (n + 1 + name_n >= sizeof(path))
			continue;
		memcpy(path, places, n);
		path[n] = '/'; /* an empty place means the current folder */
		memcpy(path + n + (n > 0), name, name_n + 1);
		if (access(path, X_OK) == 0)
			return foreign_at(path);
	}
	return false;
}

/* ---- the calls ---- */

struct call {
	enum next which;
	int at, flags;
	const char *path;
	char *const *argv, *const *envp;
	pid_t *ret_child;
	const posix_spawn_file_actions_t *actions;
	const posix_spawnattr_t *attributes;
};

/* May the shim make system calls now? A filter may forbid them. In `lodic map` it does not ask: a
 * program's loader would make the same ones next. */
static bool look_begin(void)
{
	return shim.run.state ? calls_begin(shim.run.state) : shim.map.state != NULL;
}

static void look_end(void)
{
	if (shim.run.state)
		calls_end(shim.run.state);
}

static bool call_is_foreign(const struct call *c)
{
	bool searches = c->which == NEXT_EXECVP || c->which == NEXT_EXECVPE ||
	                c->which == NEXT_POSIX_SPAWNP;
	bool by_file = c->which == NEXT_FEXECVE ||
	               (c->flags & AT_EMPTY_PATH && hooks_can_be(c->path) && !*c->path);
	struct loader_file file = { c->at, by_file ? NULL : c->path };
	bool foreign = false;
	int error = errno;

	if (!look_begin())
		return false;
	/* The look's close would drop the locks that this process has on the file. */
	if (!fds_may_lock())
		foreign = searches ? foreign_in_path(c->path) : loader_is_foreign(file);
	look_end();
	errno = error;
	return foreign;
}

/* changed: envp is not what the program has given. */
static int call_next(const struct call *c, char *const *envp, bool changed)
{
	u64 next = next_of(c->which);

	switch (c->which) {
	case NEXT_EXECV:
	case NEXT_EXECVP:
		if (!changed)
			return ((exec_fn)next)(c->path, c->argv);
		next = next_of(c->which == NEXT_EXECV ? NEXT_EXECVE : NEXT_EXECVPE);
		return ((exec_env_fn)next)(c->path, c->argv, envp);
	case NEXT_FEXECVE: return ((fexecve_fn)next)(c->at, c->argv, envp);
	case NEXT_EXECVEAT:
		return (int)own_call(SYS_execveat, c->at, c->path, c->argv, envp,
		                     c->flags);
	case NEXT_POSIX_SPAWN:
	case NEXT_POSIX_SPAWNP:
		return ((spawn_fn)next)(c->ret_child, c->path, c->actions,
		                        c->attributes, c->argv, envp);
	default: return ((exec_env_fn)next)(c->path, c->argv, envp);
	}
}

static int call(const struct call *c)
{
	char value[EXEC_PATH_BYTES], **list;
	struct entries of;

	if (!env_has_own(c->envp, &of) || !call_is_foreign(c))
		return call_next(c, c->envp, false);
	list = __builtin_alloca((of.nr + 1) * sizeof(*list));
	env_copy(c->envp, &of, list, value);
	return call_next(c, list, true);
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return call(&(struct call){ NEXT_EXECVE, AT_FDCWD, 0, path, argv, envp, NULL,
	                            NULL, NULL });
}

EXPORT int execv(const char *path, char *const argv[])
{
	return call(&(struct call){ NEXT_EXECV, AT_FDCWD, 0, path, argv, environ, NULL,
	                            NULL, NULL });
}

EXPORT int execvp(const char *name, char *const argv[])
{
	return call(&(struct call){ NEXT_EXECVP, AT_FDCWD, 0, name, argv, environ, NULL,
	                            NULL, NULL });
}

EXPORT int execvpe(const char *name, char *const argv[], char *const envp[])
{
	return call(&(struct call){ NEXT_EXECVPE, AT_FDCWD, 0, name, argv, envp, NULL,
	                            NULL, NULL });
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	return call(&(struct call){ NEXT_FEXECVE, fd, 0, NULL, argv, envp, NULL, NULL,
	                            NULL });
}

EXPORT int execveat(int at, const char *path, char *const argv[], char *const envp[],
                    int flags)
{
	return call(&(struct call){ NEXT_EXECVEAT, at, flags, path, argv, envp, NULL,
	                            NULL, NULL });
}

EXPORT int posix_spawn(pid_t *ret_child, const char *path,
                       const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[],
                       char *const envp[])
{
	return call(&(struct call){ NEXT_POSIX_SPAWN, AT_FDCWD, 0, path, argv, envp,
	                            ret_child, actions, attributes });
}

EXPORT int posix_spawnp(pid_t *ret_child, const char *name,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[])
{
	return call(&(struct call){ NEXT_POSIX_SPAWNP, AT_FDCWD, 0, name, argv, envp,
	                            ret_child, actions, attributes });
}

/* ---- words in place of a list: they become one, as in libc ---- */

/* How many words there are up to the end, which counts. */
static size_t count_words(va_list words)
{
	size_t n = 2; /* the first one, and the end */

	while (va_arg(words, char *))
		n++;
	return n;
}

/* Leaves the words behind the end to its caller. On some machines a va_list itself would be a
 * copy. */
static void list_words(char **list, size_t nr, const char *first, va_list *words)
{
	list[0] = (char *)first;
	for (size_t i = 1; i < nr; i++)
		list[i] = va_arg(*words, char *);
}

/* Makes the list argv on the stack of the function that it stands in, from its arguments first
 * and on. */
#define WORDS_TO(argv, first) \
	va_list words; \
	char **argv; \
	size_t nr; \
	va_start(words, first); \
	nr = count_words(words); \
	va_end(words); \
	argv = __builtin_alloca(nr * sizeof(*argv)); \
	va_start(words, first); \
	list_words(argv, nr, first, &words)

EXPORT int execl(const char *path, const char *first, ...)
{
	WORDS_TO(argv, first);
	va_end(words);
	return execv(path, argv);
}

EXPORT int execlp(const char *name, const char *first, ...)
{
	WORDS_TO(argv, first);
	va_end(words);
	return execvp(name, argv);
}

/* The environment stands behind the end. */
EXPORT int execle(const char *path, const char *first, ...)
{
	char *const *envp;
	WORDS_TO(argv, first);
	envp = va_arg(words, char *const *);
	va_end(words);
	return execve(path, argv, envp);
}
