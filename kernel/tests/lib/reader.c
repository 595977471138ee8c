// SPDX-License-Identifier: GPL-2.0
#include "reader.h"
#include "clock.h"
#include "cpu.h"
#include "data.h"
#include "options.h"
#include "random.h"
#include "uring.h"

#define READ_MAX (3 * PAGE)
#define SHORT_MAX 64

static void reader_check(struct reader *r, struct tally *t, const u8 *got, size_t asked,
                         ssize_t n, u64 offset)
{
	struct crew *c = r->seat->crew;
	size_t at = 0, zeros = 0, bad;

	if (n < 0) {
		atomic_fetch_add(&t->errors, 1);
		if (!(c->flags & CREW_EIO && n == -EIO))
			crew_bad(c, "read at %llu: %s", (unsigned long long)offset,
			         strerror(-n));
		return;
	}
	if ((size_t)n < asked) {
		atomic_fetch_add(&t->shorts, 1);
		if (!(c->flags & CREW_SHORT))
			crew_bad(c, "read at %llu: %zd of %zu bytes",
			         (unsigned long long)offset, n, asked);
	}
	bad = data_check(got, c->expect + offset, n, c->flags & CREW_ZEROS, &at,
	                 &zeros);
	if (bad)
		crew_bad(c, "%zu bad bytes in %zd at %llu; at %llu 0x%02x, want 0x%02x",
		         bad, n, (unsigned long long)offset,
		         (unsigned long long)(offset + at), got[at],
		         c->expect[offset + at]);
	atomic_fetch_add(&t->reads, 1);
	atomic_fetch_add(&t->bytes, n);
	atomic_fetch_add(&t->zeros, zeros);
}

/* One read, all of whose bytes are checked. */
static void reader_read(struct reader *r, u8 *to, size_t len, u64 offset)
{
	struct seat *s = r->seat;
	struct tally *t = &s->crew->board->tally[s->index * MAX_THREADS + r->index];
	ssize_t n;

	if (r->ring) {
		n = uring_read(r->ring, s->fd, to, len, offset);
	} else {
		n = pread(s->fd, to, len, offset);
		if (n < 0)
			n = -errno;
	}
	reader_check(r, t, to, len, n, offset);
}

static void reader_loop(struct reader *r, u8 *dest)
{
	struct seat *s = r->seat;
	u64 hot = s->crew->hot_pages ? s->crew->hot_pages * PAGE : HOT_BYTES;
	u64 rng = random_mix(opt.seed ^ random_mix(s->index * 64 + r->index +
	                                           s->crew->generation * 4096));
	u32 i;

	while (!crew_stopped(s->crew)) {
		u64 offset = random_next(&rng) % hot;
		size_t most =
			HOT_BYTES - offset < READ_MAX ? HOT_BYTES - offset : READ_MAX;
		size_t len = 1 + random_next(&rng) % most;
		u8 *to = dest + random_next(&rng) % PAGE;

		if (s->crew->flags & CREW_LAZY)
			clock_sleep_ms(random_next(&rng) % 8);
		/* One time in eight the destination stays, so the reference is a short one. */
		if (random_next(&rng) % 8 && !(s->crew->flags & CREW_WARM))
			madvise(dest, READ_MAX + PAGE, MADV_DONTNEED);
		reader_read(r, to, len, offset);
		for (i = 0; i < opt.burst; i++)
			reader_read(r, to, 1 + random_next(&rng) % SHORT_MAX,
			            random_next(&rng) % (hot - SHORT_MAX));
	}
}

void *reader_main(void *arg)
{
	struct reader *r = arg;
	struct uring ring;
	u8 *dest = mmap(NULL, READ_MAX + PAGE, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	r->ring = NULL;
	cpu_pin(r->seat->index + 1 + r->index);
	if (dest == MAP_FAILED) {
		crew_bad(r->seat->crew, "no memory for a destination");
		return NULL;
	}
	/* A destination of huge pages would fault once. */
	madvise(dest, READ_MAX + PAGE, MADV_NOHUGEPAGE);
	if (r->seat->crew->flags & CREW_URING) {
		if (uring_open(&ring)) {
			crew_bad(r->seat->crew, "io_uring_setup: %s", strerror(errno));
			return NULL;
		}
		r->ring = &ring;
	}
	reader_loop(r, dest);
	if (r->ring)
		uring_close(r->ring);
	return NULL;
}
