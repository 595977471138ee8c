/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What tests need to run the real library against a real service. Each test has a folder
 * of its own, services in forked children, and files in which each byte can be recognised.
 * It also has deadlines and a printed seed. However a test ends, its processes die with it,
 * and its folder is removed.
 */
#ifndef LODIC_TESTS_SUPPORT_CACHE_FIXTURE_H
#define LODIC_TESTS_SUPPORT_CACHE_FIXTURE_H

#include <sys/types.h>
#include <time.h>

#include "host/random.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

#define FIXTURE_PATH_BYTES 100 /* fits a socket's address */
/* Does the program have a mutant? What that keeps from happening is not waited for so long. */
#ifndef TEST_MUTANT
#define TEST_MUTANT false
#endif
/* Long enough for a loaded machine under a sanitizer. A test that passes never waits so
 * long. One that must fail mostly waits until the end. */
#define FIXTURE_DEADLINE_MS (TEST_MUTANT ? 5000u : 30000u)
#define FIXTURE_SKIP 77
#define FIXTURE_NR_SCHEMES 4u

/* An argument like `--kills 2000`. Either number or text is set. */
struct fixture_option {
	const char *name;
	u64 *number;
	const char **text;
};

/* Reads the arguments, prints seed=..., and makes the folder. options ends with a NULL name.
 * `--seed N` and LODIC_TEST_SEED set the seed. `--barrier light` or `lock` is for each service
 * that test_service_init() describes; a test ends with 77 where there are no light pins. */
void fixture_begin(int argc, char **argv, const struct fixture_option *options);
u64 fixture_seed(void);
/* Gives a path in the folder. */
void fixture_path(char path[FIXTURE_PATH_BYTES], const char *name);
/* Ends the test with 77, and says why. */
_Noreturn void fixture_skip(const char *why);
/* Ends the process with 1. */
__attribute__((format(printf, 4, 5))) _Noreturn void
fixture_fail(const char *file, int line, const char *condition, const char *format,
             ...);
#define REQUIRE(condition, ...) \
	do { \
		if (!(condition)) \
			fixture_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)

/* Waits until the condition holds: true; or until ms have passed: false. */
#define WAIT_UNTIL_MS(condition, ms) \
	({ \
		u64 end_ns_ = host_now_ns() + (u64)(ms)*1000000; \
		bool holds_; \
		while (!(holds_ = (condition)) && host_now_ns() < end_ns_) \
			fixture_pause_us(200); \
		holds_; \
	})
#define WAIT_UNTIL(condition) WAIT_UNTIL_MS(condition, FIXTURE_DEADLINE_MS)
void fixture_pause_us(u64 us);

/* Random numbers. Streams of one seed differ by their number. */
u64 random_stream(u64 number);
static inline u64 random_below(u64 *stream, u64 n)
{
	return random_next(stream) % n;
}

/* fork(), but the child dies with its parent. */
pid_t fixture_fork(void);
/* Waits for a child until the deadline. Returns its wait status. -1: the child hangs, and
 * is now killed. */
int fixture_wait(pid_t pid);
/* Sends SIGTERM to a process that is no child of this one, and waits for its end. */
void fixture_end(pid_t pid);
/* Zeroed memory that forked children share. */
void *fixture_shared(size_t bytes);

/* A service in a child of this process. */
struct test_service {
	struct service_options options; /* the test may change them before the start */
	char socket[FIXTURE_PATH_BYTES];
	char why[256]; /* what the service said when it failed to start */
	pid_t pid;     /* 0: it does not run */
	int report;    /* between test_service_begin() and test_service_await() */
	/* It starts while readers are at work in the test. What they have in memory that a
	 * fork wipes looks leaked in the service. */
	bool inherits;
};
/* Describes a small cache of the LODIC scheme that runs until it is stopped. Its socket is
 * name in the folder. Its lease_pause_ms is 0, because many tests write to a file and want it
 * cached again at once. */
void test_service_init(struct test_service *service, const char *name);
/* 0 once clients can connect. -errno as service_run(); -EIO: it died. */
int test_service_start(struct test_service *service);
/* The same in two steps. A service that has been killed between them says -EIO. */
void test_service_begin(struct test_service *service);
int test_service_await(struct test_service *service);
/* Would test_service_await() return at once? */
bool test_service_has_said(const struct test_service *service);
void test_service_kill(struct test_service *service); /* kill -9 */
/* Stops it by SIGSTOP, and waits until none of its threads runs. SIGCONT lets it go on. */
void test_service_freeze(const struct test_service *service);
/* Sends SIGTERM. 0: the service ended in order; 1: it did not. */
int test_service_stop(struct test_service *service);
/* Attaches without starting anything. It waits for a service that is late. */
int test_service_attach(const struct test_service *service, struct lodic **ret_lodic);
/* The statistics. The test fails without them. */
struct lodic_stat test_service_stat(struct lodic *lodic);

/* File contents. Each word depends on the file, the version and the place. So bytes that
 * are wrong, torn or old do not pass for right ones. 0 < version < 2^24. No word is 0. */
u64 pattern_word(u64 file, u64 version, u64 index);
#define PATTERN_VERSION(word) ((word) >> 40)
/* Any offset and length. */
void pattern_fill(void *to, u64 file, u64 version, u64 offset, u64 bytes);
bool pattern_holds(const void *from, u64 file, u64 version, u64 offset, u64 bytes);
/* Makes a file of so many bytes in the folder, and gives its path. */
void pattern_file_make(char path[FIXTURE_PATH_BYTES], const char *name, u64 file,
                       u64 version, u64 bytes);
/* open(2). The test fails when this fails. */
int fixture_open(const char *path, int flags);
/* A folder for options.placing.nodes: a machine with two nodes. CPU 0 is on the first, all others
 * are on the second. */
const char *fixture_two_nodes(void);
/* Skips the test when the kernel gives no leases in the folder. */
void fixture_need_leases(const struct test_service *service, const char *path);

/* A service, a reader of it, and one file, which has pattern 1.1. */
struct test_bed {
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	int fd;
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *file;
};
/* Skips the test program when the kernel gives no leases where beds have their files. */
void test_bed_need_leases(void);
/* Describes a bed. The test may change service.options before test_bed_make(). */
void test_bed_init(struct test_bed *bed, enum lodic_scheme scheme);
/* Starts the service and opens the file. No block of the file is cached yet. */
void test_bed_make(struct test_bed *bed, u64 file_bytes);
/* All of it: a bed of the LODIC scheme with a cache of that size and a file of so many blocks. */
void test_bed_make_blocks(struct test_bed *bed, u64 cache_bytes, u64 blocks);
/* Brings the file into the cache, as far as there is room. */
void test_bed_fill(struct test_bed *bed);
/* Reads block i and says whether it came from the cache. The bytes must be right. */
bool test_bed_reads_hit(struct test_bed *bed, u64 i);
/* Waits until the reader is back in the cache: it comes back as it reads. */
void test_bed_come_back(struct test_bed *bed);
/* A successor takes the service's place, and that ends in order. */
void test_bed_succeed(struct test_bed *bed);
void test_bed_free(struct test_bed *bed);
struct lodic_context_stat test_context_stat(struct lodic_context *context);

/* The scheme of that name. The test fails when there is none. */
enum lodic_scheme fixture_scheme(const char *name);

#endif
