/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See shortage.h. */
#define _GNU_SOURCE
#include "tests/outside/shortage.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/look.h"
#include "lib/wire.h"

#define BLOCK LODIC_BLOCK_BYTES
/* More than there can be connections under such a limit. */
#define NR_IDLE 300u
#define LIMIT_CONNECTIONS 256u
#define LIMIT_FEW 64u
#define NR_LATE 10u
#define MOST_CONTEXTS 1024u
/* So often is the service seen asleep, of so many looks in a row. */
#define LOOKS 40u
#define LOOKS_ASLEEP 10u

struct test_bed shortage_bed;

/* ---- what the service has ---- */

u32 shortage_nr_descriptors(pid_t pid)
{
	char path[64];
	u32 nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	REQUIRE(d, "%s: %s", path, strerror(errno));
	while (readdir(d))
		nr++;
	closedir(d);
	return nr - 2; /* . and .. */
}

static bool is_asleep(pid_t pid)
{
	char path[64], line[256];
	bool asleep = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, pid);
	f = fopen(path, "r");
	REQUIRE(f, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "State:", 6) == 0)
			asleep = line[strspn(line + 6, " \t") + 6] == 'S';
	fclose(f);
	return asleep;
}

/* A main thread that goes round and round is never asleep. */
static bool rests(pid_t pid)
{
	u32 asleep = 0;

	for (u32 i = 0; i < LOOKS; i++) {
		asleep += is_asleep(pid);
		fixture_pause_us(500);
	}
	return asleep >= LOOKS_ASLEEP;
}

void shortage_limit(pid_t pid, int what, u64 value)
{
	struct rlimit limit;

	REQUIRE(prlimit(pid, (enum __rlimit_resource)what, NULL, &limit) == 0, "%s",
	        strerror(errno));
	limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
	REQUIRE(prlimit(pid, (enum __rlimit_resource)what, &limit, NULL) == 0, "%s",
	        strerror(errno));
}

/* ---- programs ---- */

int shortage_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	REQUIRE(fd >= 0, "%s", strerror(errno));
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	REQUIRE(errno == EAGAIN || errno == ECONNREFUSED, "%s", strerror(errno));
	close(fd);
	return -1;
}

bool shortage_is_hung_up(int fd)
{
	struct pollfd look = { .fd = fd };

	return poll(&look, 1, 0) == 1;
}

/* A program that takes what there is, and holds it until it is killed. */
struct eater {
	u64 *nr;    /* that it has got so far */
	u64 *error; /* why it got no more; 0: it goes on */
	pid_t pid;
};

static _Noreturn void eater_rest(struct eater *e, int error)
{
	host_store_release(e->error, (u64)(u32)error);
	for (;;)
		pause();
}

static struct eater eater_start(void (*run)(struct eater *e))
{
	static u64 *shared;
	struct eater e;

	if (!shared)
		shared = fixture_shared(2 * sizeof(*shared));
	shared[0] = shared[1] = 0;
	e = (struct eater){ .nr = shared, .error = shared + 1 };
	e.pid = fixture_fork();
	if (e.pid == 0)
		run(&e);
	return e;
}

/* Waits until it gets no more, and says why. */
static int eater_is_full(const struct eater *e)
{
	REQUIRE(WAIT_UNTIL_MS(host_load_acquire(e->error), SHORTAGE_MS),
	        "there is no end: %llu", (unsigned long long)*e->nr);
	return (int)host_load_acquire(e->error);
}

static void eater_kill(const struct eater *e)
{
	kill(e->pid, SIGKILL);
	fixture_wait(e->pid);
}

/* Idle connections, until the service hangs up on one. */
static _Noreturn void idle_run(struct eater *e)
{
	int fds[NR_IDLE];

	for (u32 i = 0; i < NR_IDLE; i++) {
		REQUIRE(WAIT_UNTIL((fds[i] = shortage_connect(
					    shortage_bed.service.socket)) >= 0),
		        "not connected");
		host_store_release(e->nr, i + 1);
	}
	/* It hangs up on what is too much, and on nobody else. */
	REQUIRE(WAIT_UNTIL(shortage_is_hung_up(fds[NR_IDLE - 1])), "all are let in");
	REQUIRE(!shortage_is_hung_up(fds[0]), "the first one is turned away");
	eater_rest(e, EUSERS);
}

/* Ordinary readers, each with a context, until one is not let in. */
static _Noreturn void readers_run(struct eater *e)
{
	struct lodic_context *context;
	struct lodic *lodic;
	int err;

	for (u32 i = 0; i < NR_IDLE; i++) {
		err = test_service_attach(&shortage_bed.service, &lodic);
		if (err == -EMFILE || err == -ECONNREFUSED)
			eater_rest(e, EUSERS);
		REQUIRE(err == 0, "%s", strerror(-err));
		err = lodic_context_open(lodic, &context);
		REQUIRE(err == 0, "%s", strerror(-err));
		host_store_release(e->nr, i + 1);
	}
	eater_rest(e, -1);
}

/* One program's contexts, as many as it gets. */
static _Noreturn void contexts_run(struct eater *e)
{
	struct lodic_context *context;
	struct lodic *lodic;
	int err = test_service_attach(&shortage_bed.service, &lodic);

	REQUIRE(err == 0, "%s", strerror(-err));
	for (u32 i = 0; i <= MOST_CONTEXTS; i++) {
		err = lodic_context_open(lodic, &context);
		if (err)
			eater_rest(e, -err);
		host_store_release(e->nr, i + 1);
	}
	eater_rest(e, -1);
}

/* Contexts take all descriptors but two, and then idle connections come. They are far fewer than
 * may be connected. */
static _Noreturn void descriptors_run(struct eater *e)
{
	struct lodic_context *context;
	struct lodic *lodic;
	int fds[NR_LATE], err = test_service_attach(&shortage_bed.service, &lodic);
	u32 nr = 0;

	REQUIRE(err == 0, "%s", strerror(-err));
	for (u32 i = 0; i < LIMIT_FEW; i++) {
		err = lodic_context_open(lodic, &context);
		REQUIRE(err == 0, "%s", strerror(-err));
	}
	for (u32 i = 0; i < NR_LATE; i++) {
		REQUIRE(WAIT_UNTIL((fds[i] = shortage_connect(
					    shortage_bed.service.socket)) >= 0),
		        "not connected");
		host_store_release(e->nr, i + 1);
	}
	REQUIRE(WAIT_UNTIL_MS(shortage_is_hung_up(fds[NR_LATE - 1]), SHORTAGE_MS),
	        "the service does nothing");
	for (u32 i = 0; i < NR_LATE; i++)
		nr += !shortage_is_hung_up(fds[i]);
	REQUIRE(nr < NR_LATE / 2, "%u are let in", nr);
	eater_rest(e, EMFILE);
}

bool shortage_is_served(void)
{
	struct lodic_context *context = NULL;
	struct lodic_file *file = NULL;
	struct lodic *lodic = NULL;
	u8 buffer[BLOCK];
	bool good = test_service_attach(&shortage_bed.service, &lodic) == 0 &&
	            lodic_context_open(lodic, &context) == 0 &&
	            lodic_open(lodic, shortage_bed.fd, &file) == 0 &&
	            lodic_prefetch(context, file, 0, BLOCK, LODIC_WAIT) == 0 &&
	            lodic_read(context, file, buffer, BLOCK, 0) == BLOCK &&
	            test_context_stat(context).hits == 1;

	REQUIRE(!good || pattern_holds(buffer, 1, 1, 0, BLOCK), "wrong bytes");
	if (file)
		lodic_close(file);
	if (context)
		lodic_context_close(context);
	if (lodic)
		lodic_detach(lodic);
	return good;
}

/* ---- the kinds ---- */

/* The program waits in the backlog. The service must not turn round and round for it, and must let
 * it in later. */
u64 shortage_descriptors_none(void)
{
	const struct wire_request hello = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS], fd;
	u64 begun;
	u32 nr;

	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, SHORTAGE_NO_FDS);
	fd = shortage_connect(shortage_bed.service.socket);
	REQUIRE(fd >= 0 && wire_send(fd, &hello, sizeof(hello), NULL, 0) == 0,
	        "not connected");
	REQUIRE(WAIT_UNTIL_MS(rests(shortage_bed.service.pid), SHORTAGE_MS),
	        "the service goes round and round");
	REQUIRE(!shortage_is_hung_up(fd), "it has no descriptor, and answers");
	REQUIRE(test_bed_reads_hit(&shortage_bed, 0), "not read from the cache");
	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, RLIM_INFINITY);
	begun = host_now_ns();
	REQUIRE(WAIT_UNTIL_MS(wire_receive(fd, &reply, sizeof(reply), fds, &nr) == 0,
	                      SHORTAGE_MS),
	        "the program that waited is not served");
	while (nr > 0)
		close(fds[--nr]);
	close(fd);
	return begun;
}

/* Contexts have taken all descriptors. The service hangs up on who comes then, by its spare one,
 * and the backlog is empty after that. */
u64 shortage_descriptors_few(void)
{
	struct eater e;
	u64 begun;
	int error;

	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, LIMIT_FEW);
	e = eater_start(descriptors_run);
	error = eater_is_full(&e);
	REQUIRE(error == EMFILE, "%s", strerror(error));
	eater_kill(&e);
	begun = host_now_ns();
	REQUIRE(WAIT_UNTIL_MS(shortage_is_served(), SHORTAGE_MS), "not served");
	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, RLIM_INFINITY);
	return begun;
}

static u64 connections_of(void (*run)(struct eater *e))
{
	struct eater e;
	struct lodic *lodic;
	int got, err;

	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, LIMIT_CONNECTIONS);
	e = eater_start(run);
	got = eater_is_full(&e);
	REQUIRE(got == EUSERS, "%s", strerror(got));
	/* A program hears why. One that has not asked yet finds that the service hangs up. */
	REQUIRE(WAIT_UNTIL_MS((err = test_service_attach(&shortage_bed.service,
	                                                 &lodic)) != -ECONNREFUSED,
	                      SHORTAGE_MS) &&
	                err == -EMFILE,
	        "%d", err);
	/* The service has descriptors left for files. */
	REQUIRE(shortage_nr_descriptors(shortage_bed.service.pid) <
	                LIMIT_CONNECTIONS * 7 / 8,
	        "%u", shortage_nr_descriptors(shortage_bed.service.pid));
	eater_kill(&e);
	return host_now_ns();
}

u64 shortage_connections_idle(void)
{
	return connections_of(idle_run);
}

u64 shortage_connections_readers(void)
{
	return connections_of(readers_run);
}

u64 shortage_contexts(void)
{
	struct eater e = eater_start(contexts_run);
	int error = eater_is_full(&e);

	REQUIRE(error == EUSERS, "%s", strerror(error));
	eater_kill(&e);
	return host_now_ns();
}

/* Asks for another size, and waits until that has failed. */
static void resize_fails(void)
{
	struct look_resize r;
	struct look *look;
	int pid, err;

	REQUIRE(WAIT_UNTIL(look_open(shortage_bed.service.socket, &look, &pid) == 0),
	        "no connection");
	err = look_resize(look, (u64)2 << 20, &r);
	REQUIRE(err == 0 || err == -ENOMEM, "%s", strerror(-err));
	while (!err && r.state == LOOK_RESIZE_RUNS) {
		fixture_pause_us(1000);
		err = look_resize(look, 0, &r);
	}
	REQUIRE(err || r.state == LOOK_RESIZE_FAILED, "the cache is resized");
	look_close(look);
}

/* No process memory, and no memory to share: what limits the size of files limits that, too. */
static u64 memory_of(int what)
{
	struct lodic_context *context;
	struct lodic *lodic;
	int err;

	shortage_limit(shortage_bed.service.pid, what, 1);
	err = test_service_attach(&shortage_bed.service, &lodic);
	REQUIRE(err == 0, "%s", strerror(-err));
	err = lodic_context_open(lodic, &context);
	REQUIRE(err == -ENOMEM, "%d", err);
	resize_fails();
	REQUIRE(test_bed_reads_hit(&shortage_bed, 0), "not read from the cache");
	shortage_limit(shortage_bed.service.pid, what, RLIM_INFINITY);
	lodic_detach(lodic);
	return host_now_ns();
}

u64 shortage_memory_mapped(void)
{
	return memory_of(RLIMIT_AS);
}

u64 shortage_memory_shared(void)
{
	return memory_of(RLIMIT_FSIZE);
}
