/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * This program sends requests that no library sends, by several connections at once. Operations,
 * numbers, offsets, sizes and descriptors are random or mutated. Messages are cut off or too long,
 * and connections hang up at any point. Files change meanwhile. The service must live, and serve
 * right bytes afterwards. Nothing of what the connections had may be left.
 *
 * Each operation of the wire is among them. A resize goes on beside the others. Now and then a
 * connection acts as a successor, and the service ends in order; the next one starts.
 *
 * Most requests are nearly right: they name files, holds and numbers that there are, or were. The
 * others differ from these in one place. The program prints how many of each answer came.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/reason.h"
#include "lib/wire.h"
#include "tests/support/hold_watch.h"
#include "tests/support/odd_message.h"
#include "tests/support/wire_caller.h"

#define NR_LINES 6u
#define NR_FILES 3u
#define NR_KEPT 8u
#define NR_NUMBERS 16u
#define NR_IDS 4u
#define PATIENCE_MS 3
#define MIB ((u64)1 << 20)
#define FILE_BYTES (3 * MIB + 1234)
#define LARGE_BYTES (9 * MIB) /* the last file: more than holds may have */
#define HOLD_BYTES (8 * MIB)
#define MOST_MESSAGE 256u
#define NR_OPS ((u64)WIRE_STOP - 1) /* the last one ends the service */
#define NR_ERRORS 140u
/* One in so many. */
#define HANG_UP 60u
#define CUT 20u
#define MUTATE 3u
#define CHANGE 2000u
#define PROGRESS 100000u
#define CHECK 20000u
#define ODD_MESSAGE 12u
#define HAND_OVER 6000u
#define RESIZE 1000u
#define RESIZE_LEAST ((u64)256 << 10)

/* A connection. */
struct line {
	int socket; /* -1: none */
	bool greeted, moved;
	bool visits; /* it is to be a visitor, else a reader */
	u32 op;      /* of the request whose reply comes next, as a rule */
	u32 nr_ids;
	u64 ids[NR_IDS]; /* of files that it has open, or had */
};

static struct {
	u64 requests, replies, cut, mutated, hung_up, connections, descriptors, changes,
		looks, odd, handed;
	u64 errors[NR_ERRORS];
} seen;

static struct {
	struct test_service service;
	u64 random;
	struct line lines[NR_LINES];
	char paths[NR_FILES][FIXTURE_PATH_BYTES];
	int fds[NR_FILES];
	u64 numbers[NR_NUMBERS]; /* of holds */
	int kept[NR_KEPT];       /* descriptors of holds; -1: none */
	u32 nr_descriptors;
} fuzz;

static u64 nr_requests = 20000;

static u64 below(u64 n)
{
	return random_below(&fuzz.random, n);
}

static bool one_in(u64 n)
{
	return below(n) == 0;
}

/* ---- connections ---- */

static void line_hang_up(struct line *l)
{
	if (l->socket < 0)
		return;
	if (one_in(4))
		shutdown(l->socket, (int)below(3));
	close(l->socket);
	l->socket = -1;
	seen.hung_up++;
}

static bool line_connect(struct line *l)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	l->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	REQUIRE(l->socket >= 0, "%s", strerror(errno));
	strcpy(address.sun_path, fuzz.service.socket);
	if (connect(l->socket, (struct sockaddr *)&address, sizeof(address)) != 0) {
		REQUIRE(errno == EAGAIN, "the service has gone: %s", strerror(errno));
		close(l->socket);
		l->socket = -1;
		return false;
	}
	l->greeted = l->moved = false;
	l->visits = one_in(4);
	l->nr_ids = 0;
	seen.connections++;
	return true;
}

/* A descriptor of a hold: it is looked at, kept for a while, or closed. */
static void fuzz_keep(int fd)
{
	u64 i = below(2 * NR_KEPT);
	u8 byte;

	seen.descriptors++;
	if (i >= NR_KEPT) {
		(void)!pread(fd, &byte, 1, 0);
		close(fd);
		return;
	}
	if (fuzz.kept[i] >= 0)
		close(fuzz.kept[i]);
	fuzz.kept[i] = fd;
}

static void line_take(struct line *l, const struct wire_reply *reply, int *fds, u32 nr)
{
	int error = reason_error(reply->error);
	u64 at = below(NR_NUMBERS);

	seen.replies++;
	REQUIRE(caller_error_is_named(-error), "an unnamed error: %d", error);
	seen.errors[-error]++;
	if (l->op == WIRE_FILE_OPEN && error == 0)
		l->ids[l->nr_ids++ % NR_IDS] = reply->file.id;
	else if (l->op == WIRE_HOLD && (error == 0 || error == -EINPROGRESS))
		fuzz.numbers[at] = reply->hold.number;
	l->greeted |= l->op == WIRE_HELLO && reply->error == 0;
	l->moved |= reply->error == -ECONNRESET; /* its arena has gone */
	while (nr > 0) {
		nr--;
		if (l->op == WIRE_HOLD || l->op == WIRE_HOLD_FD)
			fuzz_keep(fds[nr]);
		else
			close(fds[nr]);
	}
}

/* Takes what replies there are. It waits a little for the first, because most come at once. */
static void line_drain(struct line *l, int patience_ms)
{
	struct pollfd wait = { .fd = l->socket, .events = POLLIN };
	static struct wire_page page;
	int fds[WIRE_MAX_FDS];
	u32 nr = 0;
	int err;

	poll(&wait, 1, patience_ms);
	while (l->socket >= 0) {
		err = wire_receive(l->socket, &page, sizeof(page.reply), fds, &nr);
		if (err == -EAGAIN)
			return;
		if (err == -ECONNRESET) { /* the service did not like it */
			close(l->socket);
			l->socket = -1;
		} else if (!err) {
			line_take(l, &page.reply, fds, nr);
		} else {
			while (nr > 0) /* a page of a list is longer */
				close(fds[--nr]);
			seen.replies++;
		}
	}
}

/* ---- requests ---- */

static u64 number_odd(void)
{
	static const u64 odd[] = { 0,
		                   1,
		                   2,
		                   4095,
		                   4096,
		                   4097,
		                   MIB,
		                   FILE_BYTES - 1,
		                   FILE_BYTES,
		                   FILE_BYTES + 1,
		                   HOLD_BYTES,
		                   HOLD_BYTES + 1,
		                   (u64)1 << 31,
		                   (u64)1 << 32,
		                   ((u64)1 << 32) + 1,
		                   (u64)1 << 62,
		                   (u64)1 << 63,
		                   ~(u64)0,
		                   ~(u64)0 - 4095,
		                   ~(u64)0 - 4096 };

	if (one_in(4))
		return random_next(&fuzz.random) >> below(64);
	return odd[below(sizeof(odd) / sizeof(*odd))];
}

/* A file that the connection has open, or that another has. */
static u64 number_file(const struct line *l)
{
	if (l->nr_ids == 0 || one_in(20))
		l = &fuzz.lines[below(NR_LINES)];
	return l->nr_ids ? l->ids[below(l->nr_ids < NR_IDS ? l->nr_ids : NR_IDS)] : 0;
}

/* What a visitor may ask, and rarely what it may not. */
static u32 request_of_visitor(void)
{
	static const u32 looks[] = { WIRE_HOLD_WAIT, WIRE_HOLDS,  WIRE_SYNC,
		                     WIRE_STAT,      WIRE_FILES,  WIRE_READERS,
		                     WIRE_CONTEXTS,  WIRE_TIMES,  WIRE_TIERS,
		                     WIRE_MOVE,      WIRE_SUCCEED };

	return one_in(RESIZE / 4) ? WIRE_RESIZE
	       : one_in(100)      ? WIRE_DROP
	       : one_in(10)       ? (u32)below(NR_OPS) + 1
	                          : looks[below(sizeof(looks) / sizeof(*looks))];
}

static struct wire_request request_right(const struct line *l)
{
	/* Both nodes' programs ask, and some that know no CPU. */
	struct wire_request r = { .version = WIRE_VERSION,
		                  .cpu = one_in(20) ? number_odd() : below(3) };
	u64 kind = below(l->nr_ids ? 100 : 200);

	r.op = l->visits        ? request_of_visitor()
	       : one_in(RESIZE) ? WIRE_RESIZE
	       : kind < 55      ? WIRE_HOLD
	       : kind < 65      ? WIRE_HOLD_FD
	       : kind < 75      ? WIRE_HOLD_WAIT
	       : kind < 80      ? WIRE_HOLDS
	       : kind < 90      ? WIRE_FILE_OPEN
	       : kind < 93      ? WIRE_FILE_CLOSE
	       : kind < 96      ? WIRE_STAT
	       : kind >= 100    ? WIRE_FILE_OPEN
	       : one_in(20)     ? WIRE_DROP
	                        : (u32)below(NR_OPS) + 1;
	switch (r.op) {
	case WIRE_HOLD:
		r.a = number_file(l);
		r.b = one_in(2) ? 0 : below(FILE_BYTES);
		r.c = one_in(3) ? 0 : below(one_in(2) ? FILE_BYTES : MIB);
		break;
	case WIRE_FILE_CLOSE:
		r.b = number_file(l);
		r.a = (r.b - 1) % fuzz.service.options.keeping.nr_files;
		break;
	case WIRE_RESIZE: r.a = one_in(4) ? 0 : RESIZE_LEAST + below(2 * MIB); break;
	default: r.a = fuzz.numbers[below(NR_NUMBERS)];
	}
	return r;
}

static void request_mutate(struct wire_request *r)
{
	seen.mutated++;
	switch (below(8)) {
	case 0: r->version = (u32)number_odd(); break;
	case 1:
		r->op = (u32)(one_in(2) ? below(NR_OPS + 2) : number_odd());
		r->op += r->op == WIRE_STOP; /* to no operation's number */
		break;
	case 2:
	case 3: r->a = one_in(2) ? r->a + below(3) - 1 : number_odd(); break;
	case 4:
	case 5: r->b = one_in(4) ? r->b ^ (u64)1 << below(64) : number_odd(); break;
	default: r->c = one_in(4) ? r->c ^ (u64)1 << below(64) : number_odd(); break;
	}
}

/* Descriptors that go with a request: mostly those that belong there. Returns how many. */
static u32 request_descriptors(const struct wire_request *r, int *ret_fds)
{
	u32 nr = r->op == WIRE_FILE_OPEN;

	if (one_in(30))
		nr = (u32)below(WIRE_MAX_FDS + 1);
	for (u32 i = 0; i < nr; i++) {
		int kept = fuzz.kept[below(NR_KEPT)];

		ret_fds[i] = fuzz.fds[below(NR_FILES)];
		if (one_in(20))
			ret_fds[i] = (int)below(3); /* a pipe, a terminal, /dev/null */
		else if (one_in(20) && kept >= 0)
			ret_fds[i] = kept;
		else if (one_in(20))
			ret_fds[i] = fuzz.lines[below(NR_LINES)].socket;
		if (ret_fds[i] < 0)
			ret_fds[i] = fuzz.fds[0];
	}
	return nr;
}

static void line_send(struct line *l)
{
	struct wire_request r = request_right(l);
	u8 message[MOST_MESSAGE];
	u64 bytes = sizeof(r);
	int fds[WIRE_MAX_FDS];
	u32 nr;
	int err;

	if (!l->greeted && !l->visits && !one_in(4))
		r.op = WIRE_HELLO;
	nr = request_descriptors(&r, fds);
	if (one_in(MUTATE))
		request_mutate(&r);
	if (r.op == WIRE_HANDED) /* fuzz_hand_over() sends it */
		r.op = WIRE_HOLD;
	if (r.op == WIRE_RESIZE && r.a > 4 * MIB) /* it could get that memory */
		r.a |= (u64)1 << 60;
	for (u32 i = 0; i < sizeof(message); i++)
		message[i] = (u8)random_next(&fuzz.random);
	memcpy(message, &r, sizeof(r));
	if (one_in(CUT)) {
		bytes = below(sizeof(message) + 1);
		seen.cut++;
	}
	if (one_in(ODD_MESSAGE)) {
		err = odd_message_send(l->socket, message, bytes, &fuzz.random);
		seen.odd++;
	} else {
		err = wire_send(l->socket, message, bytes, fds, nr);
	}
	seen.requests += !err;
	l->op = r.op;
	if (err && err != -EAGAIN) {
		close(l->socket);
		l->socket = -1;
	}
}

/* ---- the test ---- */

static void fuzz_change(u32 i)
{
	int fd = fixture_open(fuzz.paths[i], O_RDWR);
	u8 byte;

	/* The same bytes once more: another proof, but the pattern stays. */
	REQUIRE(pread(fd, &byte, 1, 0) == 1 && pwrite(fd, &byte, 1, 0) == 1, "%s",
	        strerror(errno));
	close(fd);
	seen.changes++;
}

static void fuzz_alive(void)
{
	int status;

	REQUIRE(waitpid(fuzz.service.pid, &status, WNOHANG) == 0,
	        "the service has died (%x) after %llu requests", status,
	        (unsigned long long)seen.requests);
}

/* A program that behaves gets right bytes. */
static void fuzz_look(bool must)
{
	struct lodic_hold *hold = NULL;
	struct lodic_file *file;
	struct lodic *lodic;
	u32 i = (u32)below(NR_FILES);
	u64 offset = below(MIB);
	int err;

	fuzz_alive();
	REQUIRE(test_service_attach(&fuzz.service, &lodic) == 0, "not attached");
	REQUIRE(lodic_open(lodic, fuzz.fds[i], &file) == 0, "not opened");
	/* What was read for a client that has hung up stays for a second. */
	(void)WAIT_UNTIL((err = lodic_hold(lodic, file, (off_t)offset,
	                                   FILE_BYTES - offset, LODIC_WAIT, &hold)) !=
	                         -ENOSPC ||
	                 !must);
	REQUIRE(err == 0 ||
	                (!must && (err == -ENOSPC || err == -ESTALE || err == -EAGAIN)),
	        "not held: %s", lodic_strerror(err));
	if (!err)
		REQUIRE(lodic_hold_bytes(hold) == FILE_BYTES - offset &&
		                pattern_holds(lodic_hold_data(hold), i + 1, 1, offset,
		                              FILE_BYTES - offset),
		        "wrong bytes");
	seen.looks += err == 0;
	lodic_release(hold);
	lodic_close(file);
	lodic_detach(lodic);
}

/* Of all connections, and of what they have brought. */
static void fuzz_let_go(void)
{
	for (u32 i = 0; i < NR_LINES; i++)
		line_hang_up(&fuzz.lines[i]);
	for (u32 i = 0; i < NR_KEPT; i++) {
		if (fuzz.kept[i] >= 0)
			close(fuzz.kept[i]);
		fuzz.kept[i] = -1;
	}
}

/* A successor that keeps to the protocol until it has the socket, and then has no use for it. The
 * next service starts as after any other's end. */
static void fuzz_hand_over(void)
{
	struct wire_caller c;
	int err, status;

	/* A resize may be under way. */
	err = caller_succeed(&c, &fuzz.service);
	if (err) {
		REQUIRE(err == -EBUSY, "not announced: %d", err);
		return;
	}
	for (u64 left = below(8); left > 0; left--) {
		u32 op = (u32)below(NR_OPS + 2);

		if (op == WIRE_HANDED || op == WIRE_HAND_OVER)
			continue;
		err = caller_ask(&c, op, number_odd(), number_odd(), number_odd());
		REQUIRE(caller_error_is_named(-err), "an unnamed error: %d", err);
		while (c.nr_fds > 0)
			close(c.fds[--c.nr_fds]);
	}
	err = caller_ask(&c, WIRE_HAND_OVER, 0, 0, 0);
	while (c.nr_fds > 0)
		close(c.fds[--c.nr_fds]);
	if (err || one_in(4)) { /* it dies: the service goes on */
		close(c.socket);
		return;
	}
	err = caller_ask(&c, WIRE_HANDED, 0, 0, 0);
	REQUIRE(err == 0 || err == -EBUSY, "not handed over: %d", err);
	close(c.socket);
	if (err) /* a resize that began before came to its end */
		return;
	status = fixture_wait(fuzz.service.pid);
	REQUIRE(status == 0, "the service did not end in order: %x", status);
	fuzz_let_go(); /* the old socket and lock may be among what came, or on their way */
	seen.handed++;
	REQUIRE(test_service_start(&fuzz.service) == 0, "%s", fuzz.service.why);
}

static void fuzz_step(void)
{
	struct line *l = &fuzz.lines[below(NR_LINES)];

	if (l->socket < 0 && !line_connect(l)) {
		fixture_pause_us(100); /* it has many others to let in */
		return;
	}
	line_send(l);
	if (one_in(l->moved ? 4 : HANG_UP))
		line_hang_up(l);
	else if (!one_in(8))
		line_drain(l, one_in(16) ? 0 : PATIENCE_MS);
	if (one_in(CHANGE))
		fuzz_change((u32)below(NR_FILES));
	if (one_in(HAND_OVER))
		fuzz_hand_over();
	if (seen.requests % CHECK == 0)
		fuzz_look(false);
	if (seen.requests % PROGRESS == 0) {
		printf("%llu requests so far\n", (unsigned long long)seen.requests);
		fflush(stdout);
	}
}

/* Each connection has gone, and nothing is left of it. */
static void fuzz_end(void)
{
	struct hold_memory memory = { .nr = 1 };
	struct lodic_stat stat = { 0 };
	int pid;

	fuzz_let_go();
	(void)WAIT_UNTIL(hold_watch_stat(fuzz.service.socket, &stat, &pid) != 0 ||
	                 stat.hold_used_bytes == 0);
	REQUIRE(stat.hold_used_bytes == 0, "%llu bytes in use",
	        (unsigned long long)stat.hold_used_bytes);
	for (u32 i = 0; i < 4 * NR_FILES; i++)
		fuzz_look(true);
	REQUIRE(hold_watch_drop(fuzz.service.socket) == 0, "not dropped");
	(void)WAIT_UNTIL(hold_watch_stat(fuzz.service.socket, &stat, &pid) != 0 ||
	                 stat.hold_bytes == 0);
	REQUIRE(stat.hold_bytes == 0 && stat.holds == 0, "%llu bytes left",
	        (unsigned long long)stat.hold_bytes);
	REQUIRE(hold_watch_memory(pid, &memory) && memory.nr == 0, "%u memfds left",
	        memory.nr);
	REQUIRE(WAIT_UNTIL(hold_watch_nr_descriptors(pid) <= fuzz.nr_descriptors),
	        "%u descriptors, it began with %u", hold_watch_nr_descriptors(pid),
	        fuzz.nr_descriptors);
}

static void fuzz_begin(void)
{
	struct lodic_stat stat;
	int pid;

	for (u32 i = 0; i < NR_FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		pattern_file_make(fuzz.paths[i], name, i + 1, 1,
		                  i == NR_FILES - 1 ? LARGE_BYTES : FILE_BYTES);
		fuzz.fds[i] = fixture_open(fuzz.paths[i], O_RDONLY);
	}
	for (u32 i = 0; i < NR_LINES; i++)
		fuzz.lines[i].socket = -1;
	for (u32 i = 0; i < NR_KEPT; i++)
		fuzz.kept[i] = -1;
	test_service_init(&fuzz.service, "s");
	fuzz.service.options.sizes.hold_bytes = HOLD_BYTES;
	/* Of the largest file each node has a copy. */
	static const char *copied[] = { NULL, NULL };
	copied[0] = fuzz.paths[NR_FILES - 1];
	fuzz.service.options.placing.nodes = fixture_two_nodes();
	fuzz.service.options.keeping.immutable = fuzz.service.options.placing.replicate = copied;
	REQUIRE(test_service_start(&fuzz.service) == 0, "%s", fuzz.service.why);
	fixture_need_leases(&fuzz.service, fuzz.paths[0]);
	REQUIRE(hold_watch_drop(fuzz.service.socket) == 0, "not dropped");
	REQUIRE(WAIT_UNTIL(hold_watch_stat(fuzz.service.socket, &stat, &pid) == 0 &&
	                   stat.clients <= 1 && stat.files == 0),
	        "the service does not come to rest");
	fuzz.nr_descriptors = hold_watch_nr_descriptors(pid);
}

static void report(u64 ns)
{
	printf("answers:");
	for (u32 i = 0; i < NR_ERRORS; i++)
		if (seen.errors[i])
			printf(" %s %llu", i ? strerrorname_np((int)i) : "0",
			       (unsigned long long)seen.errors[i]);
	printf("\n%llu connections, %llu hung up; %llu requests mutated, %llu cut or too long; "
	       "%llu replies, %llu descriptors; %llu changes of files\n",
	       (unsigned long long)seen.connections, (unsigned long long)seen.hung_up,
	       (unsigned long long)seen.mutated, (unsigned long long)seen.cut,
	       (unsigned long long)seen.replies, (unsigned long long)seen.descriptors,
	       (unsigned long long)seen.changes);
	printf("%llu messages with odd ancillary data; %llu services have handed over\n",
	       (unsigned long long)seen.odd, (unsigned long long)seen.handed);
	printf("%llu requests: 0 crashes, %llu holds right meanwhile and afterwards, 0 memfds "
	       "left, in %.1f s\n",
	       (unsigned long long)seen.requests, (unsigned long long)seen.looks,
	       (double)ns / 1e9);
	REQUIRE(seen.descriptors > 0 && seen.errors[EINPROGRESS] > 0 &&
	                seen.errors[EINVAL] > 0,
	        "too little was done");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--requests", .number = &nr_requests },
		{ 0 },
	};
	u64 start;

	fixture_begin(argc, argv, options);
	fuzz.random = random_stream(0);
	fuzz_begin();
	start = host_now_ns();
	while (seen.requests < nr_requests)
		fuzz_step();
	fuzz_end();
	REQUIRE(test_service_stop(&fuzz.service) == 0,
	        "the service did not end in order");
	report(host_now_ns() - start);
	return 0;
}
