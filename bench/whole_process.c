/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One process of bench_whole, and the five ways. Contract: bench/whole.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/whole.h"
#include "host/random.h"
#include "lodic/lodic.h"

#define PAGE_BYTES 4096u
#define COPY_BYTES 64u
#define BUFFER_BYTES ((u64)1 << 20)
/* Between two looks at the clock. */
#define COPIES_A_LOOK 256u
#define LINE_BYTES 256
#define AGAIN 101u

/* What this process has. */
static struct {
	int fd;
	const u8 *at; /* NULL: there is no memory, pread() does it */
	u8 *buffer;
	struct lodic *lodic;
	struct lodic_file *file;
	struct lodic_hold *hold;
} mine = { .fd = -1 };

u64 whole_pss(long pid)
{
	char path[64], line[LINE_BYTES];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (u64)kib << 10;
}

static int attach(const struct whole_order *o)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = o->socket,
		                         .service = "" };
	int error = 0;

	mine.fd = open(o->path, O_RDONLY | O_CLOEXEC);
	if (mine.fd < 0)
		return -errno;
	mine.buffer = malloc(BUFFER_BYTES);
	if (!mine.buffer)
		return -ENOMEM;
	if (o->way == WHOLE_HOLD)
		error = lodic_attach(&options, &mine.lodic);
	if (o->way == WHOLE_HOLD && !error)
		error = lodic_open(mine.lodic, mine.fd, &mine.file);
	if (o->way == WHOLE_HOLD && !error)
		error = lodic_file_cached(mine.file);
	return error;
}

static void leave(const struct whole_order *o)
{
	lodic_release(mine.hold);
	if (o->way != WHOLE_HOLD && mine.at)
		munmap((void *)mine.at, o->bytes);
	if (mine.file)
		lodic_close(mine.file);
	if (mine.lodic)
		lodic_detach(mine.lodic);
	free(mine.buffer);
	if (mine.fd >= 0)
		close(mine.fd);
	memset(&mine, 0, sizeof(mine));
	mine.fd = -1;
}

/* Reads n bytes; the file is long enough. */
static int read_at(u8 *to, u64 n, u64 offset)
{
	while (n > 0) {
		ssize_t done = pread(mine.fd, to, n, (off_t)offset);

		if (done <= 0)
			return done == 0 ? -ENODATA : -errno;
		to += done;
		offset += (u64)done;
		n -= (u64)done;
	}
	return 0;
}

static int map(u64 bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | flags, mine.fd, 0);

	mine.at = at == MAP_FAILED ? NULL : at;
	return mine.at ? 0 : -errno;
}

/* Not malloc(): it keeps what was freed, and then the next round's memory does not grow. */
static int read_own(u64 bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mine.at = at == MAP_FAILED ? NULL : at;
	return mine.at ? read_at(at, bytes, 0) : -errno;
}

static int begin(const struct whole_order *o)
{
	int error;

	switch (o->way) {
	case WHOLE_PREAD: return read_at(mine.buffer, COPY_BYTES, 0);
	case WHOLE_MMAP: return map(o->bytes, 0);
	case WHOLE_POPULATE: return map(o->bytes, MAP_POPULATE);
	case WHOLE_OWN: return read_own(o->bytes);
	default: break;
	}
	error = lodic_hold(mine.lodic, mine.file, 0, 0, LODIC_WAIT, &mine.hold);
	if (!error && lodic_hold_bytes(mine.hold) != o->bytes)
		error = -EPROTO;
	if (!error)
		mine.at = lodic_hold_data(mine.hold);
	return error;
}

static u64 word_at(const u8 *bytes)
{
	u64 word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Looks at the first word of each page. */
static int read_all(const struct whole_order *o, u64 *nr_wrong)
{
	for (u64 at = 0; at < o->bytes; at += BUFFER_BYTES) {
		u64 n = o->bytes - at < BUFFER_BYTES ? o->bytes - at : BUFFER_BYTES;
		const u8 *bytes = mine.at ? mine.at + at : mine.buffer;
		int error = mine.at ? 0 : read_at(mine.buffer, n, at);

		if (error)
			return error;
		for (u64 i = 0; i < n; i += PAGE_BYTES)
			*nr_wrong += word_at(bytes + i) != whole_word((at + i) / 8);
	}
	return 0;
}

static int copy_random(const struct whole_order *o, struct whole_figures *f,
                       u64 *random)
{
	u64 places = o->bytes / COPY_BYTES, began = host_now_ns(), nr = 0, now;
	u8 to[COPY_BYTES];
	int error = 0;

	do {
		for (u32 i = 0; i < COPIES_A_LOOK && !error; i++) {
			u64 place = ((random_next(random) >> 32) * places) >> 32;
			u64 at = place * COPY_BYTES;

			if (mine.at)
				memcpy(to, mine.at + at, COPY_BYTES);
			else
				error = read_at(to, COPY_BYTES, at);
			f->nr_wrong += word_at(to) != whole_word(at / 8);
		}
		nr += COPIES_A_LOOK;
		now = host_now_ns();
	} while (!error && now - began < o->window_ns);
	f->random_ns = (double)(now - began) / (double)nr;
	return error;
}

static int by_size(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* What the first byte costs a process that comes back to a hold. */
static int whole_again(const struct whole_order *o, struct whole_figures *f)
{
	struct lodic_hold *again;
	u64 times[AGAIN];
	int error = 0;

	for (u32 i = 0; i < AGAIN && !error; i++) {
		u64 began = host_now_ns();

		error = lodic_hold(mine.lodic, mine.file, 0, 0, LODIC_WAIT, &again);
		if (error)
			return error;
		f->nr_wrong += word_at(lodic_hold_data(again)) != whole_word(0);
		times[i] = host_now_ns() - began;
		if (lodic_hold_bytes(again) != o->bytes)
			error = -EPROTO;
		lodic_release(again);
	}
	qsort(times, AGAIN, sizeof(times[0]), by_size);
	f->again_ns = times[AGAIN / 2];
	return error;
}

static int use(const struct whole_order *o, struct whole_figures *f, u64 random)
{
	u64 began = host_now_ns();
	int error = begin(o);

	if (!error && mine.at)
		f->nr_wrong += word_at(mine.at) != whole_word(0);
	f->first_ns = host_now_ns() - began;
	if (!error)
		error = read_all(o, &f->nr_wrong);
	f->last_ns = host_now_ns() - began;
	if (!error)
		error = copy_random(o, f, &random);
	if (!error && o->way == WHOLE_HOLD)
		error = whole_again(o, f);
	return error;
}

u64 whole_process_run(void *order, u32 process, u64 position, u64 nr)
{
	struct whole_order *o = order;
	struct whole_figures *f = &o->figures[process];

	(void)nr;
	switch (o->op) {
	case WHOLE_ATTACH:
		*f = (struct whole_figures){ 0 };
		f->error = attach(o);
		f->pss_before = whole_pss(getpid());
		break;
	case WHOLE_USE: f->error = use(o, f, position + process + 1); break;
	case WHOLE_WEIGH: f->pss_after = whole_pss(getpid()); break;
	case WHOLE_LEAVE: leave(o); break;
	}
	return f->error != 0;
}
