/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: visitor.h. */
#define _GNU_SOURCE
#include "tests/support/visitor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "--visitor"
#define NR_ARGUMENTS 5
#define NR_THREADS 2u
#define STEPS 200u

/* One visit; the two threads share all but their contexts and streams. */
struct visit {
	struct visitor_tally *tally;
	struct lodic *lodic;
	struct lodic_file *file;
	int fd;
	u64 nr_blocks;
};

struct visiting_thread {
	struct visit *visit;
	struct lodic_context *context;
	u64 random;
};

static void visit_compare(const struct visit *v, const void *bytes, size_t n, u64 at)
{
	u8 right[LODIC_BLOCK_BYTES];

	if (pread(v->fd, right, n, (off_t)at) != (ssize_t)n ||
	    memcmp(right, bytes, n) != 0)
		host_fetch_add(&v->tally->wrong, 1);
}

static void visit_step(struct visiting_thread *t)
{
	struct visit *v = t->visit;
	u64 at = random_below(&t->random, v->nr_blocks) * LODIC_BLOCK_BYTES;
	u8 buffer[LODIC_BLOCK_BYTES];
	struct lodic_pin pin;
	ssize_t n;

	if (lodic_pin(t->context, v->file, (off_t)at, &pin) == 0) {
		visit_compare(v, pin.data, pin.bytes, at);
		lodic_unpin(t->context, &pin);
		host_fetch_add(&v->tally->pins, 1);
	}
	n = lodic_read(t->context, v->file, buffer, sizeof(buffer), (off_t)at);
	REQUIRE(n > 0, "%zd", n);
	visit_compare(v, buffer, (size_t)n, at);
}

static void *visit_run(void *arg)
{
	for (u32 i = 0; i < STEPS; i++)
		visit_step(arg);
	return NULL;
}

/* The child has its parent's socket, and no pins. */
static void visit_fork(struct visiting_thread *t)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0, "%s", strerror(errno));
	if (pid == 0) {
		visit_step(t);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Threads and contexts until the service has gone, or all steps are done. */
static void visit(struct visit *v, u64 *random)
{
	struct visiting_thread threads[NR_THREADS];
	pthread_t other;

	for (u32 i = 0; i < NR_THREADS; i++) {
		threads[i] = (struct visiting_thread){ v, NULL, random_next(random) };
		if (lodic_context_open(v->lodic, &threads[i].context) != 0)
			threads[i].context = NULL; /* the service has just died */
	}
	if (threads[0].context && threads[1].context) {
		REQUIRE(pthread_create(&other, NULL, visit_run, &threads[1]) == 0,
		        "no thread");
		visit_run(&threads[0]);
		pthread_join(other, NULL);
		visit_fork(&threads[0]);
	}
	host_fetch_add(&v->tally->visits, 1);
	if (random_below(random, 2))
		return; /* and exec() */
	for (u32 i = 0; i < NR_THREADS; i++)
		lodic_context_close(threads[i].context);
	lodic_close(v->file);
	lodic_detach(v->lodic);
	v->lodic = NULL;
}

/* argv: program, NAME, socket, path, descriptor of the tally. */
static _Noreturn void visitor_run(char **argv)
{
	int tally_fd = atoi(argv[4]);
	struct visit v = { .fd = fixture_open(argv[3], O_RDONLY) };
	u64 random = random_mix(host_now_ns());
	struct test_service service;
	struct stat st;

	v.tally = mmap(NULL, sizeof(*v.tally), PROT_READ | PROT_WRITE, MAP_SHARED,
	               tally_fd, 0);
	REQUIRE(v.tally != MAP_FAILED && fstat(v.fd, &st) == 0, "%s", strerror(errno));
	v.nr_blocks = (u64)st.st_size / LODIC_BLOCK_BYTES;
	snprintf(service.socket, sizeof(service.socket), "%s", argv[2]);
	while (!host_load_acquire(&v.tally->stop)) {
		if (test_service_attach(&service, &v.lodic) != 0 ||
		    lodic_open(v.lodic, v.fd, &v.file) != 0) {
			fixture_pause_us(1000);
			continue;
		}
		visit(&v, &random);
		if (!v.lodic)
			continue;
		host_fetch_add(&v.tally->execs, 1);
		execv("/proc/self/exe", argv);
	}
	_exit(0);
}

void visitor_begin(int argc, char **argv)
{
	if (argc == NR_ARGUMENTS && strcmp(argv[1], NAME) == 0)
		visitor_run(argv);
}

void visitor_start(struct visitor *v, const struct test_service *service,
                   const char *path)
{
	char tally[16];

	v->tally_fd = memfd_create("visitor", 0); /* not close-on-exec */
	REQUIRE(v->tally_fd >= 0 && ftruncate(v->tally_fd, sizeof(*v->tally)) == 0,
	        "%s", strerror(errno));
	v->tally = mmap(NULL, sizeof(*v->tally), PROT_READ | PROT_WRITE, MAP_SHARED,
	                v->tally_fd, 0);
	REQUIRE(v->tally != MAP_FAILED, "%s", strerror(errno));
	snprintf(tally, sizeof(tally), "%d", v->tally_fd);
	v->pid = fixture_fork();
	if (v->pid == 0) {
		execl("/proc/self/exe", "visitor", NAME, service->socket, path, tally,
		      NULL);
		_exit(1);
	}
}

void visitor_stop(struct visitor *v)
{
	const struct visitor_tally *t = v->tally;

	/* Services that were killed early may never have answered it; this one does. */
	REQUIRE(WAIT_UNTIL(host_load_acquire(&t->execs) > 0 &&
	                   host_load_acquire(&t->pins) > 0),
	        "too little was done");
	host_store_release(&v->tally->stop, 1);
	REQUIRE(fixture_wait(v->pid) == 0, "the visitor hangs");
	printf("visitor: %llu visits, %llu of them left by exec(), %llu pins\n",
	       (unsigned long long)t->visits, (unsigned long long)t->execs,
	       (unsigned long long)t->pins);
	REQUIRE(t->wrong == 0, "%llu wrong", (unsigned long long)t->wrong);
	close(v->tally_fd);
}
