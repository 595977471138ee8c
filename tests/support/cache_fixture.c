/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cache_fixture.h. */
#define _GNU_SOURCE
#include "tests/support/cache_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/settings.h"

#define FOLDER_TEMPLATE "/lodic-test-XXXXXX"
/* A longer one would leave no room for a socket's name. */
#define FOLDER_MOST_BYTES 60
#define SERVICE_PIPE 3

static struct {
	u64 seed;
	const char *barrier;
	char folder[FIXTURE_PATH_BYTES];
	pid_t owner; /* the process that removes the folder */
} fixture = { .barrier = "auto" };

/* A service that ended in order must not have leaked memory. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

u64 random_stream(u64 number)
{
	return random_mix(fixture.seed ^ random_mix(number + 1));
}

u64 fixture_seed(void)
{
	return fixture.seed;
}

void fixture_pause_us(u64 us)
{
	struct timespec pause = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	nanosleep(&pause, NULL);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	remove(path);
	return 0;
}

static void folder_remove(void)
{
	if (getpid() == fixture.owner)
		nftw(fixture.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Starts a process that waits until the test ends, however it ends, and then removes the
 * folder. */
static void sweeper_start(void)
{
	struct pollfd parent = { .events = POLLIN };
	pid_t pid;

	parent.fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (parent.fd < 0)
		return; /* on an old kernel only an orderly end cleans up */
	pid = fork();
	if (pid == 0) {
		setsid();
		for (int i = 0; i <= 2; i++)
			close(i);
		while (poll(&parent, 1, -1) < 0)
			;
		nftw(fixture.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		_exit(0);
	}
	close(parent.fd);
}

static void folder_make(void)
{
	const char *base = getenv("TMPDIR");

	if (!base || !*base || strlen(base) > FOLDER_MOST_BYTES)
		base = "/tmp";
	snprintf(fixture.folder, sizeof(fixture.folder), "%s" FOLDER_TEMPLATE, base);
	REQUIRE(mkdtemp(fixture.folder), "%s: %s", fixture.folder, strerror(errno));
	fixture.owner = getpid();
	atexit(folder_remove);
	sweeper_start();
}

static bool option_take(const struct fixture_option *option, const char *name,
                        const char *value)
{
	char *end = (char *)value;

	if (strcmp(option->name, name) != 0)
		return false;
	if (option->text)
		*option->text = value;
	else
		*option->number = strtoull(value, &end, 0);
	return option->text || (*value && !*end);
}

static void options_list(const char *program, const struct fixture_option *options)
{
	fprintf(stderr, "usage: %s [--seed N] [--barrier auto|light|lock]", program);
	for (const struct fixture_option *o = options; o && o->name; o++)
		fprintf(stderr, " [%s %s]", o->name, o->text ? "TEXT" : "N");
	fprintf(stderr, "\n");
}

void fixture_begin(int argc, char **argv, const struct fixture_option *options)
{
	const char *environment = getenv("LODIC_TEST_SEED");
	const struct fixture_option seed = { .name = "--seed",
		                             .number = &fixture.seed };
	const struct fixture_option barrier = { .name = "--barrier",
		                                .text = &fixture.barrier };
	const struct fixture_option *o;
	bool taken;
	int i;

	fixture.seed = random_mix(host_now_ns() ^ (u64)getpid() << 40) >> 32;
	if (environment)
		option_take(&seed, "--seed", environment);
	for (i = 1; i < argc; i += 2) {
		taken = i + 1 < argc && (option_take(&seed, argv[i], argv[i + 1]) ||
		                         option_take(&barrier, argv[i], argv[i + 1]));
		for (o = options; !taken && i + 1 < argc && o && o->name; o++)
			taken = option_take(o, argv[i], argv[i + 1]);
		if (!taken) {
			if (strcmp(argv[i], "--help") != 0)
				fprintf(stderr, "%s: wrong option '%s'\n", argv[0],
				        argv[i]);
			options_list(argv[0], options);
			exit(strcmp(argv[i], "--help") == 0 ? 0 : 2);
		}
	}
	printf("seed=%llu barrier=%s\n", (unsigned long long)fixture.seed,
	       fixture.barrier);
	fflush(stdout);
	signal(SIGPIPE, SIG_IGN);
	folder_make();
}

void fixture_path(char path[FIXTURE_PATH_BYTES], const char *name)
{
	int n = snprintf(path, FIXTURE_PATH_BYTES, "%s/%s", fixture.folder, name);

	REQUIRE(n < FIXTURE_PATH_BYTES, "%s is too long", name);
}

static _Noreturn void leave(int status)
{
	if (getpid() == fixture.owner)
		exit(status);
	_exit(status);
}

void fixture_skip(const char *why)
{
	printf("SKIP: %s\n", why);
	fflush(stdout);
	leave(FIXTURE_SKIP);
}

void fixture_fail(const char *file, int line, const char *condition, const char *format,
                  ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	fflush(stdout);
	fprintf(stderr, "FAILED %s:%d: %s: %s (seed=%llu)\n", file, line, condition,
	        message, (unsigned long long)fixture.seed);
	leave(1);
}

static enum service_barrier fixture_barrier(void)
{
	enum service_barrier barrier = SERVICE_BARRIER_AUTO;

	while (settings_barrier_name(barrier) &&
	       strcmp(fixture.barrier, settings_barrier_name(barrier)) != 0)
		barrier++;
	REQUIRE(settings_barrier_name(barrier), "there is no '%s'", fixture.barrier);
	return barrier;
}

pid_t fixture_fork(void)
{
	pid_t parent = getpid();
	pid_t pid;

	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0, "%s", strerror(errno));
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it died before prctl() */
	return 0;
}

int fixture_wait(pid_t pid)
{
	int status = 0;

	if (WAIT_UNTIL(waitpid(pid, &status, WNOHANG) != 0))
		return status;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

void fixture_end(pid_t pid)
{
	struct pollfd end = { .events = POLLIN };

	/* kill(pid, 0) would find its zombie, where init collects none for a while. */
	end.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	REQUIRE(end.fd >= 0 && kill(pid, SIGTERM) == 0, "%s", strerror(errno));
	REQUIRE(poll(&end, 1, FIXTURE_DEADLINE_MS) == 1, "process %d lives", (int)pid);
	close(end.fd);
}

void *fixture_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	               -1, 0);

	REQUIRE(p != MAP_FAILED, "%s", strerror(errno));
	return p;
}

/* What a service tells its parent: clients can connect, or why not. */
struct service_report {
	int error;
	char why[256];
};

static void service_ready(void *arg)
{
	const struct service_report report = { 0 };

	(void)arg;
	if (write(SERVICE_PIPE, &report, sizeof(report)) != sizeof(report))
		_exit(1);
	close(SERVICE_PIPE);
}

static _Noreturn void service_child(struct test_service *service, int report_fd)
{
	struct service_report report = { 0 };
	const char *why = NULL;
	int leaked = 0, last = SERVICE_PIPE, passed = service->options.place.listening;

	/* A real service is another program, without our other descriptors. */
	passed = passed ? fcntl(passed, F_DUPFD, SERVICE_PIPE + 2) : -1;
	if (report_fd != SERVICE_PIPE)
		dup2(report_fd, SERVICE_PIPE);
	service->options.place.listening = passed < 0 ? 0 : dup2(passed, ++last);
	close_range(last + 1, ~0u, 0);
	report.error = service_run(&service->options, service_ready, NULL, &why);
	if (report.error) {
		snprintf(report.why, sizeof(report.why), "%s", why ? why : "");
		leaked = write(SERVICE_PIPE, &report, sizeof(report)) != sizeof(report);
	} else if (__lsan_do_recoverable_leak_check && !service->inherits) {
		leaked = __lsan_do_recoverable_leak_check();
	}
	_exit(report.error || leaked);
}

void test_service_init(struct test_service *service, const char *name)
{
	*service = (struct test_service){ .options = {
						  .sizes.cache_bytes = (u64)1 << 20,
						  .keeping.nr_files = 64,
						  .tables.barrier = fixture_barrier(),
					  } };
	fixture_path(service->socket, name);
}

void test_service_begin(struct test_service *service)
{
	int ends[2];
	pid_t pid;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0, "%s", strerror(errno));
	if (!service->options.place.socket)
		service->options.place.socket = service->socket;
	pid = fixture_fork();
	if (pid == 0)
		service_child(service, ends[1]);
	close(ends[1]);
	service->report = ends[0];
	service->pid = pid;
}

bool test_service_has_said(const struct test_service *service)
{
	struct pollfd look = { .fd = service->report, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

int test_service_await(struct test_service *service)
{
	struct service_report report = { .error = -EIO };
	struct pollfd wait = { .fd = service->report, .events = POLLIN };

	if (poll(&wait, 1, FIXTURE_DEADLINE_MS) == 1 &&
	    read(service->report, &report, sizeof(report)) != sizeof(report))
		report.error = -EIO;
	close(service->report);
	memcpy(service->why, report.why, sizeof(service->why));
	if (report.error)
		test_service_kill(service);
	if (report.error == -EOPNOTSUPP && fixture_barrier() == SERVICE_BARRIER_LIGHT)
		fixture_skip(service->why);
	return report.error;
}

int test_service_start(struct test_service *service)
{
	test_service_begin(service);
	return test_service_await(service);
}

void test_service_kill(struct test_service *service)
{
	if (service->pid <= 0)
		return;
	kill(service->pid, SIGKILL);
	waitpid(service->pid, NULL, 0);
	service->pid = 0;
}

void test_service_freeze(const struct test_service *service)
{
	int status;

	REQUIRE(kill(service->pid, SIGSTOP) == 0 &&
	                waitpid(service->pid, &status, WUNTRACED) == service->pid &&
	                WIFSTOPPED(status),
	        "the service does not stop");
}

int test_service_stop(struct test_service *service)
{
	int status;

	if (service->pid <= 0)
		return 0;
	kill(service->pid, SIGTERM);
	status = fixture_wait(service->pid);
	service->pid = 0;
	return status != 0;
}

int test_service_attach(const struct test_service *service, struct lodic **ret_lodic)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = service->socket,
		                               .service = "" };
	int err;

	/* The library waits 2 s. On a loaded machine a service may get no CPU for so long. */
	(void)WAIT_UNTIL((err = lodic_attach(&options, ret_lodic)) != -ETIMEDOUT);
	return err;
}

struct lodic_stat test_service_stat(struct lodic *lodic)
{
	struct lodic_stat stat = { 0 };
	int err;

	(void)WAIT_UNTIL((err = lodic_stat(lodic, &stat, sizeof(stat))) != -ETIMEDOUT);
	REQUIRE(err == 0, "%s", strerror(-err));
	return stat;
}

static void fixture_put(const char *folder, const char *name, const char *text)
{
	char path[2 * FIXTURE_PATH_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	REQUIRE(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

const char *fixture_two_nodes(void)
{
	static char folder[FIXTURE_PATH_BYTES];
	char node[FIXTURE_PATH_BYTES + 8];

	fixture_path(folder, "nodes");
	mkdir(folder, 0700);
	fixture_put(folder, "has_memory", "0-1\n");
	fixture_put(folder, "has_cpu", "0-1\n");
	for (u32 i = 0; i < 2; i++) {
		snprintf(node, sizeof(node), "%s/node%u", folder, i);
		mkdir(node, 0700);
		fixture_put(node, "cpulist", i ? "1-255\n" : "0\n");
	}
	return folder;
}

int fixture_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

void fixture_need_leases(const struct test_service *service, const char *path)
{
	struct lodic *lodic;
	struct lodic_file *file;
	int fd = fixture_open(path, O_RDONLY);
	int err = test_service_attach(service, &lodic);

	REQUIRE(err == 0, "%s", strerror(-err));
	err = lodic_open(lodic, fd, &file);
	REQUIRE(err == 0, "%s", strerror(-err));
	err = lodic_file_cached(file);
	lodic_close(file);
	lodic_detach(lodic);
	close(fd);
	if (err == -EACCES || err == -EOPNOTSUPP || err == -EMEDIUMTYPE)
		fixture_skip("no leases where temporary files are: set TMPDIR");
	REQUIRE(err == 0, "%s", strerror(-err));
}

enum lodic_scheme fixture_scheme(const char *name)
{
	u32 scheme;

	for (scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++)
		if (strcmp(name, lodic_scheme_name((enum lodic_scheme)scheme)) == 0)
			return (enum lodic_scheme)scheme;
	fixture_fail(__FILE__, __LINE__, "a scheme", "there is no '%s'", name);
}

void test_bed_init(struct test_bed *bed, enum lodic_scheme scheme)
{
	/* Each bed has a name of its own: a failed test may have left the last one. */
	static unsigned int nr_beds;
	char name[32];

	memset(bed, 0, sizeof(*bed));
	snprintf(name, sizeof(name), "bed%u", nr_beds++);
	test_service_init(&bed->service, name);
	bed->service.options.tables.scheme = scheme;
}

void test_bed_make(struct test_bed *bed, u64 file_bytes)
{
	pattern_file_make(bed->path, "bed-file", 1, 1, file_bytes);
	bed->fd = fixture_open(bed->path, O_RDONLY);
	REQUIRE(test_service_start(&bed->service) == 0, "%s", bed->service.why);
	REQUIRE(test_service_attach(&bed->service, &bed->lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(bed->lodic, &bed->context) == 0, "no context");
	REQUIRE(lodic_open(bed->lodic, bed->fd, &bed->file) == 0, "not opened");
}

void test_bed_make_blocks(struct test_bed *bed, u64 cache_bytes, u64 blocks)
{
	test_bed_init(bed, LODIC_LODIC);
	bed->service.options.sizes.cache_bytes = cache_bytes;
	test_bed_make(bed, blocks * LODIC_BLOCK_BYTES);
}

void test_bed_fill(struct test_bed *bed)
{
	REQUIRE(WAIT_UNTIL(lodic_prefetch(bed->context, bed->file, 0, 0, LODIC_WAIT) ==
	                   0),
	        "not brought in");
}

bool test_bed_reads_hit(struct test_bed *bed, u64 i)
{
	u64 hits = test_context_stat(bed->context).hits;
	u64 at = i * LODIC_BLOCK_BYTES;
	u8 buffer[LODIC_BLOCK_BYTES];

	REQUIRE(lodic_read(bed->context, bed->file, buffer, sizeof(buffer),
	                   (off_t)at) == (ssize_t)sizeof(buffer),
	        "block %llu is not read", (unsigned long long)i);
	REQUIRE(pattern_holds(buffer, 1, 1, at, sizeof(buffer)),
	        "wrong bytes in block %llu", (unsigned long long)i);
	return test_context_stat(bed->context).hits > hits;
}

void test_bed_come_back(struct test_bed *bed)
{
	REQUIRE(WAIT_UNTIL(test_bed_reads_hit(bed, 0)),
	        "the reader does not come back to the cache");
}

void test_bed_need_leases(void)
{
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, 1);
	fixture_need_leases(&b.service, b.path);
	test_bed_free(&b);
}

void test_bed_succeed(struct test_bed *bed)
{
	struct test_service next = bed->service;
	int status;

	next.options.place.takeover = true;
	REQUIRE(test_service_start(&next) == 0, "%s", next.why);
	status = fixture_wait(bed->service.pid);
	REQUIRE(status == 0, "the service before has ended with %d", status);
	bed->service = next;
	bed->service.options.place.takeover = false;
}

void test_bed_free(struct test_bed *bed)
{
	lodic_close(bed->file);
	lodic_context_close(bed->context);
	lodic_detach(bed->lodic);
	close(bed->fd);
	REQUIRE(test_service_stop(&bed->service) == 0,
	        "the service did not end in order");
	unlink(bed->path);
}

struct lodic_context_stat test_context_stat(struct lodic_context *context)
{
	struct lodic_context_stat stat;

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat;
}
