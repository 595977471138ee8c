/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Threads, signals, children, writers: the other ways of run_reader.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "host/host.h"
#include "tests/run/run_reader.h"

#define THREADS 8
#define STACK_BYTES (64 << 10)

static void way_fork(void)
{
	int fd = warm_open(1);
	pid_t child;

	for (int i = 0; i < 3; i++) {
		child = fork();
		if (child == 0) {
			look(fd, 1);
			warm(fd, 1);
			NEED(dup2(file_open(2), fd) == fd, "dup2");
			warm(fd, 2);
			wait_for(fork() ?: (warm(fd, 2), _exit(0), 0));
			_exit(0);
		}
		wait_for(child);
		NEED(is_served(fd, 1) == cached, "after a fork");
	}
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) { /* a fork that libc does not know of */
		for (int i = 0; i < 200; i++)
			look(fd, 1);
		NEED(dup2(file_open(2), fd) == fd, "dup2");
		for (int i = 0; i < 200; i++)
			look(fd, 2);
		_exit(0);
	}
	wait_for(child);
	NEED(is_served(fd, 1) == cached, "after a bare clone");
}

static uint8_t vfork_over; /* atomic */

static void *vfork_reads(void *arg)
{
	while (!host_load_byte(&vfork_over))
		look(*(int *)arg, 1);
	return NULL;
}

static int vfork_body(void *arg)
{
	const int *fds = arg;

	dup2(fds[1], fds[0]);
	for (int i = 0; i < 3000; i++)
		look(fds[0], 2);
	close(fds[1]);
	close_range(3, ~0u, 0);
	_exit(0);
}

/* What a bare vfork's child may do without a stack of its own: it overwrites what lies below its
 * caller's address there, and ends. A frame of the shim's that the parent comes back to would lie
 * there. Without an optimizing compiler the shim has one. */
static void way_vfork_bare(void)
{
#if defined(__x86_64__) && defined(__OPTIMIZE__)
	for (int i = 0; i < 10; i++) {
		pid_t child = (pid_t)syscall(SYS_vfork);

		if (child == 0)
			__asm__ volatile("lea -512(%%rsp), %%rdi\n"
			                 "mov $62, %%ecx\n"
			                 "mov $0x5555555555555555, %%rax\n"
			                 "rep stosq\n"
			                 "mov %0, %%eax\n"
			                 "xor %%edi, %%edi\n"
			                 "syscall\n"
			                 :
			                 : "i"(SYS_exit)
			                 : "rax", "rcx", "rdi", "r11", "memory");
		wait_for(child);
	}
#endif
}

/* The child has this memory, and descriptors of its own. Another thread fills the slots that the
 * child empties. */
static void way_vfork(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	int fd = warm_open(1), other = file_open(2), fds[] = { fd, other };
	pthread_t thread;
	pid_t child;

	pthread_create(&thread, NULL, vfork_reads, &fd);
	for (int i = 0; i < 20; i++) {
		look(fd, 1); /* so that this thread reads from the cache */
		child = vfork();
		if (child == 0)
			vfork_body(fds);
		wait_for(child);
		look(fd, 1);
		look(other, 2);
		wait_for(clone(vfork_body, stack + sizeof(stack),
		               CLONE_VM | CLONE_VFORK | SIGCHLD, fds));
		look(fd, 1);
	}
	host_store_byte(&vfork_over, 1);
	pthread_join(thread, NULL);
	warm(fd, 1);
	child = vfork();
	if (child == 0) {
		close_range(3, ~0u, 0);
		_exit(0);
	}
	wait_for(child);
	NEED(is_served(fd, 1) == cached, "the child has closed its own");
	warm(other, 2);
}

static void way_spawn(void)
{
	char path[64], *const command[] = { "cat", NULL };
	int fd = warm_open(1), ends[2], status;
	posix_spawn_file_actions_t actions;
	char word[8] = "";
	pid_t child;

	NEED(pipe2(ends, O_CLOEXEC) == 0, "pipe");
	snprintf(path, sizeof(path), "/proc/self/cmdline");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addclose(&actions, fd);
	status = posix_spawnp(&child, "cat", &actions, NULL, command, environ);
	NEED(status == 0, "%s", strerror(status));
	wait_for(child);
	NEED(read(ends[0], word, sizeof(word)) == 4 && strcmp(word, "cat") == 0, "%s",
	     word);
	NEED(is_served(fd, 1) == cached, "after a spawn");
}

static int clone_body(void *arg)
{
	int *fds = arg;

	NEED(dup2(fds[1], fds[0]) == fds[0], "dup2");
	return 0;
}

/* A child with other memory and the same descriptors puts another file behind one. */
static void way_clone_files(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	int fds[] = { warm_open(1), file_open(2) };

	wait_for(clone(clone_body, stack + sizeof(stack), CLONE_FILES | SIGCHLD, fds));
	for (int i = 0; i < 100; i++)
		look(fds[0], 2);
}

/* The child has the same memory, too, but it is another process. */
static void way_clone_all(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	int fds[] = { warm_open(1), file_open(2) };

	wait_for(clone(clone_body, stack + sizeof(stack),
	               CLONE_VM | CLONE_FILES | SIGCHLD, fds));
	for (int i = 0; i < 100; i++)
		look(fds[0], 2);
}

static void *unshare_body(void *arg)
{
	int *fds = arg;

	NEED(unshare(CLONE_FILES) == 0, "%s", strerror(errno));
	NEED(dup2(fds[1], fds[0]) == fds[0], "dup2");
	for (int i = 0; i < 50000; i++) /* enough for a shim that does not step aside */
		look(fds[0], 2);
	return NULL;
}

/* A thread gets descriptors of its own. */
static void way_unshare_files(void)
{
	int fds[] = { warm_open(1), file_open(2) };
	pthread_t thread;

	pthread_create(&thread, NULL, unshare_body, fds);
	pthread_join(thread, NULL);
	for (int i = 0; i < 100; i++)
		look(fds[0], 1);
}

/* The kernel says what is wrong with the words of clone3(). It clones nothing. */
static void way_clone3_wrong(void)
{
	static const uint64_t flags = CLONE_FILES;
	int fd = warm_open(1);

	NEED(syscall(SYS_clone3, NULL, 0) == -1 && errno == EINVAL, "errno %d", errno);
	NEED(syscall(SYS_clone3, NULL, 64) == -1 && errno == EFAULT, "errno %d", errno);
	NEED(syscall(SYS_clone3, &flags, 8) == -1 && errno == EINVAL, "errno %d",
	     errno);
	NEED(is_served(fd, 1) == cached, "afterwards");
}

/* A name space of users can only be left by a process with one thread: the shim has none. */
static void way_unshare_user(void)
{
	int fd = warm_open(1);

	if (unshare(CLONE_NEWUSER) != 0)
		NEED(errno != EINVAL, "there is another thread");
	look(fd, 1);
}

/* Child and parent are the first of their name spaces, so both have number 1. */
static void way_same_pid(void)
{
	int fd = warm_open(1);
	pid_t child;

	NEED(getpid() == 1, "start it by unshare -pf");
	NEED(unshare(CLONE_NEWPID) == 0, "%s", strerror(errno));
	child = fork();
	if (child == 0) {
		NEED(getpid() == 1, "number %d", getpid());
		for (int i = 0; i < 200; i++)
			look(fd, 1);
		_exit(0);
	}
	wait_for(child);
	warm(fd, 1);
}

/* flock() and the like fall with the program's last descriptor. With SERVICE_PID the service is
 * stopped meanwhile. */
static void way_flock(void)
{
	const char *pid = getenv("SERVICE_PID"), *path = file_make(1);
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd, result, writer;

	warm_open(2);
	if (pid)
		kill(atoi(pid), SIGSTOP);
	for (int i = 0; i < 500; i++) {
		fd = file_open(1);
		result = i % 2 ? flock(fd, LOCK_EX | LOCK_NB)
		               : (int)syscall(SYS_flock, fd, LOCK_EX | LOCK_NB);
		NEED(result == 0, "round %d: %s", i, strerror(errno));
		for (int k = 0; k < 20; k++)
			look(fd, 1);
		close(fd);
	}
	for (int i = 0; i < 50; i++) {
		lock.l_type = F_RDLCK;
		fd = file_open(1);
		NEED(fcntl(fd, F_OFD_SETLK, &lock) == 0, "%s", strerror(errno));
		for (int k = 0; k < 20; k++)
			look(fd, 1);
		close(fd);
		lock.l_type = F_WRLCK;
		writer = open(path, O_RDWR);
		NEED(fcntl(writer, F_OFD_SETLK, &lock) == 0, "round %d: %s", i,
		     strerror(errno));
		close(writer);
	}
}

/* fcntl() locks fall when this process closes any descriptor of the file, so the shim must
 * not. */
static void way_locks(void)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = file_open(1);
	pid_t child;

	NEED(fcntl(fd, F_SETLK, &lock) == 0, "%s", strerror(errno));
	warm(fd, 1);
	child = fork();
	if (child == 0) {
		lock.l_type = F_WRLCK;
		NEED(fcntl(fd, F_GETLK, &lock) == 0, "%s", strerror(errno));
		_exit(lock.l_type == F_RDLCK && lock.l_pid == getppid() ? 0 : 1);
	}
	wait_for(child);
}

static void *thread_body(void *arg)
{
	unsigned int n = 1 + (unsigned int)(size_t)arg % 4;
	int fd = file_open(n);

	warm(fd, n);
	for (int i = 0; i < 3000; i++) {
		look(fd, n);
		if (i % 50 == 0) {
			n = 1 + (n + 1) % 4;
			close(fd);
			fd = file_open(n);
		}
	}
	close(fd);
	return NULL;
}

static int alarm_fd;

static void on_alarm(int sig)
{
	int error = errno;

	(void)sig;
	look(alarm_fd, 1);
	errno = error;
}

/* Threads come and go, and a handler reads, too. */
static void way_threads(void)
{
	const struct itimerval every = { { 0, 700 }, { 0, 700 } };
	const struct itimerval never = { 0 };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];

	for (unsigned int n = 1; n <= 4; n++)
		file_make(n);
	alarm_fd = warm_open(1);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, thread_body, (void *)i);
		for (size_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	NEED(is_served(alarm_fd, 1) == cached, "afterwards");
}

static uint8_t reads_only; /* atomic */

static void *cancel_body(void *arg)
{
	int fd = *(int *)arg;
	char byte;

	warm(fd, 1);
	host_store_byte(&reads_only, 1);
	while (pread(fd, &byte, 1, 0) == 1)
		;
	return NULL;
}

/* A thread that does nothing but read can be cancelled. */
static void way_cancel(void)
{
	int fd = file_open(1);
	pthread_t thread;
	void *result;

	for (int i = 0; i < 20; i++) {
		host_store_byte(&reads_only, 0);
		pthread_create(&thread, NULL, cancel_body, &fd);
		while (!host_load_byte(&reads_only))
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		NEED(result == PTHREAD_CANCELED, "round %d", i);
	}
	warm(fd, 1);
}

/* A writer gets the file at once, and no read that begins afterwards is old. */
static void way_writer(void)
{
	const char *path = file_make(1);
	int fd = warm_open(1), writer;
	uint8_t byte;

	for (int i = 0; i < 50; i++) {
		writer = open(path, O_WRONLY);
		NEED(writer >= 0, "%s", strerror(errno));
		byte = (uint8_t)i;
		NEED(pwrite(writer, &byte, 1, 17) == 1, "%s", strerror(errno));
		NEED(pread(fd, &byte, 1, 17) == 1 && byte == i, "%d, not %d", byte, i);
		NEED(!is_served(fd, 1), "served while a writer has it");
		close(writer);
		for (int k = 0; k < 100; k++)
			NEED(pread(fd, &byte, 1, 17) == 1 && byte == i, "%d, not %d",
			     byte, i);
	}
	NEED(truncate(path, 100) == 0, "%s", strerror(errno));
	NEED(pread(fd, &byte, 1, 100) == 0, "behind the new end");
}

#define GENERATIONS 40

/* What the two processes of way_generations() tell each other; atomic. */
struct told {
	uint8_t written; /* the last generation whose write has returned */
	uint8_t served;  /* the last one that the cache has served */
};

/* Rewrites block 0 in place, and then says with what. */
static void rewrite(const char *path, struct told *told)
{
	uint8_t block[BLOCK];

	for (uint8_t g = 1; g < GENERATIONS; g++) {
		int fd = open(path, O_WRONLY);

		memset(block, g, sizeof(block));
		NEED(pwrite(fd, block, sizeof(block), 0) == BLOCK, "write %d", g);
		if (g % 2)
			close(fd);
		host_fence_release();
		host_store_byte(&told->written, g);
		if (g % 2 == 0)
			close(fd);
		if (!cached || g == GENERATIONS - 1)
			continue;
		/* The next one comes when this one is cached. */
		for (int i = 0; i < 200000 && host_load_byte(&told->served) != g; i++)
			usleep(100);
	}
}

/* A read that begins when a write has returned sees what was written. */
static void way_generations(void)
{
	struct told *told = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
	                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *path = file_make(1);
	uint8_t block[BLOCK], before;
	int fd = file_open(1), nr_served = 0;
	pid_t child = fork();
	long first;

	if (child == 0) {
		rewrite(path, told);
		_exit(0);
	}
	while (host_load_byte(&told->written) == 0)
		look(fd, 1); /* blocks 3 to the end stay as they are */
	do {
		before = host_load_byte(&told->written);
		host_fence_acquire();
		first = count_reads();
		NEED(pread(fd, block, BLOCK, 0) == BLOCK, "read");
		for (int i = 0; i < BLOCK; i++)
			NEED(block[i] >= before, "byte %d is of %d, not %d", i,
			     block[i], before);
		if (count_reads() - first == 1 &&
		    host_load_byte(&told->served) != before) {
			nr_served++;
			host_store_byte(&told->served, before);
		}
	} while (before < GENERATIONS - 1);
	wait_for(child);
	NEED(nr_served > (cached ? GENERATIONS / 2 : -1), "served %d only", nr_served);
	NEED(cached || nr_served == 0, "served %d", nr_served);
}

/* doc/hazards.md: without the cache the open succeeds at once. With it, it may ask to wait. */
static void way_writer_nonblocking(void)
{
	const char *path = file_make(1);
	int fd = warm_open(1);
	int writer = open(path, O_WRONLY | O_NONBLOCK), tries = 0;

	if (cached)
		NEED(writer < 0 && errno == EAGAIN, "%d: %s", writer, strerror(errno));
	while (writer < 0 && errno == EAGAIN && tries++ < 1000000)
		writer = open(path, O_WRONLY | O_NONBLOCK);
	NEED(writer >= 0, "%s", strerror(errno));
	look(fd, 1);
}

/* doc/hazards.md: after mlockall() the shim serves nothing. */
static void way_mlockall(void)
{
	int fd = warm_open(1);

	if (mlockall(MCL_CURRENT) == 0)
		munlockall();
	for (int i = 0; i < 100; i++)
		look(fd, 1);
	NEED(!is_served(fd, 1), "not served");
}

/* The program reads until it is told to stop, and no read takes long. See test_run.py. */
static void way_until_told(void)
{
	unsigned int n = 1;
	struct timeval begun, ended;
	int fd = warm_open(1), fds[4];
	double took, longest = 0;
	char word;

	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	dprintf(STDOUT_FILENO, "ready\n");
	while (read(STDIN_FILENO, &word, 1) < 0) {
		gettimeofday(&begun, NULL);
		look(fd, 1);
		fds[n % 4] = file_open(10 + n % 4);
		look(fds[n % 4], 10 + n % 4);
		look(fds[n % 4], 10 + n % 4);
		look(fds[n % 4], 10 + n % 4);
		close(fds[n % 4]);
		gettimeofday(&ended, NULL);
		took = (double)(ended.tv_sec - begun.tv_sec) +
		       (double)(ended.tv_usec - begun.tv_usec) / 1e6;
		longest = took > longest ? took : longest;
		n++;
	}
	dprintf(STDOUT_FILENO, "%u rounds, longest %.3f s, %s\n", n, longest,
	        is_served(fd, 1) ? "served" : "not served");
}

const struct way process_ways[] = {
	{ "fork", way_fork },
	{ "vfork", way_vfork },
	{ "vfork_bare", way_vfork_bare },
	{ "spawn", way_spawn },
	{ "clone_all", way_clone_all },
	{ "clone_files", way_clone_files },
	{ "clone3_wrong", way_clone3_wrong },
	{ "unshare_files", way_unshare_files },
	{ "unshare_user", way_unshare_user },
	{ "locks", way_locks },
	{ "flock", way_flock },
	{ "same_pid", way_same_pid },
	{ "threads", way_threads },
	{ "cancel", way_cancel },
	{ "writer", way_writer },
	{ "generations", way_generations },
	{ "writer_nonblocking", way_writer_nonblocking },
	{ "mlockall", way_mlockall },
	{ "until_told", way_until_told },
	{ NULL, NULL },
};
