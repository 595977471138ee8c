/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What changes descriptors past the functions that everybody uses: rings, and libc inside. Also
 * pointers that lead nowhere. The ways of run_reader.c that doc/map.md has a table of. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <mqueue.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <syslog.h>
#include <utmp.h>

#include "tests/run/run_reader.h"

#define SKIP 77
#define STANDARD 3 /* descriptors */
#define LOOKS 200  /* enough for a shim that goes on to serve */

int _IO_fclose(FILE *stream);
int __endmntent(FILE *stream);
int __close(int fd);
int __dup2(int from, int to);

/* ---- rings ---- */

static void *(*ring_make)(const char *how);
static int (*ring_replace)(void *ring, int fd, const char *path);

/* Only now is the library in the process, and the program's other libraries do not see it. */
static void *ring(const char *how)
{
	void *library = dlopen(getenv("RING_LIBRARY"), RTLD_NOW | RTLD_LOCAL), *made;

	NEED(library, "%s", dlerror());
	ring_make = (void *(*)(const char *))dlsym(library, "ring_make");
	ring_replace =
		(int (*)(void *, int, const char *))dlsym(library, "ring_replace");
	NEED(ring_make && ring_replace, "%s", dlerror());
	made = ring_make(how);
	if (!made) {
		printf("no ring of io_uring may be made here\n");
		exit(SKIP);
	}
	return made;
}

/* The shim cannot see the change, so it must have stopped before. */
static void replaced_by(void *made, int fd)
{
	NEED(!is_served(fd, 1), "served beside a ring");
	fd = ring_replace(made, fd, file_make(2));
	NEED(fd >= 0, "%s", strerror(-fd));
	for (int i = 0; i < LOOKS; i++)
		look(fd, 2);
}

static void way_ring(void)
{
	int fd = warm_open(1);

	replaced_by(ring(getenv("RING_HOW")), fd);
}

/* A library's constructor has made the ring, before the shim's own ran. */
static void way_ring_early(void)
{
	int fd = file_open(1);

	for (int i = 0; i < LOOKS && !is_served(fd, 1); i++)
		usleep(500);
	replaced_by(ring("early"), fd);
}

/* A child has its parent's rings, and new words of the shim's. */
static void way_ring_inherited(void)
{
	int fd = warm_open(1);
	void *made = ring("init");
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < LOOKS; i++)
			look(fd, 1);
		replaced_by(made, fd);
		_exit(0);
	}
	wait_for(child);
}

/* ---- libc inside ---- */

/* The file with this number of its own, and served. */
static void warm_at(int fd)
{
	int opened = file_open(1);

	if (opened != fd) {
		NEED(dup2(opened, fd) == fd, "%s", strerror(errno));
		close(opened);
	}
	warm(fd, 1);
}

static void must_not_be_served(int fd, int error)
{
	char byte;

	NEED(pread(fd, &byte, 1, 7) == -1 && errno == error, "errno %d", errno);
}

/* A terminal comes to numbers 0 to 2. */
static void way_login_tty(void)
{
	int terminal, other, keep = fcntl(STDERR_FILENO, F_DUPFD, 100);
	pid_t child = fork();

	if (child == 0) {
		complain_fd = keep;
		NEED(openpty(&terminal, &other, NULL, NULL, NULL) == 0, "%s",
		     strerror(errno));
		setsid();
		for (int fd = 0; fd < STANDARD; fd++)
			warm_at(fd);
		NEED(login_tty(file_open(2)) == -1, "a file is no terminal");
		warm_at(other + 1);
		for (int fd = 0; fd < STANDARD; fd++)
			warm(fd, 1);
		NEED(login_tty(other) == 0, "%s", strerror(errno));
		for (int fd = 0; fd < STANDARD; fd++)
			must_not_be_served(fd, ESPIPE);
		NEED(is_served(terminal + 2, 1) == cached, "another number");
		_exit(0);
	}
	wait_for(child);
}

/* The functions of libc that close a number which the program has, or may have. */
static void way_closed_inside(void)
{
	for (int way = 0; way < 7; way++) {
		int fd = warm_open(1);
		FILE *stream = way < 4 ? fdopen(fd, "r") : NULL;

		if (way == 4) { /* the program has the number from libc's stream */
			stream = setmntent(file_make(1), "r");
			fd = fileno(stream);
			warm(fd, 1);
		}
		switch (way) {
		case 0: NEED(fclose(stream) == 0, "%s", strerror(errno)); break;
		case 1: NEED(_IO_fclose(stream) == 0, "%s", strerror(errno)); break;
		case 2: NEED(pclose(stream) == 0, "%s", strerror(errno)); break;
		case 3: NEED(__endmntent(stream) == 1, "%s", strerror(errno)); break;
		case 4: NEED(endmntent(stream) == 1, "%s", strerror(errno)); break;
		case 5: NEED(mq_close(fd) == 0, "%s", strerror(errno)); break;
		case 6: NEED(__close(fd) == 0, "%s", strerror(errno)); break;
		default: break;
		}
		must_not_be_served(fd, EBADF);
	}
	NEED(endmntent(NULL) == 1, "no stream");
	for (int i = 0; i < 2; i++) {
		FILE *stream = fdopen(warm_open(1), "r");

		stream = i ? freopen(file_make(2), "r", stream)
		           : freopen64(file_make(2), "r", stream);
		NEED(stream, "%s", strerror(errno));
		for (int k = 0; k < LOOKS; k++)
			look(fileno(stream), 2);
		fclose(stream);
	}
}

/* These leave the program's numbers alone. */
static void way_left_inside(void)
{
	int fd = warm_open(1), terminal, other, status;
	pid_t child;
	FILE *stream;

	stream = popen("true", "r");
	NEED(stream && pclose(stream) == 0, "%s", strerror(errno));
	NEED(system("true") == 0, "%s", strerror(errno));
	openlog("run_reader", LOG_NDELAY, LOG_USER);
	closelog();
	endmntent(setmntent("/proc/self/mounts", "r"));
	NEED(fcloseall() == 0, "%s", strerror(errno));
	NEED(is_served(fd, 1) == cached, "as before");
	child = forkpty(&terminal, NULL, NULL, NULL);
	if (child == 0) { /* libc has put the terminal at 0 to 2 */
		must_not_be_served(0, ESPIPE);
		warm(fd, 1);
		_exit(0);
	}
	NEED(openpty(&terminal, &other, NULL, NULL, NULL) == 0, "%s", strerror(errno));
	wait_for(child);
	file_make(3);
	child = fork();
	if (child == 0) {
		warm_at(0);
		warm_at(1);
		NEED(daemon(1, 0) == 0, "%s", strerror(errno));
		/* Nobody waits for this process; the file says that it got here. */
		status = pread(0, &other, 1, 7) == 0 && pread(1, &other, 1, 7) == 0;
		look(fd, 1);
		NEED(status, "numbers 0 and 1 lead to /dev/null");
		close(open(file_make(3), O_WRONLY | O_TRUNC));
		_exit(0);
	}
	wait_for(child);
	fd = file_open(3);
	for (int i = 0; lseek(fd, 0, SEEK_END) != 0; i++) {
		NEED(i < 60000, "the daemon has not ended well");
		usleep(1000);
	}
}

/* ---- syscall() ---- */

/* Each call that puts file 2 at the number of file 1. */
static void way_replaced_bare(void)
{
	static const long closes[] = { SYS_close, SYS_close_range, SYS_dup3,
#ifdef SYS_dup2
		                       SYS_dup2
#endif
	};

	for (size_t i = 0; i < LENGTH(closes); i++) {
		int fd = warm_open(1), other = file_open(2), at = fd;
		bool replaces = closes[i] != SYS_close && closes[i] != SYS_close_range;

		if (replaces)
			NEED(syscall(closes[i], other, fd, 0) == fd, "call %zu", i);
		else
			NEED(syscall(closes[i], fd, fd, 0) == 0, "call %zu", i);
		if (!replaces) {
			must_not_be_served(fd, EBADF);
			at = (int)syscall(SYS_fcntl, other, F_DUPFD, fd);
		}
		NEED(at == fd, "number %d", at);
		for (int k = 0; k < LOOKS; k++)
			look(at, 2);
	}
	NEED(__dup2(file_open(2), warm_open(1)) >= 0, "%s", strerror(errno));
}

/* A close that no hook can see. */
static void close_unseen(int fd)
{
#if defined(__x86_64__)
	long result = SYS_close;

	__asm__ volatile("syscall"
	                 : "+a"(result)
	                 : "D"((long)fd)
	                 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long result __asm__("x0") = fd;
	register long number __asm__("x8") = SYS_close;

	__asm__ volatile("svc 0" : "+r"(result) : "r"(number) : "memory");
#else
#error "close() has no instructions here"
#endif
	NEED(result == 0, "close: %ld", result);
}

/* Opens file 2 by a bare call, or something with the same bytes. -1: not here. */
static int open_bare(int how, int other)
{
	struct {
		struct file_handle head;
		uint8_t room[MAX_HANDLE_SZ];
	} handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	const uint64_t read_only[3] = { O_RDONLY };
	uint8_t bytes[FILE_BYTES];
	int fd, mount;

	switch (how) {
	case 0: return (int)syscall(SYS_openat, AT_FDCWD, file_make(2), O_RDONLY, 0);
	case 1:
		return (int)syscall(SYS_openat2, AT_FDCWD, file_make(2), read_only,
		                    sizeof(read_only));
	case 2: return (int)syscall(SYS_dup, other);
	case 3: return (int)syscall(SYS_fcntl, other, F_DUPFD_CLOEXEC, 0);
	case 4:
		if (name_to_handle_at(AT_FDCWD, file_make(2), &handle.head, &mount, 0))
			return -1;
		return (int)syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY);
	default:
		fd = (int)syscall(SYS_memfd_create, "file", 0);
		NEED(pread(other, bytes, FILE_BYTES, 0) == FILE_BYTES, "read");
		if (fd >= 0)
			NEED(write(fd, bytes, FILE_BYTES) == FILE_BYTES, "write");
		return fd;
	}
}

/* A number was closed unseen. The call that opens something there is seen. */
static void way_opened_bare(void)
{
	int other = file_open(2);

	for (int how = 0; how <= 5; how++) {
		int fd = warm_open(1), at;

		close_unseen(fd);
		at = open_bare(how, other);
		if (at < 0)
			continue;
		NEED(at == fd, "way %d: number %d, not %d", how, at, fd);
		for (int i = 0; i < LOOKS; i++)
			look(at, 2);
		close(at);
	}
}

static int clone_body(void *arg)
{
	const int *fds = arg;

	NEED(dup2(fds[1], fds[0]) == fds[0], "dup2");
	return 0;
}

int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/* clone() has another name. */
static void way_clone_inner(void)
{
	static char stack[16 * BLOCK] __attribute__((aligned(16)));
	int fds[] = { warm_open(1), file_open(2) };

	wait_for(__clone(clone_body, stack + sizeof(stack), CLONE_FILES | SIGCHLD, fds));
	for (int i = 0; i < LOOKS; i++)
		look(fds[0], 2);
}

/* ---- pointers that lead nowhere ---- */

/* What no program can have is an error, as in the kernel. */
static void way_bad_pointers(void)
{
	static const uint64_t bad[] = { 0, 16, BLOCK + 1, UINT64_C(1) << 63, UINT64_MAX };
	int fd = warm_open(1);

	for (size_t i = 0; i < LENGTH(bad); i++) {
		void *volatile at = (void *)bad[i];
		const struct iovec two[] = { { at, 100 }, { at, 100 } };

		errno = 0;
		NEED(pread(fd, at, 64, 0) == -1 && errno == EFAULT, "%zu: %d", i, errno);
		errno = 0;
		NEED(preadv(fd, two, 2, 0) == -1 && errno == EFAULT, "%zu: %d", i,
		     errno);
		errno = 0;
		NEED(preadv(fd, at, 1, 0) == -1 && errno == EFAULT, "%zu: %d", i, errno);
		errno = 0;
		NEED(preadv2(fd, at, 2, 0, 0) == -1 && errno == EFAULT, "%zu: %d", i,
		     errno);
		errno = 0;
		NEED(syscall(SYS_clone3, at, 88) == -1 && errno == EFAULT, "%zu: %d", i,
		     errno);
	}
	NEED(is_served(fd, 1) == cached, "afterwards");
}

/* The words of clone3() lie on a page that nobody may read, or partly so. */
static void way_clone3_unreadable(void)
{
	uint8_t *pages = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE,
	                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = warm_open(1);

	NEED(mprotect(pages + BLOCK, BLOCK, PROT_NONE) == 0, "%s", strerror(errno));
	for (int at = BLOCK - 80; at <= BLOCK + 8; at += 4) {
		errno = 0;
		NEED(syscall(SYS_clone3, pages + at, 88) == -1 && errno == EFAULT,
		     "at %d: %d", at, errno);
	}
	NEED(is_served(fd, 1) == cached, "afterwards");
}

const struct way past_ways[] = {
	{ "ring", way_ring },
	{ "ring_early", way_ring_early },
	{ "ring_inherited", way_ring_inherited },
	{ "login_tty", way_login_tty },
	{ "closed_inside", way_closed_inside },
	{ "left_inside", way_left_inside },
	{ "replaced_bare", way_replaced_bare },
	{ "opened_bare", way_opened_bare },
	{ "clone_inner", way_clone_inner },
	{ "bad_pointers", way_bad_pointers },
	{ "clone3_unreadable", way_clone3_unreadable },
	{ NULL, NULL },
};
