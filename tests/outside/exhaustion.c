/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What runs out comes back. Each kind of shortage is driven to its end, so that the service has to
 * refuse something, and is then over. The first program that comes after that must be served. In
 * the end the service has as many descriptors and contexts, and as much memory, as after its
 * start.
 *
 *     outside_exhaustion [--rounds N] [--kind NAME] --lodic PROGRAM
 *
 * One service meets all kinds of `kinds`, one after the other, in each round. Another kind is one
 * row there, and a function of shortage.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/look.h"
#include "lib/wire.h"
#include "tests/outside/shortage.h"

#define BLOCK LODIC_BLOCK_BYTES
/* Each of the service's threads has an arena of its allocator, of 100 KiB here after a while. Our
 * choice: less than one connection leaked a round would take in 100 rounds. */
#define MEMORY_SLACK_KIB 1536u
/* Longer than its deadlines together: what hangs here hangs for ever. */
#define KIND_SECONDS 100u
#define NR_LATE 48u
#define MOST_CONNECTIONS 64u
#define NR_MANY 120u /* they fit into the backlog */
#define NR_KEPT 20u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static struct {
	u64 rounds;
	const char *kind, *lodic;
} wanted = { .rounds = 3 };

/* What the service had when it had served one program. */
static struct {
	u64 memory_kib;
	u32 descriptors;
} first;

/* The number behind this name in /proc/PID/status. */
static u64 status_number(pid_t pid, const char *name)
{
	char path[64], line[256];
	u64 number = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	REQUIRE(f, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			number = strtoull(line + strlen(name), NULL, 10);
	fclose(f);
	return number;
}

struct kind {
	const char *name;
	u64 (*run)(void);
	bool processes; /* not under a sanitizer, which needs memory of its own */
	u64 nr, most_ns, all_ns;
};

static struct kind kinds[] = {
	{ .name = "descriptors-none", .run = shortage_descriptors_none },
	{ .name = "descriptors-few", .run = shortage_descriptors_few },
	{ .name = "memory-mapped", .run = shortage_memory_mapped, .processes = true },
	{ .name = "memory-shared", .run = shortage_memory_shared },
	{ .name = "contexts", .run = shortage_contexts },
	{ .name = "connections-idle", .run = shortage_connections_idle },
	{ .name = "connections-readers", .run = shortage_connections_readers },
	{ .name = "disk", .run = shortage_disk_full },
};
#define NR_KINDS (sizeof(kinds) / sizeof(*kinds))

/* The service has what it had when it had served one program. */
static void assert_all_is_back(const char *after)
{
	REQUIRE(WAIT_UNTIL_MS(test_service_stat(shortage_bed.lodic).contexts == 1,
	                      SHORTAGE_MS),
	        "after %s: %llu contexts", after,
	        (unsigned long long)test_service_stat(shortage_bed.lodic).contexts);
	REQUIRE(WAIT_UNTIL_MS(shortage_nr_descriptors(shortage_bed.service.pid) ==
	                              first.descriptors,
	                      SHORTAGE_MS),
	        "after %s: %u descriptors, %u at first", after,
	        shortage_nr_descriptors(shortage_bed.service.pid), first.descriptors);
}

static const char *under_way = "start";

/* What waits for a service that does not answer waits for ever. */
static void hangs(int signal)
{
	(void)signal;
	fixture_fail(__FILE__, __LINE__, "an answer", "%s hangs", under_way);
}

static void kind_run(struct kind *k)
{
	u64 begun, took;

	if ((wanted.kind && strcmp(wanted.kind, k->name) != 0) ||
	    (SANITIZED && k->processes))
		return;
	under_way = k->name;
	alarm(KIND_SECONDS);
	begun = k->run();
	REQUIRE(WAIT_UNTIL_MS(shortage_is_served(), SHORTAGE_MS),
	        "after %s: not served", k->name);
	took = host_now_ns() - begun;
	shortage_limit(shortage_bed.service.pid, RLIMIT_NOFILE, RLIM_INFINITY);
	assert_all_is_back(k->name);
	k->nr++;
	k->all_ns += took;
	k->most_ns = took > k->most_ns ? took : k->most_ns;
}

static void assert_memory_is_back(void)
{
	u64 now_kib = status_number(shortage_bed.service.pid, "RssAnon:");

	printf("%u descriptors and %llu KiB of its own memory; at first %llu KiB\n",
	       shortage_nr_descriptors(shortage_bed.service.pid),
	       (unsigned long long)now_kib, (unsigned long long)first.memory_kib);
	REQUIRE(SANITIZED || now_kib <= first.memory_kib + MEMORY_SLACK_KIB,
	        "%llu KiB of memory, %llu at first", (unsigned long long)now_kib,
	        (unsigned long long)first.memory_kib);
}

static void ask(int fd)
{
	const struct wire_request sync = { .version = WIRE_VERSION, .op = WIRE_SYNC };

	REQUIRE(fd >= 0 && wire_send(fd, &sync, sizeof(sync), NULL, 0) == 0,
	        "not connected");
}

static bool is_answered(int fd)
{
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS];
	u32 nr;

	return WAIT_UNTIL(wire_receive(fd, &reply, sizeof(reply), fds, &nr) !=
	                  -EAGAIN) &&
	       shortage_is_hung_up(fd) == false;
}

/* A service that is stopped while more programs ask than it looks at in a turn. */
static struct {
	struct test_service service;
	int fds[NR_LATE];
} late;

static void late_begin(void)
{
	u32 nr;

	test_service_init(&late.service, "late");
	REQUIRE(test_service_start(&late.service) == 0, "%s", late.service.why);
	late.fds[0] = shortage_connect(late.service.socket);
	ask(late.fds[0]);
	REQUIRE(is_answered(late.fds[0]), "no answer"); /* its start is over */
	nr = shortage_nr_descriptors(late.service.pid) - 1;
	for (u32 i = 1; i < NR_LATE; i++)
		late.fds[i] = shortage_connect(late.service.socket);
	REQUIRE(WAIT_UNTIL_MS(shortage_nr_descriptors(late.service.pid) == nr + NR_LATE,
	                      SHORTAGE_MS),
	        "not all are let in");
	test_service_freeze(&late.service);
	for (u32 i = 0; i < NR_LATE; i++)
		ask(late.fds[i]);
}

/* They have asked, and the service comes late. */
static void late_end(void)
{
	kill(late.service.pid, SIGCONT);
	for (u32 i = 0; i < NR_LATE; i++) {
		REQUIRE(is_answered(late.fds[i]), "number %u has asked, and is dropped",
		        i);
		close(late.fds[i]);
	}
	REQUIRE(test_service_stop(&late.service) == 0, "it does not end in order");
}

/* A program that connects and never asks is hung up on; one that has asked may be idle. So it is
 * where the service has nothing else to do, too. */
static void assert_unasked_are_dropped(void)
{
	int unasked = shortage_connect(shortage_bed.service.socket);
	int asked = shortage_connect(shortage_bed.service.socket), alone;
	struct test_service other;

	ask(asked);
	REQUIRE(is_answered(asked), "no answer");
	late_begin();
	test_service_init(&other, "alone");
	REQUIRE(test_service_start(&other) == 0, "%s", other.why);
	alone = shortage_connect(other.socket);
	shortage_disk_end(); /* meanwhile */
	REQUIRE(WAIT_UNTIL_MS(shortage_is_hung_up(unasked), SHORTAGE_MS) &&
	                WAIT_UNTIL_MS(shortage_is_hung_up(alone), SHORTAGE_MS),
	        "a connection that never asks stays");
	late_end();
	REQUIRE(!shortage_is_hung_up(asked), "one that is idle is hung up on");
	REQUIRE(test_bed_reads_hit(&shortage_bed, 0), "the reader has lost its cache");
	REQUIRE(test_service_stop(&other) == 0, "it does not end in order");
	close(unasked);
	close(asked);
	close(alone);
}

/* While the service is stopped some connections are closed, after the first of many has come. The
 * service must let in the first of these, as many as may be: it can know that the others have
 * left. */
static void assert_lets_in(const struct test_service *service, u32 nr, int *old,
                           u32 nr_old)
{
	int fds[NR_MANY];

	test_service_freeze(service);
	for (u32 i = 0; i < NR_MANY; i++) {
		fds[i] = shortage_connect(service->socket);
		REQUIRE(fds[i] >= 0, "not connected");
		while (nr_old > 0)
			close(old[--nr_old]);
	}
	kill(service->pid, SIGCONT);
	REQUIRE(WAIT_UNTIL_MS(shortage_is_hung_up(fds[NR_MANY - 1]), SHORTAGE_MS),
	        "all are let in");
	for (u32 i = 0; i < NR_MANY; i++) {
		REQUIRE(shortage_is_hung_up(fds[i]) == (i >= nr),
		        "number %u of %u that may be", i, nr);
		if (i < nr)
			old[i] = fds[i];
		else
			close(fds[i]);
	}
}

static void resize(const struct test_service *service, u64 bytes)
{
	struct look_resize r;
	struct look *look;
	int pid;

	REQUIRE(look_open(service->socket, &look, &pid) == 0 &&
	                look_resize(look, bytes, &r) == 0,
	        "not asked");
	REQUIRE(WAIT_UNTIL_MS(look_resize(look, 0, &r) == 0 &&
	                              r.state == LOOK_RESIZE_DONE,
	                      SHORTAGE_MS),
	        "%s", r.why);
	look_close(look);
}

/* Connections go over to another arena, and count there, once. */
static void assert_connections_count_over_resizes(void)
{
	struct test_service s;
	int fds[NR_MANY], more[NR_MANY];

	test_service_init(&s, "resized");
	REQUIRE(test_service_start(&s) == 0, "%s", s.why);
	shortage_limit(s.pid, RLIMIT_NOFILE, (u64)4 * MOST_CONNECTIONS);
	for (u32 i = 0; i < NR_KEPT; i++) {
		fds[i] = shortage_connect(s.socket);
		ask(fds[i]);
		REQUIRE(is_answered(fds[i]), "no answer");
	}
	for (u64 mib = 2; mib < 5; mib++)
		resize(&s, mib << 20);
	assert_lets_in(&s, MOST_CONNECTIONS - NR_KEPT, more, 0);
	for (u32 i = 0; i < MOST_CONNECTIONS - NR_KEPT; i++)
		fds[NR_KEPT + i] = more[i];
	assert_lets_in(&s, MOST_CONNECTIONS, fds, MOST_CONNECTIONS);
	for (u32 i = 0; i < MOST_CONNECTIONS; i++)
		close(fds[i]);
	REQUIRE(test_service_stop(&s) == 0, "it does not end in order");
}

/* Without readers the service ends by itself, also if a program waits that it cannot let in. */
static void assert_idle_exit_in_a_shortage(void)
{
	struct test_service s;
	int fd;

	test_service_init(&s, "idle");
	s.options.place.idle_exit_ms = 500;
	REQUIRE(test_service_start(&s) == 0, "%s", s.why);
	shortage_limit(s.pid, RLIMIT_NOFILE, SHORTAGE_NO_FDS);
	fd = shortage_connect(s.socket);
	REQUIRE(fixture_wait(s.pid) == 0, "it does not end");
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { "--rounds", &wanted.rounds, NULL },
		                                  { "--kind", NULL, &wanted.kind },
		                                  { "--lodic", NULL, &wanted.lodic },
		                                  { NULL, NULL, NULL } };

	outside_begin_with(argc, argv, options);
	REQUIRE(wanted.lodic, "say --lodic PROGRAM");
	shortage_limit(getpid(), RLIMIT_NOFILE, RLIM_INFINITY);
	signal(SIGALRM, hangs);
	alarm(KIND_SECONDS);
	signal(SIGXFSZ,
	       SIG_IGN); /* the service inherits it; `lodic serve` does the same */
	test_bed_init(&shortage_bed, LODIC_LODIC);
	test_bed_make(&shortage_bed, 4 * BLOCK);
	fixture_need_leases(&shortage_bed.service, shortage_bed.path);
	test_bed_fill(&shortage_bed);
	first.descriptors = shortage_nr_descriptors(shortage_bed.service.pid);
	REQUIRE(shortage_is_served(), "not served");
	assert_all_is_back("the start");
	first.memory_kib = status_number(shortage_bed.service.pid, "RssAnon:");
	assert_idle_exit_in_a_shortage();
	assert_connections_count_over_resizes();
	shortage_disk_begin(wanted.lodic);
	for (u64 i = 0; i < wanted.rounds; i++)
		for (u32 k = 0; k < NR_KINDS; k++)
			kind_run(&kinds[k]);
	for (u32 k = 0; k < NR_KINDS; k++)
		if (kinds[k].nr > 0)
			printf("%-20s %4llu times: served after %.1f ms, %.1f at most\n",
			       kinds[k].name, (unsigned long long)kinds[k].nr,
			       (double)kinds[k].all_ns / (double)kinds[k].nr / 1e6,
			       (double)kinds[k].most_ns / 1e6);
	under_way = "end";
	alarm(2 * KIND_SECONDS);
	assert_unasked_are_dropped();
	assert_all_is_back("all");
	assert_memory_is_back();
	test_bed_free(&shortage_bed);
	return 0;
}
