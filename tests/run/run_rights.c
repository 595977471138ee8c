/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A process gives up rights, or takes others, while its threads read: more ways of run_reader.c.
 * The rules are those of preload/run.h, from U23 to U27. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/host.h"
#include "tests/run/run_reader.h"

#define NOBODY 65534
#define READERS 3
#define MOST_EVENTS 8
#define MOST_CHILDREN 4
#define READS_BEFORE 60
#define READS_AFTER 40
#define SWITCHES 20
#define SECONDS 60
#define IDLE_THREADS 9
#define MOST_MAPPINGS 70000u /* the default is 65530 */

static u64 nr_reads; /* atomic; of all threads */
static u8 over;      /* atomic */
static uint8_t right[FILE_BYTES];

/* Reads all of file 1: each byte must be right. */
static void read_all(int fd)
{
	uint8_t bytes[FILE_BYTES];
	ssize_t got = pread(fd, bytes, sizeof(bytes), 0);

	NEED(got == FILE_BYTES, "%zd: %s", got, strerror(errno));
	if (memcmp(bytes, right, sizeof(bytes)) != 0)
		for (size_t i = 0; i < sizeof(bytes); i++)
			NEED(bytes[i] == right[i], "byte %zu: %#x", i, bytes[i]);
	host_fetch_add(&nr_reads, 1);
}

static void *rights_body(void *arg)
{
	while (!host_load_byte(&over))
		read_all(*(int *)arg);
	return NULL;
}

static void wait_for_reads(u64 more)
{
	u64 from = host_load_relaxed(&nr_reads);
	time_t end = time(NULL) + SECONDS;

	while (host_load_relaxed(&nr_reads) - from < more) {
		NEED(time(NULL) <= end, "no reads");
		usleep(50);
	}
}

/* File 1, with all its bytes known. */
static int rights_open(void)
{
	for (size_t i = 0; i < sizeof(right); i++)
		right[i] = file_byte(1, i);
	NEED(chmod(file_make(1), 0644) == 0, "%s", strerror(errno)); /* who may open it */
	return warm_open(1);
}

/* Otherwise a process that was root's may not see its own counts. */
static void count_on(void)
{
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Until the threads' reads come from the cache, but for a few. */
static void wait_for_cache(void)
{
	time_t end = time(NULL) + SECONDS;
	long before;

	count_on();
	do {
		before = count_reads();
		wait_for_reads(READS_BEFORE);
		NEED(time(NULL) <= end, "the cache does not serve the threads");
	} while (cached && count_reads() - before > READS_BEFORE / 4);
}

/* A try to connect that fails has a socket for a moment. */
static bool is_connected(int fd)
{
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(peer);

	return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0;
}

/* Which events are open here? Their numbers are the kernel's, and are never used again.
 * no_socket: it demands that no socket is connected, too. */
static unsigned int events(long ids[MOST_EVENTS], bool no_socket)
{
	unsigned int nr = 0;
	char path[300], text[512];
	struct dirent *e;
	const char *id;
	DIR *fds = opendir("/proc/self/fd");
	ssize_t n;
	int fd;

	NEED(fds, "/proc/self/fd: %s", strerror(errno));
	while ((e = readdir(fds)) && nr < MOST_EVENTS) {
		n = readlinkat(dirfd(fds), e->d_name, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		NEED(!no_socket || strncmp(text, "socket:", 7) != 0 ||
		             !is_connected(atoi(e->d_name)),
		     "descriptor %s is a socket", e->d_name);
		if (!strstr(text, "eventfd"))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		id = strstr(text, "eventfd-id: ");
		if (id)
			ids[nr++] = atol(id + strlen("eventfd-id: "));
	}
	closedir(fds);
	return nr;
}

/* How many mappings of a service's memory are here? */
static unsigned int arenas(void)
{
	char line[4096];
	unsigned int nr = 0;
	FILE *f = fopen("/proc/self/maps", "re");

	NEED(f, "/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f))
		nr += strstr(line, "memfd:lodic") != NULL;
	fclose(f);
	return nr;
}

/* Nothing of the service's is left here, if its events were these. */
static void need_left(const long *ids, unsigned int nr)
{
	long now[MOST_EVENTS];
	unsigned int nr_now = events(now, true);

	NEED(arenas() == 0, "%u mappings of a service", arenas());
	for (unsigned int i = 0; i < nr * nr_now; i++)
		NEED(ids[i % nr] != now[i / nr], "the service's event is open");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	int capset(void *header, const void *data);

	NEED(capset(&head, data) == 0, "%s", strerror(errno));
}

/* A domain that forbids to make devices; it is one all the same. */
static bool enter_landlock(void)
{
	const struct landlock_ruleset_attr rules = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK
	};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	if (fd < 0)
		return false;
	NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	NEED(syscall(SYS_landlock_restrict_self, fd, 0) == 0, "%s", strerror(errno));
	close(fd);
	return true;
}

static void switch_to_and_fro(void)
{
	for (int i = 0; i < SWITCHES; i++) {
		NEED(seteuid(NOBODY) == 0, "%s", strerror(errno));
		NEED(seteuid(0) == 0, "%s", strerror(errno));
	}
	NEED(setuid(NOBODY) == 0, "%s", strerror(errno));
}

static void change_user(void)
{
	NEED(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0,
	     "%s", strerror(errno));
}

/* The ways to lose rights. For all but the first root is needed. */
static bool lose_rights(unsigned int way)
{
	switch (way) {
	case 0: return enter_landlock();
	case 1: return setuid(NOBODY) == 0;
	case 2: change_user(); return true;
	case 3: return setresuid(NOBODY, NOBODY, NOBODY) == 0;
	case 4: switch_to_and_fro(); return true;
	case 5: return syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0;
	case 6: drop_capabilities(); return true;
	case 7: return chroot("/") == 0;
	case 8: return unshare(CLONE_NEWNS) == 0;
	case 9: setfsuid(NOBODY); return (uid_t)setfsuid((uid_t)-1) == NOBODY;
	default: return false;
	}
}
#define NR_WAYS 10u
#define FIRST_OF_USERS 1u
#define LAST_OF_USERS 4u

/* A child of a storm: others read, and this thread loses rights. leaves: to nobody's service, where
 * the socket is not the user's own. */
static void storm_child(int fd, unsigned int way, unsigned int pause_us, bool leaves)
{
	pthread_t readers[READERS];
	long ids[MOST_EVENTS];
	unsigned int nr;

	for (int i = 0; i < READERS; i++)
		NEED(pthread_create(&readers[i], NULL, rights_body, &fd) == 0,
		     "thread %d", i);
	wait_for_cache();
	nr = events(ids, false);
	NEED(!cached || nr > 0, "no event of a service");
	usleep(pause_us);
	NEED(lose_rights(way), "way %u: %s", way, strerror(errno));
	if (leaves)
		need_left(ids, nr);
	wait_for_reads(READS_AFTER);
	if (leaves)
		need_left(ids, nr);
	else if (way >= FIRST_OF_USERS && way <= LAST_OF_USERS)
		wait_for_cache(); /* of the new user */
	host_store_byte(&over, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	_exit(0);
}

static unsigned int number_of(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)atoi(text) : otherwise;
}

static void storm(bool leaves)
{
	unsigned int rounds = number_of("ROUNDS", 20), seed = number_of("SEED", 1);
	unsigned int running = 0, nr_ways = geteuid() == 0 ? NR_WAYS : 1;
	int fd = rights_open(), status;

	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int pause_us = (i * 7919 + seed * 104729) % 400;
		pid_t child = fork();

		if (child == 0)
			storm_child(fd, (i + seed) % nr_ways, pause_us, leaves);
		NEED(child > 0, "%s", strerror(errno));
		running++;
		while (running >= (i + 1 < rounds ? MOST_CHILDREN : 1u)) {
			NEED(wait(&status) > 0, "%s", strerror(errno));
			NEED(status == 0, "seed %u, about round %u: status %#x", seed,
			     i, status);
			running--;
		}
	}
}

/* The socket has a name: after the change there is no service that lets this process in. */
static void way_rights_storm(void)
{
	storm(true);
}

/* Each user has a service. */
static void way_rights_storm_users(void)
{
	storm(false);
}

/* Landlock alone, which needs no root: again and again, in the middle of reads. */
static void way_rights_landlock(void)
{
	int fd = rights_open(), probe;
	pid_t child;

	child = fork();
	if (child == 0)
		_exit(enter_landlock() ? 0 : 77);
	NEED(waitpid(child, &probe, 0) == child, "%s", strerror(errno));
	for (unsigned int i = 0; probe == 0 && i < 6; i++) {
		child = fork();
		if (child == 0)
			storm_child(fd, 0, i * 37, true);
		wait_for(child);
	}
}

/* As programs do that make room for a longer title: the environment goes elsewhere, and its old
 * place has the title. Returns where the socket's name was; NULL: there is none. */
static char *move_environment(void)
{
	char *socket = getenv("LODIC_RUN_SOCKET"), **moved;
	size_t nr = 0;

	while (environ[nr])
		nr++;
	moved = calloc(nr + 1, sizeof(*moved));
	NEED(moved, "%s", strerror(errno));
	for (size_t i = 0; i < nr; i++)
		moved[i] = strdup(environ[i]);
	environ = moved;
	if (socket)
		memset(socket, 't', strlen(socket));
	return socket;
}

/* Once gone, the shim stays away: in the process, in its children, and in the program that the
 * process becomes, where that cannot know. */
static void way_rights_for_good(void)
{
	static const unsigned int ways[] = { 0, 0, 6, 7, 8, 9 };
	unsigned int nr = geteuid() == 0 ? LENGTH(ways) : 2;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int fd = warm_open(1);

	NEED(n > 0, "%s", strerror(errno));
	self[n] = '\0';
	for (unsigned int i = 0; i < nr; i++) {
		pid_t child = fork();

		if (child == 0) {
			char *title = i == 1 ? move_environment() : NULL;

			warm(fd, 1);
			if (!lose_rights(ways[i]))
				_exit(ways[i] == 0 ? 0 : 1); /* no Landlock here */
			NEED(!title || *title == 't', "the shim has written there");
			for (int k = 0; k < 600; k++) {
				look(fd, 1);
				usleep(k % 10 ? 0 : 1000);
			}
			need_left(NULL, 0);
			child = fork();
			if (child == 0) {
				for (int k = 0; k < 600; k++) {
					look(fd, 1);
					usleep(k % 10 ? 0 : 1000);
				}
				need_left(NULL, 0);
				_exit(0);
			}
			wait_for(child);
			if (i < 3) { /* a domain, or fewer capabilities */
				execl(self, self, "rights_after_exec", folder, "plain",
				      NULL);
				_exit(1);
			}
			_exit(0);
		}
		wait_for(child);
		NEED(is_served(fd, 1) == cached, "the parent");
	}
}

static void way_rights_after_exec(void)
{
	int fd = file_open(1);

	for (int k = 0; k < 600; k++) {
		look(fd, 1);
		usleep(k % 10 ? 0 : 1000);
	}
	need_left(NULL, 0);
}

/* A call that fails, and one that changes nothing, cost no more than a while. */
static void way_rights_failed(void)
{
	int fd = warm_open(1);
	pid_t child = fork();

	if (child == 0) {
		warm(fd, 1);
		NEED(setuid(geteuid()) == 0, "%s", strerror(errno));
		NEED(is_served(fd, 1) == cached, "the same user as before");
		NEED(chroot("/nowhere") == -1 && (errno == ENOENT || errno == EPERM),
		     "%s", strerror(errno));
		warm(fd, 1);
		NEED(syscall(SYS_setns, -1, 0) == -1 && errno == EBADF, "%s",
		     strerror(errno));
		warm(fd, 1);
		_exit(0);
	}
	wait_for(child);
	warm(fd, 1);
}

static u8 nr_warm; /* atomic */

static void *idle_body(void *fd)
{
	warm(*(int *)fd, 1);
	host_store_byte(&nr_warm, (u8)(host_load_byte(&nr_warm) + 1));
	for (;;)
		pause();
	return NULL;
}

/* Each thread reads once, before the shim leaves, and keeps what it has of that time. The program
 * can close none of it. */
static void way_rights_idle_threads(void)
{
	int fd = warm_open(1);
	char path[64], text[64];
	pthread_t thread;

	for (u8 i = 0; i < IDLE_THREADS; i++) {
		NEED(pthread_create(&thread, NULL, idle_body, &fd) == 0, "thread");
		while (host_load_byte(&nr_warm) <= i)
			usleep(1000);
		NEED(syscall(SYS_setns, -1, 0) == -1, "setns()");
	}
	for (int n = fd + 1; n < 1100; n++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", n);
		memset(text, 0, sizeof(text));
		if (readlink(path, text, sizeof(text) - 1) > 0 && strstr(text, "eventfd"))
			NEED(close(n) == -1, "event %d of the shim", n);
	}
	_exit(0);
}

/* A process with as many mappings as the kernel allows leaves the service all the same. */
static void mappings_child(int fd)
{
	static char *used[MOST_MAPPINGS];
	unsigned int nr = 0;

	warm(fd, 1);
	/* Two of a kind would become one. */
	while (nr < MOST_MAPPINGS &&
	       (used[nr] = mmap(NULL, 2 * BLOCK, nr % 2 ? PROT_READ : PROT_NONE,
	                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
		nr++;
	if (!lose_rights(0))
		_exit(0); /* no Landlock here */
	while (nr > 0)
		munmap(used[--nr], 2 * BLOCK);
	need_left(NULL, 0);
	_exit(0);
}

static void way_rights_mappings_used_up(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	int fd = warm_open(1);
	unsigned int most;
	pid_t child;

	NEED(f && fscanf(f, "%u", &most) == 1, "%s", strerror(errno));
	fclose(f);
	if (most > MOST_MAPPINGS)
		return; /* it would take long */
	child = fork();
	if (child == 0)
		mappings_child(fd);
	wait_for(child);
}

/* Root becomes another user, and is served from that user's service. */
static void way_rights_new_user(void)
{
	int fd = rights_open();
	pid_t child = fork();

	if (child == 0) {
		long ids[MOST_EVENTS], now[MOST_EVENTS];
		unsigned int nr;

		warm(fd, 1);
		nr = events(ids, false);
		change_user();
		count_on();
		warm(fd, 1);
		for (unsigned int i = 0; cached && i < nr; i++)
			for (unsigned int k = events(now, false); k > 0; k--)
				NEED(ids[i] != now[k - 1], "root's service is open");
		_exit(0);
	}
	wait_for(child);
	NEED(is_served(fd, 1) == cached, "the parent");
}

/* Opens a file and reads it, until told; in the end it must be served. */
static void way_opens_until_told(void)
{
	int flags = fcntl(STDIN_FILENO, F_GETFL), keeps = warm_open(1), fd;
	char byte;

	dprintf(STDOUT_FILENO, "ready\n");
	fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK);
	while (read(STDIN_FILENO, &byte, 1) != 1) {
		fd = file_open(2);
		look(fd, 2);
		close(fd);
		look(keeps, 1);
		usleep(500);
	}
	NEED(is_served(keeps, 1) == cached, "in the end");
}

const struct way rights_ways[] = {
	{ "rights_storm", way_rights_storm },
	{ "rights_storm_users", way_rights_storm_users },
	{ "rights_landlock", way_rights_landlock },
	{ "rights_for_good", way_rights_for_good },
	{ "rights_after_exec", way_rights_after_exec },
	{ "rights_mappings_used_up", way_rights_mappings_used_up },
	{ "rights_idle_threads", way_rights_idle_threads },
	{ "rights_failed", way_rights_failed },
	{ "rights_new_user", way_rights_new_user },
	{ "opens_until_told", way_opens_until_told },
	{ NULL, NULL },
};
