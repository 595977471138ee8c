/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the tests that run the real library against a real service stand on: a folder of
 * their own, services in forked children, files whose every byte can be recognised,
 * deadlines, a printed seed. Whatever way a test ends, its processes die with it and
 * its folder goes.
 */
#ifndef LODIC_TESTS_SUPPORT_CACHE_FIXTURE_H
#define LODIC_TESTS_SUPPORT_CACHE_FIXTURE_H

#include <sys/types.h>
#include <time.h>

#include "host/host.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

#define FIXTURE_PATH_BYTES 100 /* fits a socket's address */
/* Long enough for a loaded machine under a sanitizer; nothing waits for it in vain. */
#define FIXTURE_DEADLINE_MS 30000u
#define FIXTURE_SKIP 77
#define FIXTURE_NR_SCHEMES 4u

/* An argument like `--kills 2000`; one of number and text is set. */
struct fixture_option {
	const char *name;
	u64 *number;
	const char **text;
};

/* Reads the arguments, prints seed=..., makes the folder. options ends with a NULL name;
 * `--seed N` and LODIC_TEST_SEED are understood besides. */
void fixture_begin(int argc, char **argv, const struct fixture_option *options);
u64 fixture_seed(void);
/* A path in the folder. */
void fixture_path(char path[FIXTURE_PATH_BYTES], const char *name);
/* Ends the test: 77 and why. */
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

/* true once the condition holds, false when ms have passed before. */
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

/* Random numbers: streams of one seed that differ by their number. */
u64 random_stream(u64 number);
u64 random_next(u64 *stream);
static inline u64 random_below(u64 *stream, u64 n)
{
	return random_next(stream) % n;
}

/* fork(), but the child dies with its parent. */
pid_t fixture_fork(void);
/* Waits for a child until the deadline. Its wait status, or -1: it hangs (and was
 * killed). */
int fixture_wait(pid_t pid);
/* Zeroed memory that forked children share. */
void *fixture_shared(size_t bytes);

/* A service in a child of this process. */
struct test_service {
	struct service_options options; /* change them before it starts */
	char socket[FIXTURE_PATH_BYTES];
	char why[256]; /* what it said when it failed to start */
	pid_t pid;     /* 0: none runs */
};
/* A small cache of the LODIC scheme that stays until it is stopped; name is its
 * socket's, in the folder. */
void test_service_init(struct test_service *service, const char *name);
/* 0 once clients can connect; service_run()'s error; -EIO: it died. */
int test_service_start(struct test_service *service);
void test_service_kill(struct test_service *service); /* kill -9 */
/* SIGTERM. 0: it ended in order; 1: it did not. */
int test_service_stop(struct test_service *service);
/* Attaches without starting anything. */
int test_service_attach(const struct test_service *service, struct lodic **ret_lodic);
/* The statistics, which must be there. */
struct lodic_stat test_service_stat(struct lodic *lodic);

/* File contents: each word names the file, the version and the place that it is of, so
 * bytes that are wrong, torn or old do not pass for right ones. 0 < version < 2^24.
 * No word is 0. */
u64 pattern_word(u64 file, u64 version, u64 index);
#define PATTERN_VERSION(word) ((word) >> 40)
/* Any offset and length. */
void pattern_fill(void *to, u64 file, u64 version, u64 offset, u64 bytes);
bool pattern_holds(const void *from, u64 file, u64 version, u64 offset, u64 bytes);
/* Makes a file of so many bytes in the folder and gives its path. */
void pattern_file_make(char path[FIXTURE_PATH_BYTES], const char *name, u64 file,
                       u64 version, u64 bytes);
/* open(), which must succeed. */
int fixture_open(const char *path, int flags);
/* Skips the test when no lease is to be had in the folder. */
void fixture_need_leases(const struct test_service *service, const char *path);

/* A service of its own and one reader of one file of pattern 1.1 in it. */
struct test_bed {
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];
	int fd;
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *file;
};
/* Not there yet; for options that differ, before test_bed_make(). */
void test_bed_init(struct test_bed *bed, enum lodic_scheme scheme);
/* Starts it all. The file is held, but nothing of it is cached yet. */
void test_bed_make(struct test_bed *bed, u64 file_bytes);
void test_bed_free(struct test_bed *bed);
struct lodic_context_stat test_context_stat(struct lodic_context *context);

/* By its name; the test ends when there is none of that name. */
enum lodic_scheme fixture_scheme(const char *name);

#endif
