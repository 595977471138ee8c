/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * This program attaches to a service that lies, and then calls all that lodic.h and inline.h have.
 * The replies lie, and their descriptors, and the arena that these lead to: its header, its files,
 * frames and translation. So do the shared bytes and the context's own memory. Words change
 * before the library maps them, and while it reads. The library must refuse what cannot be, and
 * survive the rest: no crash, no hang, no look outside of what it has mapped (guard.h). If nothing
 * lies, it must read right bytes, and find them in the cache.
 *
 * Each execution has random numbers of its own, so `--from N --executions 1` repeats one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lodic/inline.h"
#include "tests/fuzz/arenas.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/guard.h"
#include "tests/fuzz/peer.h"

#define MOST_STEPS 20u
#define ROOM_BYTES (3 * LODIC_BLOCK_BYTES)
#define NR_PINS 4u
#define FILE_ID 1u
#define HUGE_BYTES ((u64)1 << 33) /* of a file, as the service says */
/* One in so many. */
#define HONEST 16u
#define BREAK_REPLY 12u
#define BREAK_MEMORY 2u

static struct {
	u64 random;
	bool honest;
	struct arenas arenas;
	char path[FIXTURE_PATH_BYTES];
	int fd;
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic_pin pins[NR_PINS];
	struct lodic_view view;
	bool viewed;
	u8 room[ROOM_BYTES];
	u64 attached, refused, read, pinned, hits, held;
} fuzz;

static u64 below(u64 n)
{
	return random_below(&fuzz.random, n);
}

static bool one_in(u64 n)
{
	return below(n) == 0;
}

/* ---- the service ---- */

static void answer_hello(struct peer_answer *a)
{
	struct wire_reply *r = &a->page.reply;

	arenas_sizes(&fuzz.arenas, &r->hello.control_bytes, &r->hello.data_bytes,
	             &r->hello.shared_bytes);
	r->hello.alive = ARENAS_ALIVE;
	r->hello.generation = ARENAS_GENERATION;
	a->fds[0] = fuzz.arenas.control.fd;
	a->fds[1] = fuzz.arenas.data.fd;
	a->fds[2] = fuzz.arenas.wake;
	a->fds[3] = fuzz.arenas.shared.fd;
	a->nr_fds = 4;
}

static void answer_context(struct peer_answer *a)
{
	a->page.reply.context.quota = ARENAS_QUOTA;
	a->page.reply.context.bytes = arenas_context_bytes(&fuzz.arenas);
	a->fds[0] = fuzz.arenas.context.fd;
	a->nr_fds = 1;
}

static void answer_hold(struct peer_answer *a)
{
	a->page.reply.hold.number = 7;
	a->page.reply.hold.bytes = ARENAS_HOLD_BYTES;
	a->fds[0] = fuzz.arenas.hold.fd;
	a->nr_fds = 1;
}

/* One word, one descriptor, or the length. */
static void answer_break(struct peer_answer *a)
{
	u64 *words = (u64 *)&a->page.reply + 1;

	switch (below(8)) {
	case 0: a->page.reply.error = -(int)below(134); break;
	case 1: a->page.reply.error = (int)arenas_odd(&fuzz.random); break;
	case 2: a->bytes = below(2 * sizeof(a->page.reply)); break;
	case 3: a->hangs_up = true; break;
	case 4: a->nr_fds = (u32)below(WIRE_MAX_FDS + 1); break;
	case 5:
		if (a->nr_fds > 0)
			a->fds[below(a->nr_fds)] =
				arenas_odd_fd(&fuzz.arenas, below(16));
		break;
	default: words[below(5)] = arenas_odd(&fuzz.random);
	}
	for (u32 i = 0; i < a->nr_fds; i++)
		if (a->fds[i] < 0)
			a->fds[i] = fuzz.arenas.wake;
}

static void answer(const struct wire_request *request, struct peer_answer *a)
{
	struct wire_reply *r = &a->page.reply;

	for (u32 i = 0; i < WIRE_MAX_FDS; i++)
		a->fds[i] = -1;
	switch (request->op) {
	case WIRE_HELLO: answer_hello(a); break;
	case WIRE_CONTEXT_OPEN: answer_context(a); break;
	case WIRE_FILE_OPEN:
		r->file.id = FILE_ID;
		r->file.size = fuzz.honest ? ARENAS_FILE_BYTES : HUGE_BYTES;
		break;
	case WIRE_HOLD:
	case WIRE_HOLD_FD: answer_hold(a); break;
	default: break;
	}
	if (!fuzz.honest && one_in(BREAK_REPLY))
		answer_break(a);
	REQUIRE(r->error != 0 || a->bytes <= sizeof(a->page), "too long");
}

/* ---- the program ---- */

static void require_error(long err)
{
	REQUIRE(err > -4096 && err < 0, "an unnamed error: %ld", err);
}

static u64 offset_make(void)
{
	return fuzz.honest || one_in(2) ? below(ARENAS_FILE_BYTES)
	                                : arenas_odd(&fuzz.random);
}

static void step_read(bool inlined)
{
	u64 offset = offset_make(), n = below(ROOM_BYTES) + 1;
	struct lodic_inline in;
	ssize_t got;

	n = one_in(2) ? below(64) + 1 : n;
	if (inlined) {
		lodic_inline_init(&in, fuzz.context, fuzz.file);
		got = lodic_read_inline(&in, fuzz.room, n, (off_t)offset);
	} else if (one_in(4)) {
		const struct iovec to[2] = { { fuzz.room, n / 2 },
			                     { fuzz.room + n / 2, n - n / 2 } };

		got = lodic_readv(fuzz.context, fuzz.file, to, 2, (off_t)offset);
	} else {
		got = lodic_read(fuzz.context, fuzz.file, fuzz.room, n, (off_t)offset);
	}
	if (got < 0)
		require_error(got);
	REQUIRE(got <= (ssize_t)n, "more than there is room for: %zd", got);
	fuzz.read++;
	if (!fuzz.honest)
		return;
	REQUIRE((u64)got == (n < ARENAS_FILE_BYTES - offset
	                             ? n
	                             : ARENAS_FILE_BYTES - offset),
	        "%zd of %llu", got, (unsigned long long)n);
	REQUIRE(pattern_holds(fuzz.room, 1, 1, offset, (u64)got), "wrong bytes");
}

static void step_pin(bool inlined)
{
	struct lodic_pin *pin = &fuzz.pins[below(NR_PINS)];
	struct lodic_inline in;
	u64 offset = offset_make();
	int err;

	if (inlined)
		lodic_inline_init(&in, fuzz.context, fuzz.file);
	if (pin->word) {
		if (inlined)
			lodic_unpin_inline(&in, pin);
		else
			lodic_unpin(fuzz.context, pin);
		memset(pin, 0, sizeof(*pin));
		return;
	}
	err = inlined ? lodic_pin_inline(&in, (off_t)offset, pin)
	              : lodic_pin(fuzz.context, fuzz.file, (off_t)offset, pin);
	if (err) {
		require_error(err);
		memset(pin, 0, sizeof(*pin));
		return;
	}
	memcpy(fuzz.room, pin->data, pin->bytes);
	REQUIRE(!fuzz.honest || pattern_holds(fuzz.room, 1, 1, offset, pin->bytes),
	        "wrong bytes are pinned");
	fuzz.pinned++;
}

static void step_view(bool inlined)
{
	u64 offset = offset_make();
	struct lodic_inline in;
	int err;

	lodic_inline_init(&in, fuzz.context, fuzz.file);
	if (fuzz.viewed)
		(void)(inlined ? lodic_view_valid_inline(&in, &fuzz.view)
		               : lodic_view_valid(fuzz.context, &fuzz.view));
	err = inlined ? lodic_view_begin_inline(&in, (off_t)offset, &fuzz.view)
	              : lodic_view_begin(fuzz.context, fuzz.file, (off_t)offset,
	                                 &fuzz.view);
	fuzz.viewed = err == 0;
	if (err) {
		require_error(err);
		return;
	}
	memcpy(fuzz.room, fuzz.view.data, fuzz.view.bytes);
	REQUIRE(!fuzz.honest ||
	                (pattern_holds(fuzz.room, 1, 1, offset, fuzz.view.bytes) &&
	                 lodic_view_valid(fuzz.context, &fuzz.view)),
	        "wrong bytes are viewed");
}

static void step_hold(void)
{
	struct lodic_hold *hold;
	u64 offset = offset_make(), bytes;
	const u8 *data;
	off_t at;
	int err = lodic_hold(fuzz.lodic, fuzz.file, (off_t)offset,
	                     one_in(2) ? 0 : arenas_odd(&fuzz.random), 0, &hold);
	int fd;

	if (err) {
		require_error(err);
		return;
	}
	err = lodic_hold_ready(hold);
	if (err == 1) {
		data = lodic_hold_data(hold);
		bytes = lodic_hold_bytes(hold);
		fuzz.room[0] ^= data[0] ^ data[bytes - 1] ^ data[below(bytes)];
		REQUIRE(!fuzz.honest || pattern_holds(data, 1, 1, offset, bytes),
		        "wrong bytes are held");
		fd = lodic_hold_fd(hold, &at);
		if (fd >= 0)
			close(fd);
		fuzz.held++;
	}
	lodic_release(hold);
}

static void step_once(void)
{
	struct lodic_context_stat stat;
	struct lodic_stat all;
	bool inlined = one_in(2);

	if (!fuzz.honest && one_in(BREAK_MEMORY)) {
		arenas_break(&fuzz.arenas, &fuzz.random);
	}
	switch (below(10)) {
	case 0:
	case 1:
	case 2: step_read(inlined); break;
	case 3:
	case 4: step_pin(inlined); break;
	case 5:
	case 6: step_view(inlined); break;
	case 7: step_hold(); break;
	case 8:
		lodic_prefetch(fuzz.context, fuzz.file, (off_t)offset_make(),
		               arenas_odd(&fuzz.random), one_in(4) ? LODIC_WAIT : 0);
		break;
	default:
		lodic_context_stat(fuzz.context, &stat, sizeof(stat));
		(void)lodic_stat(fuzz.lodic, &all, sizeof(all));
		(void)lodic_file_cached(fuzz.file);
	}
}

static void program_run(void)
{
	for (u64 left = below(MOST_STEPS); left > 0; left--)
		step_once();
	if (fuzz.honest) {
		for (u32 i = 0; i < NR_PINS; i++)
			if (fuzz.pins[i].word)
				lodic_unpin(fuzz.context, &fuzz.pins[i]);
		step_read(false);
		fuzz.hits += test_context_stat(fuzz.context).hits > 0;
	}
}

/* As a program does it. Most lies are found out on the way. */
static void program_once(const struct lodic_options *options)
{
	int err = lodic_attach(options, &fuzz.lodic);

	REQUIRE(!fuzz.honest || !err, "an honest service is refused: %d", err);
	if (err) {
		require_error(err);
		fuzz.refused++;
		return;
	}
	fuzz.attached++;
	err = lodic_context_open(fuzz.lodic, &fuzz.context);
	if (!err) {
		err = lodic_open(fuzz.lodic, fuzz.fd, &fuzz.file);
		if (!err)
			program_run();
		else
			require_error(err);
		if (!err)
			lodic_close(fuzz.file);
		lodic_context_close(fuzz.context);
	} else {
		require_error(err);
	}
	lodic_detach(fuzz.lodic);
}

int main(int argc, char **argv)
{
	char path[FIXTURE_PATH_BYTES];
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = path,
		                               .service = "" };

	fuzz_begin(argc, argv, 4000);
	fixture_path(path, "s");
	pattern_file_make(fuzz.path, "file", 1, 1, ARENAS_FILE_BYTES);
	fuzz.fd = fixture_open(fuzz.path, O_RDONLY);
	arenas_make(&fuzz.arenas, FILE_ID);
	guard_begin();
	peer_listen(path, answer);
	while (fuzz_next(&fuzz.random)) {
		fuzz.honest = one_in(HONEST);
		fuzz.viewed = false;
		memset(fuzz.pins, 0, sizeof(fuzz.pins));
		arenas_choose(&fuzz.arenas, &fuzz.random);
		for (u64 left = fuzz.honest ? 0 : below(4); left > 0; left--)
			arenas_break_header(&fuzz.arenas, &fuzz.random);
		program_once(&options);
		peer_reset();
		guard_reset();
	}
	fuzz_end("%llu attached, %llu refused; %llu reads, %llu pins, %llu holds; "
	         "%llu honest ones with hits",
	         (unsigned long long)fuzz.attached, (unsigned long long)fuzz.refused,
	         (unsigned long long)fuzz.read, (unsigned long long)fuzz.pinned,
	         (unsigned long long)fuzz.held, (unsigned long long)fuzz.hits);
	REQUIRE(fuzz.hits > 0 && fuzz.attached > 0, "too little was done");
	return 0;
}
