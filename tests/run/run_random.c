/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Random sequences of what opens, closes, duplicates and inherits descriptors, by libc and by
 * syscall(), with reads in between. A model says which file each number leads to. All reads
 * must give that file's bytes, or the error that the kernel gives there. SEED and EXECUTIONS in the
 * environment say which sequence, and how many calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "host/random.h"
#include "tests/run/run_reader.h"

#define LOW 3 /* numbers below are left alone */
#define NUMBERS 48
#define NR_FILES 12u
#define VERSIONS \
	1000u /* of a file: its bytes are those of file n * VERSIONS + version */
#define CHILD_CALLS 40u
#define HANGS_SECONDS 100u
#define OWN_FIRST 1000 /* the shim's own descriptors lie from about here on */
#define OWN_LAST 1023
/* One in so many. */
#define FORK 1500u
#define EXEC 8000u
#define CHANGE 3000u
#define TAKE_OWN 20000u
#define COMPARE 64u

enum kind { CLOSED, READABLE, NOT_SEEKABLE, NOT_READABLE, A_FOLDER };

/* What the model says of a number. */
struct number {
	enum kind kind;
	unsigned int file;
	bool cloexec;
};

static struct {
	u64 random;
	u64 done, nr;
	struct number numbers[NUMBERS];
	unsigned int versions[NR_FILES];
	bool child;
} model;

static u64 below(u64 n)
{
	return random_next(&model.random) % n;
}

static bool one_in(u64 n)
{
	return below(n) == 0;
}

static unsigned int bytes_of(unsigned int file)
{
	return file * VERSIONS + model.versions[file];
}

static int any_number(void)
{
	return LOW + (int)below(NUMBERS - LOW);
}

static const char *path_of(unsigned int file)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/random%u", folder, file);
	return path;
}

/* ---- the model ---- */

/* A call has put something at fd. What lies beyond the model is closed again. */
static void model_put(int fd, struct number what)
{
	NEED(fd >= LOW, "number %d: %s", fd, strerror(errno));
	if (fd >= NUMBERS)
		close(fd);
	else
		model.numbers[fd] = what;
}

static void model_close(int first, int last)
{
	for (int fd = first; fd <= last; fd++)
		model.numbers[fd].kind = CLOSED;
}

static void check_read(int fd)
{
	const struct number *n = &model.numbers[fd];
	u64 at = below(FILE_BYTES), want = 1 + below(one_in(4) ? 3 * BLOCK : 64);
	static uint8_t bytes[3 * BLOCK];
	const struct iovec two[2] = { { bytes, want / 2 },
		                      { bytes + want / 2, want - want / 2 } };
	ssize_t got;

	errno = 77;
	got = one_in(4) ? preadv(fd, two, 2, (off_t)at)
	                : pread(fd, bytes, want, (off_t)at);
	if (n->kind != READABLE) {
		int error = n->kind == NOT_SEEKABLE ? ESPIPE
		            : n->kind == A_FOLDER   ? EISDIR
		                                    : EBADF;

		NEED(got == -1 && errno == error, "call %llu, number %d: %zd, errno %d",
		     (unsigned long long)model.done, fd, got, errno);
		return;
	}
	want = want < FILE_BYTES - at ? want : FILE_BYTES - at;
	NEED(got == (ssize_t)want && errno == 77,
	     "call %llu, number %d, file %u: %zd, errno %d",
	     (unsigned long long)model.done, fd, n->file, got, errno);
	for (u64 i = 0; i < want; i++)
		NEED(bytes[i] == file_byte(bytes_of(n->file), at + i),
		     "call %llu, number %d: byte %llu is not file %u's",
		     (unsigned long long)model.done, fd, (unsigned long long)(at + i),
		     n->file);
}

/* The model is right: the kernel has that file there. */
static void check_kernel(int fd)
{
	const struct number *n = &model.numbers[fd];
	struct stat st, file;

	if (n->kind == CLOSED) {
		NEED(fstat(fd, &st) == -1 && errno == EBADF, "number %d is open", fd);
		return;
	}
	NEED(fstat(fd, &st) == 0, "number %d: %s", fd, strerror(errno));
	if (n->kind == READABLE)
		NEED(stat(path_of(n->file), &file) == 0 && file.st_ino == st.st_ino,
		     "number %d is another file", fd);
}

/* ---- the calls ---- */

static void call_open(void)
{
	unsigned int file = (unsigned int)below(NR_FILES);
	struct number n = { READABLE, file, one_in(2) };
	int flags = n.cloexec ? O_CLOEXEC : 0;
	const char *path = path_of(file);
	int ends[2];

	switch (below(12)) {
	case 0: model_put(openat(AT_FDCWD, path, O_RDONLY | flags), n); return;
	case 1: model_put(open64(path, O_RDONLY | flags), n); return;
	case 2:
		model_put((int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | flags),
		          n);
		return;
	case 3:
		n.kind = NOT_READABLE;
		model_put(open(path, O_PATH | flags), n);
		return;
	case 4:
		n.kind = A_FOLDER;
		model_put(open(folder, O_RDONLY | O_DIRECTORY | flags), n);
		return;
	case 5:
		n.kind = NOT_SEEKABLE;
		NEED(pipe2(ends, flags) == 0, "%s", strerror(errno));
		model_put(ends[0], n);
		model_put(ends[1], n);
		return;
	default: model_put(open(path, O_RDONLY | flags), n);
	}
}

static void call_close(int fd)
{
	bool was = model.numbers[fd].kind != CLOSED;
	FILE *stream;
	int last, result;

	switch (below(8)) {
	case 0: result = (int)syscall(SYS_close, fd); break;
	case 1:
		stream = model.numbers[fd].kind == READABLE ? fdopen(fd, "r") : NULL;
		result = stream ? fclose(stream) : close(fd);
		break;
	case 2:
		last = fd + (int)below((u64)(NUMBERS - fd));
		last = last > fd + 3 ? fd + 3 : last;
		if (one_in(2))
			result = close_range((unsigned int)fd, (unsigned int)last, 0);
		else
			result = (int)syscall(SYS_close_range, fd, last, 0);
		NEED(result == 0, "%s", strerror(errno));
		model_close(fd, last);
		return;
	default: result = close(fd);
	}
	NEED((result == 0) == was, "number %d: %d", fd, result);
	model_close(fd, fd);
}

static void call_duplicate(int from, int to)
{
	struct number n = model.numbers[from];
	bool fails = n.kind == CLOSED;
	int result;

	n.cloexec = false;
	switch (below(6)) {
	case 0: result = dup(from); break;
	case 1: result = dup2(from, to); break;
	case 2:
		if (from == to)
			return;
		n.cloexec = one_in(2);
		result = dup3(from, to, n.cloexec ? O_CLOEXEC : 0);
		break;
	case 3: result = fcntl(from, F_DUPFD, to); break;
	case 4:
		n.cloexec = true;
		result = fcntl(from, F_DUPFD_CLOEXEC, to);
		break;
	default:
		if (from == to)
			return;
		result = (int)syscall(SYS_dup3, from, to, 0);
	}
	NEED((result < 0) == fails, "from %d to %d: %d", from, to, result);
	if (result >= 0 && result != from)
		model_put(result, n);
}

static void call_control(int fd)
{
	struct number *n = &model.numbers[fd];
	struct flock lock = { .l_type = F_RDLCK, .l_len = 1 };
	int flags;

	switch (below(4)) {
	case 0: fcntl(fd, F_SETLK, &lock); return;
	case 1:
		/* What has been locked is not served any more. */
		if (n->kind == READABLE && n->file == 0)
			flock(fd, LOCK_SH | LOCK_NB);
		return;
	case 2:
		if (n->kind == CLOSED)
			return;
		n->cloexec = !n->cloexec;
		fcntl(fd, F_SETFD, n->cloexec ? FD_CLOEXEC : 0);
		return;
	default:
		flags = fcntl(fd, F_GETFL);
		if (flags >= 0 && n->kind == READABLE)
			fcntl(fd, F_SETFL, flags ^ O_NONBLOCK);
	}
}

/* New bytes, in the same file. */
static void call_change(unsigned int file)
{
	int fd = open(path_of(file), O_WRONLY);
	uint8_t bytes[FILE_BYTES];

	NEED(fd >= 0, "%s", strerror(errno));
	model.versions[file] = (model.versions[file] + 1) % VERSIONS;
	for (unsigned int i = 0; i < FILE_BYTES; i++)
		bytes[i] = file_byte(bytes_of(file), i);
	NEED(pwrite(fd, bytes, FILE_BYTES, 0) == FILE_BYTES, "%s", strerror(errno));
	close(fd);
}

/* The program takes the shim's number, as a program may that puts its files high. */
static void call_take_own(void)
{
	int from = open(path_of(0), O_RDONLY | O_CLOEXEC);

	NEED(from >= 0, "%s", strerror(errno));
	for (int to = OWN_FIRST; to <= OWN_LAST; to++)
		NEED(dup2(from, to) == to, "%s", strerror(errno));
	for (int to = OWN_FIRST; to <= OWN_LAST; to++)
		NEED(close(to) == 0, "number %d: %s", to, strerror(errno));
	close(from);
}

/* ---- children ---- */

/* The numbers that stay open, as words "number:kind:file", and each file's version. */
static void exec_child(void)
{
	char text[4096], *to = text;
	char *const words[] = { "run_reader", "random_inherited", (char *)folder,
		                cached ? "cached" : "plain", NULL };

	for (int fd = LOW; fd < NUMBERS; fd++)
		if (!model.numbers[fd].cloexec || model.numbers[fd].kind == CLOSED)
			to += sprintf(to, "%d:%d:%u ", fd, (int)model.numbers[fd].kind,
			              bytes_of(model.numbers[fd].file));
		else
			to += sprintf(to, "%d:%d:0 ", fd, (int)CLOSED);
	setenv("NUMBERS", text, 1);
	execv("/proc/self/exe", words);
	NEED(false, "%s", strerror(errno));
}

static void random_calls(u64 nr);

static void call_fork(bool execs)
{
	pid_t child = execs && one_in(2) ? vfork() : fork();

	if (child == 0) {
		if (execs)
			exec_child();
		model.child = true;
		random_calls(CHILD_CALLS);
		_exit(0);
	}
	wait_for(child);
}

/* Under vfork() the child's descriptors are its own, and the parent's stay. */
static void call_vfork(void)
{
	volatile int fd = any_number();
	pid_t child = vfork();

	if (child == 0) {
		close(fd);
		_exit(0);
	}
	wait_for(child);
}

/* ---- the sequence ---- */

static void random_call(void)
{
	int fd = any_number();

	if (!model.child && one_in(FORK))
		call_fork(false);
	else if (!model.child && one_in(FORK))
		call_vfork();
	else if (!model.child && one_in(EXEC))
		call_fork(true);
	else if (!model.child && one_in(CHANGE))
		call_change((unsigned int)below(NR_FILES));
	else if (!model.child && one_in(TAKE_OWN))
		call_take_own();
	else if (one_in(3))
		call_open();
	else if (one_in(3))
		call_duplicate(fd, any_number());
	else if (one_in(6))
		call_control(fd);
	else if (one_in(3))
		call_close(fd);
}

static void random_calls(u64 nr)
{
	for (; nr > 0; nr--, model.done++) {
		random_call();
		for (u64 left = below(4); left > 0; left--)
			check_read(any_number());
		if (one_in(COMPARE))
			check_kernel(any_number());
		if (model.done % 4096 == 0)
			alarm(HANGS_SECONDS);
	}
}

static u64 number_of(const char *name, u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void way_random(void)
{
	u64 seed = number_of("SEED", 1), nr = number_of("EXECUTIONS", 2000);

	printf("seed=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	model.random = random_mix(seed);
	for (unsigned int file = 0; file < NR_FILES; file++) {
		int fd = open(path_of(file), O_WRONLY | O_CREAT | O_EXCL, 0600);

		NEED(fd >= 0, "%s", strerror(errno));
		close(fd);
		call_change(file);
	}
	random_calls(nr);
	printf("%llu executions: 0 crashes\n", (unsigned long long)nr);
}

/* After exec(): the descriptors that the parent has left. */
static void way_random_inherited(void)
{
	const char *text = getenv("NUMBERS");
	int fd, kind, bytes, n;

	for (; text && sscanf(text, "%d:%d:%d %n", &fd, &kind, &bytes, &n) == 3;
	     text += n) {
		model.numbers[fd].kind = (enum kind)kind;
		if (kind == CLOSED)
			continue;
		model.numbers[fd].file = (unsigned int)bytes / VERSIONS;
		model.versions[bytes / (int)VERSIONS] = (unsigned int)bytes % VERSIONS;
	}
	for (int i = 0; i < 20 * NUMBERS; i++)
		check_read(LOW + i % (NUMBERS - LOW));
}

const struct way random_ways[] = {
	{ "random", way_random },
	{ "random_inherited", way_random_inherited },
	{ NULL, NULL },
};
